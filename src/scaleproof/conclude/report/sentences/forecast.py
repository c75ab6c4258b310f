"""What forecasts say, and what came of them, from the entries of forecast.json."""

from typing import Any

from scaleproof.ground.number_format import number

MOST_NAMED = 3
Row = dict[str, Any]


def forecast_sentences(forecast: Row) -> list[str]:
    """For the page: scored forecasts first, then cells that have not run, refusals, and the score of the ledger."""
    rows = forecast["forecasts"]
    lines = [scored_sentence(rows)] if _scored(rows) else []
    lines += [expected_sentence(row) for row in rows if row["value"] is not None and row["measured_s"] is None]
    lines += [
        f"{row['cell']}: no forecast ({row['refusal']}): {row['reason']}. To lift it: {row['measure']}."
        for row in rows
        if row["value"] is None
    ]
    return [*lines, *_coverage(forecast["coverage"])]


def answer_sentence(forecast: Row) -> tuple[str, tuple[str, ...]]:
    """For the answer: one sentence and the cells that it is about; empty where nothing was forecast.

    Cells that have not run come first: of the others the measurement is known.
    """
    rows = forecast["forecasts"]
    ahead = [row for row in rows if row["value"] is not None and row["measured_s"] is None]
    if ahead:
        lines = [expected_sentence(row).rstrip(".") for row in ahead[:MOST_NAMED]]
        more = f"; and {len(ahead) - MOST_NAMED} more" if len(ahead) > MOST_NAMED else ""
        return f"Forecast: {'; '.join(lines)}{more}", tuple(row["cell"] for row in ahead[:MOST_NAMED])
    scored = _scored(rows)
    if scored:
        return f"Forecast: {scored_sentence(rows).rstrip('.')}", tuple(row["cell"] for row in scored)
    return "", ()


def scored_sentence(rows: list[Row]) -> str:
    """How the forecasts that were tested turned out."""
    scored = _scored(rows)
    inside = sum(row["inside"] for row in scored)
    worst = max(scored, key=lambda row: abs(row["error"]))
    if len(scored) == 1:
        outcome = "inside" if worst["inside"] else "outside"
        return (
            f"{worst['cell']} was forecast at {_step(worst)} before it ran and took "
            f"{number(1e3 * worst['measured_s'])} ms: {outcome} the interval, {_error(worst)}."
        )
    return (
        f"{inside} of {len(scored)} steps that were forecast before their runs took a time inside the interval; "
        f"the largest error is {_error(worst)} ({worst['cell']})."
    )


def expected_sentence(row: Row) -> str:
    """A cell that has not run."""
    return f"{row['cell']} is expected to take {_step(row)}."


def what_if_rows(forecast: Row) -> list[dict[str, str]]:
    """What would have to change: a row for each measured cell and change, in milliseconds of a step."""
    return [
        {
            "cell": row["cell"],
            "change": row["change"],
            "measured (ms)": number(1e3 * row["measured_s"]),
            "with it (ms)": f"{number(1e3 * row['value_s'])}",
            "interval (ms)": f"[{number(1e3 * row['low_s'])},\u00a0{number(1e3 * row['high_s'])}]",
            "step time": _verdict(row),
        }
        for row in forecast["what_if"]
    ]


def _verdict(row: Row) -> str:
    change = row["value_s"] / row["measured_s"] - 1
    if row["high_s"] < row["measured_s"] or row["low_s"] > row["measured_s"]:
        return f"{100 * change:+.1f} %"
    return f"{100 * change:+.1f} %, undecided"


def _scored(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["inside"] is not None]


def _step(row: Row) -> str:
    low, high = number(1e3 * row["low"]), number(1e3 * row["high"])
    if row["wide"]:
        return f"{low}-{high} ms a step ({100 * row['level']:.0f} %; too wide for one figure)"
    return f"{number(1e3 * row['value'])} ms a step ({100 * row['level']:.0f} %: {low}-{high})"


def _error(row: Row) -> str:
    return f"{100 * row['error']:+.1f} %"


def _coverage(coverage: Row) -> list[str]:
    if not coverage["n"]:
        return []
    bounds = f"{100 * coverage['low']:.0f}-{100 * coverage['high']:.0f} %"
    return [
        f"Over all campaigns of the ledger {coverage['inside']} of {coverage['n']} forecasts were inside "
        f"(Clopper-Pearson {bounds}); {100 * coverage['nominal']:.0f} % was claimed."
    ]
