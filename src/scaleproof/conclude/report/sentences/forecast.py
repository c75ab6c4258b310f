"""What forecasts say, and what came of them, from the entries of forecast.json."""

from collections.abc import Sequence

from scaleproof.ground.findings.forecast_report import Coverage, ForecastReport, ForecastRow, Outcome
from scaleproof.ground.number_format import number

MOST_NAMED = 3


def forecast_sentences(forecast: ForecastReport) -> list[str]:
    """Return the page's sentences: scored forecasts, cells that have not run, refusals, and the score of the ledger."""
    rows = forecast.forecasts
    lines = [scored_sentence(rows)] if _scored_rows(rows) else []
    lines += [expected_sentence(row) for row in _cells_ahead(rows)]
    lines += [
        f"{row.cell}: no forecast ({row.refusal}): {row.reason}. To lift it: {row.measure}."
        for row in rows
        if row.forecast is None
    ]
    return [*lines, *_coverage_sentence(forecast.coverage)]


def answer_sentence(forecast: ForecastReport) -> tuple[str, tuple[str, ...]]:
    """Return one sentence for the answer, and the cells that it is about; both empty where nothing was forecast.

    It is on the cells that have not run, of which nothing else is known; if all have run, on how forecasts turned out.
    """
    rows = forecast.forecasts
    rows_ahead = _cells_ahead(rows)
    if rows_ahead:
        lines = [expected_sentence(row).rstrip(".") for row in rows_ahead[:MOST_NAMED]]
        more = f"; and {len(rows_ahead) - MOST_NAMED} more" if len(rows_ahead) > MOST_NAMED else ""
        return f"Forecast: {'; '.join(lines)}{more}", tuple(row.cell for row in rows_ahead[:MOST_NAMED])
    scored = _scored_rows(rows)
    if scored:
        return f"Forecast: {scored_sentence(rows).rstrip('.')}", tuple(row.cell for row, _ in scored)
    return "", ()


def scored_sentence(rows: Sequence[ForecastRow]) -> str:
    """Return how the forecasts that were tested turned out. `rows`: at least one was tested."""
    scored = _scored_rows(rows)
    row, outcome = max(scored, key=lambda row_and_outcome: abs(row_and_outcome[1].error))  # the largest error
    error = f"{100 * outcome.error:+.1f} %"
    if len(scored) == 1:
        return (
            f"{row.cell} was forecast at {_step_ms(row)} before it ran and took {number(1e3 * outcome.measured_s)} ms: "
            f"{'inside' if outcome.inside else 'outside'} the interval, {error}."
        )
    inside = sum(outcome.inside for _, outcome in scored)
    return (
        f"{inside} of {len(scored)} steps that were forecast before their runs took a time inside the interval; "
        f"the largest error is {error} ({row.cell})."
    )


def expected_sentence(row: ForecastRow) -> str:
    """Return the sentence on a cell that has not run."""
    return f"{row.cell} is expected to take {_step_ms(row)}."


def _cells_ahead(rows: Sequence[ForecastRow]) -> list[ForecastRow]:
    """Return the forecasts of cells that have not run."""
    return [row for row in rows if row.forecast and row.measured_s is None]


def _scored_rows(rows: Sequence[ForecastRow]) -> list[tuple[ForecastRow, Outcome]]:
    """Return the forecasts that were tested by a run, each with its outcome."""
    return [(row, row.outcome) for row in rows if row.outcome]


def _step_ms(row: ForecastRow) -> str:
    """Return the forecast of a step in words, in ms with its intervals; "unknown" where there is none."""
    if row.forecast is None:
        return "unknown"
    value, low, high = (number(1e3 * seconds) for seconds in row.forecast[:3])
    level = f"{100 * row.forecast.level:.0f} %"
    if row.wide:
        return f"{low}-{high} ms a step ({level}; too wide for one figure)"
    likely = ""
    if row.likely_low is not None and row.likely_high is not None:
        likely = f"80 %: {number(1e3 * row.likely_low)}-{number(1e3 * row.likely_high)}, "
    return f"{value} ms a step ({likely}{level}: {low}-{high})"


def _coverage_sentence(coverage: Coverage) -> list[str]:
    """Return a sentence on how many forecasts of the ledger were inside their interval, if any was scored."""
    if coverage.nominal is None:
        return []
    bounds = f"{100 * coverage.low:.0f}-{100 * coverage.high:.0f} %"
    return [
        f"Over all campaigns of the ledger {coverage.inside} of {coverage.n} forecasts were inside "
        f"(Clopper-Pearson {bounds}); {100 * coverage.nominal:.0f} % was claimed."
    ]
