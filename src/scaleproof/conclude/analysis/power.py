"""How large a difference must be to be shown with probability POWER, under the rules by which ratios are claimed."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri, fdtri, ndtr, stdtrit

from scaleproof.conclude.analysis.studentized_range import solve_for_quantile, studentized_range_quantile
from scaleproof.ground.confidence import CONFIDENCE, OWN_NOISE, UNEQUAL_NOISE

POWER = 0.8  # probability with which the smallest detectable difference is shown
DRAWS = 1 << 13  # draws of the noise, with which effects are exact to 0.3 %


class Rule(NamedTuple):
    """A rule by which effects are shown: the probability that it is followed, and draws of its threshold.

    An effect is shown where effect + error is above the threshold; the error is normal. Thresholds are in standard
    deviations of the mean.
    """

    probability: float
    thresholds: np.ndarray


@lru_cache(maxsize=4096)
def detectable_ratio_of_cells(
    n: int, k: int, confidence: float = CONFIDENCE, freedom: float | None = None, unequal: bool = False
) -> float:
    """Return the log ratio of two of k cells that n repeats show with chance POWER, in standard deviations of a pair.

    Noise is drawn, and judged by the rule of `compare_all` for repeats that match. `unequal`: the pair is noisier than
    the other cells. `freedom`: see `shown_effect`; with it the result allows for the error of the deviation, so that a
    printed sentence is true as often as it says.
    """
    own_chances, other_chances, estimate_chances = _even_draws(3)
    # chdtri turns each chance into a draw of a sum of squares about the mean: of the pair, and of the other cells.
    own_squares = chdtri(n - 1, own_chances)
    other_squares = chdtri((k - 2) * (n - 1), other_chances) if k > 2 else np.zeros(DRAWS)

    tail = (1 - confidence) / 2
    pair_count = k * (k - 1) // 2
    own_sd = np.sqrt(own_squares / (n - 1))
    # The threshold where cells are not equally noisy, by Bonferroni.
    bonferroni = float(stdtrit(n - 1, 1 - tail / pair_count)) * own_sd
    if unequal:
        return shown_effect([Rule(1.0, bonferroni)], n, freedom, estimate_chances)

    pooled_freedom = (k - 1) * (n - 1)
    pooled_sd = np.sqrt((own_squares + other_squares) / pooled_freedom)
    tukey = studentized_range_quantile(confidence, k, pooled_freedom) / math.sqrt(2) * pooled_sd
    students_t = float(stdtrit(n - 1, 1 - tail)) * own_sd
    # By chance Bartlett's test calls this part of equally noisy families unequal: for them Bonferroni's rule is used.
    error_chance = UNEQUAL_NOISE if k > 2 else 0.0
    rules = [Rule(1 - error_chance, np.maximum(tukey, students_t)), Rule(error_chance, bonferroni)]
    return shown_effect(rules, n, freedom, estimate_chances)


@lru_cache(maxsize=4096)
def detectable_ratio_of_two(n: int, others: int, confidence: float, freedom: float | None = None) -> float:
    """Return the log ratio of two cells that n repeats show with probability POWER, in standard deviations of a pair.

    Noise is drawn, and judged as by `pooled_variance` (ground/confidence.py): the noise of `others`, so many further
    cells, counts as well, unless the noise of the pair is shown to be larger. `freedom`: see `shown_effect`.
    """
    own_chances, other_chances, estimate_chances = _even_draws(3)
    own_freedom = n - 1
    own_squares = chdtri(own_freedom, own_chances)  # draws of the sum of squares about the mean
    tail = (1 - confidence) / 2
    threshold = float(stdtrit(own_freedom, 1 - tail)) * np.sqrt(own_squares / own_freedom)

    if others:
        other_freedom = others * (n - 1)
        other_squares = chdtri(other_freedom, other_chances)
        largest_ratio = float(fdtri(own_freedom, other_freedom, 1 - OWN_NOISE))  # of the variances, by chance alone
        is_noisier = own_squares / own_freedom > largest_ratio * other_squares / other_freedom
        pooled_freedom = own_freedom + other_freedom
        pooled_sd = np.sqrt((own_squares + other_squares) / pooled_freedom)
        pooled_threshold = float(stdtrit(pooled_freedom, 1 - tail)) * pooled_sd
        threshold = np.where(is_noisier, threshold, pooled_threshold)
    return shown_effect([Rule(1.0, threshold)], n, freedom, estimate_chances)


@lru_cache(maxsize=4096)
def detectable_by_pairs(n: int, nulls: int) -> float:
    """Return the log ratio that n pairs beside `nulls` A/A pairs show with probability POWER.

    It is in standard deviations of a pair, from draws of the noise. The rule is that of `compare_ratios`
    (paired_test.py): a mean is claimed that exceeds both the half-width of its own interval, by the scatter of the n
    pairs, and the floor, by the scatter of these and of the A/A pairs together.
    """
    own_chances, null_chances = _even_draws(2)
    own_squares = chdtri(n - 1, own_chances)  # draws of the sum of squares about the mean
    half_width = t_quantile(n - 1) * np.sqrt(own_squares / (n - 1))
    null_squares = chdtri(nulls, null_chances)  # about 0, the known mean of A/A pairs: no degree of freedom is lost
    pooled_freedom = n - 1 + nulls
    floor = t_quantile(pooled_freedom) * np.sqrt((own_squares + null_squares) / pooled_freedom)
    return shown_effect([Rule(1.0, np.maximum(half_width, floor))], n)  # a claim must pass both


def shown_effect(
    rules: Sequence[Rule], n: int, freedom: float | None = None, estimate_chances: np.ndarray | None = None
) -> float:
    """Return the log ratio that n repeats (or pairs) show with probability POWER, in standard deviations of one pair.

    `freedom`: if given, the answer is a multiple of an estimate of the pair's deviation with so many degrees of
    freedom; the estimate is drawn by the probabilities `estimate_chances`.
    """
    sd = np.ones(1)  # draws of the estimated deviation over the true one
    if freedom is not None and estimate_chances is not None:
        sd = np.sqrt(chdtri(freedom, estimate_chances) / freedom)

    def chance_of(effect: float) -> float:
        return sum(rule.probability * float(ndtr(effect * sd - rule.thresholds).mean()) for rule in rules)

    # Upper end of the search: in 9 of 10 draws each rule shows this effect with 3 standard deviations to spare.
    bound = max(float(np.quantile((rule.thresholds + 3) / sd, 0.9)) for rule in rules)
    return solve_for_quantile(chance_of, POWER, bound) / math.sqrt(n)


def t_quantile(freedom: float) -> float:
    """Return Student's quantile of a two-sided interval of 95 % (CONFIDENCE)."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


@lru_cache(maxsize=4)
def _even_draws(dimensions: int) -> np.ndarray:
    """Return DRAWS points of the unit cube that fill it more evenly than random points: a row for each dimension d.

    Point k is the fractional part of 0.5 + k * (root**-1, ..., root**-d), where root > 1 solves x**(d + 1) = x + 1.
    Source: M. Roberts, The unreasonable effectiveness of quasirandom sequences (2018).
    """
    root = 2.0
    for _ in range(60):  # converges to the root
        root = (1 + root) ** (1 / (dimensions + 1))
    strides = root ** -np.arange(1.0, dimensions + 1)
    return (0.5 + np.outer(strides, np.arange(1, DRAWS + 1))) % 1
