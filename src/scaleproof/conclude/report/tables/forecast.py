"""Forecasts beside what was measured, as a table."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from scaleproof.conclude.report.tables.table import Table
from scaleproof.ground.findings.forecast_report import ForecastRow
from scaleproof.ground.number_format import fixed, number

COLUMNS = (
    *("cell", "strategy", "devices", "value", "low", "high", "level", "likely_low", "likely_high", "construction", "n"),
    *("measured_s", "error", "inside", "refusal", "measure", "made_utc"),
)


def forecast_table(rows: Sequence[ForecastRow]) -> pd.DataFrame:
    """Return a table with a row per cell, in ms; a cell without a forecast has its reason, a wide one no value."""
    table = []
    for row in rows:
        known, measured = row.forecast, row.measured_s  # None: refused, not measured
        value, low, high = (number(1e3 * seconds) for seconds in known[:3]) if known else ("–", "–", "–")
        likely = "–"
        if row.likely_low is not None and row.likely_high is not None:
            likely = f"[{number(1e3 * row.likely_low)},\u00a0{number(1e3 * row.likely_high)}]"
        table.append(
            {
                "cell": row.cell,
                "forecast (ms)": "–" if row.wide else value,
                "80 % (ms)": likely,
                "interval (ms)": f"[{low},\u00a0{high}]" if known else "–",
                "level": f"{fixed(100 * known.level, 0)} %" if known else "–",
                "measured (ms)": "–" if measured is None else number(1e3 * measured),
                "inside": {True: "yes", False: "no", None: "–"}[row.inside],
                "from": row.construction if known else f"refused: {row.refusal}",
            }
        )
    return pd.DataFrame(table)


def write_forecast(rows: Sequence[ForecastRow], folder: Path) -> None:
    """Write forecast.csv, .md and .tex into `folder` from the entries `forecasts` of forecast.json."""
    figures = pd.DataFrame([row.model_dump() for row in rows], columns=list(COLUMNS))
    texts = forecast_table(rows)
    numeric = [heading for heading in texts.columns if heading.endswith("(ms)")]
    caption = "Step times as they were forecast, and as they were measured afterwards."
    Table("forecast", figures, texts, caption, "forecast", numeric, none="No forecast was made.").write(folder)
