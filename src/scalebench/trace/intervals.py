"""Sets of time, as arrays. Durations of things that overlap are never added: their union is measured."""

import numpy as np
from numpy.typing import NDArray

# Disjoint half-open intervals in rising order: (starts, ends), whole nanoseconds.
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]


def union(starts: NDArray, ends: NDArray, pause: int = 0) -> Spans:
    """The time that some intervals cover together; holes of at most `pause` ns are filled."""
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    kept = ends > starts
    order = np.argsort(starts[kept], kind="stable")
    starts, ends = starts[kept][order], ends[kept][order]
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


def _where(a: Spans, b: Spans, wanted) -> Spans:
    points = np.sort(np.concatenate([*a, *b]), kind="stable")  # four sorted runs: merging them is fast
    if len(points):
        points = points[np.concatenate([[True], points[1:] > points[:-1]])]
    if len(points) < 2:
        return a[0][:0], a[1][:0]
    chosen = wanted(_inside(a, points[:-1]), _inside(b, points[:-1]))
    return union(points[:-1][chosen], points[1:][chosen])


def _inside(spans: Spans, times: NDArray) -> NDArray[np.bool_]:
    return np.searchsorted(spans[0], times, side="right") > np.searchsorted(spans[1], times, side="right")
