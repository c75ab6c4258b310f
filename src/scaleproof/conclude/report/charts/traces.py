"""The charts of traces (profiles of some steps of a cell), drawn from traces.json and timeline.csv alone.

What is unknown is written, never drawn as 0. All charts have the same parameters; only `timeline` uses `spans`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import COLOURS, label_rows, tip, write_chart, write_empty
from scaleproof.ground.number_format import number
from scaleproof.ground.records.traces_report import CellTrace, TracesReport

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = COLOURS[:7]
WAIT = "#9C8D74"
# Parts of a step, in the order in which they are stacked; hatches tell them apart in grey. They are of lines only:
# one of dots is thousands of curves in an SVG.
PARTS = {
    "compute_ms": ("computing", BLUE, ""),
    "exposed_ms": ("exposed communication", ORANGE, "//"),
    "idle_ms": ("idle", WAIT, r"\\"),
}
CLASSES = {
    "gemm": BLUE,
    "attention": SKY,
    "elementwise": GREEN,
    "norm and loss": YELLOW,
    "optimizer": PINK,
    "memcpy": "#8C6D31",
    "unclassified": BLACK,
    "waiting": WAIT,
}
# What the program does, in its order; greys that are seen on a light page and, inverted, on a dark one.
PHASES = {"data": "#949494", "forward": "#949494", "backward": "#6F6F6F", "reduce": "#555555", "optimizer": "#333333"}
HATCHES = {"data": "||||", "waiting": r"\\"}
# Lane of the timeline -> (offset in the row of a rank, height).
LANES = {"program": (-0.4, 0.2), "compute": (-0.19, 0.28), "communication": (0.1, 0.28)}
MOST_RANKS = 16
LONGEST = 30  # characters of a kernel's name


def communication(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw communication per step and rank in ms, by cell: all of it, and what is exposed."""
    traces = report.ok
    if not traces:
        write_empty(axes, "no cell has a trace")
        return
    for i, trace in enumerate(traces):
        if trace.communication_ms is None or trace.exposed_ms is None:
            _write_unknown(axes, i)
            continue
        is_first = not axes.containers  # the legend has each label once
        label = "total" if is_first else None
        (bar,) = axes.barh(i - 0.2, trace.communication_ms, height=0.36, color=SKY, label=label)
        tip(bar, f"{trace.cell}: communication {number(trace.communication_ms, 4)} ms per step")
        label = "exposed" if is_first else None
        (bar,) = axes.barh(i + 0.2, trace.exposed_ms, height=0.36, label=label, **_bar_style(ORANGE, "//"))
        tip(bar, f"{trace.cell}: exposed {number(trace.exposed_ms, 4)} ms per step")
    _label_cells(axes, traces)
    axes.set_xlabel("communication per step and rank (ms, under the profiler)")
    axes.set_title("Communication: all, and exposed")


def steps(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw where a step goes in ms, by cell: computing, exposed communication, idle."""
    traces = report.ok
    if not traces:
        write_empty(axes, "no cell has a trace")
        return
    for i, trace in enumerate(traces):
        if trace.compute_ms is None:
            _write_unknown(axes, i)
            continue
        begin_ms = 0.0  # of the next part
        for name, (part, colour, hatch) in PARTS.items():
            ms = getattr(trace, name)
            (bar,) = axes.barh(i, ms, left=begin_ms, height=0.6, **_bar_style(colour, hatch))
            tip(bar, f"{trace.cell}: {part} {number(ms, 4)} ms per step")
            begin_ms += ms
        if trace.overhead:
            timed_ms = trace.overhead.timed_step_ms
            label = None if axes.lines else "step of the timed runs"  # the legend has it once
            axes.plot([timed_ms, timed_ms], [i - 0.38, i + 0.38], "-", color=BLACK, lw=2, label=label)
    for part, colour, hatch in PARTS.values():
        _legend_entry(axes, part, colour, hatch)
    _label_cells(axes, traces)
    axes.set_xlabel("time per step and rank (ms, under the profiler)")
    axes.set_title("Where a step goes")


def kernels(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw the longest kernels (on a CPU: operators) of the first traced cell that has kernels."""
    trace = next((trace for trace in report.ok if trace.kernels_top), None)
    if not trace:
        write_empty(axes, "no trace holds kernels")
        return
    for i, kernel in enumerate(trace.kernels_top):
        (bar,) = axes.barh(i, kernel.total_ms, height=0.65, **_bar_style(*_look_of_kind(kernel.kind)))
        tip(bar, f"{kernel.name}: {number(kernel.total_ms, 4)} ms per step and rank")
    names = [kernel.name for kernel in trace.kernels_top]
    labels = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    label_rows(axes, labels, above=0.5)
    for kind in dict.fromkeys(kernel.kind for kernel in trace.kernels_top):
        _legend_entry(axes, kind, *_look_of_kind(kind))
    axes.set_xlabel("sum per step and rank (ms, under the profiler)", loc="right")  # long names leave no room
    subject = "operators" if trace.device == "cpu" else "kernels"
    axes.set_title(f"Largest {subject} of {trace.cell}")


def _look_of_kind(kind: str) -> tuple[str, str]:
    return CLASSES.get(kind, ORANGE), "//" if kind == "communication" else ""


def timeline(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw one step over ranks, from `spans` (timeline.csv of each cell): program, computing, communication."""
    traces_with_steps = [trace for trace in report.ok if len(spans[trace.cell])]
    rows = [(trace.cell, rank) for trace in traces_with_steps for rank in trace.ranks][:MOST_RANKS]
    if not rows:
        write_empty(axes, "no trace has steps")
        return
    legend: dict[str, tuple[str, str]] = {}  # label -> (colour, hatch)
    for i, (cell, rank) in enumerate(rows):
        rank_spans = spans[cell][spans[cell]["rank"] == rank]
        for lane, activity, start, end in rank_spans[["lane", "what", "start_ms", "end_ms"]].itertuples(index=False):
            offset, height = LANES[lane]
            label, colour, hatch = _look_of_span(lane, activity)
            axes.barh(i + offset, end - start, left=start, height=height, align="edge", **_bar_style(colour, hatch))
            legend.setdefault(label, (colour, hatch))
    for label, (colour, hatch) in legend.items():
        _legend_entry(axes, label, colour, hatch)
    label_rows(axes, [f"{cell}\nrank {rank}" for cell, rank in rows], above=0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("time in step (ms, under the profiler)")
    axes.set_title("One step: program, computing, communication")


def _look_of_span(lane: str, activity: str) -> tuple[str, str, str]:
    if lane == "program":
        return f"{activity} (program)", PHASES[activity], HATCHES.get(activity, "")
    default_hatch = "//" if lane == "communication" else ""
    return activity, CLASSES.get(activity, ORANGE), HATCHES.get(activity, default_hatch)


CHARTS: dict[str, Callable[[Axes, TracesReport, dict[str, pd.DataFrame]], None]] = {
    "trace-timeline": timeline,
    "trace-communication": communication,
    "trace-steps": steps,
    "trace-kernels": kernels,
}
ROW = {"trace-timeline": 0.85, "trace-communication": 0.6, "trace-steps": 0.6, "trace-kernels": 0.3}  # inches a row


def draw_trace(name: str, report: TracesReport, spans: dict[str, pd.DataFrame], folder: Path) -> None:
    """Write the chart `name` as `folder`/`name`.svg and .png. `spans`: timeline.csv of each cell."""
    rows = len(report.ok)
    if name == "trace-kernels":  # a trace lists its 10 largest kernels
        rows = 10
    elif name == "trace-timeline":
        rows = min(MOST_RANKS, sum(len(trace.ranks) for trace in report.ok))
    write_chart(folder / name, 1.6 + ROW[name] * max(1, rows), lambda axes: CHARTS[name](axes, report, spans))


def _legend_entry(axes: Axes, label: str, colour: str, hatch: str) -> None:
    """Draw an entry of the legend: a bar of no length."""
    axes.barh(0, 0, label=label, **_bar_style(colour, hatch))


def _bar_style(colour: str, hatch: str) -> dict[str, Any]:
    """Return how a bar of a part of a step looks, as options of a plot; `hatch` is drawn in white."""
    return {"color": colour, "hatch": hatch, "hatchcolor": "white", "edgecolor": colour, "lw": 0}


def _label_cells(axes: Axes, traces: Sequence[CellTrace]) -> None:
    """Label a row for each traced cell, the first one on top; times begin at 0."""
    label_rows(axes, [trace.cell for trace in traces])
    axes.set_xlim(left=0)


def _write_unknown(axes: Axes, row: int) -> None:
    text = " unknown: the trace does not say"
    across_axes = axes.get_yaxis_transform()  # x as a share of the width
    axes.text(0.01, row, text, va="center", transform=across_axes, color="0.35")
