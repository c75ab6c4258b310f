"""Named ranges as a tree, and the largest of them, with the bottleneck that they point to."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from scaleproof.ground.records.profile_schema import Range
from scaleproof.measure.trace.events import Trace

MOST_PATHS = 60
LARGE_PERCENT = 20  # of all range time: gradients that take more are named as the likely bottleneck
Entry = dict[str, Any]


def range_tree(ranges: pd.DataFrame, steps: int, ranks: int) -> list[Range]:
    """All paths of nested ranges ("step > forward"), in milliseconds per step and rank, the largest first.

    `ranges` has the columns of events.RANGES; `steps` and `ranks` are counts. A range belongs to the one around it on
    its own thread; `own_ms` is its time without what it contains.
    """
    if ranges.empty:
        return []
    # Thread by thread in order of start; of ranges that start together the longest, which contains the others, first.
    ordered = ranges.assign(last=-ranges["end"]).sort_values(["rank", "thread", "start", "last"], kind="stable")
    names = list(ordered["name"].cat.categories)
    lanes = ordered.groupby(["rank", "thread"], sort=False).ngroup().to_numpy()  # a number for each thread
    starts, ends = ordered["start"].to_numpy(), ordered["end"].to_numpy()
    # Paths are numbered as they occur; a path's number is its place in the four lists.
    paths: dict[tuple[int, int], int] = {}  # (path of the parent, -1 without; code of the name) -> path
    labels: list[str] = []
    calls: list[int] = []
    total: list[int] = []  # ns
    own: list[int] = []  # ns
    stack: list[tuple[int, int]] = []  # (end, path) of each range that is open, the innermost last
    current_lane = -1
    for code, start, end, lane in zip(
        ordered["name"].cat.codes.tolist(), starts.tolist(), ends.tolist(), lanes.tolist(), strict=True
    ):
        if lane != current_lane:
            stack, current_lane = [], lane
        while stack and stack[-1][0] <= start:  # over before this one begins
            stack.pop()
        parent_end, parent = stack[-1] if stack else (0, -1)
        path = paths.get((parent, code))
        if path is None:
            path = paths[parent, code] = len(labels)
            labels.append(f"{labels[parent]} > {names[code]}" if parent >= 0 else names[code])
            calls.append(0)
            total.append(0)
            own.append(0)
        calls[path] += 1
        total[path] += end - start
        own[path] += end - start
        if parent >= 0:  # the part of it that lies within its parent
            own[parent] -= min(end, parent_end) - start
        stack.append((end, path))
    divisor = steps * ranks
    order = np.argsort(-np.array(total), kind="stable")[:MOST_PATHS]
    return [
        Range(
            path=labels[path],
            calls=calls[path] / divisor,
            total_ms=total[path] / 1e6 / divisor,
            own_ms=own[path] / 1e6 / divisor,
        )
        for path in order
    ]


def summary_entry(kind: str, name: str, percent: float | None, total_ns: int, raw: str = "") -> Entry:
    """One line of a summary. `percent`: its share of the total; `raw`: the line of the text report it is from."""
    return {"kind": kind, "name": name, "time_percent": percent, "total_time": f"{total_ns} ns", "raw": raw}


def likely_bottleneck(nvtx: Iterable[Entry]) -> dict[str, Any]:
    """Whether a range around the all-reduce of gradients takes over LARGE_PERCENT of the time, and which."""
    reductions = [line for line in nvtx if "allreduce_gradients" in line["name"]]
    large = [line for line in reductions if (line["time_percent"] or 0) > LARGE_PERCENT]
    verdict: dict[str, Any] = {"allreduce_gradients_over_20pct": bool(large)}
    if large:
        verdict["matched"] = {key: large[0][key] for key in ("name", "time_percent", "total_time")}
    return verdict


def top_entries(trace: Trace) -> dict[str, Any]:
    """The five largest ranges and system calls, as `nsys stats` shows them: time of nested ranges counts in each."""
    ranges = trace.ranges.assign(total_ns=trace.ranges["end"] - trace.ranges["start"])
    summed = ranges.groupby("name", observed=True)["total_ns"].sum()
    host = trace.host[trace.host["kind"] == "osrt"].set_index("name")["total_ns"]
    nvtx = _top_five("nvtx", summed)
    return {"nvtx_top5": nvtx, "osrt_top5": _top_five("osrt", host), "likely_bottleneck": likely_bottleneck(nvtx)}


def _top_five(kind: str, totals: pd.Series) -> list[Entry]:
    """The five largest of `totals` (name -> nanoseconds) as entries of `kind`; [] where nothing took time."""
    total = int(totals.sum())
    if not total:
        return []
    largest = totals.nlargest(5)
    return [summary_entry(kind, str(name), round(100 * int(ns) / total, 1), int(ns)) for name, ns in largest.items()]
