"""The loss of scaling of a cell: from the ideal time of its step, part by part, to the measured one."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import SMALL, bar_style, colour, label_rows, runs_text, write_empty
from scaleproof.ground.number_format import number
from scaleproof.ground.records.waterfall_report import WaterfallCell

MOST_CELLS = 4  # the cells with the fewest unknown parts; the table has all
ROW_INCHES = 0.27


def drawn_cells(entries: Sequence[WaterfallCell]) -> list[WaterfallCell]:
    """Return the cells that are drawn, in their order: the MOST_CELLS of which most is known."""
    best_known = sorted(range(len(entries)), key=lambda i: sum(part.ms is None for part in entries[i].parts))
    return [entries[i] for i in sorted(best_known[:MOST_CELLS])]


def chart_height(entries: Sequence[WaterfallCell]) -> float:
    """Return the height of the chart in inches, by its rows."""
    return 1.2 + ROW_INCHES * sum(len(cell.parts) + 4 for cell in drawn_cells(entries))


def waterfall(axes: Axes, entries: Sequence[WaterfallCell]) -> None:
    """Draw the step of each cell from ideal to measured, a row for each part, which begins where the last has ended."""
    cells = drawn_cells(entries)
    if not cells:
        write_empty(axes, "no cell beside a baseline")
        return
    labels, row = [], 0
    for cell in cells:
        labels += [cell.cell, "ideal", *(part.name for part in cell.parts), "unexplained", "measured"]
        row = _draw_cell(axes, cell, row + 1)
    label_rows(axes, labels)
    for label, text in zip(axes.get_yticklabels(), labels, strict=True):
        if text in {cell.cell for cell in cells}:
            label.set_fontweight("bold")
    axes.set_xlim(0, 1.12 * max(cell.measured_ms for cell in cells))
    axes.set_xlabel("time of a step (ms)")
    numbers = [cell.n for cell in cells if cell.n]
    axes.set_title(f"From the ideal to the measured step{f' ({runs_text(numbers)})' if numbers else ''}")


def _draw_cell(axes: Axes, cell: WaterfallCell, row: int) -> int:
    """Draw one cell from `row` on, and return the row after it."""
    end = cell.ideal_ms  # where the next part begins
    axes.barh(row, end, height=0.7, **bar_style("0.4"))
    _write_right_of(axes, end, row, number(end))
    look_of_part: dict[str, Any] = {"color": colour(cell.strategy)}
    look_of_rest: dict[str, Any] = {"color": "white", "edgecolor": "black", "hatch": "////", "lw": 0.8}
    for ms, look in [*((part.ms, look_of_part) for part in cell.parts), (cell.unexplained_ms, look_of_rest)]:
        row += 1
        if ms is None:
            _write_right_of(axes, end, row, "unknown")
            continue
        axes.barh(row, ms, left=end, height=0.7, **look)
        _write_right_of(axes, max(end, end + ms), row, f"{ms:+.2g}")
        end += ms
    axes.barh(row + 1, cell.measured_ms, height=0.7, **bar_style(colour(cell.strategy)))
    _write_right_of(axes, cell.measured_ms, row + 1, number(cell.measured_ms))
    return row + 2


def _write_right_of(axes: Axes, x: float, row: int, text: str) -> None:
    """Write `text` to the right of `x` in a row."""
    axes.annotate(text, (x, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=SMALL, color="0.25")
