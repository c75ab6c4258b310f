"""Loss of scaling: from the ideal time of a step to the measured one, part by part, and what remains unexplained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scaleproof.ground.records.configuration import CONFIGURATION
from scaleproof.ground.records.profile_schema import TracedStep
from scaleproof.ground.records.scaling_report import Kind, ScalingReport
from scaleproof.ground.records.waterfall_report import WaterfallCell, WaterfallPart, WaterfallReport

# A cell of one device that has the batch of one device of another cell (the local batch) may differ from it in these.
BATCH_SPLIT = ("geometry", "accumulation", "global_batch", "micro_batch")

PROVENANCE_DIFFERS = "provenance-differs"  # the finding that runs of a campaign were made in two environments

Row = dict[str, Any]  # of cells.csv


@dataclass(frozen=True)
class Shares:
    """Shares of a traced step, means over steps and ranks; computing, exposed communication and idling add up to 1.

    Exposed is what happens while nothing is computed.
    """

    exposed: float  # exposed communication
    exposed_wait: float | None  # exposed waiting for ranks that came later; None where the trace does not tell it apart
    idle: float  # neither computing nor communicating
    compute_to_communication: float | None  # computing over transfer: waiting for a late rank is not communication
    exposed_share_of_transfer: float | None


def step_shares(per_step: Sequence[TracedStep]) -> Shares | None:
    """Return the shares of a traced step's parts, means over steps; None without a step, or where a part is unknown."""
    names = ("wall_ms", "compute_ms", "communication_ms", "exposed_ms", "wait_ms", "idle_ms")
    sums_ms = {name: _sum_over_steps(per_step, name) for name in names}
    sums = {name: sum_ms for name, sum_ms in sums_ms.items() if sum_ms is not None}  # in ms, the known ones
    if len(sums) < len(names):
        return None

    transfer_ms = sums["communication_ms"] - sums["wait_ms"]  # waiting for ranks that came later is no transfer
    exposed_wait = exposed_transfer_ms = None
    exposed_wait_ms = _sum_over_steps(per_step, "exposed_wait_ms")  # summaries of older versions lack it
    if exposed_wait_ms is not None:
        exposed_wait = exposed_wait_ms / sums["wall_ms"]
        exposed_transfer_ms = max(0.0, sums["exposed_ms"] - exposed_wait_ms)  # rounding may make it negative

    return Shares(
        exposed=sums["exposed_ms"] / sums["wall_ms"],
        exposed_wait=exposed_wait,
        idle=sums["idle_ms"] / sums["wall_ms"],
        compute_to_communication=_ratio_to_transfer(sums["compute_ms"], transfer_ms),
        exposed_share_of_transfer=_ratio_to_transfer(exposed_transfer_ms, transfer_ms),
    )


def _sum_over_steps(per_step: Sequence[TracedStep], name: str) -> float | None:
    """Return the milliseconds of one part over all steps; None without steps, or where one lacks the part."""
    values_ms = [getattr(step, name) for step in per_step]
    return sum(values_ms) if values_ms and None not in values_ms else None


def _ratio_to_transfer(part_ms: float | None, transfer_ms: float) -> float | None:
    """Return a part of a step over its transfer; None where the part is unknown or nothing is transferred."""
    return None if part_ms is None or transfer_ms <= 0 else part_ms / transfer_ms


def waterfall_report(
    campaign: str, cells: pd.DataFrame, report: ScalingReport, traced: Mapping[str, Sequence[TracedStep]]
) -> WaterfallReport:
    """Return the waterfall of each cell beyond the baseline of its series: ideal + parts + unexplained = measured.

    `cells`: cells.csv; `traced`: cell -> the steps of its profile. Shares of the traced step are applied to the timed
    step, because a profiler makes steps longer.
    """
    counted = cells[(cells["n"] > 0) & cells["samples_per_s"].notna()]  # commands do not count their samples
    rows = {row["cell"]: row for row in counted.to_dict("records")}
    entries = []
    for series in report.series:
        for point in series.points:
            # Without a kind of scaling, or a baseline to compare with, there is no ideal.
            is_compared = point.cell != series.baseline and not point.incomparable
            if series.kind and is_compared and {point.cell, series.baseline} <= rows.keys():
                entry = _cell_waterfall(rows[point.cell], rows[series.baseline], series.kind, rows, traced)
                entries.append(entry)
    return WaterfallReport(campaign=campaign, cells=entries)


def _cell_waterfall(
    cell: Row, base: Row, kind: Kind, cells: Mapping[str, Row], traced: Mapping[str, Sequence[TracedStep]]
) -> WaterfallCell:
    """Return the waterfall of a cell, from the ideal step time to the measured one.

    `base`: its baseline, whose step gives the ideal; `cells`: all cells of the campaign, by name; `traced`: cell -> the
    steps of its profile.
    """
    ideal_scale = base["devices"] / cell["devices"] if kind == "strong" else 1.0  # ideal step over the baseline's step
    measured_ms = _step_ms(cell)
    ideal_ms = _step_ms(base) * ideal_scale
    cell_shares = step_shares(traced.get(cell["cell"], []))
    base_shares = step_shares(traced.get(base["cell"], []))

    parts = []
    if kind == "strong":  # in weak scaling the local batch is the baseline's and costs nothing
        parts.append(_local_batch_part(cell, ideal_ms, cells))
    parts += _communication_parts(cell_shares, measured_ms)
    data_ms = _data_ms(cell) - ideal_scale * _data_ms(base)
    parts.append(WaterfallPart(name="waiting for data", ms=data_ms, source="timed runs"))
    parts.append(_gap_part(cell_shares, base_shares, cell, base, ideal_scale))

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
        transfer_exposed=cell_shares and cell_shares.exposed_share_of_transfer,
    )


def _step_ms(cell: Row) -> float:
    """Return the mean milliseconds of a step: a global batch at the rate in samples, which may be padded."""
    return 1e3 * cell["global_batch"] / cell["samples_per_s"]


def _data_ms(cell: Row) -> float:
    """Return the mean milliseconds of a step in which it waits for data."""
    return cell["data_wait_share"] * _step_ms(cell)


def _local_batch_part(cell: Row, ideal_ms: float, cells: Mapping[str, Row]) -> WaterfallPart:
    """Return what the smaller local batch costs: the step of one device with that batch, less the ideal step.

    A device with an Nth of the batch is less than N times as fast, because kernels are smaller and the update is not.
    `cells`: all cells of the campaign; milliseconds are None where no cell is one device with this batch, or where
    code, versions or hardware changed between the runs.
    """
    name = "smaller local batch"
    local_batch = cell["global_batch"] / cell["devices"]
    for other in cells.values():
        has_local_batch = other["devices"] == 1 and other["global_batch"] == local_batch
        if not has_local_batch or not _differs_only_in_batch_split(other, cell):
            continue
        # The column of findings has codes, with spaces between.
        if PROVENANCE_DIFFERS in f"{other.get('findings')} {cell.get('findings')}".split():
            return WaterfallPart(name=name, ms=None, source=f"needs {other['cell']} in the same environment")
        return WaterfallPart(name=name, ms=_step_ms(other) - ideal_ms, source=other["cell"])
    why_absent = f"needs a cell with one device and a global batch of {local_batch:g}"
    return WaterfallPart(name=name, ms=None, source=why_absent)


def _differs_only_in_batch_split(a: Row, b: Row) -> bool:
    """Return whether two cells are configured alike, but for what splits a batch among devices (BATCH_SPLIT)."""
    names = [name for name in CONFIGURATION if name not in BATCH_SPLIT]
    return pd.Series(a)[names].equals(pd.Series(b)[names])  # two empty fields are equal, too


def _communication_parts(cell_shares: Shares | None, measured_ms: float) -> list[WaterfallPart]:
    """Return the transfer and the waiting that no computation hides.

    A trace that an older version summarised has them in one part, exposed communication.

    `cell_shares`: shares of the cell's traced step, None without a trace; `measured_ms`: how long its timed step takes.
    """
    transfer, waiting = "exposed transfer", "waiting for the slowest rank"
    if cell_shares is None:
        why_absent = "needs a trace of this cell"
        return [WaterfallPart(name=name, ms=None, source=why_absent) for name in (transfer, waiting)]

    exposed_ms = cell_shares.exposed * measured_ms
    if cell_shares.exposed_wait is None:
        why_absent = "is in exposed communication: an older version summarised the trace"
        return [
            WaterfallPart(name="exposed communication", ms=exposed_ms, source="trace"),
            WaterfallPart(name=waiting, ms=None, source=why_absent),
        ]
    transfer_ms = (cell_shares.exposed - cell_shares.exposed_wait) * measured_ms
    return [
        WaterfallPart(name=transfer, ms=transfer_ms, source="trace"),
        WaterfallPart(name=waiting, ms=cell_shares.exposed_wait * measured_ms, source="trace"),
    ]


def _gap_part(
    cell_shares: Shares | None, base_shares: Shares | None, cell: Row, base: Row, ideal_scale: float
) -> WaterfallPart:
    """Return the milliseconds by which a device idles longer than in an ideal step; waits for data do not count.

    `cell_shares`, `base_shares`: shares of the traced steps of cell and baseline, None without a trace. `ideal_scale`:
    the ideal time of the cell's step over the time of the baseline's step.
    """
    if cell_shares is None or base_shares is None:
        return WaterfallPart(name="host gaps", ms=None, source="needs traces of this cell and of its baseline")
    gaps_ms = cell_shares.idle * _step_ms(cell) - _data_ms(cell)
    base_gaps_ms = base_shares.idle * _step_ms(base) - _data_ms(base)
    return WaterfallPart(name="host gaps", ms=gaps_ms - ideal_scale * base_gaps_ms, source="traces")
