"""A/B comparisons: the mean log ratio over pairs with its interval, the noise of A/A pairs, what could be resolved."""

import math
from bisect import bisect_left
from typing import Literal

import numpy as np

from scaleproof.conclude.analysis.power import detectable_by_pairs, t_quantile
from scaleproof.conclude.analysis.simultaneous import sd_interval
from scaleproof.ground.records.comparison_report import Paired

EFFECT = 0.02  # the difference for which the pairs needed are stated
FEWEST_PAIRS = 6  # below, an estimate of the spread says nothing about the pairs needed
MOST_PAIRS = 1000


def compare_ratios(ratios: list[float], null_ratios: list[float]) -> Paired:
    """Return the mean ratio B/A with its interval, and what it allows to claim. Both lists have two ratios or more.

    Faster or slower is claimed where Student's interval over the logarithms leaves 1 out, and the mean is beyond the
    floor: the mean that noise alone may give these pairs, estimated with the A/A pairs, too. `detectable_low` and
    `_high`, `pairs_low` and `_high`: the effect that this rule would find, and the pairs that it would need, for the
    smallest and the largest plausible standard deviation of a pair.
    """
    logs, null_logs = np.log(ratios), np.log(null_ratios)
    pair_count, null_count = len(logs), len(null_logs)
    mean, sd = float(np.mean(logs)), float(np.std(logs, ddof=1))
    half_width = t_quantile(pair_count - 1) * sd / math.sqrt(pair_count)

    # A/A pairs lose no degree of freedom to their mean, which is known: 0.
    degrees_of_freedom = pair_count - 1 + null_count
    pooled_sd = math.sqrt((sd**2 * (pair_count - 1) + float((null_logs**2).sum())) / degrees_of_freedom)
    floor = t_quantile(degrees_of_freedom) * pooled_sd / math.sqrt(pair_count)

    claim: Literal["faster", "slower"] | None = None
    if abs(mean) > half_width and abs(mean) > floor:
        claim = "faster" if mean > 0 else "slower"

    smallest_sd = largest_sd = 0.0
    if pooled_sd > 0:
        smallest_sd, largest_sd = sd_interval(pooled_sd, degrees_of_freedom)
    detectable_in_sds = detectable_by_pairs(pair_count, null_count)
    # An effect that is too small to be detected reliably is claimed mostly where noise made it look larger.
    is_overstated = claim is not None and abs(mean) < detectable_in_sds * pooled_sd

    return Paired(
        n=pair_count,
        ratio=math.exp(mean),
        low=math.exp(mean - half_width),
        high=math.exp(mean + half_width),
        floor=math.expm1(floor),
        null_ratios=[float(ratio) for ratio in null_ratios],
        ratios=[float(ratio) for ratio in ratios],
        detectable_low=math.expm1(detectable_in_sds * smallest_sd),
        detectable_high=math.expm1(detectable_in_sds * largest_sd),
        pairs_low=pairs_needed(smallest_sd, null_count),
        pairs_high=pairs_needed(largest_sd, null_count),
        claim=claim,
        overstated=is_overstated,
    )


def pairs_needed(sd: float, nulls: int) -> int | None:
    """Return the smallest even number of pairs that detects EFFECT, from FEWEST_PAIRS on; None above MOST_PAIRS.

    `sd`: the standard deviation of the logarithm of a pair's ratio; `nulls`: the number of A/A pairs, which stays as it
    is.
    """
    log_effect = math.log1p(EFFECT)
    pair_counts = range(FEWEST_PAIRS, MOST_PAIRS + 1, 2)
    # The more pairs, the smaller the effect that is detectable.
    index = bisect_left(pair_counts, True, key=lambda n: detectable_by_pairs(n, nulls) * sd <= log_effect)
    return pair_counts[index] if index < len(pair_counts) else None
