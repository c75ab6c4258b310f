"""Sets of time, as arrays. Durations of things that overlap are never added: their union is measured."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Disjoint half-open intervals in rising order: (starts, ends), whole nanoseconds.
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]


def merge_spans(starts: NDArray, ends: NDArray, pause: int = 0) -> Spans:
    """Return the union of intervals as sorted spans. Gaps of at most `pause` ns are closed."""
    starts = np.asarray(starts, np.int64)
    ends = np.asarray(ends, np.int64)
    is_nonempty = ends > starts
    order = np.argsort(starts[is_nonempty], kind="stable")
    starts = starts[is_nonempty][order]
    ends = ends[is_nonempty][order]
    if not len(starts):
        return starts, ends
    latest_end = np.maximum.accumulate(ends)  # of each interval and all before it
    is_first = np.concatenate([[True], starts[1:] > latest_end[:-1] + pause])  # whether an interval begins a span
    is_last = np.concatenate([is_first[1:], [True]])
    return starts[is_first], latest_end[is_last]


def intersect(a: Spans, b: Spans) -> Spans:
    """Return the time that is in both `a` and `b`."""
    return _select_spans(a, b, lambda in_a, in_b: in_a & in_b)


def subtract(a: Spans, b: Spans) -> Spans:
    """Return the time that is in `a` and not in `b`."""
    return _select_spans(a, b, lambda in_a, in_b: in_a & ~in_b)


def total_ns(spans: Spans) -> int:
    """Return the nanoseconds of all spans together."""
    return int((spans[1] - spans[0]).sum())


def ns_in_windows(spans: Spans, starts: NDArray, ends: NDArray) -> NDArray[np.int64]:
    """Return the nanoseconds of `spans` within each of the windows [start, end)."""
    return _covered_before(spans, np.asarray(ends, np.int64)) - _covered_before(spans, np.asarray(starts, np.int64))


def _covered_before(spans: Spans, times: NDArray) -> NDArray[np.int64]:
    """Return how many nanoseconds of `spans` lie before each of `times`."""
    starts, ends = spans
    if not len(starts):
        return np.zeros(len(times), np.int64)
    ns_of_first = np.concatenate([[0], np.cumsum(ends - starts)])  # nanoseconds in the first 0, 1, 2, ... intervals
    n_started = np.searchsorted(starts, times, side="right")
    last_started = np.maximum(n_started - 1, 0)
    # The part of the last started interval that lies after the time.
    rest_of_last = np.where(n_started > 0, np.maximum(ends[last_started] - times, 0), 0)
    return ns_of_first[n_started] - rest_of_last


def _select_spans(a: Spans, b: Spans, chosen_by: Callable[[NDArray, NDArray], NDArray]) -> Spans:
    """Return the time that `chosen_by` selects.

    `chosen_by` gets two boolean arrays, which say of each stretch of time whether it is in `a`, and whether it is in
    `b`. Stretches end where a span of either begins or ends.
    """
    times = np.concatenate([*a, *b])
    order = np.argsort(times, kind="stable")  # four sorted runs: merging them is fast
    times = times[order]
    run_lengths = [len(times_of_run) for times_of_run in (*a, *b)]
    steps_a = np.repeat(np.array([1, -1, 0, 0], np.int8), run_lengths)  # +1 where a span of `a` begins, -1 at its end
    steps_b = np.repeat(np.array([0, 0, 1, -1], np.int8), run_lengths)
    # The cumulative sum is the number of spans that have begun and not ended. The last time begins no stretch.
    chosen = chosen_by(np.cumsum(steps_a[order]) > 0, np.cumsum(steps_b[order]) > 0)[:-1]
    return merge_spans(times[:-1][chosen], times[1:][chosen])
