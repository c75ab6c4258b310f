"""Make a sweep: collectives of one group of ranks timed over message sizes, by launches in fresh processes."""

import sys
from datetime import UTC, datetime
from pathlib import Path

from scaleproof.conclude.forecast import sweep_program
from scaleproof.conclude.forecast.collective import COLLECTIVES, Group
from scaleproof.conclude.forecast.launch import launch
from scaleproof.conclude.forecast.law import group_of
from scaleproof.conclude.forecast.memory import FP32_BYTES, memory_inputs
from scaleproof.conclude.forecast.sweep_file import Launch, Sweep
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, no_such
from scaleproof.ground.findings.forecast_report import SweepLink
from scaleproof.ground.records.run_sections import Failure
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.allocation import Allocation, current_allocation
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.machine.provenance import provenance_fields
from scaleproof.measure.trainer.request import PlannedRun

LOG = "sweep.log"
SMALLEST, LARGEST = 4096, 2**30
PAIR_LARGEST = 2**26  # between two nodes: from 64 MiB on the link alone limits the bandwidth
WARMUP, CALLS = 5, 20
VERSIONS = ("torch_version", "python_version")
LIMIT_S = 2.0  # for the calls of one size


def sizes_up_to(nbytes: float) -> list[int]:
    """Return message sizes in bytes: 4 KiB, then times 4, above 16 MiB times 2, up to `nbytes` or more.

    The largest size is between 1 MiB and 1 GiB.
    """
    sizes = [SMALLEST]
    largest = min(max(nbytes, 2**20), LARGEST)
    while sizes[-1] < largest:
        sizes.append(sizes[-1] * (4 if sizes[-1] < 2**24 else 2))
    return sizes


def groups_of(loaded: LoadedCampaign) -> dict[Group, Cell]:
    """Return group -> one of its cells, small groups first, for all groups in which cells communicate."""
    # `communicating_groups`: geometry -> slug of one of its cells.
    cells = [loaded.cell(slug) for slug in loaded.communicating_groups.values()]
    return {group_of(cell): cell for cell in sorted(cells, key=group_of)}


def group_called(loaded: LoadedCampaign, name: str) -> tuple[Group, Cell]:
    """Return the group called `name`, such as 2x4, with one of its cells. Raises UserError for an unknown name."""
    groups = {str(group): (group, cell) for group, cell in groups_of(loaded).items()}
    if name not in groups:
        raise UserError(f"{loaded.path}: {no_such('group of cells that communicate', name, groups, 'Groups')}")
    return groups[name]


def measure_sweep(
    loaded: LoadedCampaign, group: Group, cell: Cell, out: Path, launches: int, link: SweepLink | None = None
) -> Sweep:
    """Measure a group, as often as `launches` says, and return the sweep; the log and temporary files are in `out`.

    Waits while a run uses the same devices. Raises UserError where the group cannot run here or a launch fails,
    Interrupted where it was stopped. `cell`: a cell that runs in the group; its ranks are started. `link`: the stated
    bandwidth of the group's link.
    """
    gpus, nodes = cuda_devices(), current_allocation()
    if reason := unsupported_reason(cell, gpus, len(nodes.hosts) if nodes else 1):
        raise UserError(f"{group} cannot be swept here: {reason}")
    # The largest message: all gradients, in fp32.
    largest_bytes = max(FP32_BYTES * memory_inputs(cell).parameters for cell in loaded.cells)
    sizes = sizes_up_to(float(largest_bytes))
    settings = {
        "collectives": COLLECTIVES,
        "sizes": sizes,
        "pair_nbytes": min(sizes[-1], PAIR_LARGEST),
        "warmup": WARMUP,
        "calls": CALLS,
        "limit_s": LIMIT_S,
    }
    with hold_devices(devices_of(cell, gpus), f"the sweep of {loaded.name} {group}"):
        results = [run_launch(loaded.name, cell, out, settings, loaded.time_limit_s, nodes) for _ in range(launches)]
    origin = provenance_fields(" ".join(["scaleproof", *sys.argv[1:]]))
    any_rank = results[0].ranks[0]
    return Sweep(
        nodes=group.nodes,
        devices_per_node=group.devices_per_node,
        backend=any_rank["backend"],
        device=any_rank["device_name"],
        versions={name: value for name, value in origin["env"].items() if name in VERSIONS},
        link=link,
        launches=results,
    )


def run_launch(
    campaign: str, cell: Cell, out: Path, settings: dict[str, object], limit: float, nodes: Allocation | None
) -> Launch:
    """Launch the ranks of `cell` once. `settings`: for `sweep_program`. `limit`: in seconds. Raises UserError."""
    made = datetime.now(UTC)
    plan = PlannedRun(cell, campaign, tokens=out, time_limit=limit)  # no rank of a sweep reads tokens
    result = launch(sweep_program, plan, out / LOG, settings, nodes)
    if isinstance(result, Failure):
        raise UserError(f"the sweep of {cell.execution.geometry} failed: {result.reason}; see {out / LOG}")
    return Launch(made_utc=f"{made:%Y-%m-%dT%H:%M:%SZ}", **result)
