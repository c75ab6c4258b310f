"""The table of a campaign's traces."""

from scaleproof.ground.number_format import estimate, number
from scaleproof.ground.records.traces_report import CellTrace, TracesReport

# Column -> entry of traces.json, milliseconds per step and rank.
PARTS = {
    "step": "wall_ms",
    "computing": "compute_ms",
    "exposed communication": "exposed_ms",
    "exposed waiting": "exposed_wait_ms",
    "idle": "idle_ms",
    "all communication": "communication_ms",
    "all waiting": "wait_ms",
}


def trace_rows(report: TracesReport) -> list[dict[str, str]]:
    """One row per traced cell, as text; "unknown" for a figure that the trace does not support."""
    return [_row(trace) for trace in report.ok]


def _row(trace: CellTrace) -> dict[str, str]:
    """Return a trace as text by heading."""
    parts = {name: getattr(trace, key) for name, key in PARTS.items()}
    times = {f"{name} (ms)": "unknown" if ms is None else number(ms) for name, ms in parts.items()}
    overhead = estimate(trace.overhead) if trace.overhead else "unknown"
    row = {"cell": trace.cell, "traced with": trace.tool or "unknown", "steps": str(trace.steps or "unknown")}
    return row | times | {"traced / untraced": overhead, "file": trace.file}
