"""A series of comparisons keeps its five percent, and gets something back for what it finds."""

import numpy as np
import pytest

from scaleproof.conclude.analysis.stopping import ALPHA, confidence_at, next_level
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.confidence import paired_ratio

COMPARISONS = 200


def levels(number: int) -> list[float]:
    return [next_level([False] * k) for k in range(number)]


def test_a_series_without_differences_spends_no_more_than_it_has():
    spent = levels(COMPARISONS)
    assert sum(spent) <= ALPHA
    assert all(0 < level <= ALPHA for level in spent)
    assert spent == sorted(spent, reverse=True)


def test_a_difference_that_is_found_earns_something_back():
    assert next_level([False] * 50 + [True]) > 5 * next_level([False] * 51)


def decided(a: np.ndarray, b: np.ndarray, rule: RepeatUntil) -> bool:
    """Whether a look tells two programs apart, whose rates are given repeat by repeat."""
    for repeats in rule.looks():
        top, bottom = (dict(enumerate(rates[:repeats], start=1)) for rates in (b, a))
        value = float(np.exp(np.mean(np.log(b[:repeats] / a[:repeats]))))
        ratio = paired_ratio(top, bottom, value, confidence_at(rule, repeats))
        if ratio.low > 1 or ratio.high < 1:
            return True
    return False


def false_alarms(chance: np.random.Generator, slower: float = 0.0) -> list[bool]:
    """The claims of a series: each comparison looks several times, its level depends on what was claimed before."""
    claims: list[bool] = []
    for _ in range(COMPARISONS):
        rule = RepeatUntil.model_validate(
            {"resolve": 0.02, "at_least": 4, "at_most": 12, "chance": next_level(claims)}, strict=False
        )
        rates = np.exp(chance.normal(0, 0.03, (2, 12)))
        claims.append(decided(rates[0], rates[1] * (1 - slower), rule))
    return claims


def test_at_most_one_series_in_twenty_claims_what_is_not_there():
    """200 adaptive A/A comparisons each: a series with any claim is a false alarm."""
    chance = np.random.default_rng(30)
    series = [any(false_alarms(chance)) for _ in range(60)]
    assert np.mean(series) <= 0.10  # 5 % and two standard errors of 60 series


def test_planted_slow_downs_are_found():
    claims = false_alarms(np.random.default_rng(5), slower=0.15)
    assert np.mean(claims) > 0.9


@pytest.mark.parametrize("chance", [0.0, 0.06])
def test_a_chance_above_five_percent_is_refused(chance):
    with pytest.raises(ValueError, match="chance"):
        RepeatUntil.model_validate({"resolve": 0.02, "chance": chance}, strict=False)
