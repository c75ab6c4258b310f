"""The charts. Each says its units, n and intervals, and stays readable in grey and for colour-blind eyes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

# Okabe and Ito's colours, which differ for every kind of colour vision; the markers differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
ALARM = "#B00020"
STYLE = {"font.size": 11, "axes.titlesize": 11, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
         "svg.hashsalt": "scalebench", "figure.constrained_layout.use": True}  # fmt: skip
BESIDE = 0.035  # distance of series that share a number of devices, in parts of the axis' doubling
HEADROOM = 1.5  # an interval of two runs may be a hundred times as wide as the chart; it is cut off here


def throughput(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """tokens/s against devices: each run as a small dot, each cell with its interval, the ideal from the best baseline."""
    every = report["series"]
    if not every:
        _empty(axes, "no measured runs")
        return
    for i, series in enumerate(every):
        points = list(series["runs"].values())
        place = _line(axes, i, len(every), series["name"], points, "tokens_per_sec_global")
        for point, x in zip(points, place, strict=True):
            values = runs.loc[(runs["cell"] == point["cell"]) & (runs["status"] == "ok"), "tokens_per_s"]
            axes.plot([x] * len(values), values, "o", ms=3, mew=0, alpha=0.6, color=COLOURS[i % 8])
    first = [next(iter(s["runs"].values())) for s in every]
    best = max(p["tokens_per_sec_global"]["value"] / p["devices"] for p in first)
    devices = _devices(every)
    _ideal(axes, devices, [best * d for d in devices])
    axes.set_ylabel("throughput (tokens/s)")
    axes.set_title(f"Throughput; bars: 95 % interval, dots: runs ({_n(cells)})")
    _device_axis(axes, devices)
    _headroom(
        axes, [best * devices[-1], *(p["tokens_per_sec_global"]["value"] for s in every for p in s["runs"].values())]
    )


def speedup(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Speed-up of each series over itself at its smallest world size, with the ideal line."""
    every = [s for s in report["series"] if s["kind"]]
    if not every:
        _empty(axes, "no series with more than one size")
        return
    for i, series in enumerate(every):
        base = {"value": 1.0, "low": None, "high": None, "n": 0}
        points = [p | {"speedup": p["speedup"] or base} for p in series["runs"].values()]
        _line(axes, i, len(every), series["name"], points, "speedup")
    devices = _devices(every)
    smallest = min(s["baseline_devices"] for s in every)
    _ideal(axes, devices, [d / smallest for d in devices])
    axes.set_ylabel(f"speed-up over {smallest} device{'s' if smallest > 1 else ''} (ratio of tokens/s)")
    kinds = " and ".join(sorted({s["kind"] for s in every})).capitalize()
    axes.set_title(f"{kinds} scaling; bars: 95 % interval ({_n(cells)})")
    _device_axis(axes, devices)
    _headroom(
        axes,
        [devices[-1] / smallest, *(p["speedup"]["value"] for s in every for p in s["runs"].values() if p["speedup"])],
    )


def ranking(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """tokens/s of every cell, the fastest first: what differs between cells of one size is seen here, not on a line."""
    shown = cells[cells["n"] > 0].sort_values("tokens_per_s", ascending=False).reset_index(drop=True)
    if shown.empty:
        _empty(axes, "no measured runs")
        return
    for i, row in shown.iterrows():
        values = runs.loc[(runs["cell"] == row["cell"]) & (runs["status"] == "ok"), "tokens_per_s"]
        axes.barh(i, row["tokens_per_s"], height=0.55, color=COLOURS[0], alpha=0.3)
        if pd.notna(row["tokens_per_s_low"]):
            axes.plot([row["tokens_per_s_low"], row["tokens_per_s_high"]], [i, i], "|-", color="black", ms=9, lw=1.2)
        axes.plot(values, [i] * len(values), "o", ms=4, mew=0.6, mec="white", color=COLOURS[1])
    _rows(axes, shown, shown["cell"], report)
    most = max(HEADROOM * shown["tokens_per_s"].max(), 1.03 * runs["tokens_per_s"].max())
    axes.set_xlim(0, most if axes.get_xlim()[1] > most else None)
    axes.set_xlabel("throughput (tokens/s)")
    axes.set_title(f"All cells; black: 95 % interval, dots: runs ({_n(cells)})")
    _thousands(axes.xaxis)


def step_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Step times of each cell: 5 to 95 % as a line, 25 to 75 % as a box, the median as a stroke."""
    shown = cells[cells["n"] > 0].reset_index(drop=True)
    if shown.empty:
        _empty(axes, "no measured runs")
        return
    for i, row in shown.iterrows():
        values = [row[f"step_time_p{p}_s"] * 1e3 for p in ("05", "25", "50", "75", "95")]
        axes.plot([values[0], values[4]], [i, i], "-", color=COLOURS[0], lw=1.5)
        axes.barh(i, values[3] - values[1], left=values[1], height=0.5, color=COLOURS[0], alpha=0.45)
        axes.plot([values[2]] * 2, [i - 0.25, i + 0.25], "-", color="black", lw=2)
    _rows(axes, shown, [f"{row['cell']}\n{row['steps']:.0f} steps" for _, row in shown.iterrows()], report)
    axes.set_xlim(left=0)
    axes.set_xlabel("step time (ms), maximum over ranks")
    axes.set_title(f"Steps: median, 25–75 % box, 5–95 % line ({_n(cells)})")
    _thousands(axes.xaxis)


def comparison(axes: Axes, found: list[dict[str, Any]]) -> None:
    """B over A of every comparison: each pair, the mean with its interval, and what A against A shows by itself."""
    shown = [c for c in found if c["estimate"]]
    if not shown:
        _empty(axes, "no comparison has an estimate")
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


CHARTS: dict[str, Callable[[Axes, pd.DataFrame, pd.DataFrame, dict], None]] = {
    "ranking": ranking,
    "throughput": throughput,
    "speedup": speedup,
    "step_time": step_time,
}
ROW = {"ranking": 0.3, "step_time": 0.5}  # inches that a cell takes in charts with a row for each


def draw(name: str, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any], folder: Path) -> None:
    """Write `folder`/`name`.svg and .png; the same data makes the same bytes."""
    rows = max(3, int((cells["n"] > 0).sum()))
    height = 1.4 + ROW[name] * rows if name in ROW else 4.0
    _write(folder / name, height, lambda axes: CHARTS[name](axes, runs, cells, report))


def draw_comparison(found: list[dict[str, Any]], folder: Path) -> None:
    """Write `folder`/comparison.svg and .png from the entries of comparison.json."""
    _write(folder / "comparison", 1.4 + 0.8 * max(1, len(found)), lambda axes: comparison(axes, found))


def _write(path: Path, height: float, fill: Callable[[Axes], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, height))
        axes = figure.subplots()
        fill(axes)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            columns = min(4 if len(handles) == 4 else 3, len(handles))
            figure.set_figheight(height + 0.25 * -(-len(handles) // columns))
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=150, metadata={"Software": None})


def _line(axes: Axes, i: int, of: int, label: str, points: list[dict], key: str) -> list[float]:
    """One series with its intervals, a little beside the others; returns where its points stand."""
    x = [p["devices"] * 2 ** (BESIDE * (i - (of - 1) / 2)) for p in points]
    y = [p[key]["value"] for p in points]
    bounds = [(p[key]["low"], p[key]["high"]) for p in points]
    below = [0 if low is None else v - low for v, (low, _) in zip(y, bounds, strict=True)]
    above = [0 if high is None else high - v for v, (_, high) in zip(y, bounds, strict=True)]
    style = {"fmt": f"{MARKERS[i % 8]}-", "color": COLOURS[i % 8], "capsize": 4, "lw": 1.4}
    axes.errorbar(x, y, yerr=[below, above], label=label, **style)
    for xi, yi, point in zip(x, y, points, strict=True):
        if point["findings"]:  # a number with a finding never stands alone
            axes.annotate("!", (xi, yi), xytext=(6, 4), textcoords="offset points", color=ALARM, weight="bold")
    if any(p["findings"] for p in points) and "! has a finding" not in axes.get_legend_handles_labels()[1]:
        axes.add_line(Line2D([], [], ls="", marker="$!$", color=ALARM, label="! has a finding"))
    return x


def _ideal(axes: Axes, devices: list[int], values: list[float]) -> None:
    if len(devices) > 1:
        axes.plot(devices, values, "--", color="0.5", lw=1, zorder=0, label="ideal")


def _devices(series: list[dict]) -> list[int]:
    return sorted({p["devices"] for s in series for p in s["runs"].values()})


def _device_axis(axes: Axes, devices: list[int]) -> None:
    axes.set_xlabel("devices")
    axes.set_xscale("log", base=2)
    axes.set_xticks(devices, [str(d) for d in devices])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(devices[0] / 1.35, devices[-1] * 1.35)
    _thousands(axes.yaxis)


def _headroom(axes: Axes, values: list[float]) -> None:
    axes.set_ylim(bottom=0)
    if axes.get_ylim()[1] > HEADROOM * max(values):
        axes.set_ylim(0, HEADROOM * max(values))


def _rows(axes: Axes, shown: pd.DataFrame, labels: Any, report: dict) -> None:
    """A row for each cell; the name of one whose numbers have a finding is marked."""
    marked = {p["cell"] for s in report["series"] for p in s["runs"].values() if p["findings"]}
    labels = [f"! {text}" if cell in marked else text for text, cell in zip(labels, shown["cell"], strict=True)]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    for label, cell in zip(axes.get_yticklabels(), shown["cell"], strict=True):
        if cell in marked:
            label.set_color(ALARM)


def _thousands(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.10g}"))


def _empty(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color="0.4")
    axes.set_axis_off()


def _n(cells: pd.DataFrame) -> str:
    counts = sorted({int(n) for n in cells["n"] if n})
    return f"n={counts[0]}" if len(counts) == 1 else f"n={counts[0]}–{counts[-1]}" if counts else "n=0"
