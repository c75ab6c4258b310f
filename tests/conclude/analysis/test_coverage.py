"""A fast part of benchmarks/coverage.py: the statistics keep their word on campaigns with a known truth."""

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from scaleproof.conclude.analysis.power import detectable_ratio_of_cells
from scaleproof.conclude.analysis.simultaneous import compare_all, letter_groups
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.confidence import paired_ratio

ERROR = 3  # standard errors of a simulated share that a nominal level may be missed by


@pytest.fixture(scope="module")
def coverage():
    sys.path.insert(0, "benchmarks")  # where its other module is
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
    ["normal 3 %", "heavy tails (t3)", "10 % of runs 1.5x slower", "two states", "a state for each round 5 %"],
)
@pytest.mark.parametrize(("k", "n"), [(2, 3), (5, 3)])
def test_a_page_about_equal_cells_claims_no_difference(coverage, random, noise, k, n):
    assert within(coverage.false_claims(random, coverage.NOISE[noise], k, n, 80), 0.05, 80)


def test_the_simulation_sees_what_a_page_claims(coverage):
    """Two cells, one of them twice as fast, beside a slow device."""
    steady = np.array([[0.0, 0.01, 0.0], [0.7, 0.71, 0.7], [1.4, 1.41, 1.41]])
    assert coverage.claims_a_difference(*coverage.answered(steady))
    alike = np.array([[0.0, 0.1, -0.1], [-0.1, 0.0, 0.1], [0.1, -0.1, 0.0]])
    assert not coverage.claims_a_difference(*coverage.answered(alike))


@pytest.mark.parametrize("noise", ["normal 3 %", "one cell 10x noisier"])
def test_the_arrays_say_what_pages_say(coverage, random, noise):
    draw = coverage.ALL_NOISE[noise]
    assert 0 <= coverage._false_claims_at_once(random, draw, 2, 3, 20) <= 0.3
    assert 0.7 <= coverage._coverage_at_once(random, draw, 5, 3, 20)["single"] <= 1


@pytest.mark.parametrize(("k", "n"), [(2, 3), (5, 3), (2, 8)])
def test_where_a_run_in_ten_is_slow_a_rate_is_that_of_the_usual_run(coverage, random, k, n):
    """No interval of nine runs, of which none was slow, can say how slow one may be."""
    row = coverage._coverage_at_once(random, coverage.NOISE[coverage.SLOW_RUNS], k, n, 400)
    assert row["usual run"] >= 0.95


def test_arrays_that_say_something_else_end_the_benchmark(coverage, random, monkeypatch):
    monkeypatch.setattr(coverage, "speed_up_halves", lambda logs: np.full(len(logs), 0.5))
    with pytest.raises(SystemExit, match="does not have the intervals of the arrays"):
        coverage._coverage_at_once(random, coverage.NOISE["normal 3 %"], 2, 3, 20)


def test_a_page_of_two_repeats_claims_nothing(coverage, random):
    assert coverage.false_claims(random, coverage.NOISE["two states that last"], 5, 2, 30) == 0


def test_repeats_that_do_not_match_are_compared_without_rounds(coverage, random):
    draw = coverage.NOISE["two states"]
    claims = [coverage.family(draw(random, 6, 3), matched=False).differ.any() for _ in range(200)]
    assert within(float(np.mean(claims)), 0.05, 200)


def test_a_state_of_the_machine_that_a_round_shares_costs_no_power(random):
    """A difference of 5 % under a state that varies by 10 % from round to round, runs by 1 %."""
    seen = []
    for _ in range(200):
        logs = 0.1 * random.standard_normal((1, 5)) + 0.01 * random.standard_normal((2, 5)) + [[0.05], [0]]
        rates = {str(i): dict(enumerate(np.exp(row))) for i, row in enumerate(logs)}
        seen.append(compare_all(rates).differ[0, 1])
    assert np.mean(seen) > 0.9


@pytest.mark.parametrize(
    ("noise", "least"),
    [("normal 3 %", 0.95), ("two states", 0.95), ("noise of 1 to 10 %", 0.94), ("one cell 10x noisier", 0.94)],
)
def test_printed_intervals_hold_the_truth(coverage, random, noise, least):
    held = coverage.printed_coverage(random, coverage.ALL_NOISE[noise], 5, 3, 200)
    for name in ("rate", "single", "fastest", "together"):
        assert within(1 - held[name], 1 - least, 200), name


def test_the_noise_of_all_cells_narrows_a_single_ratio(coverage, random):
    held = coverage.printed_coverage(random, coverage.NOISE["normal 3 %"], 5, 3, 300)
    assert held["half alone"] > 1.3 * held["half"]


def test_a_noisier_pair_keeps_the_noise_of_its_own_runs():
    quiet = {f"c{i}": {k: math.exp(0.01 * ((i + k) % 3 - 1)) for k in range(5)} for i in range(6)}
    wild = {k: math.exp(0.2 * ((k % 3) - 1)) for k in range(5)}
    others = list(quiet.values())[1:]
    noisy, alone = (paired_ratio(wild, quiet["c0"], 1.0, 0.95, rates) for rates in (others, ()))
    assert noisy.high == alone.high
    still, alone = (paired_ratio(quiet["c1"], quiet["c0"], 1.0, 0.95, rates) for rates in (others[1:], ()))
    assert still.freedom > alone.freedom


@pytest.mark.parametrize(("noise", "n"), [("normal 3 %", 3), ("drift of 10 % over the rounds", 3), ("two states", 5)])
def test_a_recommended_cell_is_hardly_slower_than_the_best(coverage, random, noise, n):
    result = coverage.recommended(random, coverage.NOISE[noise], 5, n, 100)
    assert result["10 % slower"] == 0
    assert result["5 % slower"] <= 0.03


def test_drift_that_pairing_cancels_withholds_no_recommendation(coverage, random):
    assert coverage.recommended(random, coverage.NOISE["drift of 10 % over the rounds"], 5, 3, 60)["given"] >= 0.95


@pytest.mark.parametrize("n", [3, 5])
def test_noise_is_not_rewarded(coverage, random, n):
    assert coverage.recommended(random, coverage.NOISE["normal 3 %"], 5, n, 100, noisy=True)["10 % slower"] <= 0.01


def test_two_runs_recommend_nothing(coverage, random):
    assert coverage.recommended(random, coverage.NOISE["normal 3 %"], 5, 2, 20)["given"] == 0


def test_what_is_said_of_further_repeats_is_true_four_times_out_of_five(coverage, random):
    result = coverage.more_repeats(random, coverage.NOISE["normal 3 %"], 2, 5, 400)
    assert result["settled"] >= 0.75 - 2 * math.sqrt(0.16 / 400), "numbers of repeats are rounded up to rounds"
    for name in ("shown", "further"):
        assert abs(result[name] - 0.8) <= 0.05 + 2 * math.sqrt(0.16 / 400)


def test_the_error_of_the_noise_is_counted_in():
    """Three repeats of two cells say little about the noise, so more is asked for than if it were known."""
    known, estimated = (detectable_ratio_of_cells(15, 2, 0.95, freedom) for freedom in (None, 2))
    assert estimated > 1.3 * known


@pytest.mark.parametrize("noise", ["normal 3 %", "two states", "a state for each round 5 %"])
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
    assert letter_groups(compare_all(rates), 4) == {"a": "a", "b": "a", "c": "b", "d": "c"}


def test_one_run_or_one_cell_has_no_comparison():
    assert compare_all({"a": {1: 1.0}, "b": {1: 2.0, 2: 2.0}}) is None
    assert compare_all({"a": {1: 1.0, 2: 1.1, 3: 1.05}}) is None


def test_two_runs_of_each_cell_have_no_comparison():
    """In a machine with two clock states both runs of a cell are often in one of them."""
    assert compare_all({"a": {1: 1.0, 2: 1.001}, "b": {1: 2.0, 2: 2.001}}) is None
    assert compare_all({"a": {1: 1.0, 2: 1.001, 3: 1.0}, "b": {1: 2.0, 2: 2.001, 3: 2.0}}).differ[0, 1]
