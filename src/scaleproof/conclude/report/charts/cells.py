"""Charts with a row for each cell: its rate, and what a step, a job, the memory, the load and a token cost."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report import chart_style as style
from scaleproof.ground.number_format import fixed, number
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingReport


def ranking(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw tokens/s of all `cells` (cells.csv) as bars, the fastest first, with runs (runs.csv) as dots."""
    cells, title = style.fastest_cells(cells)
    if cells.empty:
        style.write_empty(axes, "no measured runs")
        return
    most = max(style.HEADROOM * cells["tokens_per_s"].max(), 1.03 * runs["tokens_per_s"].max())
    rates = style.values_by_cell(runs, "tokens_per_s")
    for i, row in enumerate(cells.to_dict("records")):
        _draw_ranked_cell(axes, i, row, rates.get(row["cell"], []), most)
    letters = {entry.cell: entry.letters for group in report.ranking for entry in group.cells}
    labels = [f"{cell}  {letters[cell]}" if letters.get(cell) else cell for cell in cells["cell"]]
    style.label_cells(axes, cells, labels, report)
    axes.set_xlim(0, most if axes.get_xlim()[1] > most else None)
    axes.set_xlabel("throughput (tokens/s)")
    axes.set_title(f"Throughput of all cells ({title})")


def _draw_ranked_cell(axes: Axes, i: int, row: dict[str, Any], values: list[float], most: float) -> None:
    """Draw the bar of one cell in row `i` with its interval and its runs.

    `row`: of cells.csv. `values`: tokens/s of the runs. `most`: where the chart ends; a longer interval ends in
    an arrow.
    """
    (rate,) = axes.barh(i, row["tokens_per_s"], height=0.55, **style.bar_style(style.colour(row["strategy"])))
    interval = Estimated(value=row["tokens_per_s"], low=None, high=None, n=int(row["n"]))
    if pd.notna(row["tokens_per_s_low"]):
        low, high = row["tokens_per_s_low"], row["tokens_per_s_high"]
        interval.low, interval.high = low, high
        axes.plot([low, min(high, most)], [i, i], "|-", color="black", ms=9, lw=1.2)
        if high > most:
            axes.plot([most], [i], ">", color="black", ms=7, clip_on=False, zorder=6)
    style.tip(rate, style.hover_text(row["cell"], interval, "tokens/s"))
    for repeat, value in enumerate(values, 1):
        (dot,) = axes.plot([value], [i + 0.17], **style.DOT)
        style.tip(dot, f"{row['cell']}, run {repeat} of {len(values)}: {number(value, 4)} tokens/s")


# What a job's time is spent on, first to last: column of cells.csv -> name, grey; the window has its strategy's colour.
PARTS = {"startup_s": ("start-up", "0.55"), "warmup_s": ("warm-up", "0.25"), "window_s": ("timed window", None)}
REST = "after the window"  # validation, and what it takes to end
OUTSIDE = "outside of the window"  # of a program whose start-up and warm-up nobody tells apart from its end
REST_LOOK: dict[str, Any] = {"color": "white", "edgecolor": "0.35", "lw": 1.2, "hatch": "////", "hatchcolor": "0.6"}


def step_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw step times of `cells` (cells.csv): 5 to 95 % as a line, 25 to 75 % as a box, the median as a stroke."""
    cells, title = _measured_cells(axes, cells)
    for i, row in enumerate(cells.to_dict("records")):
        if not row["steps"]:  # of a program that ended within its warm-up, or was timed as a whole
            continue
        low, first, median, third, high = (row[f"step_time_p{p}_s"] * 1e3 for p in ("05", "25", "50", "75", "95"))
        axes.plot([low, high], [i, i], "-", color=style.colour(row["strategy"]), lw=1.5)
        (box,) = axes.barh(i, third - first, left=first, height=0.5, **style.bar_style(style.colour(row["strategy"])))
        axes.plot([median] * 2, [i - 0.25, i + 0.25], "-", color="black", lw=2)
        quartiles = f"25-75 %: {number(first, 4)}-{number(third, 4)} ms"
        style.tip(box, f"{row['cell']}: median {number(median, 4)} ms; {quartiles}; {fixed(row['steps'], 0)} steps")
    counts = [fixed(steps, 0) for steps in cells["steps"]]
    if len(set(counts)) == 1:  # then the title says it of all
        labels, title = list(cells["cell"]), f"{title}, {counts[0]} steps per cell"
    else:
        labels = [f"{cell}\n{steps} steps" for cell, steps in zip(cells["cell"], counts, strict=True)]
    _label_rows(axes, cells, labels, report, "step time (ms), maximum over ranks")
    axes.set_title(f"Step times ({title})")


def job_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw where the wall time of a run goes: start-up, warm-up, window, and what follows; medians over a cell's runs.

    A bar ends at the median wall time of the whole run, which a speed-up by wall time is made of. `cells`: cells.csv.
    """
    cells, title = _measured_cells(axes, cells)
    parts = {name: look for name, look in PARTS.items() if cells[name].notna().any()}
    rest_label = REST if len(parts) == len(PARTS) else OUTSIDE
    for i, row in enumerate(cells.to_dict("records")):
        _draw_job(axes, i, row, parts, rest_label)
    if len(cells):  # legend: bars of no length; the window's is empty, because its colours differ
        for label, grey in parts.values():
            look = _part_look(label, grey) if grey else style.bar_style("black", 0)
            axes.barh(0, 0, label=label if grey else f"{label} (coloured)", **look)
        axes.barh(0, 0, label=rest_label, **REST_LOOK)
    _label_rows(axes, cells, cells["cell"], report, "wall time of a run (s), median")
    axes.set_title(f"Time of a whole run ({title})")


def _draw_job(axes: Axes, i: int, row: dict[str, Any], parts: dict[str, tuple[str, str | None]], rest: str) -> None:
    """Draw the time of one cell's run in row `i`: its `parts` (of PARTS), then what is left, which is called `rest`."""
    cell, whole_s = row["cell"], row["total_wall_time_s"]
    begin = 0.0  # of the next part
    for name, (label, grey) in parts.items():
        if pd.notna(row[name]):
            look = _part_look(label, grey or style.colour(row["strategy"]))
            (part,) = axes.barh(i, row[name], left=begin, height=0.55, **look)
            style.tip(part, f"{cell}, {label}: {number(row[name], 4)} s")
            begin += row[name]
    if whole_s > begin:  # not where it is unknown (NaN)
        (part,) = axes.barh(i, whole_s - begin, left=begin, height=0.55, **REST_LOOK)
        style.tip(part, f"{cell}, {rest}: {number(whole_s - begin, 4)} s; in all {number(whole_s, 4)} s")


def _part_look(label: str, shade: str) -> dict[str, Any]:
    """Return how the bar of a part of a job looks, as options of a plot; the start-up is lighter."""
    return style.bar_style(shade, 0.25 if label == "start-up" else 0.6)


def memory(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw weights, gradients and optimizer state of `cells` (cells.csv) beside the ZeRO model; on GPUs also peaks."""
    cells, title = _measured_cells(axes, cells)
    for i, row in enumerate(cells.to_dict("records")):
        shade = style.colour(row["strategy"])
        if pd.notna(row["max_cuda_mem_allocated_bytes"]):
            peak_mb = row["max_cuda_mem_allocated_bytes"] / 1e6
            (peak,) = axes.barh(i, peak_mb, height=0.55, **style.bar_style(shade, 0.2))
            style.tip(peak, f"{row['cell']}: peak {number(peak_mb, 4)} MB allocated")
        state_mb, model_mb = row["state_bytes"] / 1e6, row["state_bytes_predicted"] / 1e6
        (state,) = axes.barh(i, state_mb, height=0.55, **style.bar_style(shade, 0.6))
        style.tip(state, f"{row['cell']}: state {number(state_mb, 4)} MB, ZeRO model {number(model_mb, 4)} MB")
        label = "ZeRO model" if i == 0 else None
        axes.plot([model_mb] * 2, [i - 0.36, i + 0.36], "-", color="black", lw=2, label=label)
    peaks = " (dark), peak allocated (light)" if cells["max_cuda_mem_allocated_bytes"].notna().any() else ""
    _label_rows(axes, cells, cells["cell"], report, f"state{peaks} on the fullest device (MB)")
    axes.set_title(f"Memory: measured and by the ZeRO model ({title})")


def utilization(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw how busy devices of `cells` (cells.csv) were in the window, and the MFU on a known GPU."""
    cells, title = _measured_cells(axes, cells)
    for i, row in enumerate(cells.to_dict("records")):
        (load,) = axes.barh(i, 100 * row["device_load"], height=0.55, **style.bar_style(style.colour(row["strategy"])))
        style.tip(load, f"{row['cell']}: {number(100 * row['device_load'], 4)} % busy")
    known = cells[cells["mfu"].notna()]
    label = "model FLOPs utilization" if len(known) else None
    axes.plot(100 * known["mfu"], known.index, "D", ms=5, color="black", label=label)
    _label_rows(axes, cells, cells["cell"], report, "busy (%): GPU by NVML, CPU by cores")
    axes.set_title(f"Utilization in the window ({title})")


def energy(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw the energy of devices per token in the window: of `cells` (cells.csv) as bars, of `runs` as dots."""
    counted = cells[cells["joules_per_token"].notna()]
    cells, title = _measured_cells(axes, counted, "no device with an energy counter that can be trusted")
    spent = style.values_by_cell(runs, "joules_per_token")
    for i, row in enumerate(cells.to_dict("records")):
        millijoules = 1e3 * row["joules_per_token"]
        (used,) = axes.barh(i, millijoules, height=0.55, **style.bar_style(style.colour(row["strategy"])))
        style.tip(used, f"{row['cell']}: {number(millijoules, 4)} mJ/token")
        values = [1e3 * joules for joules in spent.get(row["cell"], [])]
        axes.plot(values, [i] * len(values), **style.DOT)
    _label_rows(axes, cells, cells["cell"], report, "energy (mJ/token), devices only")
    axes.set_title(f"Energy per token ({title})")


def _measured_cells(axes: Axes, cells: pd.DataFrame, why: str = "no measured runs") -> tuple[pd.DataFrame, str]:
    """Return the measured cells that are drawn, and "n=3" and more for the title; without any, write `why`."""
    drawn, title = style.fastest_cells(cells)
    if drawn.empty:
        style.write_empty(axes, why)
    return drawn, title


def _label_rows(axes: Axes, cells: pd.DataFrame, labels: Any, report: ScalingReport, unit: str) -> None:
    """Label the rows of `cells`, from 0 on, and the axis below them, which is in `unit`. Nothing without cells."""
    if cells.empty:
        return
    style.label_cells(axes, cells, labels, report)
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
