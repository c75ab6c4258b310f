"""Overlap: bounds, bytes, buckets, and known cases by hand."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaleproof.conclude.forecast.timeline import (
    Layer,
    Layers,
    Operation,
    Sharing,
    fill_buckets,
    simulate,
    step_operations,
    step_timeline,
    traffic,
)

MODEL = Layers(tuple(Layer(1_000_000, 0.1) for _ in range(8)), Layer(500_000, 0.2))
STRATEGIES = ("ddp", "zero0", "zero1", "zero2", "zero3", "fsdp")


def by_bandwidth(rate: float):
    return lambda collective, nbytes: nbytes / rate


@given(st.sampled_from(STRATEGIES), st.integers(1, 4), st.floats(0.001, 1.0), st.floats(1e5, 1e10), st.floats(1e5, 1e8))
def test_a_step_is_between_the_longer_stream_and_both_in_turn(strategy, accumulation, micro, rate, bucket):
    line = step_timeline(MODEL, Sharing(strategy, accumulation, bucket_bytes=bucket), micro, 0.01, by_bandwidth(rate))
    assert max(line.compute, line.communication) <= line.end * (1 + 1e-9)
    assert line.end <= (line.compute + line.communication) * (1 + 1e-9)
    assert line.compute == pytest.approx(micro * accumulation + 0.01)


@given(st.sampled_from(STRATEGIES), st.floats(0.001, 0.2), st.floats(1e6, 1e9))
def test_a_slower_link_or_more_contention_never_makes_a_step_shorter(strategy, micro, rate):
    sharing = Sharing(strategy, 2)
    ends = [step_timeline(MODEL, sharing, micro, 0.0, by_bandwidth(r), 0.1).end for r in (rate, rate / 2, rate / 4)]
    assert ends == sorted(ends)
    ends = [step_timeline(MODEL, sharing, micro, 0.0, by_bandwidth(rate), gamma).end for gamma in (0.0, 0.1, 0.4)]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(ends))


@pytest.mark.parametrize("accumulation", [1, 4])
def test_bytes_are_those_of_the_formulas_that_the_audit_checks(accumulation):
    p, blocks = MODEL.parameters, 8_000_000
    expected = {
        "ddp": {"all_reduce": 4 * p},
        "zero0": {"all_reduce": 4 * p},
        "zero1": {"all_reduce": 4 * p, "all_gather": 4 * p},
        "zero2": {"all_reduce": 4 * p * accumulation, "all_gather": 4 * p},
        "fsdp": {"all_gather": accumulation * 4 * (p + blocks), "reduce_scatter": 4 * p},
        "zero3": {"all_gather": accumulation * 4 * p, "reduce_scatter": accumulation * 4 * p},
    }
    for strategy, moved in expected.items():
        operations = step_operations(MODEL, Sharing(strategy, accumulation), 0.1, 0.01, by_bandwidth(1e9))
        assert traffic(operations) == pytest.approx(moved), strategy


def test_only_what_comes_after_backward_is_exposed_where_the_link_is_fast():
    # Each block takes 1/10 of backward; a bucket takes half of that, so all but the root's are hidden.
    backward = 0.6
    sharing = Sharing("ddp", 1, bucket_bytes=4_000_000)
    line = step_timeline(MODEL, sharing, 0.9, 0.0, by_bandwidth(4_000_000 / (backward * 0.05)))
    # The last block's bucket is reduced after its backward, the root's 2 MB after that.
    assert line.exposed == pytest.approx(backward * 0.05 * 1.5, rel=1e-6)


def test_one_bucket_of_everything_overlaps_nothing():
    sharing = Sharing("zero1", 1, bucket_bytes=4 * MODEL.parameters)
    line = step_timeline(MODEL, sharing, 0.9, 0.0, by_bandwidth(1e8))
    assert line.exposed == pytest.approx(line.communication)


def test_without_overlap_everything_is_exposed():
    line = step_timeline(MODEL, Sharing("fsdp", 2, overlaps=False), 0.3, 0.1, by_bandwidth(1e8))
    assert line.exposed == pytest.approx(line.communication)


def test_contention_slows_both_for_as_long_as_both_are_busy():
    operations = [Operation("a", "compute", 1.0), Operation("b", "communication", 0.5)]
    assert simulate(operations, contention=0.2).end == pytest.approx(1.0 + 0.5 * 0.2 / 1.2)
    assert simulate(operations).end == pytest.approx(1.0)


def test_operations_that_wait_for_each_other_are_named():
    with pytest.raises(ValueError, match="a, b"):
        simulate([Operation("a", "compute", 1.0, ("b",)), Operation("b", "communication", 1.0, ("a",))])


def test_buckets_hold_all_bytes_and_close_at_their_limit():
    gradients = [(str(i), 10.0) for i in range(7)]
    assert fill_buckets(gradients, 25.0, first=1.0) == [("0", 10.0), ("3", 30.0), ("6", 30.0)]
    assert fill_buckets(gradients, 1e9) == [("6", 70.0)]
