"""Charts of scaling: against the number of devices, and cells beside each other."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from scalebench.report.charts.style import (
    HEADROOM,
    colour,
    device_axis,
    devices_of,
    empty,
    fastest_cells,
    fastest_series,
    headroom,
    ideal,
    line,
    rows,
    series_styles,
    thousands,
)


def throughput(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """tokens/s against devices: each run as a small dot, each cell with its interval, the ideal from the best baseline."""
    if not report["series"]:
        empty(axes, "no measured runs")
        return
    every, said = fastest_series(report["series"], cells)
    for i, (series, style) in enumerate(zip(every, series_styles(every), strict=True)):
        points = list(series["runs"].values())
        at = line(axes, i - (len(every) - 1) / 2, style, series["name"], points, "tokens_per_sec_global")
        for point, x in zip(points, at, strict=True):
            values = runs.loc[(runs["cell"] == point["cell"]) & (runs["status"] == "ok"), "tokens_per_s"]
            axes.plot([x] * len(values), values, "o", ms=3, mew=0, alpha=0.6, color=style["color"])
    first = [next(iter(s["runs"].values())) for s in every]
    best = max(p["tokens_per_sec_global"]["value"] / p["devices"] for p in first)
    devices = devices_of(every)
    ideal(axes, devices, [best * d for d in devices])
    axes.set_ylabel("throughput (tokens/s)")
    axes.set_title(f"Throughput; bars: 95 % interval, dots: runs ({said})")
    device_axis(axes, devices)
    headroom(
        axes, [best * devices[-1], *(p["tokens_per_sec_global"]["value"] for s in every for p in s["runs"].values())]
    )


def speedup(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Speed-up of each series over itself at its smallest world size, with the ideal line."""
    smallest = min((s["baseline_devices"] for s in report["series"] if s["kind"]), default=1)
    kinds = " and ".join(sorted({s["kind"] for s in report["series"] if s["kind"]})).capitalize()
    axes.set_ylabel(f"speed-up over {smallest} device{'s' if smallest > 1 else ''} (ratio of tokens/s)")
    _against_baseline(axes, cells, report, "speedup", f"{kinds} scaling", lambda devices: devices / smallest)


def efficiency(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Speed-up as a part of the ideal one, of each series over itself at its smallest world size."""
    axes.set_ylabel("efficiency (part of the ideal speed-up)")
    _against_baseline(axes, cells, report, "scaling_efficiency", "Scaling efficiency", lambda devices: 1.0)


def ranking(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """tokens/s of every cell, the fastest first: what differs between cells of one size is seen here, not on a line."""
    shown, said = fastest_cells(cells)
    shown = shown.sort_values("tokens_per_s", ascending=False).reset_index(drop=True)
    if shown.empty:
        empty(axes, "no measured runs")
        return
    for i, row in shown.iterrows():
        values = runs.loc[(runs["cell"] == row["cell"]) & (runs["status"] == "ok"), "tokens_per_s"]
        axes.barh(i, row["tokens_per_s"], height=0.55, color=colour(row["strategy"]), alpha=0.4)
        if pd.notna(row["tokens_per_s_low"]):
            axes.plot([row["tokens_per_s_low"], row["tokens_per_s_high"]], [i, i], "|-", color="black", ms=9, lw=1.2)
        axes.plot(values, [i] * len(values), "o", ms=4, mew=0.6, mec="white", color="0.25")
    rows(axes, shown, shown["cell"], report)
    most = max(HEADROOM * shown["tokens_per_s"].max(), 1.03 * runs["tokens_per_s"].max())
    axes.set_xlim(0, most if axes.get_xlim()[1] > most else None)
    axes.set_xlabel("throughput (tokens/s)")
    axes.set_title(f"All cells; black: 95 % interval, dots: runs ({said})")
    thousands(axes.xaxis)


def _against_baseline(
    axes: Axes, cells: pd.DataFrame, report: dict[str, Any], key: str, title: str, best: Callable[[int], float]
) -> None:
    """One line a series through its points that have a ratio, beside the `best` one; the baseline is 1 without an interval."""
    if not (scaled := [s for s in report["series"] if s["kind"]]):
        empty(axes, "no series with more than one size")
        return
    every, said = fastest_series(scaled, cells)
    base, values, devices = {"value": 1.0, "low": None, "high": None, "n": 0}, [], devices_of(every)
    for i, (series, style) in enumerate(zip(every, series_styles(every), strict=True)):
        points = [p | {key: p[key] or base} for p in series["runs"].values() if not p["incomparable"]]
        line(axes, i - (len(every) - 1) / 2, style, series["name"], points, key)
        values += [p[key]["value"] for p in points]
    ideal(axes, devices, [best(d) for d in devices])
    axes.set_title(f"{title}; bars: 95 % interval ({said})")
    device_axis(axes, devices)
    headroom(axes, [best(devices[-1]), *values])
