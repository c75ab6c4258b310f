"""Charts with a row for each cell: what a step, a job, the memory, the load and a token cost."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from scalebench.report.charts.style import DOT, colour, empty, fastest_cells, rows, thousands, tip
from scalebench.report.number_format import number

# What a job's time is spent on, first to last: column of cells.csv -> name, grey level.
PARTS = {"startup_s": ("start-up", "0.75"), "warmup_s": ("warm-up", "0.5"), "window_s": ("timed window", None)}


def step_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Step times of each cell: 5 to 95 % as a line, 25 to 75 % as a box, the median as a stroke."""
    cells, title = _measured(axes, cells)
    for i, row in enumerate(cells.to_dict("records")):
        low, first, median, third, high = (row[f"step_time_p{p}_s"] * 1e3 for p in ("05", "25", "50", "75", "95"))
        axes.plot([low, high], [i, i], "-", color=colour(row["strategy"]), lw=1.5)
        (box,) = axes.barh(i, third - first, left=first, height=0.5, color=colour(row["strategy"]), alpha=0.45)
        axes.plot([median] * 2, [i - 0.25, i + 0.25], "-", color="black", lw=2)
        quartiles = f"25 to 75 %: {number(first, 4)} to {number(third, 4)} ms"
        tip(box, f"{row['cell']}: median {number(median, 4)} ms; {quartiles}; {row['steps']:.0f} steps")
    labels = [f"{row['cell']}\n{row['steps']:.0f} steps" for row in cells.to_dict("records")]
    _finish(axes, cells, labels, report, "step time (ms), maximum over ranks")
    axes.set_title(f"Steps: median, 25–75 % box, 5–95 % line ({title})")


def job_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Where the wall time of a run goes: start-up, warm-up, window; medians over runs."""
    cells, title = _measured(axes, cells)
    for i, row in enumerate(cells.to_dict("records")):
        left = 0.0
        for name, (label, grey) in PARTS.items():
            shade, alpha = (grey, 1.0) if grey else (colour(row["strategy"]), 0.6)
            key = label if i == 0 and grey else None
            (part,) = axes.barh(i, row[name], left=left, height=0.55, color=shade, alpha=alpha, label=key)
            tip(part, f"{row['cell']}, {label}: {number(row[name], 4)} s")
            left += row[name]
    _finish(axes, cells, cells["cell"], report, "wall time of a run (s), median; in colour: the window")
    axes.set_title(f"Start-up, warm-up and window ({title})")


def memory(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Weights, gradients and optimizer state on the fullest device beside the ZeRO model; on GPUs the peak as well."""
    cells, title = _measured(axes, cells)
    for i, row in enumerate(cells.to_dict("records")):
        shade = colour(row["strategy"])
        if pd.notna(row["max_cuda_mem_allocated_bytes"]):
            peak_mb = row["max_cuda_mem_allocated_bytes"] / 1e6
            (peak,) = axes.barh(i, peak_mb, height=0.55, color=shade, alpha=0.25)
            tip(peak, f"{row['cell']}: peak {number(peak_mb, 4)} MB allocated")
        state_mb, model_mb = row["state_bytes"] / 1e6, row["state_bytes_predicted"] / 1e6
        (state,) = axes.barh(i, state_mb, height=0.55, color=shade, alpha=0.6)
        tip(state, f"{row['cell']}: state {number(state_mb, 4)} MB, ZeRO model {number(model_mb, 4)} MB")
        label = "ZeRO model" if i == 0 else None
        axes.plot([model_mb] * 2, [i - 0.36, i + 0.36], "-", color="black", lw=2, label=label)
    peaks = " (dark), peak allocated (light)" if cells["max_cuda_mem_allocated_bytes"].notna().any() else ""
    _finish(axes, cells, cells["cell"], report, f"state{peaks} on the fullest device (MB)")
    axes.set_title(f"Memory: measured and predicted ({title})")


def utilization(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """How busy the devices were in the window, and on a known GPU which part of its peak the model's FLOPs are."""
    cells, title = _measured(axes, cells)
    for i, row in enumerate(cells.to_dict("records")):
        (bar,) = axes.barh(i, 100 * row["device_load"], height=0.55, color=colour(row["strategy"]), alpha=0.5)
        tip(bar, f"{row['cell']}: {100 * row['device_load']:.3g} % busy")
    known = cells[cells["mfu"].notna()]
    label = "model FLOPs utilization" if len(known) else None
    axes.plot(100 * known["mfu"], known.index, "D", ms=5, color="black", label=label)
    _finish(axes, cells, cells["cell"], report, "busy (%): GPU by NVML; on a CPU, cores used of cores given")
    axes.set_title(f"Utilization in the window ({title})")


def energy(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: dict[str, Any]) -> None:
    """Energy of all devices per token, in the window."""
    counted = cells[cells["joules_per_token"].notna()]
    cells, title = _measured(axes, counted, "no device with an energy counter that can be trusted")
    for i, row in enumerate(cells.to_dict("records")):
        millijoules = 1e3 * row["joules_per_token"]
        (bar,) = axes.barh(i, millijoules, height=0.55, color=colour(row["strategy"]), alpha=0.5)
        tip(bar, f"{row['cell']}: {number(millijoules, 4)} mJ/token")
        values = 1e3 * runs.loc[(runs["cell"] == row["cell"]) & (runs["status"] == "ok"), "joules_per_token"]
        axes.plot(values, [i] * len(values), **DOT)
    _finish(axes, cells, cells["cell"], report, "energy (mJ/token), devices only")
    axes.set_title(f"Energy per token; dots: runs ({title})")


def _measured(axes: Axes, cells: pd.DataFrame, why: str = "no measured runs") -> tuple[pd.DataFrame, str]:
    drawn, title = fastest_cells(cells)
    if drawn.empty:
        empty(axes, why)
    return drawn, title


def _finish(axes: Axes, cells: pd.DataFrame, labels: Any, report: dict[str, Any], unit: str) -> None:
    if cells.empty:
        return
    rows(axes, cells, labels, report)
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
    thousands(axes.xaxis)
