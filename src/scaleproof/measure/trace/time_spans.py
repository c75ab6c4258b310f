"""Sets of time, as arrays. Durations of things that overlap are never added: their union is measured."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Disjoint half-open intervals in rising order: (starts, ends), whole nanoseconds.
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]


def union(starts: NDArray, ends: NDArray, pause: int = 0) -> Spans:
    """The time that some intervals cover together; holes of at most `pause` ns are filled."""
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    nonempty = ends > starts
    order = np.argsort(starts[nonempty], kind="stable")
    starts, ends = starts[nonempty][order], ends[nonempty][order]
    if not len(starts):
        return starts, ends
    reached = np.maximum.accumulate(ends)
    first = np.concatenate([[True], starts[1:] > reached[:-1] + pause])
    last = np.concatenate([first[1:], [True]])
    return starts[first], reached[last]


def both(a: Spans, b: Spans) -> Spans:
    """Time in `a` and in `b`."""
    return _where(a, b, lambda in_a, in_b: in_a & in_b)


def without(a: Spans, b: Spans) -> Spans:
    """Time in `a` and not in `b`."""
    return _where(a, b, lambda in_a, in_b: in_a & ~in_b)


def length(spans: Spans) -> int:
    """Nanoseconds."""
    return int((spans[1] - spans[0]).sum())


def within(spans: Spans, starts: NDArray, ends: NDArray) -> NDArray[np.int64]:
    """How much of `spans` lies in each of the windows [start, end): nanoseconds, one number a window."""
    return _until(spans, np.asarray(ends, np.int64)) - _until(spans, np.asarray(starts, np.int64))


def _until(spans: Spans, times: NDArray) -> NDArray[np.int64]:
    """How much of `spans` lies before each of `times`."""
    starts, ends = spans
    if not len(starts):
        return np.zeros(len(times), np.int64)
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    begun = np.searchsorted(starts, times, side="right")
    last = np.maximum(begun - 1, 0)
    unfinished = np.where(begun > 0, np.maximum(ends[last] - times, 0), 0)
    return before[begun] - unfinished


def _where(a: Spans, b: Spans, chosen_by: Callable[[NDArray, NDArray], NDArray]) -> Spans:
    times = np.concatenate([*a, *b])
    order = np.argsort(times, kind="stable")  # four sorted runs: merging them is fast
    times = times[order]
    enters = np.repeat(np.array([1, -1, 0, 0], np.int8), [len(a[0])] * 2 + [len(b[0])] * 2)
    other = np.repeat(np.array([0, 0, 1, -1], np.int8), [len(a[0])] * 2 + [len(b[0])] * 2)
    # Between two times one is inside of as many intervals as were entered and not left before.
    chosen = chosen_by(np.cumsum(enters[order]) > 0, np.cumsum(other[order]) > 0)[:-1]
    return union(times[:-1][chosen], times[1:][chosen])
