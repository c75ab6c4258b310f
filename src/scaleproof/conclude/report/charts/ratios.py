"""The chart of a comparison of two results: B over A, a row for each cell."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from scaleproof.conclude.report.charts.style import COLOURS, LABEL_WIDTH, MOST_ROWS, tip, write_chart
from scaleproof.ground.number_format import number

Ratio = tuple[str, float, float | None, float | None]  # cell, B over A, its interval


def draw_ratios(ratios: Sequence[Ratio], out: Path) -> None:
    """Write `out`.svg and .png; of many cells those that differ most, in their order in `ratios`."""
    differ_most = sorted(ratios, key=lambda ratio: abs(ratio[1] - 1), reverse=True)[:MOST_ROWS]  # [1]: B over A
    chosen = [ratio for ratio in ratios if ratio in differ_most]
    write_chart(out, 1.4 + 0.3 * max(3, len(chosen)), lambda axes: _fill(axes, chosen, len(ratios)))


def _fill(axes: Axes, ratios: Sequence[Ratio], total: int) -> None:
    """Draw the ratios with their intervals, one a row. `total`: how many there are, drawn or not."""
    for i, (cell, value, low, high) in enumerate(ratios):
        interval = " (n=1: no interval)"
        if low is not None and high is not None:
            axes.plot([low, high], [i, i], "|-", color="0.2", ms=8, lw=1.4)
            interval = f" (95 % CI {number(low, 4)}-{number(high, 4)})"
        (mark,) = axes.plot([value], [i], "o", ms=7, mec="white", mew=0.6, color=COLOURS[0])
        tip(mark, f"{cell}: B / A {number(value, 4)}{interval}")
    axes.axvline(1, color="0.5", lw=1, ls="--")
    axes.set_yticks(range(len(ratios)), [textwrap.shorten(cell, LABEL_WIDTH, placeholder="...") for cell, *_ in ratios])
    axes.set_ylim(len(ratios) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("B over A, tokens/s; 1: no difference")
    more = f", the {len(ratios)} that differ most of {total}" if len(ratios) < total else ""
    axes.set_title(f"B over A with 95 % intervals{' for all at once' if len(ratios) > 1 else ''}{more}")
