"""`forecast.json` of a campaign: plain rows for tables, charts and sentences."""

from pathlib import Path

from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence, measured_outcomes
from scaleproof.conclude.forecast.findings import CHECKS, forecast_findings
from scaleproof.conclude.forecast.law import series_key
from scaleproof.conclude.forecast.ledger import Entry, Forecasts, coverage_of, read_forecasts
from scaleproof.conclude.forecast.sweep_file import Sweep, pair_rows, sweep_rows, unstable_rows, weak_rows
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.findings.forecast_report import ForecastReport, ForecastRow, LedgerCoverage, SweepReport


def make_forecast_report(evidence: ForecastEvidence, folder: Path) -> ForecastReport:
    """Return the newest forecast of each cell in `folder` beside what was measured, scores, sweeps, and coverage."""
    outcomes, _ = measured_outcomes(evidence)
    step_seconds = {cell: seconds for cell, (seconds, _) in outcomes.items()}
    first_runs_utc = {cell: first_run_utc for cell, (_, first_run_utc) in outcomes.items()}
    newest = _newest_forecasts(read_forecasts(folder), first_runs_utc)
    scores = [score for score in evidence.ledger if score.campaign == evidence.loaded.name]
    scores_by_cell = {score.cell: score for score in scores}

    def row(cell: Cell) -> ForecastRow:  # of a cell with a forecast
        entry, made_utc = newest[cell.slug]
        score = scores_by_cell.get(cell.slug)
        is_padded = cell.workload.task != "language-modelling"  # then batch x seq_len is more than the tokens of rates
        return ForecastRow(
            **entry.model_dump(),
            made_utc=made_utc,
            tokens_per_step=None if is_padded else cell.batch.global_ * cell.workload.seq_len,
            relatives=[other.slug for other in evidence.loaded.cells if series_key(other) == series_key(cell)],
            wide=entry.interval is not None and entry.interval.wide,
            measured_s=step_seconds.get(cell.slug),
            inside=score.inside if score else None,
            error=score.error if score else None,
        )

    return ForecastReport(
        campaign=evidence.loaded.name,
        machine=evidence.machine,
        forecasts=[row(cell) for cell in evidence.loaded.cells if cell.slug in newest],
        sweeps=[_sweep_report(sweep) for sweep in evidence.sweeps],
        checks=[check.name for check in CHECKS],
        findings=forecast_findings(evidence, scores),
        coverage=LedgerCoverage(**coverage_of(evidence.ledger).model_dump(), here=coverage_of(scores)),
    )


def _sweep_report(sweep: Sweep) -> SweepReport:
    """Return a sweep (collectives timed over message sizes) as plain rows."""
    return SweepReport(
        group=str(sweep.group),
        backend=sweep.backend,
        device=sweep.device,
        tool=sweep.tool,
        link=sweep.link,
        rows=sweep_rows(sweep),
        unstable=[f"{row.collective} {row.nbytes}" for row in unstable_rows(sweep)],
        weak=[f"{row.collective} {row.nbytes}" for row in weak_rows(sweep)],
        node_pairs=pair_rows(sweep),
    )


def _newest_forecasts(all_forecasts: list[Forecasts], first_runs: dict[str, str]) -> dict[str, tuple[Entry, str]]:
    """Return cell -> (its newest forecast from before its first run, else its newest of all; when it was made).

    `all_forecasts`: the oldest first. `first_runs`: cell -> time of its first run.
    """
    newest: dict[str, tuple[Entry, str]] = {}
    newest_before_run: dict[str, tuple[Entry, str]] = {}
    for forecasts in all_forecasts:
        for entry in forecasts.entries:
            newest[entry.cell] = entry, forecasts.made_utc
            if forecasts.made_utc < first_runs.get(entry.cell, ""):  # false where no run was made
                newest_before_run[entry.cell] = entry, forecasts.made_utc
    return newest | newest_before_run
