"""Intervals: widths, levels that n allows, scores, bounds of a coverage."""

import math

import numpy as np
import pytest

from scaleproof.conclude.forecast.interval import (
    clopper_pearson,
    conformal,
    conformal_rank,
    doublings,
    interval_score,
    leave_largest_out,
)


@pytest.mark.parametrize(
    ("n", "level", "rank"), [(19, 0.95, 19), (18, 0.95, None), (9, 0.9, 9), (8, 0.9, None), (4, 0.8, 4)]
)
def test_a_level_needs_so_many_campaigns(n, level, rank):
    assert conformal_rank(n, level) == rank


def test_with_fewer_campaigns_the_level_is_the_one_they_allow():
    residuals = [0.01 * i for i in range(1, 10)]
    assert conformal(1.0, residuals, 1.0).level == 0.9
    assert conformal(1.0, residuals[:4], 1.0).level == 0.8
    assert conformal(1.0, residuals[:3], 1.0) is None
    assert conformal(2.0, residuals, 2.0).high == pytest.approx(2.0 * math.exp(0.18))


def test_split_conformal_covers_what_it_claims():
    random = np.random.default_rng(3)
    inside = 0
    for _ in range(2000):
        past = np.abs(random.standard_t(3, 19)) * 0.02
        interval = conformal(1.0, list(past), 1.0)
        inside += interval.holds(math.exp(random.standard_t(3) * 0.02))
    assert 0.935 <= inside / 2000 <= 0.97  # at least 19/20 = 0.95 on average


def test_leaving_the_largest_out_covers_and_repeats_alone_do_not():
    random = np.random.default_rng(5)
    inside = alone = 0
    for _ in range(2000):
        residuals = list(random.normal(0, 0.03, 4))
        truth = math.exp(random.normal(0, 0.03))
        inside += leave_largest_out(1.0, residuals, 1.0, 0.003**2).holds(truth)
        alone += abs(math.log(truth)) < 2.78 * 0.003
    assert 0.935 <= inside / 2000 <= 0.97
    assert alone / 2000 < 0.4


def test_two_doublings_are_twice_as_uncertain_and_no_residual_is_no_interval():
    one, two = (leave_largest_out(1.0, [0.02, -0.03], d, 0.0) for d in (1.0, 2.0))
    assert two.half_width == pytest.approx(2 * one.half_width)
    assert leave_largest_out(1.0, [], 1.0, 0.01) is None


def test_doublings_are_at_least_one():
    assert [doublings(8, 2), doublings(4, 4), doublings(3, 2)] == [2, 1, 1]


def test_a_score_is_the_width_and_what_lies_outside_counts_forty_times():
    interval = leave_largest_out(1.0, [0.01] * 4, 1.0, 0.0)
    assert interval_score(interval, 1.0) == pytest.approx(2 * interval.half_width)
    outside = interval.high * math.exp(0.01)
    assert interval_score(interval, outside) == pytest.approx(2 * interval.half_width + 40 * 0.01)


def test_clopper_pearson_is_the_published_one():
    assert clopper_pearson(9, 10) == pytest.approx((0.5550, 0.9975), abs=1e-4)
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert clopper_pearson(5, 5)[1] == 1.0
