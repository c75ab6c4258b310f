"""The training loss of all cells, against step and against seconds."""

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report.charts.style import empty, fastest_cells, styles, thousands

AGAINST = {"step": "optimizer step, warm-up included", "seconds": "time in the window (s)"}
NAMED = {"step": "steps", "seconds": "time"}
MARKED = 8  # marks along a line


def losses(axes: Axes, against: str, table: pd.DataFrame, cells: pd.DataFrame) -> None:
    """Draw a line for each cell: the mean loss of its runs, smoothed, `against` "step" or "seconds".

    Against steps validation losses are drawn too, against seconds the target. `table`, `cells`: losses.csv and
    cells.csv.
    """
    if table.empty:
        empty(axes, "no measured runs")
        return
    measured, title = fastest_cells(cells)
    rows = measured.to_dict("records")
    for i, (row, style) in enumerate(zip(rows, styles(list(measured["strategy"])), strict=True)):
        points = table[(table["cell"] == row["cell"]) & table[against].notna()]
        marks = (i, max(MARKED, len(points) // MARKED))  # lines that lie on each other, as they should, are still seen
        axes.plot(points[against], points["smoothed"], markevery=marks, label=row["cell"], lw=1.4, ms=5, **style)
        if against == "step" and pd.notna(row["validation_loss"]):
            axes.plot(points["step"].iloc[-1], row["validation_loss"], "D", mfc="none", ms=8, color=style["color"])
    targets = measured["target_loss"].dropna().unique()
    if against == "seconds" and len(targets) == 1:
        axes.axhline(targets[0], color="0.5", lw=1, ls="--", zorder=0, label="target")
    axes.set_xlabel(AGAINST[against])
    axes.set_ylabel("training loss, smoothed (nats)")
    axes.set_title(f"Loss and {NAMED[against]} ({title})")
    thousands(axes.xaxis)
