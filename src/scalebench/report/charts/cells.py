"""Charts with a row for each cell: what a step, a job, the memory, the load and a token cost."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from scalebench.report.charts.style import colour, empty, fastest_cells, rows, thousands

# What a job's time is spent on, first to last: column of cells.csv -> name, grey level.
PARTS = {"startup_s": ("start-up", "0.75"), "warmup_s": ("warm-up", "0.5"), "window_s": ("timed window", None)}


def step_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Step times of each cell: 5 to 95 % as a line, 25 to 75 % as a box, the median as a stroke."""
    shown, said = _measured(axes, cells)
    for i, row in shown.iterrows():
        values = [row[f"step_time_p{p}_s"] * 1e3 for p in ("05", "25", "50", "75", "95")]
        axes.plot([values[0], values[4]], [i, i], "-", color=colour(row["strategy"]), lw=1.5)
        axes.barh(i, values[3] - values[1], left=values[1], height=0.5, color=colour(row["strategy"]), alpha=0.45)
        axes.plot([values[2]] * 2, [i - 0.25, i + 0.25], "-", color="black", lw=2)
    labels = [f"{row['cell']}\n{row['steps']:.0f} steps" for _, row in shown.iterrows()]
    _finish(axes, shown, labels, report, "step time (ms), maximum over ranks")
    axes.set_title(f"Steps: median, 25–75 % box, 5–95 % line ({said})")


def job_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Where the wall time of a run goes: start-up, warm-up, window; medians over runs."""
    shown, said = _measured(axes, cells)
    for i, row in shown.iterrows():
        left = 0.0
        for name, (label, grey) in PARTS.items():
            axes.barh(i, row[name], left=left, height=0.55, color=grey or colour(row["strategy"]), alpha=1 if grey else 0.6,
                      label=label if i == 0 and grey else None)  # fmt: skip
            left += row[name]
    _finish(axes, shown, shown["cell"], report, "wall time of a run (s), median; in colour: the window")
    axes.set_title(f"Start-up, warm-up and window ({said})")


def memory(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Weights, gradients and optimizer state on the fullest device, beside the formula; on GPUs the peak of everything."""
    shown, said = _measured(axes, cells)
    for i, row in shown.iterrows():
        if pd.notna(row["max_cuda_mem_allocated_bytes"]):
            axes.barh(
                i, row["max_cuda_mem_allocated_bytes"] / 1e6, height=0.55, color=colour(row["strategy"]), alpha=0.25
            )
        axes.barh(i, row["state_bytes"] / 1e6, height=0.55, color=colour(row["strategy"]), alpha=0.6)
        axes.plot([row["state_bytes_predicted"] / 1e6] * 2, [i - 0.36, i + 0.36], "-", color="black", lw=2,
                  label="by the formula of the ZeRO paper" if i == 0 else None)  # fmt: skip
    peak = " (dark), peak allocated (light)" if shown["max_cuda_mem_allocated_bytes"].notna().any() else ""
    _finish(axes, shown, shown["cell"], report, f"state{peak} on the fullest device (MB)")
    axes.set_title(f"Memory: measured and predicted ({said})")


def utilization(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """How busy the devices were in the window, and on a known GPU which part of its peak the model's arithmetic is."""
    shown, said = _measured(axes, cells)
    axes.barh(
        shown.index, 100 * shown["device_load"], height=0.55, color=[colour(s) for s in shown["strategy"]], alpha=0.5
    )
    known = shown[shown["mfu"].notna()]
    axes.plot(
        100 * known["mfu"],
        known.index,
        "D",
        ms=5,
        color="black",
        label="model FLOPs utilization" if len(known) else None,
    )
    _finish(axes, shown, shown["cell"], report, "busy (%): GPU by NVML; on a CPU, cores used of cores given")
    axes.set_title(f"Utilization in the window ({said})")


def energy(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Energy of all devices per token, in the window."""
    shown, said = _measured(
        axes, cells[cells["joules_per_token"].notna()], "no device with an energy counter that can be trusted"
    )
    axes.barh(
        shown.index,
        1e3 * shown["joules_per_token"],
        height=0.55,
        color=[colour(s) for s in shown["strategy"]],
        alpha=0.5,
    )
    for i, row in shown.iterrows():
        values = 1e3 * runs.loc[(runs["cell"] == row["cell"]) & (runs["status"] == "ok"), "joules_per_token"]
        axes.plot(values, [i] * len(values), "o", ms=4, mew=0.6, mec="white", color="0.25")
    _finish(axes, shown, shown["cell"], report, "energy (mJ/token), devices only")
    axes.set_title(f"Energy per token; dots: runs ({said})")


def _measured(axes: Axes, cells: pd.DataFrame, why: str = "no measured runs") -> tuple[pd.DataFrame, str]:
    shown, said = fastest_cells(cells)
    if shown.empty:
        empty(axes, why)
    return shown, said


def _finish(axes: Axes, shown: pd.DataFrame, labels: Any, report: dict[str, Any], unit: str) -> None:
    if shown.empty:
        return
    rows(axes, shown, labels, report)
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
    thousands(axes.xaxis)
