"""The charts, and drawing one: `draw`, `draw_comparison`, `draw_losses`, `draw_waterfall`."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from scaleproof.conclude.report.charts import cells as by_cell
from scaleproof.conclude.report.charts import scaling, sweeps
from scaleproof.conclude.report.charts.losses import losses
from scaleproof.conclude.report.charts.pairs import comparison
from scaleproof.conclude.report.charts.style import MOST_ROWS, write_chart
from scaleproof.conclude.report.charts.waterfall import height, waterfall
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.forecast_report import ForecastRow
from scaleproof.ground.records.scaling_report import ScalingReport
from scaleproof.ground.records.waterfall_report import WaterfallCell

# A chart fills one pair of axes; those of PANELS, a list of so many.
CHARTS: dict[str, Callable[..., None]] = {
    "ranking": scaling.ranking,
    "throughput": scaling.throughput,
    "speedup": scaling.speedup,
    "efficiency": scaling.efficiency,
    "step_time": by_cell.step_time,
    "job_time": by_cell.job_time,
    "memory": by_cell.memory,
    "utilization": by_cell.utilization,
    "energy": by_cell.energy,
    "batch_size": sweeps.batch_size,
    "seq_len": sweeps.seq_len,
}
BANDED = ("throughput", "speedup")  # where forecasts stand beside what was measured
PANELS = {"batch_size": 2, "seq_len": 2}
ROW = {
    "ranking": 0.3,
    "step_time": 0.4,
    "job_time": 0.3,
    "memory": 0.3,
    "utilization": 0.3,
    "energy": 0.3,
}  # inches a cell
HEIGHT = 3.1  # inches of the other charts


def draw(
    name: str,
    runs: pd.DataFrame,
    cells: pd.DataFrame,
    report: ScalingReport,
    folder: Path,
    forecasts: Sequence[ForecastRow] = (),
) -> None:
    """Write `folder`/`name`.svg and .png; the same data makes the same bytes. `forecasts`: of forecast.json."""
    more = {"forecasts": forecasts} if name in BANDED else {}
    rows = min(MOST_ROWS, max(3, int((cells["n"] > 0).sum())))
    inches = 1.4 + ROW[name] * rows if name in ROW else HEIGHT
    write_chart(
        folder / name, inches, lambda axes: CHARTS[name](axes, runs, cells, report, **more), PANELS.get(name, 1)
    )


def draw_comparison(entries: Sequence[AbComparison], folder: Path) -> None:
    """Write `folder`/comparison.svg and .png from the entries of comparison.json."""
    write_chart(folder / "comparison", 1.4 + 0.8 * max(1, len(entries)), lambda axes: comparison(axes, entries))


def draw_losses(against: str, table: pd.DataFrame, cells: pd.DataFrame, folder: Path) -> None:
    """Write `folder`/loss_<against>.svg and .png from losses.csv and cells.csv."""
    write_chart(folder / f"loss_{against}", HEIGHT, lambda axes: losses(axes, against, table, cells))


def draw_waterfall(entries: Sequence[WaterfallCell], folder: Path) -> None:
    """Write `folder`/waterfall.svg and .png from the entries of waterfall.json."""
    write_chart(folder / "waterfall", height(entries), lambda axes: waterfall(axes, entries))
