"""One traced step as spans on lanes: what a picture of it needs and no more."""

import numpy as np
import pandas as pd

from scalebench.trace.breakdown import PHASES, Summary
from scalebench.trace.kernel_classes import COMMUNICATION
from scalebench.trace.time_spans import Spans, both, union
from scalebench.trace.waiting import Waiting

COLUMNS = ["step", "rank", "lane", "what", "start_ms", "end_ms"]
FINEST = 2000  # parts of the step: what is closer together is drawn as one


def timeline(summary: Summary) -> pd.DataFrame:
    """The spans of the step of middle length, milliseconds from its start on the first rank; empty where there are no steps.

    Lanes: `program` (phases on the host), `compute` (by class), `communication` (by collective, and `waiting`).
    """
    if not summary.steps:
        return pd.DataFrame(columns=COLUMNS)
    longest = np.max([(w.ends - w.starts)[: summary.steps] for w in summary.windows.values()], axis=0)
    step = int(np.argsort(longest)[(len(longest) - 1) // 2])
    zero = min(int(min(w.starts[step], w.host_starts[step])) for w in summary.windows.values())
    pause = int(longest[step]) // FINEST
    rows = []
    for rank in summary.ranks:
        window = summary.windows[rank]
        host, device = ((a[step : step + 1], b[step : step + 1]) for a, b in (
            (window.host_starts, window.host_ends), (window.starts, window.ends)))  # fmt: skip
        own = summary.trace.ranges[summary.trace.ranges["rank"] == rank]
        for name in PHASES:
            chosen = own[own["name"] == name]
            rows += _rows(step, rank, "program", name, chosen["start"], chosen["end"], host, pause, zero)
        if not summary.known:
            continue
        work = summary.work[rank]
        near = (work.end > device[0][0]) & (work.start < device[1][0])
        for label in summary.kinds:
            if label != COMMUNICATION:
                chosen = near & summary.is_kind(work.kind, label)
                rows += _rows(step, rank, "compute", label, work.start[chosen], work.end[chosen], device, pause, zero)
        for place, label in enumerate(summary.collective_names):
            chosen = near & (work.collective == place)
            rows += _rows(step, rank, "communication", label, work.start[chosen], work.end[chosen], device, 0, zero)
        if isinstance(summary.waits, Waiting):
            rows += _rows(step, rank, "communication", "waiting", *summary.waits.by_rank[rank], device, 0, zero)
    return pd.DataFrame(rows, columns=COLUMNS)


def _rows(step: int, rank: int, lane: str, what: str, starts, ends, window: Spans, pause: int, zero: int) -> list:
    inside = both(union(np.asarray(starts), np.asarray(ends), pause), window)
    return [[step, rank, lane, what, (s - zero) / 1e6, (e - zero) / 1e6] for s, e in zip(*inside, strict=True)]
