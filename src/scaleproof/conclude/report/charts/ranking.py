"""The first chart: throughput of every cell, the fastest first, with its interval and runs."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report.charts.style import (
    DOT,
    HEADROOM,
    bar,
    colour,
    empty,
    fastest_cells,
    interval_text,
    of_each_cell,
    rows,
    thousands,
    tip,
)
from scaleproof.ground.number_format import number
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingReport


def ranking(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw tokens/s of all `cells` (cells.csv) as bars, the fastest first, with runs (runs.csv) as dots."""
    cells, title = fastest_cells(cells)
    if cells.empty:
        empty(axes, "no measured runs")
        return
    most = max(HEADROOM * cells["tokens_per_s"].max(), 1.03 * runs["tokens_per_s"].max())
    rates = of_each_cell(runs, "tokens_per_s")
    for i, row in enumerate(cells.to_dict("records")):
        _ranked(axes, i, row, rates.get(row["cell"], []), most)
    letters = {entry.cell: entry.letters for group in report.ranking for entry in group.cells}
    labels = [f"{cell}  {letters[cell]}" if letters.get(cell) else cell for cell in cells["cell"]]
    rows(axes, cells, labels, report)
    axes.set_xlim(0, most if axes.get_xlim()[1] > most else None)
    axes.set_xlabel("throughput (tokens/s)")
    axes.set_title(f"Throughput of all cells ({title})")
    thousands(axes.xaxis)


def _ranked(axes: Axes, i: int, row: dict[str, Any], values: list[float], most: float) -> None:
    """Draw the bar of one cell in row `i` with its interval and its runs.

    `row`: of cells.csv. `values`: tokens/s of the runs. `most`: where the chart ends; an interval that leaves it ends
    in an arrow.
    """
    (rate,) = axes.barh(i, row["tokens_per_s"], height=0.55, **bar(colour(row["strategy"])))
    interval = Estimated(value=row["tokens_per_s"], low=None, high=None, n=int(row["n"]))
    if pd.notna(row["tokens_per_s_low"]):
        low, high = row["tokens_per_s_low"], row["tokens_per_s_high"]
        interval.low, interval.high = low, high
        axes.plot([low, min(high, most)], [i, i], "|-", color="black", ms=9, lw=1.2)
        if high > most:
            axes.plot([most], [i], ">", color="black", ms=7, clip_on=False, zorder=6)
    tip(rate, interval_text(row["cell"], interval, "tokens/s"))
    for repeat, value in enumerate(values, 1):
        (dot,) = axes.plot([value], [i + 0.17], **DOT)
        tip(dot, f"{row['cell']}, run {repeat} of {len(values)}: {number(value, 4)} tokens/s")
