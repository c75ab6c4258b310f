"""One traced step as spans on lanes: what a picture of it needs and no more."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from scaleproof.ground.facts.kernel_classes import COMMUNICATION
from scaleproof.measure.trace.breakdown import PHASES, StepBreakdown
from scaleproof.measure.trace.time_spans import Spans, intersect, merge_spans
from scaleproof.measure.trace.waiting import Waiting

COLUMNS = ["step", "rank", "lane", "what", "start_ms", "end_ms"]
FINEST = 2000  # spans that are closer together than a step / FINEST are drawn as one


def timeline_of_median_step(breakdown: StepBreakdown) -> pd.DataFrame:
    """Return the spans of the step of median length as a table with COLUMNS, empty for a trace without steps.

    Times are in ms from the step's start on the first rank. Lanes: `program` (phases on the host), `compute` (by
    class), `communication` (by collective, and `waiting`).
    """
    if not breakdown.steps:
        return pd.DataFrame(columns=COLUMNS)
    windows = breakdown.windows.values()
    # The length of each step on its slowest rank.
    lengths_ns = np.max([(window.ends - window.starts)[: breakdown.steps] for window in windows], axis=0)
    step = int(np.argsort(lengths_ns)[(len(lengths_ns) - 1) // 2])  # the lower median
    # When the step begins on the earliest rank.
    zero_ns = min(int(min(window.starts[step], window.host_starts[step])) for window in windows)
    pause_ns = int(lengths_ns[step]) // FINEST

    rows = []
    for rank in breakdown.ranks:
        for lane, name, spans in _lanes_of_rank(breakdown, rank, step, pause_ns):
            for start, end in zip(*spans, strict=True):
                rows.append([step, rank, lane, name, (start - zero_ns) / 1e6, (end - zero_ns) / 1e6])

    return pd.DataFrame(rows, columns=COLUMNS)


def _lanes_of_rank(breakdown: StepBreakdown, rank: int, step: int, pause_ns: int) -> Iterator[tuple[str, str, Spans]]:
    """Yield lane, name and spans (ns) of each activity of a rank in a step.

    Phases, and kernels of a class, are joined where at most `pause_ns` apart; collectives are not. There are only
    phases where the trace does not tell communication from computation.
    """
    window = breakdown.windows[rank]
    # The step as spans, on the host and on the device.
    host_step = window.host_starts[step : step + 1], window.host_ends[step : step + 1]
    device_step = window.starts[step : step + 1], window.ends[step : step + 1]
    ranges = breakdown.trace.ranges[breakdown.trace.ranges["rank"] == rank]
    for name in PHASES:
        phase = ranges[ranges["name"] == name]
        spans = merge_spans(phase["start"].to_numpy(), phase["end"].to_numpy(), pause_ns)
        yield "program", name, intersect(spans, host_step)
    if not breakdown.knows_communication:
        return

    work = breakdown.work[rank]
    is_near = (work.end > window.starts[step]) & (work.start < window.ends[step])  # work that overlaps the step
    for kind in breakdown.kinds:
        if kind != COMMUNICATION:
            spans = work.spans(is_near & breakdown.is_kind(work.kind, kind), pause_ns)
            yield "compute", kind, intersect(spans, device_step)
    for place, collective in enumerate(breakdown.collective_names):
        spans = work.spans(is_near & (work.collective == place))
        yield "communication", collective, intersect(spans, device_step)
    if isinstance(breakdown.waits, Waiting):
        yield "communication", "waiting", intersect(merge_spans(*breakdown.waits.by_rank[rank]), device_step)
