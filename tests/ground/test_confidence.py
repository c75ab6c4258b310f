"""Intervals over runs: right by hand, and covering what they say they cover."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from scaleproof.ground.confidence import claimed_ratio, pooled_rate, rate_with_interval, ratio_of_independent
from scaleproof.ground.records.result_file import Estimated


def test_a_rate_is_all_work_over_all_time():
    estimate = rate_with_interval([100, 100], [1, 3])
    assert estimate.value == 50, "not the mean of 100 and 33"
    assert estimate.n == 2


def test_one_run_has_no_interval():
    estimate = rate_with_interval([100], [2])
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (50, None, None, 1)
    assert ratio_of_independent(estimate, rate_with_interval([100, 100], [1, 1.1])).low is None


def test_the_interval_by_hand():
    seconds = [1.0, 1.1, 1.2]
    estimate = rate_with_interval([10] * 3, seconds)
    logs = [math.log(10 / s) for s in seconds]
    half = 4.302652729911275 * np.std(logs, ddof=1) / math.sqrt(3)
    assert estimate.low == pytest.approx(30 / 3.3 * math.exp(-half))
    assert estimate.high == pytest.approx(30 / 3.3 * math.exp(half))


def test_equal_runs_have_an_interval_of_no_width():
    estimate = rate_with_interval([10, 10], [2, 2])
    assert estimate.low == estimate.value == estimate.high
    assert ratio_of_independent(estimate, estimate).value == 1


def test_a_ratio_agrees_with_welch():
    a, b = [1.0, 1.2, 1.1, 1.3], [2.0, 2.1, 2.4]
    estimate = ratio_of_independent(rate_with_interval([1] * 4, a), rate_with_interval([1] * 3, b))
    test = stats.ttest_ind(-np.log(a), -np.log(b), equal_var=False).confidence_interval(0.95)
    middle = math.log(estimate.value)
    assert math.log(estimate.high) - middle == pytest.approx((test.high - test.low) / 2)


def test_scaling_by_a_number_scales_all_three():
    estimate = Estimated.of(rate_with_interval([10, 10, 10], [1, 1.1, 1.2]))
    half = estimate.times(0.5)
    assert (half.value, half.low, half.high) == (estimate.value / 2, estimate.low / 2, estimate.high / 2)


def test_one_run_a_thousand_times_slower_beside_equal_runs_is_no_overflow():
    seconds = [1.0, 1.0, 1000.0]
    own = rate_with_interval([1] * 3, seconds)
    with warnings.catch_warnings(action="error"):
        assert pooled_rate(own, {k: 1 / s for k, s in enumerate(seconds)}, [{0: 1.0, 1: 1.0, 2: 1.0}]) == own


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("spread", [0.005, 0.05])
def test_coverage_of_the_rate(n, spread):
    """95 of 100 intervals hold the truth, whatever the number of runs and their spread."""
    random = np.random.default_rng([n, int(spread * 1000)])
    seconds = random.lognormal(0, spread, (3000, n))
    inside = [e.low <= 10 <= e.high for e in (rate_with_interval([10] * n, list(row)) for row in seconds)]
    assert 0.93 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize(("n_top", "n_bottom"), [(3, 3), (5, 3), (10, 10)])
def test_coverage_of_the_ratio(n_top, n_bottom):
    random = np.random.default_rng([n_top, n_bottom])
    inside = []
    for _ in range(3000):
        top = rate_with_interval([1] * n_top, list(random.lognormal(-math.log(1.8), 0.02, n_top)))
        bottom = rate_with_interval([1] * n_bottom, list(random.lognormal(0, 0.02, n_bottom)))
        estimate = ratio_of_independent(top, bottom)
        inside.append(estimate.low <= 1.8 <= estimate.high)
    assert 0.93 <= np.mean(inside) <= 0.98, "Welch's interval is a little wide with three runs"


@pytest.mark.parametrize(("n_a", "n_b", "is_claim"), [(1, 9, False), (2, 2, False), (2, 5, False), (3, 3, True)])
def test_two_results_have_an_interval_from_three_runs_of_each_on(n_a, n_b, is_claim):
    """As two cells of a campaign have: two runs of a machine with two clock states are alike every other time."""
    a, b = (rate_with_interval([1] * n, [1 + k / 99 for k in range(n)]) for n in (n_a, n_b))
    ratio = claimed_ratio(b, a)
    assert ratio.value == ratio_of_independent(b, a).value
    assert (ratio.low is not None) == is_claim
