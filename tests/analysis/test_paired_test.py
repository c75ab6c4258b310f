"""A/B comparisons on simulated truth: what is claimed, and how often without a reason."""

import math

import numpy as np
import pytest
from scipy import stats

from scalebench.analysis.paired_test import compare

TRIALS = 1500


def pairs(random: np.random.Generator, n: int, effect: float, noise: str) -> list[float]:
    """B/A ratios of n pairs run one after the other: drift and node offsets hit both arms of a pair alike."""
    drift = np.linspace(0, 0.2, n) + random.normal(0, 0.1, n)  # the node, the hour
    draw = {"normal": lambda: random.normal(0, 0.01, n), "heavy": lambda: 0.006 * random.standard_t(3, n)}[noise]
    return list(np.exp(drift + effect + draw()) / np.exp(drift + draw()))


def claims(effect: float, noise: str, n: int = 8) -> list[str | None]:
    random = np.random.default_rng([n, int(effect * 1000) + 100, len(noise)])
    return [compare(pairs(random, n, effect, noise), pairs(random, 4, 0.0, noise)).claim for _ in range(TRIALS)]


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
    found = [compare(pairs(random, 6, 0.03, "normal"), [1, 1.01]) for _ in range(TRIALS)]
    assert 0.93 <= np.mean([c.low <= math.exp(0.03) <= c.high for c in found]) <= 0.97


def test_the_detectable_effect_is_detected_as_often_as_it_says():
    random = np.random.default_rng(2)
    effect = math.log(1 + np.median([compare(pairs(random, 8, 0, "normal"), [1, 1]).detectable for _ in range(200)]))
    found = [compare(pairs(random, 8, effect, "normal"), [1, 1]).claim for _ in range(TRIALS)]
    assert 0.7 <= found.count("faster") / TRIALS <= 0.92


def test_a_test_over_steps_would_see_differences_that_are_not_there():
    """Steps of one run share that run's offset: treated as independent, they make chance look like an effect."""
    random = np.random.default_rng(3)
    false = 0
    for _ in range(300):
        a, b = (random.normal(0, 0.02) + random.normal(0, 0.03, 200) for _ in range(2))
        false += stats.ttest_ind(a, b).pvalue < 0.05
    assert false / 300 > 0.5


def test_an_effect_below_the_noise_floor_is_not_claimed():
    found = compare([1.010, 1.011, 1.009, 1.010], [0.97, 1.03])
    assert found.low > 1
    assert found.floor == pytest.approx(0.03, abs=0.001)
    assert found.claim is None


def test_more_pairs_are_told():
    random = np.random.default_rng(4)
    wide = compare(list(np.exp(random.normal(0, 0.05, 5))), [1, 1])
    assert wide.more_pairs > 10
    assert compare([1.0, 1.0001, 0.9999, 1.0], [1, 1]).more_pairs == 0
    assert compare([0.5, 2.0, 1.0], [1, 1]).more_pairs is None
