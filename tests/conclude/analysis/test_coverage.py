"""A fast part of benchmarks/coverage.py: the statistics keep their word on campaigns with a known truth."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from scaleproof.conclude.analysis.simultaneous import compare_all, letters
from scaleproof.ground.campaign.repeats import RepeatUntil

ERROR = 3  # standard errors of a simulated share that a nominal level may be missed by


@pytest.fixture(scope="module")
def coverage():
    spec = importlib.util.spec_from_file_location("coverage_benchmark", Path("benchmarks/coverage.py").resolve())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def random():
    return np.random.default_rng(7)


def within(share, level, trials):
    return share <= level + ERROR * math.sqrt(level * (1 - level) / trials)


@pytest.mark.parametrize(
    "noise",
    ["normal 3 %", "Pareto 2.1", "10 % of runs 1.5x slower", "two clock states 50/50", "a state for each round 5 %"],
)
@pytest.mark.parametrize(("k", "n"), [(2, 3), (6, 3), (20, 5)])
def test_cells_without_a_difference_are_not_told_apart(coverage, random, noise, k, n):
    assert within(coverage.false_claims(random, coverage.NOISE[noise], k, n, 200), 0.05, 200)


def test_repeats_that_do_not_match_are_compared_without_rounds(coverage, random):
    assert within(coverage.false_claims(random, coverage.NOISE["two clock states 50/50"], 6, 3, 200, False), 0.05, 200)


def test_a_state_of_the_machine_that_a_round_shares_costs_no_power(random):
    """A difference of 5 % under a state that varies by 10 % from round to round, runs by 1 %."""
    seen = []
    for _ in range(200):
        logs = 0.1 * random.standard_normal((1, 5)) + 0.01 * random.standard_normal((2, 5)) + [[0.05], [0]]
        rates = {str(i): dict(enumerate(np.exp(row))) for i, row in enumerate(logs)}
        seen.append(compare_all(rates).differ[0, 1])
    assert np.mean(seen) > 0.9


@pytest.mark.parametrize("n", [3, 5])
def test_single_intervals_cover(coverage, random, n):
    for noise in ("normal 3 %", "log-normal 10 %"):
        cell, ratio = coverage.single_coverage(random, coverage.NOISE[noise], n, 1500)
        assert 0.93 <= cell <= 0.97
        assert 0.93 <= ratio <= 0.97


@pytest.mark.parametrize(("n", "sd"), [(3, 0.03), (5, 0.1)])
def test_following_the_recommendation_loses_no_more_than_taking_the_fastest(coverage, random, n, sd):
    result = coverage.regret(random, n, sd, 200)
    assert result["lost"] <= result["lost by the fastest"] + 0.01
    assert result["bad"] <= 0.01


@pytest.mark.parametrize("n", [3, 5])
def test_noise_is_not_rewarded(coverage, random, n):
    assert coverage.regret(random, n, 0.03, 200, noisy=True)["bad"] <= 0.01


def test_two_runs_recommend_nothing(coverage, random):
    assert coverage.regret(random, 2, 0.03, 50)["recommended"] == 0


def test_what_is_said_of_further_repeats_is_true_four_times_out_of_five(coverage, random):
    result = coverage.more_repeats(random, 2, 5, 0.05, 400)
    assert result["settled"] >= 0.75 - 2 * math.sqrt(0.16 / 400), "numbers of repeats are rounded up to rounds"
    for name in ("shown", "further"):
        assert abs(result[name] - 0.8) <= 0.05 + 2 * math.sqrt(0.16 / 400)


def test_the_error_of_the_noise_is_counted_in(coverage):
    """Three repeats of two cells say little about the noise, so more is asked for than if it were known."""
    known, estimated = (coverage.detectable_effect(15, 2, 0.95, freedom) for freedom in (None, 2))
    assert estimated > 1.3 * known


@pytest.mark.parametrize("noise", ["normal 3 %", "two clock states 50/50", "a state for each round 5 %"])
def test_looking_often_and_stopping_when_decided_makes_no_false_claims(coverage, random, noise):
    rule = RepeatUntil(resolve=0.03)
    seen = coverage.stopped(random, coverage.NOISE[noise], 2, rule, 300)
    assert within(seen["false"], 0.05, 300)
    assert within(seen["missed"], 0.05, 300)


def test_without_levels_of_their_own_looks_would_make_false_claims(coverage, random):
    """The simulation can see the fault that the rule prevents."""
    rule = RepeatUntil(resolve=0.03)
    naive = coverage.stopped(random, coverage.NOISE["normal 3 %"], 2, rule, 300, naive=True)
    assert naive["false"] > 0.08


def test_repeats_end_early_where_the_difference_is_clear(coverage, random):
    rule = RepeatUntil(resolve=0.03)
    clear = coverage.stopped(random, coverage.NOISE["a state for each round 5 %"], 3, rule, 100, effect=0.2)
    assert clear["decided"] == 1
    assert clear["repeats"] < rule.at_most


def test_cells_that_share_a_letter_cannot_be_told_apart():
    quiet = [1.0, 1.01, 0.99, 1.005, 0.995]
    speeds = {"a": 100, "b": 99, "c": 90, "d": 50}
    rates = {cell: {k: speed * quiet[(k + i) % 5] for k in range(5)} for i, (cell, speed) in enumerate(speeds.items())}
    assert letters(compare_all(rates)) == {"a": "a", "b": "a", "c": "b", "d": "c"}


def test_one_run_or_one_cell_has_no_comparison():
    assert compare_all({"a": {1: 1.0}, "b": {1: 2.0, 2: 2.0}}) is None
    assert compare_all({"a": {1: 1.0, 2: 1.1, 3: 1.05}}) is None


def test_two_runs_of_each_cell_have_no_comparison():
    """In a machine with two clock states both runs of a cell are often in one of them."""
    assert compare_all({"a": {1: 1.0, 2: 1.001}, "b": {1: 2.0, 2: 2.001}}) is None
    assert compare_all({"a": {1: 1.0, 2: 1.001, 3: 1.0}, "b": {1: 2.0, 2: 2.001, 3: 2.0}}).differ[0, 1]
