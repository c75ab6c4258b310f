"""The chart of A/B comparisons."""

from typing import Any

from matplotlib.axes import Axes

from scalebench.report.charts.style import COLOURS, empty


def comparison(axes: Axes, found: list[dict[str, Any]]) -> None:
    """B over A of every comparison: each pair, the mean with its interval, and what A against A shows by itself."""
    shown = [c for c in found if c["estimate"]]
    if not shown:
        empty(axes, "no comparison has an estimate")
        return
    for i, c in enumerate(shown):
        e = c["estimate"]
        axes.plot(
            e["null_ratios"],
            [i + 0.22] * len(e["null_ratios"]),
            "x",
            ms=5,
            color="0.45",
            label="A against A" if i == 0 else None,
        )
        axes.plot(
            e["ratios"], [i] * e["n"], "o", ms=4, mew=0, alpha=0.6, color=COLOURS[0], label="pair" if i == 0 else None
        )
        axes.plot(
            [e["low"], e["high"]],
            [i - 0.22] * 2,
            "|-",
            color="black",
            ms=9,
            lw=1.6,
            label="95 % interval" if i == 0 else None,
        )
        axes.plot([e["ratio"]], [i - 0.22], "D", ms=5, color="black", label="mean of pairs" if i == 0 else None)
    axes.axvline(1, color="0.5", lw=1, ls="--")
    axes.set_yticks(range(len(shown)), [f"{c['name']}\nn={c['estimate']['n']} pairs" for c in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("tokens/s of B over tokens/s of A")
    axes.set_title("A against B, in pairs on the same devices")
