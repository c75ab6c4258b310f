"""`sweep/<group>/sweep.json`: measured times of collectives, every call kept; from our own loop or from nccl-tests.

A launch is one start of the ranks of a group, in fresh processes. The figure of a link is its stated bandwidth.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, Field

from scaleproof.conclude.forecast.collective import (
    COLLECTIVES,
    EXCLUDE,
    Collective,
    Group,
    bus_bandwidth,
    exclusion_list,
    judge_node_pairs,
)
from scaleproof.ground.errors import UserError, describe_first_fault
from scaleproof.ground.files import read_record, read_regular, write_atomic
from scaleproof.ground.findings.forecast_report import NodePair, SweepLink, SweepRow
from scaleproof.ground.records.grouping import lists_by_key

SWEEP = "sweep.json"
NODE_PAIRS = "node_pairs.csv"
NCCL_TESTS_VERSION = 3
UNSTABLE = 0.10  # launches whose medians differ by more are of two states
STEADY_BYTES = 65_536  # below it, medians of a few microseconds differ between any two launches
WEAK_LINK = 0.70  # of the link's figure


class SweepSection(BaseModel, extra="forbid", frozen=True):
    """A part of a sweep's file, with these fields and no others."""


class Calls(SweepSection):
    """Timed calls of one collective and size."""

    collective: Collective
    nbytes: int = Field(description="Of the whole message: what is reduced, gathered or scattered.")
    seconds: list[float] = Field(description="Of each call, the maximum over ranks.", min_length=1)


class PairCalls(SweepSection):
    """Timed calls of all-reduce between all ranks of two nodes."""

    nodes: tuple[str, str]
    nbytes: int
    seconds: list[float] = Field(description="Of each call, the maximum over the ranks of both.", min_length=1)


class Launch(SweepSection):
    """One launch in fresh processes."""

    made_utc: str
    ranks: list[dict[str, Any]]
    calls: list[Calls]
    pairs: list[PairCalls] = Field([], description="Of the nodes, where there are several.")


class Sweep(SweepSection):
    """All launches of one group."""

    schema_version: Literal["1.0"] = "1.0"
    nodes: int
    devices_per_node: int
    backend: str
    device: str
    tool: Literal["torch.distributed", "nccl-tests"] = "torch.distributed"
    versions: dict[str, str | None] = {}
    link: SweepLink | None = None
    launches: list[Launch]

    @property
    def group(self) -> Group:
        return Group(self.nodes, self.devices_per_node)


def sweep_rows(sweep: Sweep) -> list[SweepRow]:
    """Return the rows of a sweep, one for each collective and size, in that order.

    Bandwidths are never averaged over sizes: latency rules small messages.
    """
    every_size = (calls for launch in sweep.launches for calls in launch.calls)
    # (collective, bytes) -> median seconds of each launch
    medians = lists_by_key(((calls.collective, calls.nbytes), statistics.median(calls.seconds)) for calls in every_size)

    def order(size: tuple[Collective, int]) -> tuple[int, int]:
        collective, nbytes = size
        return COLLECTIVES.index(collective), nbytes

    rows = []
    for collective, nbytes in sorted(medians, key=order):
        launch_seconds = medians[collective, nbytes]
        seconds = statistics.median(launch_seconds)
        bandwidth = bus_bandwidth(collective, sweep.group.size, nbytes, seconds)
        rows.append(
            SweepRow(
                group=str(sweep.group),
                collective=collective,
                nbytes=nbytes,
                seconds=seconds,
                low=min(launch_seconds),
                high=max(launch_seconds),
                n_launches=len(launch_seconds),
                bus_bytes_per_s=bandwidth,
                of_link=bandwidth / sweep.link.bytes_per_s if sweep.link else None,
            )
        )
    return rows


def pair_rows(sweep: Sweep) -> list[NodePair]:
    """Return a row for each pair of nodes that each launch has timed: by its median launch, and by its fastest."""
    rank_count = 2 * sweep.devices_per_node  # of a pair of nodes
    medians: dict[tuple[str, str, int], list[float]] = {}  # (node, node, bytes) -> median seconds of each launch
    for launch in sweep.launches:
        for pair in launch.pairs:
            first, second = sorted(pair.nodes)
            medians.setdefault((first, second, pair.nbytes), []).append(statistics.median(pair.seconds))

    rows = []
    for (first, second, nbytes), launch_seconds in sorted(medians.items()):
        if len(launch_seconds) < len(sweep.launches):  # a launch lacks this pair
            continue
        seconds = statistics.median(launch_seconds)
        rows.append(
            NodePair(
                first=first,
                second=second,
                nbytes=nbytes,
                seconds=seconds,
                bus_bytes_per_s=bus_bandwidth("all_reduce", rank_count, nbytes, seconds),
                best_bus_bytes_per_s=bus_bandwidth("all_reduce", rank_count, nbytes, min(launch_seconds)),
            )
        )
    return rows


def write_node_pairs(sweep: Sweep, folder: Path) -> None:
    """Write `folder`/node_pairs.csv and the list of slow nodes, exclude.txt; without pairs, remove older files."""
    rows = pair_rows(sweep)
    if not rows:
        for name in (NODE_PAIRS, EXCLUDE):
            (folder / name).unlink(missing_ok=True)
        return
    write_atomic(folder / NODE_PAIRS, pd.DataFrame(row.model_dump() for row in rows).to_csv(index=False))
    write_atomic(folder / EXCLUDE, exclusion_list(judge_node_pairs(rows)))


def read_sweeps(folder: Path) -> list[Sweep]:
    """Return the sweeps below `folder`, in the order of their groups."""
    return [read_record(path, Sweep.model_validate_json) for path in sorted(folder.glob(f"*/{SWEEP}"))]


def unstable_rows(sweep: Sweep) -> list[SweepRow]:
    """Return the sizes from STEADY_BYTES on at which launches differ, as by a busy neighbour or another route."""
    repeated = [row for row in sweep_rows(sweep) if row.n_launches > 1 and row.nbytes >= STEADY_BYTES]
    return [row for row in repeated if row.spread > UNSTABLE]


def weak_rows(sweep: Sweep) -> list[SweepRow]:
    """Return the largest size of each collective, where it reaches less than 70 % of the link's figure."""
    largest = {row.collective: row for row in sweep_rows(sweep)}  # rows ascend by size: the last one stays
    return [row for row in largest.values() if row.of_link is not None and row.of_link < WEAK_LINK]


def read_nccl_tests(path: Path, group: Group) -> Sweep:
    """Return the sweep of `group` in a file of nccl-tests, as `all_reduce_perf -J path` writes it, file version 3.

    Only out-of-place times are taken, and the environment that nccl-tests records is dropped. Raises UserError for any
    other file.
    """
    try:
        data = json.loads(read_regular(path))
        version = data["version"]
        program = Path(data["args"][0]).name
        timed_sizes = [(int(row["size"]), _seconds_of_calls(row)) for row in data["results"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        advice = "all_reduce_perf -J FILE writes one"
        raise UserError(f"{path} is not a JSON file of nccl-tests ({describe_first_fault(error)}); {advice}") from None
    # [the collective that the program times], [] for another program.
    names = [collective for collective in COLLECTIVES if program.startswith(collective)]
    if version != NCCL_TESTS_VERSION or not names:
        raise UserError(
            f"{path}: version {version} of {program} cannot be read; allowed: version {NCCL_TESTS_VERSION} of "
            + ", ".join(f"{collective}_perf" for collective in COLLECTIVES)
        )

    calls = [
        Calls(collective=names[0], nbytes=size, seconds=seconds) for size, seconds in timed_sizes if size and seconds
    ]
    if not calls:
        raise UserError(f"{path} has no result with a time")
    return Sweep(
        nodes=group.nodes,
        devices_per_node=group.devices_per_node,
        backend="nccl",
        device="cuda",
        tool="nccl-tests",
        versions={"nccl": str(data.get("nccl_version"))},
        launches=[Launch(made_utc=str(data.get("start_time", "")), ranks=[], calls=calls)],
    )


def _seconds_of_calls(row: Mapping[str, Any]) -> list[float]:
    """Return the seconds of each call in a result of nccl-tests; else [their mean]; [] without any time."""
    times_us: list[float] = (row.get("out_of_place_per_iter") or {}).get("times_us") or []
    mean = row.get("out_of_place") or {}
    for key in ("time", "cpu_time"):  # by the clock of the device, or else of the host
        if not times_us and key in mean:
            times_us = [mean[key]]
    return [float(time_us) / 1e6 for time_us in times_us]


def merge_sweeps(sweeps: Sequence[Sweep]) -> Sweep:
    """Return one sweep of several of the same group. Raises UserError where their groups differ."""
    first = sweeps[0]
    if any(sweep.group != first.group or sweep.backend != first.backend for sweep in sweeps):
        groups = ", ".join(str(sweep.group) for sweep in sweeps)
        raise UserError(f"sweeps of different groups or backends cannot be one: {groups}")
    launches = list(chain.from_iterable(sweep.launches for sweep in sweeps))
    return first.model_copy(update={"launches": launches})
