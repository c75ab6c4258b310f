"""Charts of B over A: of the pairs of A/B comparisons, and of the cells of two results."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from scaleproof.conclude.report import chart_style as style
from scaleproof.ground.number_format import interval_text, is_useless, number
from scaleproof.ground.records.comparison_report import AbComparison, Paired
from scaleproof.ground.records.result_file import Estimated

OFFSET = 0.22  # of what is drawn beside the pairs of a comparison, in rows


def comparison(axes: Axes, entries: Sequence[AbComparison]) -> None:
    """Draw B over A of every comparison: each pair, the mean with its interval, and what A over A shows."""
    drawn = [(entry.name, entry.estimate) for entry in entries if entry.estimate]
    if not drawn:
        style.write_empty(axes, "no comparison has an estimate")
        return
    for i, (name, estimate) in enumerate(drawn):
        _draw_comparison(axes, i, name, estimate, is_in_legend=(i == 0))
    axes.axvline(1, color="0.5", lw=1, ls="--")
    style.label_rows(axes, [f"{name}\nn={estimate.n} pairs" for name, estimate in drawn], above=0.5)
    axes.set_xlabel("tokens/s of B over tokens/s of A")
    axes.set_title("A against B, in pairs")


def _draw_comparison(axes: Axes, i: int, name: str, estimate: Paired, is_in_legend: bool) -> None:
    """Draw one comparison around row `i`: pairs in the middle, mean and interval above, A/A below."""

    def legend_label(text: str) -> str | None:
        """Return `text` for the first comparison alone, so that the legend has it once."""
        return text if is_in_legend else None

    nulls = estimate.null_ratios
    axes.plot(nulls, [i + OFFSET] * len(nulls), "x", ms=6, color="0.3", label=legend_label("A against A"))

    for nth, ratio in enumerate(estimate.ratios, 1):
        (dot,) = axes.plot([ratio], [i], "o", ms=6, mec="white", mew=0.6, color=style.COLOURS[0])
        dot.set_label(legend_label("pair") if nth == 1 else None)
        style.tip(dot, f"{name}, pair {nth}: B / A {number(ratio, 4)}")

    low, high = estimate.low, estimate.high
    label = legend_label("95 % interval")
    axes.plot([low, high], [i - OFFSET] * 2, "|-", color="black", ms=9, lw=1.6, label=label)
    label = legend_label("mean of pairs")
    (mean,) = axes.plot([estimate.ratio], [i - OFFSET], "D", ms=6, color="black", label=label)
    interval = interval_text(low, high, f"{estimate.n} pairs", 4)
    style.tip(mean, f"{name}: B / A {number(estimate.ratio, 4)} ({interval})")


Ratio = tuple[str, Estimated]  # cell, B over A


def draw_ratios(ratios: Sequence[Ratio], out: Path) -> None:
    """Write `out`.svg and .png with the ratios in their order; at most the MOST_ROWS that differ most from 1."""
    # The selection is by distance of B over A from 1, the order of rows stays.
    extremes = sorted(ratios, key=lambda ratio: abs(ratio[1].value - 1), reverse=True)[: style.MOST_ROWS]
    drawn = [ratio for ratio in ratios if ratio in extremes]
    style.write_chart(out, 1.4 + 0.3 * max(3, len(drawn)), lambda axes: _draw_ratios(axes, drawn, len(ratios)))


def _draw_ratios(axes: Axes, ratios: Sequence[Ratio], total: int) -> None:
    """Draw the ratios with their intervals, each in a row. `total`: number of all ratios, drawn or not."""
    for i, (cell, ratio) in enumerate(ratios):
        if ratio.bounds and not is_useless(*ratio.bounds, ratio.n):
            axes.plot([*ratio.bounds], [i, i], "|-", color="0.2", ms=8, lw=1.4)
        (mark,) = axes.plot([ratio.value], [i], "o", ms=7, mec="white", mew=0.6, color=style.COLOURS[0])
        interval = interval_text(ratio.low, ratio.high, ratio.n, 4)
        style.tip(mark, f"{cell}: B / A {number(ratio.value, 4)} ({interval})")
    axes.axvline(1, color="0.5", lw=1, ls="--")
    labels = [textwrap.shorten(cell, style.LABEL_WIDTH, placeholder="...") for cell, *_ in ratios]
    style.label_rows(axes, labels, above=0.5)
    axes.set_xlabel("B over A, tokens/s; 1: no difference")
    at_once = " for all at once" if len(ratios) > 1 else ""
    selection = f", the {len(ratios)} that differ most of {total}" if len(ratios) < total else ""
    axes.set_title(f"B over A with 95 % intervals{at_once}{selection}")
