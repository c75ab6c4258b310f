"""`forecast.json` of a campaign: plain rows for tables, charts and sentences."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from scaleproof.conclude.forecast.campaign_forecast import Calibration, ForecastEvidence, calibrate, cells_of, outcomes
from scaleproof.conclude.forecast.collective import CollectiveTimes, Network, Unsupported
from scaleproof.conclude.forecast.findings import CHECKS, findings_of
from scaleproof.conclude.forecast.interval import Interval, leave_largest_out
from scaleproof.conclude.forecast.ledger import Entry, Forecasts, coverage, read_forecasts
from scaleproof.conclude.forecast.settings import DDP_BUCKET, measured_of, series_key, target_of
from scaleproof.conclude.forecast.step_model import MeasuredStep, StepModel
from scaleproof.conclude.forecast.sweep_file import Sweep, pair_rows, sweep_rows, unstable_rows, weak_rows
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.findings.forecast_report import (
    ForecastReport,
    ForecastRow,
    LedgerCoverage,
    NodePair,
    SweepLink,
    SweepReport,
    SweepRow,
    WhatIfRow,
)


@dataclass(frozen=True)
class WhatIf:
    """A measured cell with one thing changed. Seconds of a step; `change`: in words."""

    cell: str
    change: str
    measured_s: float
    step: Interval


def report_of(evidence: ForecastEvidence, folder: Path) -> ForecastReport:
    """Forecasts (the newest of each cell) beside what was measured, scores, what-if rows, sweeps, and coverage."""
    measured, _ = outcomes(evidence)
    newest = _newest(read_forecasts(folder), {cell: when for cell, (_, when) in measured.items()})
    scores = [s for s in evidence.ledger if s.campaign == evidence.loaded.name]
    by_cell = {score.cell: score for score in scores}
    rows = []
    for cell in evidence.loaded.cells:
        if cell.slug not in newest:
            continue
        entry, made = newest[cell.slug]
        score = by_cell.get(cell.slug)
        rows.append(
            ForecastRow(
                **entry.model_dump(),
                made_utc=made,
                tokens_per_step=_tokens_per_step(cell),
                relatives=[c.slug for c in evidence.loaded.cells if series_key(c) == series_key(cell)],
                wide=entry.interval is not None and entry.interval.wide,
                measured_s=measured.get(cell.slug, (None, ""))[0],
                inside=score.inside if score else None,
                error=score.error if score else None,
            )
        )
    known, targets = cells_of(evidence)
    calibration = calibrate(evidence, known, targets) if known else None
    return ForecastReport(
        campaign=evidence.loaded.name,
        machine=evidence.machine,
        forecasts=rows,
        what_if=[_what_if_row(row) for row in what_ifs(calibration, known)] if calibration else [],
        sweeps=[_sweep(sweep) for sweep in evidence.sweeps],
        checks=[check.name for check in CHECKS],
        findings=findings_of(evidence, scores),
        coverage=LedgerCoverage(**coverage(evidence.ledger).model_dump(), here=coverage(scores)),
    )


def _sweep(sweep: Sweep) -> SweepReport:
    return SweepReport(
        group=str(sweep.group),
        backend=sweep.backend,
        device=sweep.device,
        tool=sweep.tool,
        link=SweepLink(**sweep.link.model_dump()) if sweep.link else None,
        rows=[SweepRow(**row.model_dump()) for row in sweep_rows(sweep)],
        unstable=[f"{row.collective} {row.nbytes}" for row in unstable_rows(sweep)],
        weak=[f"{row.collective} {row.nbytes}" for row in weak_rows(sweep)],
        node_pairs=[NodePair(**asdict(row)) for row in pair_rows(sweep)],
    )


def _tokens_per_step(cell: Cell) -> int | None:
    """Tokens that a step trains on; None where padding is among them and the rate counts none of it."""
    return cell.batch.global_ * cell.workload.seq_len if cell.workload.task == "language-modelling" else None


def _newest(made: list[Forecasts], first_runs: dict[str, str]) -> dict[str, tuple[Entry, str]]:
    """Cell -> its newest forecast and when it was made; of those from before its first run, where there are such."""
    newest: dict[str, tuple[Entry, str]] = {}
    before: dict[str, tuple[Entry, str]] = {}
    for forecasts in made:
        for entry in forecasts.entries:
            newest[entry.cell] = entry, forecasts.made_utc
            if forecasts.made_utc < first_runs.get(entry.cell, ""):
                before[entry.cell] = entry, forecasts.made_utc
    return newest | before


def what_ifs(calibration: Calibration, known: list[Cell]) -> list[WhatIf]:
    """For each measured cell on several devices that has a sweep: what a changed bucket, overlap, link would give.

    The measured step, plus the difference that the model makes of the change; as uncertain as the model is about sizes.
    """
    rows = []
    for cell in known:
        model, target = calibration.models[series_key(cell)], target_of(cell)
        if target.group.size < 2 or model.network is None or cell.slug in calibration.unusable:
            continue
        measured = measured_of(cell, calibration.evidence.runs[cell.slug])
        residuals = calibration.residuals(cell)
        for change, changed in _levers(model, calibration.evidence.backend).items():
            try:
                difference = changed.modelled(target).total - model.modelled(target).total
            except Unsupported:
                continue
            value = max(measured.seconds + difference, 1e-9)
            interval = leave_largest_out(value, residuals, 1.0, measured.variance or 0.0)
            if interval:
                rows.append(WhatIf(cell.slug, change, measured.seconds, interval))
        rows += _of_twice_the_batch(cell, model, measured, residuals)
    return rows


def _of_twice_the_batch(cell: Cell, model: StepModel, measured: MeasuredStep, residuals: list[float]) -> list[WhatIf]:
    """Half of a step with twice as many micro-batches: the same tokens, and what comes once a step comes half as often.

    The residual is carried with the communication, once a step.
    """
    target = target_of(cell)
    try:
        more = model.modelled(replace(target, accumulation=2 * target.accumulation)).total
        difference = more - model.modelled(target).total
    except Unsupported:
        return []
    value = (measured.seconds + difference) / 2
    interval = leave_largest_out(value, residuals, 1.0, measured.variance or 0.0) if value > 0 else None
    change = "twice the accumulation; time for the same tokens"
    return [WhatIf(cell.slug, change, measured.seconds, interval)] if interval else []


def _levers(model: StepModel, backend: str) -> dict[str, StepModel]:
    """What could be changed, in words, and the model with it. gloo reduces beside computing under DDP only."""
    levers = {}
    network = model.network
    if network is not None:
        levers["a link of twice the bandwidth"] = replace(model, network=_faster(network))
    if model.strategy.startswith(("zero1", "zero2", "zero0")) and backend != "gloo":
        bucket = min(model.bucket_bytes, float(DDP_BUCKET))
        levers["reducing beside the backward pass, in buckets of 25 MiB"] = replace(
            model, bucket_bytes=bucket, overlaps=True
        )
    if model.strategy == "ddp":
        levers["buckets of a quarter"] = replace(model, bucket_bytes=model.bucket_bytes / 4)
    return levers


def _faster(network: Network) -> Network:
    """Every table with half of the time that is not latency."""
    tables = tuple(
        CollectiveTimes(t.collective, t.group, t.sizes, tuple((s + min(t.latency(), s)) / 2 for s in t.seconds))
        for t in network.tables
    )
    return replace(network, tables=tables)


def _what_if_row(row: WhatIf) -> WhatIfRow:
    return WhatIfRow(
        cell=row.cell,
        change=row.change,
        measured_s=row.measured_s,
        value_s=row.step.value,
        low_s=row.step.low,
        high_s=row.step.high,
        level=row.step.level,
    )
