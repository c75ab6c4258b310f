"""The largest entries of a trace, as earlier projects summarised them, and the bottleneck that they point to."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from scaleproof.measure.trace.events import Trace

LARGE_PERCENT = 20  # of all range time: gradients that take more are named as the likely bottleneck
Entry = dict[str, Any]


def entry(kind: str, name: str, percent: float | None, total_ns: int, raw: str = "") -> Entry:
    """One line of a summary. `percent`: its share of the total; `raw`: its line, where it is from a text report."""
    return {"kind": kind, "name": name, "time_percent": percent, "total_time": f"{total_ns} ns", "raw": raw}


def likely_bottleneck(nvtx: Iterable[Entry]) -> dict[str, Any]:
    """Whether a range around the all-reduce of gradients takes more than LARGE_PERCENT of the time, and which."""
    reductions = [line for line in nvtx if "allreduce_gradients" in line["name"]]
    large = [line for line in reductions if (line["time_percent"] or 0) > LARGE_PERCENT]
    verdict: dict[str, Any] = {"allreduce_gradients_over_20pct": bool(large)}
    if large:
        verdict["matched"] = {key: large[0][key] for key in ("name", "time_percent", "total_time")}
    return verdict


def top_entries(trace: Trace) -> dict[str, Any]:
    """The five largest ranges and calls of the operating system, as `nsys stats` shows them: sums of nested ranges."""
    ranges = trace.ranges.assign(total_ns=trace.ranges["end"] - trace.ranges["start"])
    summed = ranges.groupby("name", observed=True)["total_ns"].sum()
    host = trace.host[trace.host["kind"] == "osrt"].set_index("name")["total_ns"]
    nvtx = _largest("nvtx", summed)
    return {"nvtx_top5": nvtx, "osrt_top5": _largest("osrt", host), "likely_bottleneck": likely_bottleneck(nvtx)}


def _largest(kind: str, totals: pd.Series) -> list[Entry]:
    """The five largest of `totals` (name -> nanoseconds) as entries of `kind`; none where nothing took time."""
    total = int(totals.sum())
    if not total:
        return []
    largest = totals.nlargest(5)
    return [entry(kind, str(name), round(100 * int(ns) / total, 1), int(ns)) for name, ns in largest.items()]
