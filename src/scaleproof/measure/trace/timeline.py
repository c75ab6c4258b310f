"""One traced step as spans on lanes: what a picture of it needs and no more."""

from typing import Any

import numpy as np
import pandas as pd

from scaleproof.ground.facts.kernel_classes import COMMUNICATION
from scaleproof.measure.trace.breakdown import PHASES, StepBreakdown
from scaleproof.measure.trace.time_spans import Spans, intersection, merge_spans
from scaleproof.measure.trace.waiting import Waiting

COLUMNS = ["step", "rank", "lane", "what", "start_ms", "end_ms"]
FINEST = 2000  # parts of the step: what is closer together is drawn as one


def timeline_of_median_step(breakdown: StepBreakdown) -> pd.DataFrame:
    """The spans of the step of median length as a table, in ms from its start on the first rank; empty without steps.

    Lanes: `program` (phases on the host), `compute` (by class), `communication` (by collective, and `waiting`).
    """
    if not breakdown.steps:
        return pd.DataFrame(columns=COLUMNS)
    windows = breakdown.windows.values()
    # ns of each step on its slowest rank.
    lengths = np.max([(window.ends - window.starts)[: breakdown.steps] for window in windows], axis=0)
    step = int(np.argsort(lengths)[(len(lengths) - 1) // 2])  # the lower median
    # When the first of the ranks begins the step (ns).
    zero = min(int(min(window.starts[step], window.host_starts[step])) for window in windows)
    pause = int(lengths[step]) // FINEST
    rows = []
    for rank in breakdown.ranks:
        window = breakdown.windows[rank]
        # The step as spans, on the host and on the device.
        host = window.host_starts[step : step + 1], window.host_ends[step : step + 1]
        device = window.starts[step : step + 1], window.ends[step : step + 1]
        own = breakdown.trace.ranges[breakdown.trace.ranges["rank"] == rank]
        for name in PHASES:
            chosen = own[own["name"] == name]
            rows += _rows(step, rank, "program", name, chosen["start"], chosen["end"], host, pause, zero)
        if not breakdown.knows_communication:
            continue
        work = breakdown.work[rank]
        near = (work.end > window.starts[step]) & (work.start < window.ends[step])
        for label in breakdown.kinds:
            if label != COMMUNICATION:
                chosen = near & breakdown.is_kind(work.kind, label)
                rows += _rows(step, rank, "compute", label, work.start[chosen], work.end[chosen], device, pause, zero)
        for place, label in enumerate(breakdown.collective_names):
            chosen = near & (work.collective == place)
            rows += _rows(step, rank, "communication", label, work.start[chosen], work.end[chosen], device, 0, zero)
        if isinstance(breakdown.waits, Waiting):
            rows += _rows(step, rank, "communication", "waiting", *breakdown.waits.by_rank[rank], device, 0, zero)
    return pd.DataFrame(rows, columns=COLUMNS)


def _rows(
    step: int,
    rank: int,
    lane: str,
    what: str,
    starts: np.ndarray | pd.Series,
    ends: np.ndarray | pd.Series,
    window: Spans,
    pause: int,
    zero: int,
) -> list[list[Any]]:
    """Rows of COLUMNS for the intervals `starts` to `ends` (ns) within `window`. `zero`: the ns that is 0 ms.

    Intervals at most `pause` ns apart are drawn as one.
    """
    inside = intersection(merge_spans(np.asarray(starts), np.asarray(ends), pause), window)
    return [
        [step, rank, lane, what, (start - zero) / 1e6, (end - zero) / 1e6] for start, end in zip(*inside, strict=True)
    ]
