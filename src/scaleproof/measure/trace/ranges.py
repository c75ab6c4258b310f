"""Named ranges as a tree: what each takes with and without what it contains."""

import numpy as np
import pandas as pd

from scaleproof.ground.records.profile_schema import Range

MOST_PATHS = 60


def tree(ranges: pd.DataFrame, steps: int, ranks: int) -> list[Range]:
    """All paths of nested ranges, milliseconds per step and rank, the largest first.

    A range belongs to the one around it on its own thread.
    """
    if ranges.empty:
        return []
    ordered = ranges.assign(last=-ranges["end"]).sort_values(["rank", "thread", "start", "last"], kind="stable")
    names = list(ordered["name"].cat.categories)
    lanes = ordered.groupby(["rank", "thread"], sort=False).ngroup().to_numpy()
    starts, ends = ordered["start"].to_numpy(), ordered["end"].to_numpy()
    paths: dict[tuple[int, int], int] = {}  # (path of the parent, name) -> path
    labels: list[str] = []
    calls: list[int] = []
    total: list[int] = []
    own: list[int] = []
    stack: list[tuple[int, int]] = []  # end, path
    lane = -1
    for code, start, end, here in zip(
        ordered["name"].cat.codes.tolist(), starts.tolist(), ends.tolist(), lanes.tolist(), strict=True
    ):
        if here != lane:
            stack, lane = [], here
        while stack and stack[-1][0] <= start:
            stack.pop()
        parent = stack[-1][1] if stack else -1
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
        if parent >= 0:
            own[parent] -= min(end, stack[-1][0]) - start
        stack.append((end, path))
    over = steps * ranks
    order = np.argsort(-np.array(total), kind="stable")[:MOST_PATHS]
    return [
        Range(path=labels[i], calls=calls[i] / over, total_ms=total[i] / 1e6 / over, own_ms=own[i] / 1e6 / over)
        for i in order
    ]
