"""The table of a campaign's traces."""

from typing import Any

from scalebench.report.number_format import estimate, number

# Column -> entry of traces.json, milliseconds per step and rank.
PARTS = {"step": "wall_ms", "computing": "compute_ms", "communication": "communication_ms", "exposed": "exposed_ms",
         "of it waiting": "wait_ms", "neither": "idle_ms"}  # fmt: skip


def trace_rows(report: dict[str, Any]) -> list[dict[str, str]]:
    """A row a traced cell, as text; "unknown" where the trace does not carry a figure."""
    rows = []
    for t in report["traces"]:
        if t["status"] != "ok":
            continue
        times = {f"{name} (ms)": "unknown" if t[key] is None else number(t[key]) for name, key in PARTS.items()}
        slowed = t["overhead"]
        rows.append(
            {"cell": t["cell"], "traced with": t["tool"], "steps": str(t["steps"] or "unknown")}
            | times
            | {"times slower than untraced": estimate(slowed) if slowed else "unknown", "file": t["file"]}
        )
    return rows
