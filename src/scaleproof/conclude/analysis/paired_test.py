"""A/B comparisons: the mean log ratio over pairs with its interval, the noise of A/A pairs, what could be resolved."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from scaleproof.conclude.analysis.simultaneous import DRAWS, POWER, sd_interval
from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.records.comparison_report import Paired

RESOLVE = 0.02  # the effect for which the pairs needed are stated
FEWEST_PAIRS = 6  # below, an estimate of the spread says nothing about the pairs needed
MOST_PAIRS = 1000


def compare_ratios(ratios: list[float], null_ratios: list[float]) -> Paired:
    """The mean ratio B/A with its interval, and what it allows to claim; from two or more ratios B/A and A/A each.

    Each ratio comes from two runs side by side, so that drift and the choice of the node cancel in it; the interval is
    Student's t over the logarithms. Faster or slower is claimed where the interval leaves 1 out and the mean is beyond
    the floor, the size that noise alone reaches for n pairs. Both shrink with the number of pairs. What is detectable
    is computed under this very rule; its range is that of the standard deviation (chi-square).
    """
    logs = np.log(ratios)
    null_logs = np.log(null_ratios)
    n, nulls = len(logs), len(null_logs)
    mean = float(np.mean(logs))
    sd = float(np.std(logs, ddof=1))
    freedom = n - 1 + nulls  # the mean of A/A pairs is known: 0
    pooled_sd = math.sqrt((sd**2 * (n - 1) + float((null_logs**2).sum())) / freedom)
    half = _t_quantile(n - 1) * sd / math.sqrt(n)
    floor = _t_quantile(freedom) * pooled_sd / math.sqrt(n)
    claimed = abs(mean) > half and abs(mean) > floor
    smallest_sd, largest_sd = sd_interval(pooled_sd, freedom) if pooled_sd > 0 else (0.0, 0.0)
    detectable_sds = detectable_by_pairs(n, nulls)  # in standard deviations of a pair
    return Paired(
        n=n,
        ratio=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        floor=math.expm1(floor),
        null_ratios=[float(ratio) for ratio in null_ratios],
        ratios=[float(ratio) for ratio in ratios],
        detectable_low=math.expm1(detectable_sds * smallest_sd),
        detectable_high=math.expm1(detectable_sds * largest_sd),
        pairs_low=pairs_needed(smallest_sd, nulls),
        pairs_high=pairs_needed(largest_sd, nulls),
        claim=("faster" if mean > 0 else "slower") if claimed else None,
        # Of effects too small to be detected reliably, the claimed ones are those that noise made larger.
        overstated=claimed and abs(mean) < detectable_sds * pooled_sd,
    )


def _t_quantile(freedom: float) -> float:
    """Student's quantile of a two-sided interval of 95 % (CONFIDENCE)."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


@lru_cache(maxsize=4096)
def detectable_by_pairs(n: int, nulls: int) -> float:
    """Log effect, in units of the sd of a pair, that n pairs beside `nulls` A/A pairs claim with probability POWER.

    By draws of the noise: with z the error of the mean and t a threshold (as in `compare_ratios`), the claim
    is made from an effect of t - z on, and the POWER quantile of these effects is the answer.
    """
    random = np.random.default_rng(20_260_101)
    own = random.chisquare(n - 1, DRAWS)
    of_null = random.chisquare(nulls, DRAWS)
    z = random.standard_normal(DRAWS)
    interval = _t_quantile(n - 1) * np.sqrt(own / (n - 1))
    floor = _t_quantile(n - 1 + nulls) * np.sqrt((own + of_null) / (n - 1 + nulls))
    threshold = np.maximum(interval, floor)  # a claim must pass both
    return float(np.quantile(threshold - z, POWER)) / math.sqrt(n)


def pairs_needed(sd: float, nulls: int, effect: float = RESOLVE) -> int | None:
    """The smallest even number of pairs, from FEWEST_PAIRS on, that detects `effect`; None above MOST_PAIRS.

    `sd`: of the logarithm of a pair's ratio; `nulls`: the number of A/A pairs; `effect`: 0.02 for 2 %.
    """
    log_effect = math.log1p(effect)
    if detectable_by_pairs(MOST_PAIRS, nulls) * sd > log_effect:
        return None
    # By bisection, in units of two pairs: what is detectable shrinks with the number of pairs.
    too_few = FEWEST_PAIRS // 2 - 1
    enough = MOST_PAIRS // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if detectable_by_pairs(2 * middle, nulls) * sd > log_effect:
            too_few = middle
        else:
            enough = middle
    return 2 * enough
