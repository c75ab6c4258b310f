"""Forecasts beside what was measured, as a table."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from scaleproof.conclude.report.tables.table import Table
from scaleproof.ground.findings.forecast_report import ForecastRow
from scaleproof.ground.number_format import fixed, number, span_text

COLUMNS = (
    *("cell", "strategy", "devices", "value", "low", "high", "level", "likely_low", "likely_high", "construction", "n"),
    *("measured_s", "error", "inside", "refusal", "measure", "made_utc"),
)


def forecast_table(rows: Sequence[ForecastRow]) -> pd.DataFrame:
    """Return a table with a row per cell, in ms."""
    return pd.DataFrame([_forecast_row(row) for row in rows])


def _forecast_row(row: ForecastRow) -> dict[str, str | None]:
    """Return heading -> text of a cell. A refused forecast has its reason, and a wide one no value."""
    value = interval = likely = level = "–"
    # What the forecast was made from, or why there is none.
    origin: str | None = f"refused: {row.refusal}"
    if row.forecast:
        value, low, high = (number(1e3 * seconds) for seconds in row.forecast[:3])  # ms
        interval = span_text(low, high)
        level = f"{fixed(100 * row.forecast.level, 0)} %"
        origin = row.construction
    if row.likely_low is not None and row.likely_high is not None:
        likely = span_text(number(1e3 * row.likely_low), number(1e3 * row.likely_high))
    return {
        "cell": row.cell,
        "forecast (ms)": "–" if row.wide else value,
        "80 % (ms)": likely,
        "interval (ms)": interval,
        "level": level,
        "measured (ms)": "–" if row.measured_s is None else number(1e3 * row.measured_s),
        "inside": {True: "yes", False: "no", None: "–"}[row.inside],
        "from": origin,
    }


def write_forecast(rows: Sequence[ForecastRow], campaign: str, folder: Path) -> None:
    """Write forecast.csv, .md and .tex into `folder` from the entries `forecasts` of a campaign's forecast.json."""
    texts = forecast_table(rows)
    Table(
        name="forecast",
        plain=pd.DataFrame([row.model_dump() for row in rows], columns=list(COLUMNS)),
        human=texts,
        caption="Step times as they were forecast, and as they were measured afterwards.",
        label=f"{campaign}-forecast",
        numeric=[heading for heading in texts.columns if heading.endswith("(ms)")],
        none="No forecast was made.",
    ).write(folder)
