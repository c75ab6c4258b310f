"""Named ranges as a tree, and the largest of them, with the bottleneck that they point to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scaleproof.ground.records.profile_schema import Range
from scaleproof.measure.trace.events import Trace

MOST_PATHS = 60
LARGE_PERCENT = 20  # part of all range time: gradients that take more are named as the likely bottleneck
Entry = dict[str, Any]


@dataclass(eq=False, slots=True)
class _Path:
    """A path of nested ranges, and the sums over its calls. `own_ns`: without the ranges inside."""

    names: tuple[str, ...]  # the outermost range first
    calls: int = 0
    total_ns: int = 0
    own_ns: int = 0


def range_tree(ranges: pd.DataFrame, steps: int, ranks: int) -> list[Range]:
    """Return all paths of nested ranges ("step > forward"), in milliseconds per step and rank, the largest first.

    `ranges` has the columns of events.RANGES; `steps` and `ranks` are counts.
    """
    if ranges.empty:
        return []
    # Thread by thread in order of start; of ranges that start together the longest, which contains the others, first.
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
        while stack and stack[-1][0] <= start:  # that range is over before this one begins
            stack.pop()
        names = (*stack[-1][1].names, name) if stack else (name,)
        path = paths.get(names)
        if path is None:
            path = paths[names] = _Path(names)
        path.calls += 1
        path.total_ns += end - start
        path.own_ns += end - start
        if stack:  # its parent loses the part that lies within the parent
            parent_end, parent = stack[-1]
            parent.own_ns -= min(end, parent_end) - start
        stack.append((end, path))

    divisor = steps * ranks
    return [
        Range(
            path=" > ".join(path.names),
            calls=path.calls / divisor,
            total_ms=path.total_ns / 1e6 / divisor,
            own_ms=path.own_ns / 1e6 / divisor,
        )
        for path in sorted(paths.values(), key=lambda path: -path.total_ns)[:MOST_PATHS]
    ]


def summary_entry(kind: str, name: str, percent: float | None, total_ns: int, raw: str = "") -> Entry:
    """Return one line of a summary. `percent`: its share of the total; `raw`: the text report's line it comes from."""
    return {"kind": kind, "name": name, "time_percent": percent, "total_time": f"{total_ns} ns", "raw": raw}


def find_bottleneck(nvtx: Iterable[Entry]) -> dict[str, Any]:
    """Say whether a range around the all-reduce of gradients takes over LARGE_PERCENT of the time.

    `nvtx`: the lines of a summary. Returns {"allreduce_gradients_over_20pct": True, "matched": {"name": ...,
    "time_percent": ..., "total_time": ...}}; without `matched` where no such range takes so much.
    """
    reductions = [line for line in nvtx if "allreduce_gradients" in line["name"]]
    large = [line for line in reductions if (line["time_percent"] or 0) > LARGE_PERCENT]
    verdict: dict[str, Any] = {"allreduce_gradients_over_20pct": bool(large)}
    if large:
        verdict["matched"] = {key: large[0][key] for key in ("name", "time_percent", "total_time")}
    return verdict


def largest_ranges_and_calls(trace: Trace) -> dict[str, Any]:
    """Return the five largest ranges and system calls, as `nsys stats` counts them, and the likely bottleneck.

    The time of a range holds the time of those inside.
    """
    ranges = trace.ranges.assign(total_ns=trace.ranges["end"] - trace.ranges["start"])
    summed = ranges.groupby("name", observed=True)["total_ns"].sum()
    host = trace.host[trace.host["kind"] == "osrt"].set_index("name")["total_ns"]
    nvtx = _top_five("nvtx", summed)
    return {"nvtx_top5": nvtx, "osrt_top5": _top_five("osrt", host), "likely_bottleneck": find_bottleneck(nvtx)}


def _top_five(kind: str, totals: pd.Series) -> list[Entry]:
    """Return the five largest of `totals` (name -> nanoseconds) as entries of `kind`.

    Returns [] where nothing took time.
    """
    total = int(totals.sum())
    if not total:
        return []
    largest = totals.nlargest(5)
    return [summary_entry(kind, str(name), round(100 * int(ns) / total, 1), int(ns)) for name, ns in largest.items()]
