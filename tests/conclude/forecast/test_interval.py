"""Intervals: widths, levels that n allows, scores, bounds of a coverage."""

import math

import numpy as np
import pytest

from scaleproof.conclude.forecast.interval import (
    HalfWidths,
    Interval,
    clopper_pearson,
    conformal_half_widths,
    conformal_rank,
    half_widths_by_largest_sizes,
    interval_score,
    widen_by_noise,
)


@pytest.mark.parametrize(
    ("n", "level", "rank"), [(19, 0.95, 19), (18, 0.95, None), (9, 0.9, 9), (8, 0.9, None), (4, 0.8, 4)]
)
def test_a_level_needs_so_many_campaigns(n, level, rank):
    assert conformal_rank(n, level) == rank


def test_past_campaigns_give_an_interval_where_there_are_enough():
    residuals = [0.01 * i for i in range(1, 20)]
    assert conformal_half_widths(residuals, 1.0) == HalfWidths(0.16, 0.19)
    assert conformal_half_widths(residuals, 2.0) == HalfWidths(0.32, 0.38)
    assert conformal_half_widths(residuals[:18], 1.0) is None


def test_split_conformal_covers_what_it_claims():
    random = np.random.default_rng(3)
    inside = likely = 0
    for _ in range(2000):
        half = conformal_half_widths(list(np.abs(random.standard_t(3, 19)) * 0.02), 1.0)
        residual = abs(random.standard_t(3)) * 0.02
        inside += residual <= half.nearly_all
        likely += residual <= half.likely
    assert 0.935 <= inside / 2000 <= 0.97  # at least 19/20 = 0.95 on average
    assert 0.77 <= likely / 2000 <= 0.83


def test_leaving_the_largest_out_covers_and_repeats_alone_do_not():
    random = np.random.default_rng(5)
    inside = likely = alone = 0
    for _ in range(2000):
        half = widen_by_noise(half_widths_by_largest_sizes(list(random.normal(0, 0.03, 4)), 1.0), 0.003**2)
        residual = abs(random.normal(0, 0.03))
        inside += residual <= half.nearly_all
        likely += residual <= half.likely
        alone += residual < 2.78 * 0.003
    assert 0.935 <= inside / 2000 <= 0.97
    assert 0.77 <= likely / 2000 <= 0.83
    assert alone / 2000 < 0.4


def test_two_doublings_are_twice_as_uncertain_and_no_residual_is_no_interval():
    one, two = (half_widths_by_largest_sizes([0.02, -0.03], distance) for distance in (1.0, 2.0))
    assert two.nearly_all == pytest.approx(2 * one.nearly_all)
    assert half_widths_by_largest_sizes([], 1.0) is None


def test_an_interval_is_wide_by_what_is_likely():
    assert not Interval.around(1.0, HalfWidths(0.14, 0.3), "x", 1).wide
    assert Interval.around(1.0, HalfWidths(0.16, 0.2), "x", 1).wide
    assert Interval(1.0, 0.7, 1.4, 0.95, "measured", 2).wide
    inverse = Interval.around(2.0, HalfWidths(0.1, 0.2), "x", 1).inverse(4.0)
    assert inverse.low < inverse.likely[0] < inverse.value == 2.0 < inverse.likely[1] < inverse.high


def test_a_score_is_the_width_and_what_lies_outside_counts_forty_times():
    interval = Interval.around(1.0, half_widths_by_largest_sizes([0.01] * 4, 1.0), "x", 4)
    assert interval_score(interval, 1.0) == pytest.approx(2 * interval.half_width)
    outside = interval.high * math.exp(0.01)
    assert interval_score(interval, outside) == pytest.approx(2 * interval.half_width + 40 * 0.01)


def test_clopper_pearson_is_the_published_one():
    assert clopper_pearson(9, 10) == pytest.approx((0.5550, 0.9975), abs=1e-4)
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert clopper_pearson(5, 5)[1] == 1.0
