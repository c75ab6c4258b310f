"""One traced step as spans on lanes: what a picture of it needs and no more."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from scaleproof.ground.facts.kernel_classes import COMMUNICATION
from scaleproof.measure.trace.breakdown import PHASES, StepBreakdown
from scaleproof.measure.trace.time_spans import Spans, intersect, merge_spans
from scaleproof.measure.trace.waiting import Waiting

COLUMNS = ["step", "rank", "lane", "what", "start_ms", "end_ms"]
FINEST = 2000  # parts of the step: what is closer together is drawn as one


def timeline_of_median_step(breakdown: StepBreakdown) -> pd.DataFrame:
    """Return the spans of the step of median length as a table, in ms from its start on the first rank; else empty.

    Lanes: `program` (phases on the host), `compute` (by class), `communication` (by collective, and `waiting`). A trace
    without steps gives an empty table.
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
        for lane, what, spans in _lanes_of_rank(breakdown, rank, step, pause):
            for start, end in zip(*spans, strict=True):
                rows.append([step, rank, lane, what, (start - zero) / 1e6, (end - zero) / 1e6])
    return pd.DataFrame(rows, columns=COLUMNS)


def _lanes_of_rank(breakdown: StepBreakdown, rank: int, step: int, pause: int) -> Iterator[tuple[str, str, Spans]]:
    """Yield lane, name and spans (ns) of each thing that a rank does in a step; see `timeline_of_median_step`.

    Phases, and kernels of a class, are drawn as one where they are at most `pause` ns apart. Where the trace does not
    tell communication from computation, phases are all.
    """
    window = breakdown.windows[rank]
    # The step as spans, on the host and on the device.
    host = window.host_starts[step : step + 1], window.host_ends[step : step + 1]
    device = window.starts[step : step + 1], window.ends[step : step + 1]
    ranges = breakdown.trace.ranges[breakdown.trace.ranges["rank"] == rank]
    for name in PHASES:
        phase = ranges[ranges["name"] == name]
        yield "program", name, intersect(merge_spans(phase["start"].to_numpy(), phase["end"].to_numpy(), pause), host)
    if not breakdown.knows_communication:
        return
    work = breakdown.work[rank]
    near = (work.end > window.starts[step]) & (work.start < window.ends[step])  # some of it lies in the step
    for label in breakdown.kinds:
        if label != COMMUNICATION:
            chosen = near & breakdown.is_kind(work.kind, label)
            yield "compute", label, intersect(merge_spans(work.start[chosen], work.end[chosen], pause), device)
    for place, label in enumerate(breakdown.collective_names):
        chosen = near & (work.collective == place)
        yield "communication", label, intersect(merge_spans(work.start[chosen], work.end[chosen]), device)
    if isinstance(breakdown.waits, Waiting):
        yield "communication", "waiting", intersect(merge_spans(*breakdown.waits.by_rank[rank]), device)
