"""The charts of traces (profiles of some steps of a cell), drawn from traces.json and timeline.csv alone.

What is unknown is written, never drawn as 0.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import COLOURS, SMALL, label_rows, tip, write_chart, write_empty
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
MOST_RANKS = 16
LONGEST = 30  # characters of a kernel's name


def communication(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw communication per step and rank in ms, by cell: all of it, and what is exposed."""
    traced = report.ok
    if not traced:
        write_empty(axes, "no cell has a trace")
        return
    for i, trace in enumerate(traced):
        if trace.communication_ms is None or trace.exposed_ms is None:
            _write_unknown(axes, i)
            continue
        total, exposed = (None, None) if axes.containers else ("total", "exposed")  # in the legend once
        (bar,) = axes.barh(i - 0.2, trace.communication_ms, height=0.36, color=SKY, label=total)
        tip(bar, f"{trace.cell}: communication {number(trace.communication_ms, 4)} ms per step")
        (bar,) = axes.barh(i + 0.2, trace.exposed_ms, height=0.36, label=exposed, **_bar_style(ORANGE, "//"))
        tip(bar, f"{trace.cell}: exposed {number(trace.exposed_ms, 4)} ms per step")
    _label_cells(axes, traced)
    axes.set_xlabel("communication per step and rank (ms, under the profiler)")
    axes.set_title("Communication: all, and exposed")


def steps(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw where a step goes in ms, by cell: computing, exposed communication, idle."""
    traced = report.ok
    if not traced:
        write_empty(axes, "no cell has a trace")
        return
    for i, trace in enumerate(traced):
        if trace.compute_ms is None:
            _write_unknown(axes, i)
            continue
        left = 0.0
        for name, (what, colour, hatch) in PARTS.items():
            ms = getattr(trace, name)
            (bar,) = axes.barh(i, ms, left=left, height=0.6, **_bar_style(colour, hatch))
            tip(bar, f"{trace.cell}: {what} {number(ms, 4)} ms per step")
            left += ms
        if trace.overhead:
            timed = trace.overhead.timed_step_ms
            label = None if axes.lines else "step of the timed runs"
            axes.plot([timed] * 2, [i - 0.38, i + 0.38], "-", color=BLACK, lw=2, label=label)
    for label, colour, hatch in PARTS.values():
        _legend_entry(axes, label, colour, hatch)
    _label_cells(axes, traced)
    axes.set_xlabel("time per step and rank (ms, under the profiler)")
    axes.set_title("Where a step goes")


def kernels(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw the kernels (on a CPU: operators) that take most, of the first traced cell that has any."""
    traced = next((trace for trace in report.ok if trace.kernels_top), None)
    if not traced:
        write_empty(axes, "no trace holds kernels")
        return
    top = traced.kernels_top
    for i, kernel in enumerate(top):
        colour = CLASSES.get(kernel.kind, ORANGE)
        hatch = "//" if kernel.kind == "communication" else ""
        (bar,) = axes.barh(i, kernel.total_ms, height=0.65, **_bar_style(colour, hatch))
        tip(bar, f"{kernel.name}: {number(kernel.total_ms, 4)} ms per step and rank")
    names = [kernel.name if len(kernel.name) <= LONGEST else f"{kernel.name[: LONGEST - 1]}…" for kernel in top]
    label_rows(axes, names, above=0.5, fontsize=SMALL)
    axes.set_xlabel("sum per step and rank (ms, under the profiler)")
    axes.set_title(f"Largest {'operators' if traced.device == 'cpu' else 'kernels'} of {traced.cell}")
    for kind in dict.fromkeys(kernel.kind for kernel in top):
        _legend_entry(axes, kind, CLASSES.get(kind, ORANGE), "//" if kind == "communication" else "")


def timeline(axes: Axes, report: TracesReport, spans: dict[str, pd.DataFrame]) -> None:
    """Draw one step over ranks, from `spans` (timeline.csv of each cell): program, computing, communication."""
    rows = [(trace.cell, rank) for trace in report.ok if len(spans[trace.cell]) for rank in trace.ranks][:MOST_RANKS]
    if not rows:
        write_empty(axes, "no trace has steps")
        return
    lanes = {"program": (-0.4, 0.2), "compute": (-0.19, 0.28), "communication": (0.1, 0.28)}  # offset in a row, height
    legend: dict[str, tuple[str, str]] = {}  # label -> colour, hatch
    for i, (cell, rank) in enumerate(rows):
        rank_spans = spans[cell][spans[cell]["rank"] == rank]
        for lane, what, start, end in rank_spans[["lane", "what", "start_ms", "end_ms"]].itertuples(index=False):
            offset, height = lanes[lane]
            colour = PHASES[what] if lane == "program" else CLASSES.get(what, ORANGE)
            hatch = HATCHES.get(what, "//" if lane == "communication" else "")
            axes.barh(i + offset, end - start, left=start, height=height, align="edge", **_bar_style(colour, hatch))
            label = f"{what} (program)" if lane == "program" else what
            legend.setdefault(label, (colour, hatch))
    for label, (colour, hatch) in legend.items():
        _legend_entry(axes, label, colour, hatch)
    label_rows(axes, [f"{cell}\nrank {rank}" for cell, rank in rows], above=0.5, fontsize=SMALL)
    axes.set_xlim(left=0)
    axes.set_xlabel("time in step (ms, under the profiler)")
    axes.set_title("One step: program, computing, communication")


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
    if name == "trace-kernels":  # a row for each kernel of a trace
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


def _label_cells(axes: Axes, traced: Sequence[CellTrace]) -> None:
    """Label a row for each traced cell, the first one on top; times begin at 0."""
    label_rows(axes, [trace.cell for trace in traced])
    axes.set_xlim(left=0)


def _write_unknown(axes: Axes, row: int) -> None:
    """Write into a row without a figure that it is unknown."""
    text, across = " unknown: the trace does not say", axes.get_yaxis_transform()
    axes.text(0.01, row, text, va="center", transform=across, color="0.35", fontsize=SMALL)
