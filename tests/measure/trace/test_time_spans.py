"""Unions, overlaps and windows, against a bitmap of every nanosecond."""

import numpy as np
import pytest

from scaleproof.measure.trace.time_spans import intersect, merge_spans, ns_in_windows, subtract, total_ns

LONG = 400


def bitmap(spans) -> np.ndarray:
    found = np.zeros(LONG, bool)
    for start, end in zip(*spans, strict=True):
        found[start:end] = True
    return found


@pytest.mark.parametrize("seed", range(5))
def test_sets_of_time_are_what_a_bitmap_says(seed):
    random = np.random.default_rng(seed)

    def some() -> tuple:
        starts = random.integers(0, LONG - 30, 12)
        return starts, starts + random.integers(0, 30, 12)

    first, second = some(), some()
    a, b = merge_spans(*first), merge_spans(*second)
    assert (bitmap(a) == bitmap(first)).all()
    assert (a[0][1:] > a[1][:-1]).all(), "disjoint, in order"
    assert (bitmap(intersect(a, b)) == (bitmap(first) & bitmap(second))).all()
    assert (bitmap(subtract(a, b)) == (bitmap(first) & ~bitmap(second))).all()
    assert total_ns(a) == bitmap(first).sum()
    starts = np.sort(random.integers(0, LONG, 6))
    ends = starts + 25
    assert ns_in_windows(a, starts, ends).tolist() == [
        bitmap(first)[s:e].sum() for s, e in zip(starts, ends, strict=True)
    ]


def test_short_pauses_are_filled_where_asked_for():
    starts, ends = np.array([0, 12, 30]), np.array([10, 20, 40])
    assert total_ns(merge_spans(starts, ends)) == 28
    assert total_ns(merge_spans(starts, ends, pause=2)) == 30
    assert total_ns(merge_spans(starts, ends, pause=10)) == 40


def test_nothing_is_nothing():
    empty = merge_spans(np.array([]), np.array([]))
    full = merge_spans(np.array([0]), np.array([5]))
    assert total_ns(empty) == total_ns(intersect(empty, full)) == total_ns(subtract(empty, full)) == 0
    assert total_ns(subtract(full, empty)) == 5
    assert ns_in_windows(empty, np.array([0]), np.array([9])).tolist() == [0]
