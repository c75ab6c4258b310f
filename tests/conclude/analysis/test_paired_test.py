"""A/B comparisons on simulated truth: what is claimed, and how often without a reason."""

import math

import numpy as np
import pytest
from scipy import stats

from scaleproof.conclude.analysis.paired_test import compare_ratios, pairs_needed
from scaleproof.conclude.analysis.power import detectable_by_pairs

TRIALS = 1500


def pairs(random: np.random.Generator, n: int, effect: float, noise: str) -> list[float]:
    """B/A ratios of n pairs run one after the other: drift and node offsets hit both arms of a pair alike."""
    drift = np.linspace(0, 0.2, n) + random.normal(0, 0.1, n)  # the node, the hour
    draw = {"normal": lambda: random.normal(0, 0.01, n), "heavy": lambda: 0.006 * random.standard_t(3, n)}[noise]
    return list(np.exp(drift + effect + draw()) / np.exp(drift + draw()))


def claims(effect: float, noise: str, n: int = 8) -> list[str | None]:
    random = np.random.default_rng([n, int(effect * 1000) + 100, len(noise)])
    return [compare_ratios(pairs(random, n, effect, noise), pairs(random, 4, 0.0, noise)).claim for _ in range(TRIALS)]


@pytest.mark.parametrize("noise", ["normal", "heavy"])
@pytest.mark.parametrize("n", [4, 8, 16])
def test_at_most_5_of_100_claims_are_false_where_there_is_nothing(noise, n):
    made = claims(0.0, noise, n)
    assert sum(c is not None for c in made) / TRIALS <= 0.05


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_an_effect_above_the_noise_is_found_with_its_sign(noise):
    made = claims(0.05, noise)
    assert made.count("faster") / TRIALS >= 0.95
    assert "slower" not in made
    assert claims(-0.05, noise).count("slower") / TRIALS >= 0.95


def test_the_interval_covers_the_truth():
    random = np.random.default_rng(1)
    found = [compare_ratios(pairs(random, 6, 0.03, "normal"), [1, 1.01]) for _ in range(TRIALS)]
    assert 0.93 <= np.mean([c.low <= math.exp(0.03) <= c.high for c in found]) <= 0.97


@pytest.mark.parametrize(("n", "nulls"), [(4, 2), (8, 4), (24, 8)])
def test_the_detectable_effect_is_detected_four_times_out_of_five(n, nulls):
    random = np.random.default_rng(2)
    effect = detectable_by_pairs(n, nulls) * 0.03
    made = [
        compare_ratios(np.exp(random.normal(effect, 0.03, n)), np.exp(random.normal(0, 0.03, nulls)))
        for _ in range(TRIALS)
    ]
    assert 0.75 <= np.mean([c.claim == "faster" for c in made]) <= 0.85
    bounds = [(math.log1p(c.detectable_low), math.log1p(c.detectable_high)) for c in made]
    assert sum(low < effect < high for low, high in bounds) > 0.8 * TRIALS, "shifted by the effect in A/B alone"


def test_the_range_of_pairs_needed_holds_the_truth():
    random = np.random.default_rng(5)
    truth = pairs_needed(0.03, 4)
    made = [compare_ratios(np.exp(random.normal(0, 0.03, 8)), np.exp(random.normal(0, 0.03, 4))) for _ in range(500)]
    assert np.mean([c.pairs_low <= truth <= (c.pairs_high or 1000) for c in made]) >= 0.93
    assert all(c.pairs_low % 2 == 0 and c.pairs_low >= 6 for c in made)
    enough = [
        compare_ratios(np.exp(random.normal(math.log(1.02), 0.03, truth)), np.exp(random.normal(0, 0.03, 4))).claim
        for _ in range(500)
    ]
    assert 0.75 <= enough.count("faster") / 500 <= 0.9


def test_power_grows_with_the_pairs():
    powers = []
    for n in (4, 8, 16, 32):
        random = np.random.default_rng(n)
        made = [
            compare_ratios(np.exp(random.normal(0.02, 0.028, n)), np.exp(random.normal(0, 0.028, 4)))
            for _ in range(400)
        ]
        powers.append(np.mean([c.claim == "faster" for c in made]))
    assert powers == sorted(powers)
    assert powers[-1] > 0.9


def test_a_test_over_steps_would_see_differences_that_are_not_there():
    """Steps of one run share that run's offset: treated as independent, they make chance look like an effect."""
    random = np.random.default_rng(3)
    false = 0
    for _ in range(300):
        a, b = (random.normal(0, 0.02) + random.normal(0, 0.03, 200) for _ in range(2))
        false += stats.ttest_ind(a, b).pvalue < 0.05
    assert false / 300 > 0.5


def test_an_effect_below_the_noise_floor_is_not_claimed():
    estimate = compare_ratios([1.010, 1.011, 1.009, 1.010], [0.97, 1.03])
    assert estimate.low > 1
    assert estimate.floor == pytest.approx(0.025, abs=0.001)
    assert estimate.claim is None


def test_the_noise_floor_falls_with_the_pairs():
    floors = [compare_ratios([1.0, 1.02] * half, [0.98, 1.02]).floor for half in (3, 12)]
    assert floors[1] < 0.6 * floors[0]


def test_a_large_effect_of_few_pairs_is_marked_as_overstated():
    assert compare_ratios([1.05, 1.06, 1.04, 1.05], [1.001, 0.999]).overstated is False
    noisy = compare_ratios([1.02, 1.07, 1.09, 1.04], [1.03, 0.97])
    assert noisy.claim == "faster"
    assert noisy.overstated


@pytest.mark.parametrize(("sd", "pairs"), [(0.0001, 6), (3.0, None)])
def test_pairs_needed_have_bounds(sd, pairs):
    assert pairs_needed(sd, 4) == pairs
