"""Loss of scaling: from the ideal time of a step to the measured one, part by part, and what remains unexplained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scaleproof.conclude.analysis.run_tables import CONFIGURATION
from scaleproof.ground.records.profile_schema import TracedStep
from scaleproof.ground.records.scaling_report import Kind, ScalingReport
from scaleproof.ground.records.waterfall_report import WaterfallCell, WaterfallPart, WaterfallReport

# What may differ between a cell of several devices and one that has the batch of one of its devices (the local batch).
SPREAD = ("geometry", "accumulation", "global_batch", "micro_batch")

Row = dict[str, Any]  # of cells.csv


@dataclass(frozen=True)
class Shares:
    """Parts of a traced step, means over its steps and ranks; compute + exposed + idle = 1."""

    exposed: float  # communication while nothing is computed
    exposed_wait: float | None  # of it, waiting for ranks that came later; None where the trace does not tell it apart
    idle: float  # neither
    compute_to_communication: float | None  # computing over transfer: waiting for a late rank is not communication
    transfer_exposed: float | None  # part of the transfers beside which nothing is computed


def step_shares(per_step: Sequence[TracedStep]) -> Shares | None:
    """Return the shares of a traced step's parts, means over steps; None without a step, or where a part is unknown."""
    names = ("wall_ms", "compute_ms", "communication_ms", "exposed_ms", "wait_ms", "idle_ms")
    columns = {name: [getattr(step, name) for step in per_step] for name in names}
    if not per_step or any(None in values for values in columns.values()):
        return None
    total = {name: sum(values) for name, values in columns.items()}
    transfer_ms = total["communication_ms"] - total["wait_ms"]  # less waiting for ranks that came later
    # Summaries of older versions do not say how much of the waiting is hidden behind computation.
    waits = [step.exposed_wait_ms for step in per_step if step.exposed_wait_ms is not None]
    exposed_wait_ms = sum(waits) if len(waits) == len(per_step) else None
    transfer_exposed = None
    if exposed_wait_ms is not None and transfer_ms > 0:
        exposed_transfer_ms = max(0.0, total["exposed_ms"] - exposed_wait_ms)  # rounded figures: a zero may be negative
        transfer_exposed = exposed_transfer_ms / transfer_ms
    return Shares(
        exposed=total["exposed_ms"] / total["wall_ms"],
        exposed_wait=None if exposed_wait_ms is None else exposed_wait_ms / total["wall_ms"],
        idle=total["idle_ms"] / total["wall_ms"],
        compute_to_communication=total["compute_ms"] / transfer_ms if transfer_ms > 0 else None,
        transfer_exposed=transfer_exposed,
    )


def waterfall_report(
    campaign: str, cells: pd.DataFrame, report: ScalingReport, traced: Mapping[str, Sequence[TracedStep]]
) -> WaterfallReport:
    """Return the waterfall of each cell beyond the baseline of its series: ideal + parts + unexplained = measured.

    `cells`: cells.csv; `traced`: cell -> the steps of its profile. Shares of the traced step are applied to the timed
    one, because a profiler makes steps longer.
    """
    by_name = {row["cell"]: row for row in cells[cells["n"] > 0].to_dict("records")}
    entries = [
        _cell_waterfall(by_name[point.cell], by_name[series.baseline], series.kind, by_name, traced)
        for series in report.series
        for point in series.points
        # Without a kind of scaling, or a baseline to compare with, there is no ideal.
        if series.kind and point.cell != series.baseline and not point.incomparable
    ]
    return WaterfallReport(campaign=campaign, cells=entries)


def _cell_waterfall(
    cell: Row, base: Row, kind: Kind, cells: Mapping[str, Row], traced: Mapping[str, Sequence[TracedStep]]
) -> WaterfallCell:
    """Return the waterfall of a cell, from the ideal step time that its baseline `base` stands for to the measured one.

    `cells`: all of the campaign, by name; `traced`: cell -> the steps of its profile.
    """
    ideal_scale = base["devices"] / cell["devices"] if kind == "strong" else 1.0  # ideal step over the baseline's
    measured_ms = _step_ms(cell)
    ideal_ms = _step_ms(base) * ideal_scale
    cell_shares = step_shares(traced.get(cell["cell"], []))
    base_shares = step_shares(traced.get(base["cell"], []))
    parts = [
        # In weak scaling the local batch is the baseline's and costs nothing.
        *([_local_batch_part(cell, ideal_ms, cells)] if kind == "strong" else []),
        *_communication_parts(cell_shares, measured_ms),
        WaterfallPart(name="waiting for data", ms=_data_ms(cell) - ideal_scale * _data_ms(base), source="timed runs"),
        _gap_part(cell_shares, base_shares, cell, base, ideal_scale),
    ]
    return WaterfallCell(
        cell=cell["cell"],
        strategy=cell["strategy"],
        baseline=base["cell"],
        kind=kind,
        n=int(cell["n"]),
        measured_ms=measured_ms,
        ideal_ms=ideal_ms,
        parts=parts,
        unexplained_ms=measured_ms - ideal_ms - sum(part.ms or 0 for part in parts),
        compute_to_communication=cell_shares and cell_shares.compute_to_communication,
        transfer_exposed=cell_shares and cell_shares.transfer_exposed,
    )


def _step_ms(cell: Row) -> float:
    """Return the mean milliseconds of a step: of a global batch at the cell's rate in samples, padded or not."""
    return 1e3 * cell["global_batch"] / cell["samples_per_s"]


def _data_ms(cell: Row) -> float:
    """Return the mean milliseconds of a step in which it waits for data."""
    return cell["data_wait_share"] * _step_ms(cell)


def _local_batch_part(cell: Row, ideal_ms: float, cells: Mapping[str, Row]) -> WaterfallPart:
    """Return what the smaller local batch costs: the milliseconds of a step of one device with it, less the ideal ones.

    A device with an Nth of the batch is less than N times as fast, because kernels are smaller and the update is not.
    `cells`: all of the campaign; milliseconds are None where no cell is that one device.
    """
    local_batch = cell["global_batch"] / cell["devices"]
    for other in cells.values():
        has_local_batch = other["devices"] == 1 and other["global_batch"] == local_batch
        if has_local_batch and _differs_only_in_batch_split(other, cell):
            return WaterfallPart(name="smaller local batch", ms=_step_ms(other) - ideal_ms, source=other["cell"])
    needed = f"needs a cell with one device and a global batch of {local_batch:g}"
    return WaterfallPart(name="smaller local batch", ms=None, source=needed)


def _differs_only_in_batch_split(a: Row, b: Row) -> bool:
    """Return whether two cells are configured alike, but for what spreads a batch over devices (SPREAD)."""
    names = [name for name in CONFIGURATION if name not in SPREAD]
    return all(a[name] == b[name] or (pd.isna(a[name]) and pd.isna(b[name])) for name in names)  # NaN: empty in both


def _communication_parts(cell_shares: Shares | None, measured_ms: float) -> list[WaterfallPart]:
    """Return exposed communication (while nothing is computed) in two parts; in one where the trace has it as one.

    `cell_shares`: shares of the cell's traced step, None without a trace; `measured_ms`: of its timed step.
    """
    transfer, waiting = "exposed transfer", "waiting for the slowest rank"
    if cell_shares is None:
        return [WaterfallPart(name=name, ms=None, source="needs a trace of this cell") for name in (transfer, waiting)]
    if cell_shares.exposed_wait is None:
        together = "is in exposed communication: an older version summarised the trace"
        whole = WaterfallPart(name="exposed communication", ms=cell_shares.exposed * measured_ms, source="trace")
        return [whole, WaterfallPart(name=waiting, ms=None, source=together)]
    return [
        WaterfallPart(name=transfer, ms=(cell_shares.exposed - cell_shares.exposed_wait) * measured_ms, source="trace"),
        WaterfallPart(name=waiting, ms=cell_shares.exposed_wait * measured_ms, source="trace"),
    ]


def _gap_part(
    cell_shares: Shares | None, base_shares: Shares | None, cell: Row, base: Row, ideal_scale: float
) -> WaterfallPart:
    """Return the milliseconds by which a device idles longer in a step than in an ideal one, less waits for data.

    `cell_shares`, `base_shares`: of the traced steps of cell and baseline, None without a trace. `ideal_scale`: ideal
    time of the cell's step over the baseline's.
    """
    if cell_shares is None or base_shares is None:
        return WaterfallPart(name="host gaps", ms=None, source="needs traces of this cell and of its baseline")
    gaps_ms = cell_shares.idle * _step_ms(cell) - _data_ms(cell)
    base_gaps_ms = base_shares.idle * _step_ms(base) - _data_ms(base)
    return WaterfallPart(name="host gaps", ms=gaps_ms - ideal_scale * base_gaps_ms, source="traces")
