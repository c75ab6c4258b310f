"""The chart of A/B comparisons: of pairs of runs of A and of B, and of A twice (A/A), which shows the noise."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from scaleproof.conclude.report.charts.style import COLOURS, empty, tip
from scaleproof.ground.number_format import number
from scaleproof.ground.records.comparison_report import AbComparison, Paired


def comparison(axes: Axes, entries: Sequence[AbComparison]) -> None:
    """Draw B over A of every comparison: each pair, the mean with its interval, and what A over A shows."""
    drawn = [(entry.name, entry.estimate) for entry in entries if entry.estimate]
    if not drawn:
        empty(axes, "no comparison has an estimate")
        return
    for i, (name, estimate) in enumerate(drawn):
        _ratios(axes, i, name, estimate, keyed=i == 0)
    axes.axvline(1, color="0.5", lw=1, ls="--")
    axes.set_yticks(range(len(drawn)), [f"{name}\nn={estimate.n} pairs" for name, estimate in drawn])
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("tokens/s of B over tokens/s of A")
    axes.set_title("A against B, in pairs")


def _ratios(axes: Axes, i: int, name: str, estimate: Paired, keyed: bool) -> None:
    """Draw one comparison around row `i`: A/A above, pairs in the middle, mean and interval below.

    `keyed`: whether the marks get entries in the legend.
    """

    def label(text: str) -> str | None:
        return text if keyed else None

    nulls = estimate.null_ratios
    low = estimate.low
    high = estimate.high
    axes.plot(nulls, [i + 0.22] * len(nulls), "x", ms=6, color="0.3", label=label("A against A"))
    for nth, ratio in enumerate(estimate.ratios, 1):
        (dot,) = axes.plot([ratio], [i], "o", ms=6, mec="white", mew=0.6, color=COLOURS[0])
        dot.set_label(label("pair") if nth == 1 else None)
        tip(dot, f"{name}, pair {nth}: B / A {number(ratio, 4)}")
    axes.plot([low, high], [i - 0.22] * 2, "|-", color="black", ms=9, lw=1.6, label=label("95 % interval"))
    (mean,) = axes.plot([estimate.ratio], [i - 0.22], "D", ms=6, color="black", label=label("mean of pairs"))
    interval = f"95 % CI {number(low, 4)}-{number(high, 4)}, n={estimate.n} pairs"
    tip(mean, f"{name}: B / A {number(estimate.ratio, 4)} ({interval})")
