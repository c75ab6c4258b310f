"""Named ranges as a tree, and the largest of them, with the bottleneck that they point to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scaleproof.ground.records.profile_schema import Range
from scaleproof.measure.trace.events import Trace

MOST_PATHS = 60
LARGE_PERCENT = 20  # of all range time: an all-reduce of gradients that takes more is called the likely bottleneck
Entry = dict[str, Any]


@dataclass(eq=False, slots=True)
class _Path:
    """A path of nested ranges, with sums over its calls. `own_ns`: the time outside of inner ranges."""

    names: tuple[str, ...]  # the outermost range first
    calls: int = 0
    total_ns: int = 0
    own_ns: int = 0


def range_tree(ranges: pd.DataFrame, steps: int, ranks: int) -> list[Range]:
    """Return the times of all paths of nested ranges ("step > forward") per step and rank, the longest first.

    `ranges` has the columns of events.RANGES; `steps` and `ranks` are counts.
    """
    if ranges.empty:
        return []
    divisor = steps * ranks
    return [
        Range(
            path=" > ".join(path.names),
            calls=path.calls / divisor,
            total_ms=path.total_ns / 1e6 / divisor,
            own_ms=path.own_ns / 1e6 / divisor,
        )
        for path in sorted(_sum_paths(ranges), key=lambda path: -path.total_ns)[:MOST_PATHS]
    ]


def _sum_paths(ranges: pd.DataFrame) -> Iterable[_Path]:
    """Return the paths of nested `ranges`, with sums over their calls, in order of their first call."""
    # By thread and start. Of ranges that start together the longest, which contains the others, comes first.
    ordered = ranges.assign(last=-ranges["end"]).sort_values(["rank", "thread", "start", "last"], kind="stable")
    lanes = ordered.groupby(["rank", "thread"], sort=False).ngroup()  # a number for each thread
    columns = [column.tolist() for column in (ordered["name"], ordered["start"], ordered["end"], lanes)]
    paths: dict[tuple[str, ...], _Path] = {}
    stack: list[tuple[int, _Path]] = []  # (end, path) of each range that is open, the innermost last
    current_lane = -1
    for name, start, end, lane in zip(*columns, strict=True):
        if lane != current_lane:
            stack = []
            current_lane = lane
        while stack and stack[-1][0] <= start:  # the innermost open range has ended
            stack.pop()
        names = (*stack[-1][1].names, name) if stack else (name,)
        path = paths.get(names)
        if path is None:
            path = paths[names] = _Path(names)
        path.calls += 1
        path.total_ns += end - start
        path.own_ns += end - start
        if stack:  # what lies within the parent is not the parent's own time
            parent_end, parent = stack[-1]
            parent.own_ns -= min(end, parent_end) - start
        stack.append((end, path))

    return paths.values()


def summary_entry(kind: str, name: str, percent: float | None, total_ns: int, raw: str = "") -> Entry:
    """Return an entry of a summary. `percent`: share of the total time; `raw`: the line of a text report."""
    return {"kind": kind, "name": name, "time_percent": percent, "total_time": f"{total_ns} ns", "raw": raw}


def find_bottleneck(nvtx: Iterable[Entry]) -> dict[str, Any]:
    """Return whether a range around the all-reduce of gradients takes over LARGE_PERCENT of the time.

    `nvtx`: entries of a summary. The key `allreduce_gradients_over_20pct` is True or False. If it is True, `matched`
    has the name, time_percent and total_time of that range.
    """
    reductions = [entry for entry in nvtx if "allreduce_gradients" in entry["name"]]
    large = [entry for entry in reductions if (entry["time_percent"] or 0) > LARGE_PERCENT]
    verdict: dict[str, Any] = {"allreduce_gradients_over_20pct": bool(large)}
    if large:
        verdict["matched"] = {key: large[0][key] for key in ("name", "time_percent", "total_time")}
    return verdict


def largest_ranges_and_calls(trace: Trace) -> dict[str, Any]:
    """Return the five largest ranges and system calls, as `nsys stats` counts them, and the likely bottleneck.

    The time of a range includes the time of inner ranges.
    """
    ranges = trace.ranges.assign(total_ns=trace.ranges["end"] - trace.ranges["start"])
    summed = ranges.groupby("name", observed=True)["total_ns"].sum()
    host = trace.host[trace.host["kind"] == "osrt"].set_index("name")["total_ns"]
    nvtx = _top_five("nvtx", summed)
    return {"nvtx_top5": nvtx, "osrt_top5": _top_five("osrt", host), "likely_bottleneck": find_bottleneck(nvtx)}


def _top_five(kind: str, totals: pd.Series) -> list[Entry]:
    """Return the five largest of `totals` (name -> nanoseconds) as entries of `kind`, [] where their sum is 0."""
    total = int(totals.sum())
    if not total:
        return []
    largest = totals.nlargest(5)
    return [summary_entry(kind, str(name), round(100 * int(ns) / total, 1), int(ns)) for name, ns in largest.items()]
