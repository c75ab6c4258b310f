"""Charts with a row for each cell: its rate, and what a step, a job, the memory, the load and a token cost."""

# All charts have the same parameters; some do not use `runs`.

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
    # An interval may be cut off here, a dot of a run never.
    chart_end = max(style.HEADROOM * cells["tokens_per_s"].max(), 1.03 * runs["tokens_per_s"].max())
    rates = style.values_by_cell(runs, "tokens_per_s")
    for i, row in enumerate(cells.to_dict("records")):
        _draw_ranked_cell(axes, i, row, rates.get(row["cell"], []), chart_end)
    letters = {entry.cell: entry.letters for group in report.ranking for entry in group.cells}
    labels = [f"{cell}  {letters[cell]}" if letters.get(cell) else cell for cell in cells["cell"]]
    style.label_cells(axes, cells, labels, report)
    is_cut_off = axes.get_xlim()[1] > chart_end
    axes.set_xlim(0, chart_end if is_cut_off else None)
    axes.set_xlabel("throughput (tokens/s)")
    axes.set_title(f"Throughput of all cells ({title})")


def _draw_ranked_cell(axes: Axes, i: int, row: dict[str, Any], values: list[float], chart_end: float) -> None:
    """Draw the bar of one cell in row `i` with its interval and its runs.

    `row`: the cell's row of cells.csv. `values`: tokens/s of each run. A longer interval than `chart_end` ends in an
    arrow.
    """
    (bar,) = axes.barh(i, row["tokens_per_s"], height=0.55, **style.bar_style(style.colour(row["strategy"])))
    rate = _rate_of_row(row)
    if rate.low is not None and rate.high is not None:
        axes.plot([rate.low, min(rate.high, chart_end)], [i, i], "|-", color="black", ms=9, lw=1.2)
        if rate.high > chart_end:
            axes.plot([chart_end], [i], ">", color="black", ms=7, clip_on=False, zorder=6)
    style.tip(bar, style.hover_text(row["cell"], rate, "tokens/s"))
    for repeat, value in enumerate(values, 1):
        (dot,) = axes.plot([value], [i + 0.17], **style.DOT)  # below the interval, which is at i
        style.tip(dot, f"{row['cell']}, run {repeat} of {len(values)}: {number(value, 4)} tokens/s")


def _rate_of_row(row: dict[str, Any]) -> Estimated:
    """Return tokens/s of a cell's row of cells.csv, with the interval where it has one."""
    low, high = row["tokens_per_s_low"], row["tokens_per_s_high"]
    if pd.isna(low):
        low = high = None
    return Estimated(value=row["tokens_per_s"], low=low, high=high, n=int(row["n"]))


# What a job's time is spent on, first to last: column of cells.csv -> (name, grey). The window has a strategy's colour.
PARTS = {"startup_s": ("start-up", "0.55"), "warmup_s": ("warm-up", "0.25"), "window_s": ("timed window", None)}
REST = "after the window"  # validation, and what it takes to end
OUTSIDE = "outside of the window"  # of a program whose start-up and warm-up nobody tells apart from its end
REST_LOOK: dict[str, Any] = {"color": "white", "edgecolor": "0.35", "lw": 1.2, "hatch": "////", "hatchcolor": "0.6"}


def step_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw step times of `cells` (cells.csv): 5 to 95 % as a line, 25 to 75 % as a box, the median as a stroke."""
    cells, title = _measured_cells(axes, cells)
    rows = cells.to_dict("records")
    for i, row in enumerate(rows):
        if row["steps"]:  # else the program ended within its warm-up, or was timed as a whole
            _draw_step_times(axes, i, row)
    counts = [_steps_text(row) for row in rows]
    are_equal = len(set(counts)) == 1  # then the title has the number, not each label
    title += f", {counts[0]} per cell" if are_equal else ""
    labels = [row["cell"] if are_equal else f"{row['cell']}\n{count}" for row, count in zip(rows, counts, strict=True)]
    _label_rows(axes, cells, labels, report, "step time (ms), maximum over ranks")
    axes.set_title(f"Step times ({title})")


def _draw_step_times(axes: Axes, i: int, row: dict[str, Any]) -> None:
    """Draw the step times of one cell in row `i`. `row`: the cell's row of cells.csv."""
    p05, p25, p50, p75, p95 = (row[f"step_time_p{percent:02}_s"] * 1e3 for percent in (5, 25, 50, 75, 95))  # ms
    shade = style.colour(row["strategy"])
    axes.plot([p05, p95], [i, i], "-", color=shade, lw=1.5)
    (box,) = axes.barh(i, p75 - p25, left=p25, height=0.5, **style.bar_style(shade))
    axes.plot([p50, p50], [i - 0.25, i + 0.25], "-", color="black", lw=2)
    quartiles = f"25-75 %: {number(p25, 4)}-{number(p75, 4)} ms"
    style.tip(box, f"{row['cell']}: median {number(p50, 4)} ms; {quartiles}; {_steps_text(row)}")


def _steps_text(row: dict[str, Any]) -> str:
    """Return the number of timed steps of a cell; a program may print a line for each, or for one in twenty."""
    return f"{fixed(row['steps'], 0)} {'printed lines' if row['evidence'] == 'printed' else 'steps'}"


def job_time(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw where the wall time of a run goes: start-up, warm-up, window, and what follows; medians over a cell's runs.

    A bar ends at the median wall time of the whole run, of which a speed-up by wall time is made. `cells`: cells.csv.
    """
    cells, title = _measured_cells(axes, cells)
    parts = {name: look for name, look in PARTS.items() if cells[name].notna().any()}
    # Without start-up and warm-up the rest is all that is outside of the window.
    rest_label = REST if len(parts) == len(PARTS) else OUTSIDE
    for i, row in enumerate(cells.to_dict("records")):
        _draw_job(axes, i, row, parts, rest_label)
    if len(cells):  # entries of the legend are bars of no length
        for label, grey in parts.values():
            if grey:
                axes.barh(0, 0, label=label, **_part_look(label, grey))
            else:  # the window's bar is empty, because its colours differ
                axes.barh(0, 0, label=f"{label} (coloured)", **style.bar_style("black", 0))
        axes.barh(0, 0, label=rest_label, **REST_LOOK)
    _label_rows(axes, cells, cells["cell"], report, "wall time of a run (s), median")
    axes.set_title(f"Time of a whole run ({title})")


def _draw_job(axes: Axes, i: int, row: dict[str, Any], parts: dict[str, tuple[str, str | None]], rest: str) -> None:
    """Draw the time of one cell's run in row `i`: first its `parts` (of PARTS), then the time left, called `rest`."""
    cell = row["cell"]
    begin_s = 0.0  # of the next part
    for name, (label, grey) in parts.items():
        if pd.notna(row[name]):
            look = _part_look(label, grey or style.colour(row["strategy"]))
            (part,) = axes.barh(i, row[name], left=begin_s, height=0.55, **look)
            style.tip(part, f"{cell}, {label}: {number(row[name], 4)} s")
            begin_s += row[name]
    total_s = row["total_wall_time_s"]
    if total_s > begin_s:  # not where it is unknown (NaN)
        rest_s = total_s - begin_s
        (part,) = axes.barh(i, rest_s, left=begin_s, height=0.55, **REST_LOOK)
        style.tip(part, f"{cell}, {rest}: {number(rest_s, 4)} s; in all {number(total_s, 4)} s")


def _part_look(label: str, shade: str) -> dict[str, Any]:
    """Return how the bar of a part of a job looks, as options of a plot; the start-up is lighter than the rest."""
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
        # A vertical stroke across the bar.
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
    with_mfu = cells[cells["mfu"].notna()]
    label = "model FLOPs utilization" if len(with_mfu) else None
    # The index of a cell in the frame is its row in the chart.
    axes.plot(100 * with_mfu["mfu"], with_mfu.index, "D", ms=5, color="black", label=label)
    _label_rows(axes, cells, cells["cell"], report, "busy (%): GPU by NVML, CPU by cores")
    axes.set_title(f"Utilization in the window ({title})")


def energy(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw the energy of devices per token in the window: `cells` (cells.csv) as bars, `runs` as dots."""
    with_energy = cells[cells["joules_per_token"].notna()]
    cells, title = _measured_cells(axes, with_energy, "no device with an energy counter that can be trusted")
    joules_of_cell = style.values_by_cell(runs, "joules_per_token")
    for i, row in enumerate(cells.to_dict("records")):
        millijoules = 1e3 * row["joules_per_token"]
        (bar,) = axes.barh(i, millijoules, height=0.55, **style.bar_style(style.colour(row["strategy"])))
        style.tip(bar, f"{row['cell']}: {number(millijoules, 4)} mJ/token")
        values = [1e3 * joules for joules in joules_of_cell.get(row["cell"], [])]
        axes.plot(values, [i] * len(values), **style.DOT)
    _label_rows(axes, cells, cells["cell"], report, "energy (mJ/token), devices only")
    axes.set_title(f"Energy per token ({title})")


def _measured_cells(axes: Axes, cells: pd.DataFrame, why: str = "no measured runs") -> tuple[pd.DataFrame, str]:
    """Return the measured cells that are drawn, and their number of runs for the title; without cells, write `why`."""
    drawn_cells, title = style.fastest_cells(cells)
    if drawn_cells.empty:
        style.write_empty(axes, why)
    return drawn_cells, title


def _label_rows(axes: Axes, cells: pd.DataFrame, labels: Any, report: ScalingReport, unit: str) -> None:
    """Label the rows of `cells`, from 0 on, and the axis below them, which is in `unit`; do nothing without cells."""
    if cells.empty:
        return
    style.label_cells(axes, cells, labels, report)
    axes.set_xlim(left=0)
    axes.set_xlabel(unit)
