"""The charts, and drawing one: `draw`, `draw_comparison`, `draw_losses`, `draw_waterfall`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.conclude.report.chart_style import MOST_ROWS, write_chart
from scaleproof.conclude.report.charts import cells as by_cell
from scaleproof.conclude.report.charts import scaling, sweeps
from scaleproof.conclude.report.charts.cells import ranking
from scaleproof.conclude.report.charts.pairs import comparison
from scaleproof.conclude.report.charts.sweeps import losses
from scaleproof.conclude.report.charts.waterfall import chart_height, waterfall
from scaleproof.ground.findings.forecast_report import ForecastRow
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.scaling_report import ScalingReport
from scaleproof.ground.records.waterfall_report import WaterfallCell

__all__ = [
    "CHARTS",
    "HEIGHT",
    "draw",
    "draw_comparison",
    "draw_losses",
    "draw_waterfall",
    "forecast",
    "history",
    "node_pairs",
    "pairs",
    "traces",
]

# A chart fills one pair of axes, or a list of so many as its entry in the catalog has panels.
CHARTS: dict[str, Callable[..., None]] = {
    chart.__name__: chart
    for chart in (
        *(ranking, scaling.throughput, scaling.speedup, scaling.efficiency, by_cell.step_time),
        *(by_cell.job_time, by_cell.memory, by_cell.utilization, by_cell.energy, sweeps.batch_size, sweeps.seq_len),
    )
}
HEIGHT = 3.1  # inches of a chart without a row for each cell


def draw(
    name: str,
    runs: pd.DataFrame,
    cells: pd.DataFrame,
    report: ScalingReport,
    folder: Path,
    forecasts: Sequence[ForecastRow] = (),
) -> None:
    """Write the chart `name` as `folder`/`name`.svg and .png; the same data makes the same bytes.

    `runs`, `cells`: runs.csv and cells.csv. `forecasts`: the rows of forecast.json, for charts that show them as bands.
    """
    chart = CATALOG[name]
    bands = {"forecasts": forecasts} if chart.banded else {}  # only such charts take the argument
    inches = HEIGHT
    if chart.inches_per_cell:
        rows = min(MOST_ROWS, max(3, int((cells["n"] > 0).sum())))  # for cells with numbers; room for three at least
        inches = 1.4 + chart.inches_per_cell * rows  # 1.4: title and axis

    def draw_on(axes: Any) -> None:  # one pair of axes, or a list of them
        CHARTS[name](axes, runs, cells, report, **bands)

    write_chart(folder / name, inches, draw_on, chart.panels, report.unit)


def draw_comparison(entries: Sequence[AbComparison], folder: Path) -> None:
    """Write `folder`/comparison.svg and .png from the entries of comparison.json."""
    write_chart(folder / "comparison", 1.4 + 0.8 * max(1, len(entries)), lambda axes: comparison(axes, entries))


def draw_losses(against: str, table: pd.DataFrame, cells: pd.DataFrame, folder: Path) -> None:
    """Write `folder`/loss_<against>.svg and .png from losses.csv and cells.csv."""
    write_chart(folder / f"loss_{against}", HEIGHT, lambda axes: losses(axes, against, table, cells))


def draw_waterfall(entries: Sequence[WaterfallCell], folder: Path) -> None:
    """Write `folder`/waterfall.svg and .png from the entries of waterfall.json."""
    write_chart(folder / "waterfall", chart_height(entries), lambda axes: waterfall(axes, entries))
