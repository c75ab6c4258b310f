"""Named ranges as a tree: what each takes with and without what it contains."""

import numpy as np
import pandas as pd

from scaleproof.ground.records.profile_schema import Range

MOST_PATHS = 60


def tree(ranges: pd.DataFrame, steps: int, ranks: int) -> list[Range]:
    """All paths of nested ranges ("step > forward"), milliseconds per step and rank, the largest first.

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
