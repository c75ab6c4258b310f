"""A/B comparisons: the mean log ratio over pairs with its interval, the noise of A/A pairs, what could be resolved."""

import math

import numpy as np

from scaleproof.conclude.analysis.power import detectable_by_pairs, t_quantile
from scaleproof.conclude.analysis.simultaneous import sd_interval
from scaleproof.ground.records.comparison_report import Paired

RESOLVE = 0.02  # the effect for which the pairs needed are stated
FEWEST_PAIRS = 6  # below, an estimate of the spread says nothing about the pairs needed
MOST_PAIRS = 1000


def compare_ratios(ratios: list[float], null_ratios: list[float]) -> Paired:
    """Return the mean ratio B/A with its interval, and what it allows to claim. Both lists have two ratios or more.

    Faster or slower is claimed where Student's interval over the logarithms leaves 1 out, and the mean is beyond the
    floor: what noise alone reaches in so many pairs, with the noise of the A/A pairs in it. What is detectable follows
    from this rule and the standard deviation of a pair; it is a range, because that is known with an interval.
    """
    logs, null_logs = np.log(ratios), np.log(null_ratios)
    n, nulls = len(logs), len(null_logs)
    mean, sd = float(np.mean(logs)), float(np.std(logs, ddof=1))
    freedom = n - 1 + nulls  # A/A pairs lose none to their mean, which is known: 0
    pooled_sd = math.sqrt((sd**2 * (n - 1) + float((null_logs**2).sum())) / freedom)
    half = t_quantile(n - 1) * sd / math.sqrt(n)
    floor = t_quantile(freedom) * pooled_sd / math.sqrt(n)
    claimed = abs(mean) > half and abs(mean) > floor
    smallest_sd, largest_sd = sd_interval(pooled_sd, freedom) if pooled_sd > 0 else (0.0, 0.0)  # by chi-square
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


def pairs_needed(sd: float, nulls: int) -> int | None:
    """Return the smallest even number of pairs that detects 2 % (RESOLVE), from FEWEST_PAIRS on; None above MOST_PAIRS.

    `sd`: of the logarithm of a pair's ratio; `nulls`: the number of A/A pairs, which stays as it is.
    """
    log_effect = math.log1p(RESOLVE)
    if detectable_by_pairs(MOST_PAIRS, nulls) * sd > log_effect:
        return None
    # By bisection, in units of two pairs: what is detectable shrinks with the number of pairs.
    too_few, enough = FEWEST_PAIRS // 2 - 1, MOST_PAIRS // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if detectable_by_pairs(2 * middle, nulls) * sd > log_effect:
            too_few = middle
        else:
            enough = middle
    return 2 * enough
