"""What forecasts say, and what came of them, from the entries of forecast.json."""

from collections.abc import Sequence

from scaleproof.ground.findings.forecast_report import Coverage, ForecastReport, ForecastRow, Outcome
from scaleproof.ground.number_format import number, span_text

MOST_NAMED = 3


def forecast_sentences(forecast: ForecastReport) -> list[str]:
    """Return the page's sentences: scored forecasts, cells that have not run, refusals, and the score of the ledger."""
    rows = forecast.forecasts
    sentences = [scored_sentence(rows)] if _scored_rows(rows) else []
    sentences += [expected_sentence(row) for row in _rows_ahead(rows)]
    refused = [row for row in rows if row.forecast is None]
    sentences += [
        f"{row.cell}: no forecast ({row.refusal}): {row.reason}. To lift it: {row.measure}." for row in refused
    ]
    return [*sentences, *_coverage_sentence(forecast.coverage)]


def answer_sentence(forecast: ForecastReport) -> tuple[str, tuple[str, ...]]:
    """Return one sentence for the answer, and the cells that it is about; both empty where nothing was forecast.

    The sentence is on the cells that have not run, as nothing else is known of them. Where all have run, it says how
    the forecasts turned out.
    """
    rows = forecast.forecasts
    if rows_ahead := _rows_ahead(rows):
        named_rows = rows_ahead[:MOST_NAMED]
        sentences = [expected_sentence(row).rstrip(".") for row in named_rows]
        rest = f"; and {len(rows_ahead) - MOST_NAMED} more" if len(rows_ahead) > MOST_NAMED else ""
        return f"Forecast: {'; '.join(sentences)}{rest}", tuple(row.cell for row in named_rows)
    if scored := _scored_rows(rows):
        return f"Forecast: {scored_sentence(rows).rstrip('.')}", tuple(row.cell for row, _ in scored)
    return "", ()


def scored_sentence(rows: Sequence[ForecastRow]) -> str:
    """Return how the forecasts that were tested turned out. `rows`: at least one was tested."""
    scored = _scored_rows(rows)
    row, outcome = max(scored, key=lambda row_and_outcome: abs(row_and_outcome[1].error))  # the largest error
    error_text = f"{100 * outcome.error:+.1f} %"
    if len(scored) == 1:
        side = "inside" if outcome.inside else "outside"
        return (
            f"{row.cell} was forecast at {_step_text(row)} before it ran and took "
            f"{number(1e3 * outcome.measured_s)} ms: {side} the interval, {error_text}."
        )
    inside_count = sum(outcome.inside for _, outcome in scored)
    return (
        f"{inside_count} of {len(scored)} steps that were forecast before their runs took a time inside the interval; "
        f"the largest error is {error_text} ({row.cell})."
    )


def expected_sentence(row: ForecastRow) -> str:
    """Return the sentence on a cell that has not run."""
    return f"{row.cell} is expected to take {_step_text(row)}."


def _rows_ahead(rows: Sequence[ForecastRow]) -> list[ForecastRow]:
    """Return the forecasts of cells that have not run."""
    return [row for row in rows if row.forecast and row.measured_s is None]


def _scored_rows(rows: Sequence[ForecastRow]) -> list[tuple[ForecastRow, Outcome]]:
    """Return the forecasts that were tested by a run, each with its outcome."""
    return [(row, row.outcome) for row in rows if row.outcome]


def _step_text(row: ForecastRow) -> str:
    """Return the forecast of a step in words, in ms with its intervals; "unknown" where there is none."""
    if row.forecast is None:
        return "unknown"
    value, low, high = (number(1e3 * seconds) for seconds in row.forecast[:3])  # in ms
    level = f"{100 * row.forecast.level:.0f} %"
    if row.wide:
        return f"{span_text(low, high)} ms a step ({level}; too wide for one figure)"
    likely = ""
    if row.likely_low is not None and row.likely_high is not None:
        likely = f"80 %: {span_text(number(1e3 * row.likely_low), number(1e3 * row.likely_high))}, "
    return f"{value} ms a step ({likely}{level}: {span_text(low, high)})"


def _coverage_sentence(coverage: Coverage) -> list[str]:
    """Return a sentence on how many forecasts of the ledger were inside their interval; [] where none was scored."""
    if coverage.nominal is None:
        return []
    bounds = f"{100 * coverage.low:.0f}-{100 * coverage.high:.0f} %"
    return [
        f"Over all campaigns of the ledger {coverage.inside} of {coverage.n} forecasts were inside "
        f"(Clopper-Pearson {bounds}); {100 * coverage.nominal:.0f} % was claimed."
    ]
