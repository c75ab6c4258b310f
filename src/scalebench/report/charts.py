"""The charts. Each says its units, n and intervals, and stays readable in grey and for colour-blind eyes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from matplotlib.transforms import offset_copy

# Okabe and Ito's colours, which differ for every kind of colour vision; the markers differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE = {"font.size": 11, "axes.titlesize": 11, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
         "svg.hashsalt": "scalebench", "figure.constrained_layout.use": True}  # fmt: skip


def throughput(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """tokens/s against devices: each run as a small dot, each cell with its interval, the ideal from each baseline."""
    for i, series in enumerate(report["series"]):
        points = list(series["runs"].values())
        _line(axes, i, series["name"], points, "tokens_per_sec_global")
        for point in points:
            values = runs.loc[(runs["cell"] == point["cell"]) & (runs["status"] == "ok"), "tokens_per_s"]
            beside = offset_copy(axes.transData, axes.figure, x=9, units="points")
            x = [point["devices"]] * len(values)
            axes.plot(x, values, "o", ms=3, mew=0, alpha=0.6, color=COLOURS[i % 8], transform=beside)
    first = [next(iter(s["runs"].values())) for s in report["series"]]
    if first:
        base = max(p["tokens_per_sec_global"]["value"] / p["devices"] for p in first)
        devices = _devices(report)
        axes.plot(devices, [base * d for d in devices], "--", color="0.5", lw=1, zorder=0, label="ideal")
    axes.set_ylabel("throughput (tokens/s)")
    axes.set_title(f"Throughput; bars: 95 % interval, dots: runs ({_n(cells)})")
    _device_axis(axes, report)


def speedup(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Speed-up over the same strategy at its smallest world size, with the ideal line."""
    for i, series in enumerate(report["series"]):
        base = {"value": 1.0, "low": None, "high": None, "n": 0}
        points = [p | {"speedup": p["speedup"] or base} for p in series["runs"].values()]
        _line(axes, i, series["name"], points, "speedup")
    devices = _devices(report)
    smallest = min((s["baseline_devices"] for s in report["series"]), default=1)
    axes.plot(devices, [d / smallest for d in devices], "--", color="0.5", lw=1, zorder=0, label="ideal")
    axes.set_ylabel(f"speed-up over {smallest} device{'s' if smallest > 1 else ''} (ratio of tokens/s)")
    axes.set_title(f"Strong scaling; bars: 95 % interval ({_n(cells)})")
    _device_axis(axes, report)


def step_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Step times of each cell: 5 to 95 % as a line, 25 to 75 % as a box, the median as a stroke."""
    shown = cells[cells["n"] > 0].reset_index(drop=True)
    for i, row in shown.iterrows():
        values = [row[f"step_time_p{p}_s"] * 1e3 for p in ("05", "25", "50", "75", "95")]
        axes.plot([values[0], values[4]], [i, i], "-", color=COLOURS[0], lw=1.5)
        axes.barh(i, values[3] - values[1], left=values[1], height=0.5, color=COLOURS[0], alpha=0.45)
        axes.plot([values[2]] * 2, [i - 0.25, i + 0.25], "-", color="black", lw=2)
    axes.set_yticks(range(len(shown)), [f"{row['cell']}\n{row['steps']:.0f} steps" for _, row in shown.iterrows()])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("step time (ms), maximum over ranks")
    axes.set_title(f"Optimizer steps: median, 25–75 % (box), 5–95 % (line) ({_n(cells)})")
    axes.grid(axis="y", visible=False)


CHARTS: dict[str, Callable[[Axes, pd.DataFrame, pd.DataFrame, dict], None]] = {
    "throughput": throughput,
    "speedup": speedup,
    "step_time": step_time,
}


def draw(name: str, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any], folder: Path) -> None:
    """Write `folder`/`name`.svg and .png; the same data makes the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        height = 4.0 if name != "step_time" else 1.4 + 0.62 * max(2, len(cells))
        figure = Figure(figsize=(6.4, height))
        axes = figure.subplots()
        CHARTS[name](axes, runs, cells, report)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})


def _line(axes: Axes, i: int, label: str, points: list[dict], key: str) -> None:
    x = [p["devices"] for p in points]
    y = [p[key]["value"] for p in points]
    bounds = [(p[key]["low"], p[key]["high"]) for p in points]
    below = [0 if low is None else v - low for v, (low, _) in zip(y, bounds, strict=True)]
    above = [0 if high is None else high - v for v, (_, high) in zip(y, bounds, strict=True)]
    marked = [bool(p["findings"]) for p in points]
    axes.errorbar(
        x, y, yerr=[below, above], fmt=f"{MARKERS[i % 8]}-", color=COLOURS[i % 8], capsize=4, lw=1.4, label=label
    )
    for xi, yi, mark in zip(x, y, marked, strict=True):
        if mark:  # a number with a finding never stands alone
            axes.annotate("!", (xi, yi), xytext=(7, 5), textcoords="offset points", color="#B00020", weight="bold")


def _devices(report: dict) -> list[int]:
    return sorted({p["devices"] for s in report["series"] for p in s["runs"].values()})


def _device_axis(axes: Axes, report: dict) -> None:
    devices = _devices(report)
    axes.set_xlabel("devices")
    if devices and devices[-1] / devices[0] > 4:
        axes.set_xscale("log", base=2)
    axes.set_xticks(devices, [str(d) for d in devices])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.08)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.10g}"))


def _n(cells: pd.DataFrame) -> str:
    counts = sorted({int(n) for n in cells["n"] if n})
    return f"n={counts[0]}" if len(counts) == 1 else f"n={counts[0]}–{counts[-1]}" if counts else "n=0"
