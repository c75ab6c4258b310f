"""How large a difference must be to be shown with probability POWER, under the rules by which ratios are claimed."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import chdtri, fdtri, ndtr, stdtrit

from scaleproof.conclude.analysis.studentized_range import solve_for_quantile, studentized_range_quantile
from scaleproof.ground.confidence import CONFIDENCE, OWN_NOISE, UNEQUAL_NOISE

POWER = 0.8  # probability with which the smallest detectable difference is shown
DRAWS = 1 << 13  # of the noise; effects are then exact to 0.3 %


@lru_cache(maxsize=4096)
def detectable_ratio_of_cells(
    n: int, k: int, confidence: float = CONFIDENCE, freedom: float | None = None, unequal: bool = False
) -> float:
    """Return the log ratio of two of k cells that n repeats show with chance POWER, in standard deviations of a pair.

    Noise is drawn, and judged by the rule of `compare_all` for repeats that match. `unequal`: for a pair that is
    noisier than the others. `freedom`: as of `shown_effect`; with it the error of the estimated deviation counts, so
    that a printed sentence is true as often as it says.
    """
    of_own, of_others, of_estimate = _even_draws(3)
    # Sums of squares about the means: the pair's own, and what the other cells add to it.
    own = chdtri(n - 1, of_own)
    others = chdtri((k - 2) * (n - 1), of_others) if k > 2 else np.zeros(DRAWS)
    own_sd = np.sqrt(own / (n - 1))
    tail = (1 - confidence) / 2
    pairs = k * (k - 1) // 2
    bonferroni = float(stdtrit(n - 1, 1 - tail / pairs)) * own_sd  # the threshold where cells are not equally noisy
    if unequal:
        return shown_effect([(1.0, bonferroni)], n, freedom, of_estimate)
    freedom_of_all = (k - 1) * (n - 1)
    pooled_sd = np.sqrt((own + others) / freedom_of_all)
    tukey = studentized_range_quantile(confidence, k, freedom_of_all) / math.sqrt(2) * pooled_sd
    alone = float(stdtrit(n - 1, 1 - tail)) * own_sd
    taken_for_unequal = UNEQUAL_NOISE if k > 2 else 0.0  # how often Bartlett's test errs
    rules = [(1 - taken_for_unequal, np.maximum(tukey, alone)), (taken_for_unequal, bonferroni)]
    return shown_effect(rules, n, freedom, of_estimate)


@lru_cache(maxsize=4096)
def detectable_ratio_of_two(n: int, others: int, confidence: float, freedom: float | None = None) -> float:
    """Return the log ratio of two cells that n repeats show with probability POWER, in standard deviations of a pair.

    Noise is drawn, and judged as by `pooled_variance` (ground/confidence.py): that of `others`, so many further cells,
    counts as well, unless the pair's is shown to be larger. `freedom`: as of `shown_effect`.
    """
    of_own, of_rest, of_estimate = _even_draws(3)
    own_freedom, rest_freedom = n - 1, others * (n - 1)
    own = chdtri(own_freedom, of_own)  # sum of squares about the mean
    tail = (1 - confidence) / 2
    threshold = float(stdtrit(own_freedom, 1 - tail)) * np.sqrt(own / own_freedom)
    if others:
        rest = chdtri(rest_freedom, of_rest)
        largest_ratio = float(fdtri(own_freedom, rest_freedom, 1 - OWN_NOISE))  # of variances, by chance
        noisier = own / own_freedom > largest_ratio * rest / rest_freedom
        both_freedom = own_freedom + rest_freedom
        pooled = float(stdtrit(both_freedom, 1 - tail)) * np.sqrt((own + rest) / both_freedom)
        threshold = np.where(noisier, threshold, pooled)
    return shown_effect([(1.0, threshold)], n, freedom, of_estimate)


@lru_cache(maxsize=4096)
def detectable_by_pairs(n: int, nulls: int) -> float:
    """Return the log ratio that n pairs beside `nulls` A/A pairs show with probability POWER.

    It is in standard deviations of a pair, from draws of the noise, under the rule of `compare_ratios`.
    """
    of_own, of_nulls = _even_draws(2)
    freedom = n - 1 + nulls
    own = chdtri(n - 1, of_own)  # sum of squares about the mean
    interval = t_quantile(n - 1) * np.sqrt(own / (n - 1))
    floor = t_quantile(freedom) * np.sqrt((own + chdtri(nulls, of_nulls)) / freedom)
    return shown_effect([(1.0, np.maximum(interval, floor))], n)  # a claim must pass both


def shown_effect(
    rules: Sequence[tuple[float, np.ndarray]],
    n: int,
    freedom: float | None = None,
    of_estimate: np.ndarray | None = None,
) -> float:
    """Return the log ratio that n repeats (or pairs) show with probability POWER, in standard deviations of one pair.

    An effect is shown where effect + error is above the threshold; the error is normal. `rules`: the probability that
    each is followed, and draws of its threshold, in standard deviations of the mean. `freedom`: if given, the answer is
    a multiple of an estimate of the pair's deviation with so many degrees of freedom, which is drawn by the
    probabilities `of_estimate`.
    """
    sd = np.ones(1)
    if freedom is not None and of_estimate is not None:
        sd = np.sqrt(chdtri(freedom, of_estimate) / freedom)

    def chance(effect: float) -> float:
        return sum(weight * float(ndtr(effect * sd - thresholds).mean()) for weight, thresholds in rules)

    # Shown in 9 of 10 draws by each rule, nearly always in each of them.
    bound = max(float(np.quantile((thresholds + 3) / sd, 0.9)) for _, thresholds in rules)
    return solve_for_quantile(chance, POWER, bound) / math.sqrt(n)


def t_quantile(freedom: float) -> float:
    """Return Student's quantile of a two-sided interval of 95 % (CONFIDENCE)."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


@lru_cache(maxsize=4)
def _even_draws(dimensions: int) -> np.ndarray:
    """Return DRAWS points of the unit cube that fill it more evenly than random ones: a row for each dimension.

    They are multiples, less their whole parts, of negative powers of the root above 1 of x**(d + 1) = x + 1. Source:
    M. Roberts, The unreasonable effectiveness of quasirandom sequences (2018).
    """
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    return (0.5 + np.outer(steps, np.arange(1, DRAWS + 1))) % 1
