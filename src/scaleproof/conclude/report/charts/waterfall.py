"""The loss of scaling of a cell: from the ideal time of its step, part by part, to the measured one."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import bar_style, colour, label_rows, runs_text, write_empty
from scaleproof.conclude.report.sentences.scaling import is_half_known
from scaleproof.ground.number_format import number
from scaleproof.ground.records.waterfall_report import WaterfallCell

MOST_CELLS = 4  # the cells with the fewest unknown parts; the table has all
ROW_INCHES = 0.27


def drawn_cells(entries: Sequence[WaterfallCell]) -> list[WaterfallCell]:
    """Return the cells that are drawn, in their order: the MOST_CELLS with the fewest unknown parts.

    Cells of which less than half is known are drawn only where there are no others: no sentence speaks of them.
    """
    entries = [entry for entry in entries if is_half_known(entry)] or entries

    def unknown_parts(index: int) -> int:
        return sum(part.ms is None for part in entries[index].parts)

    best_known = sorted(range(len(entries)), key=unknown_parts)[:MOST_CELLS]
    return [entries[index] for index in sorted(best_known)]


def chart_height(entries: Sequence[WaterfallCell]) -> float:
    """Return the height of the chart in inches, by its rows."""
    # Beside its parts a cell has four rows: its name, ideal, unexplained, measured.
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
        row = _draw_cell(axes, cell, row + 1)  # nothing is drawn in the row of the name
    label_rows(axes, labels)
    for label, text in zip(axes.get_yticklabels(), labels, strict=True):
        if text in {cell.cell for cell in cells}:
            label.set_fontweight("bold")
    axes.set_xlim(0, 1.12 * max(cell.measured_ms for cell in cells))
    axes.set_xlabel("time of a step (ms)")
    run_counts = [cell.n for cell in cells if cell.n]
    n_text = f" ({runs_text(run_counts)})" if run_counts else ""
    axes.set_title(f"From the ideal to the measured step{n_text}")


def _draw_cell(axes: Axes, cell: WaterfallCell, row: int) -> int:
    axes.barh(row, cell.ideal_ms, height=0.7, **bar_style("0.4"))
    _write_right_of(axes, cell.ideal_ms, row, number(cell.ideal_ms))

    begin_ms = cell.ideal_ms  # of the next part
    for part in cell.parts:
        row += 1
        begin_ms = _draw_part(axes, row, begin_ms, part.ms, color=colour(cell.strategy))
    row += 1
    _draw_part(axes, row, begin_ms, cell.unexplained_ms, color="white", edgecolor="black", hatch="////", lw=0.8)

    row += 1
    axes.barh(row, cell.measured_ms, height=0.7, **bar_style(colour(cell.strategy)))
    _write_right_of(axes, cell.measured_ms, row, number(cell.measured_ms))
    return row + 1


def _draw_part(axes: Axes, row: int, begin_ms: float, ms: float | None, **look: Any) -> float:
    """Draw a part of the step from `begin_ms` on, or write that it is unknown; return where the next part begins."""
    if ms is None:
        _write_right_of(axes, begin_ms, row, "unknown")
        return begin_ms
    end_ms = begin_ms + ms
    axes.barh(row, ms, left=begin_ms, height=0.7, **look)
    _write_right_of(axes, max(begin_ms, end_ms), row, f"{ms:+.2g}")
    return end_ms


def _write_right_of(axes: Axes, x: float, row: int, text: str) -> None:
    axes.annotate(text, (x, row), xytext=(4, 0), textcoords="offset points", va="center", color="0.25")
