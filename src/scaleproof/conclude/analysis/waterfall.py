"""Loss of scaling: from the ideal time of a step to the measured one, part by part, and what remains unexplained."""

from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from scaleproof.conclude.analysis.run_tables import CONFIGURATION

SCHEMA_VERSION = "1.1"
# What may differ between a cell and the one that has its local batch on one device.
SPREAD = ("geometry", "accumulation", "global_batch", "micro_batch")


@dataclass(frozen=True)
class Shares:
    """Parts of a traced step, means over its steps and ranks; compute + exposed + idle = 1."""

    exposed: float  # communication while nothing is computed
    exposed_wait: float | None  # of it, waiting for ranks that came later; None where the trace does not tell it apart
    idle: float  # neither
    compute_to_communication: float | None  # computing over transfer: waiting for a late rank is not communication
    transfer_exposed: float | None  # part of the transfers beside which nothing is computed


@dataclass(frozen=True)
class Part:
    """Milliseconds of a step; None where nothing measured it, with what would."""

    name: str
    ms: float | None
    source: str


def shares(per_step: list[dict[str, Any]]) -> Shares | None:
    """From the rows `per_step` of a profile_summary.json; None where the trace does not carry it."""
    names = ("wall_ms", "compute_ms", "communication_ms", "exposed_ms", "wait_ms", "idle_ms")
    if not per_step or any(row[name] is None for row in per_step for name in names):
        return None
    total = {name: sum(row[name] for row in per_step) for name in names}
    transfer_ms = total["communication_ms"] - total["wait_ms"]
    # Summaries of older versions do not say how much of the waiting is hidden behind computation.
    waits = [float(row["exposed_wait_ms"]) for row in per_step if row.get("exposed_wait_ms") is not None]
    exposed_wait_ms = sum(waits) if len(waits) == len(per_step) else None
    known = exposed_wait_ms is not None and transfer_ms > 0
    return Shares(
        exposed=total["exposed_ms"] / total["wall_ms"],
        exposed_wait=None if exposed_wait_ms is None else exposed_wait_ms / total["wall_ms"],
        idle=total["idle_ms"] / total["wall_ms"],
        compute_to_communication=total["compute_ms"] / transfer_ms if transfer_ms > 0 else None,
        # Of figures that are rounded, a difference of nothing may be below zero.
        transfer_exposed=max(0.0, total["exposed_ms"] - exposed_wait_ms) / transfer_ms if known else None,
    )


def waterfall_report(
    campaign: str, cells: pd.DataFrame, report: dict[str, Any], traced: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """`cells`: cells.csv; `report`: scaling_report.json; `traced`: cell -> its `per_step`.

    An entry for each cell beyond the baseline of its series: its parts sum to `measured_ms`, `unexplained_ms` among
    them. Shares of the traced step are applied to the timed one, because a profiler makes steps longer.
    """
    by_name = {row["cell"]: row for row in cells[cells["n"] > 0].to_dict("records")}
    entries = [
        _describe(by_name[point["cell"]], by_name[series["baseline"]], series["kind"], by_name, traced)
        for series in report["series"]
        for point in series["runs"].values()
        if series["kind"] and point["cell"] != series["baseline"] and not point["incomparable"]
    ]
    return {"schema_version": SCHEMA_VERSION, "campaign": campaign, "cells": entries}


def _describe(cell: dict, base: dict, kind: str, cells: dict[str, dict], traced: dict[str, list]) -> dict[str, Any]:
    scale = base["devices"] / cell["devices"] if kind == "strong" else 1.0
    measured = _step_ms(cell)
    ideal = _step_ms(base) * scale
    own = shares(traced.get(cell["cell"], []))
    of_base = shares(traced.get(base["cell"], []))
    parts = [
        *([_local_batch(cell, ideal, cells)] if kind == "strong" else []),
        *_communication(own, measured),
        Part("waiting for data", _data_ms(cell) - scale * _data_ms(base), "timed runs"),
        _gaps(own, of_base, cell, base, scale),
    ]
    unexplained = measured - ideal - sum(part.ms or 0 for part in parts)
    return {
        "cell": cell["cell"],
        "strategy": cell["strategy"],
        "baseline": base["cell"],
        "kind": kind,
        "n": int(cell["n"]),
        "measured_ms": measured,
        "ideal_ms": ideal,
        "parts": [asdict(part) for part in parts],
        "unexplained_ms": unexplained,
        "compute_to_communication": own and own.compute_to_communication,
        "transfer_exposed": own and own.transfer_exposed,
    }


def _step_ms(cell: dict) -> float:
    """All time over all steps: a global batch at the cell's rate in samples, padded or not."""
    return 1e3 * cell["global_batch"] / cell["samples_per_s"]


def _data_ms(cell: dict) -> float:
    return cell["data_wait_share"] * _step_ms(cell)


def _local_batch(cell: dict, ideal: float, cells: dict[str, dict]) -> Part:
    """A device with an Nth of the batch is less than N times as fast: kernels are smaller, the update is not."""
    local = cell["global_batch"] / cell["devices"]
    same = [name for name in CONFIGURATION if name not in SPREAD]
    for other in cells.values():
        if other["devices"] != 1 or other["global_batch"] != local:
            continue
        if all(other[name] == cell[name] or (pd.isna(other[name]) and pd.isna(cell[name])) for name in same):
            return Part("smaller local batch", _step_ms(other) - ideal, other["cell"])
    return Part("smaller local batch", None, f"needs a cell with one device and a global batch of {local:g}")


def _communication(own: Shares | None, measured: float) -> list[Part]:
    """Exposed communication in its two parts; as one where the trace does not tell them apart."""
    transfer, waiting = "exposed transfer", "waiting for the slowest rank"
    if own is None:
        why = "needs a trace of this cell"
        return [Part(transfer, None, why), Part(waiting, None, why)]
    if own.exposed_wait is None:
        together = "is in exposed communication: an older version summarised the trace"
        return [Part("exposed communication", own.exposed * measured, "trace"), Part(waiting, None, together)]
    return [
        Part(transfer, (own.exposed - own.exposed_wait) * measured, "trace"),
        Part(waiting, own.exposed_wait * measured, "trace"),
    ]


def _gaps(own: Shares | None, of_base: Shares | None, cell: dict, base: dict, scale: float) -> Part:
    """Time in which the device had nothing to do, beyond that of the baseline, waiting for data not included."""
    if own is None or of_base is None:
        return Part("host gaps", None, "needs traces of this cell and of its baseline")
    idle = own.idle * _step_ms(cell) - _data_ms(cell)
    return Part("host gaps", idle - scale * (of_base.idle * _step_ms(base) - _data_ms(base)), "traces")
