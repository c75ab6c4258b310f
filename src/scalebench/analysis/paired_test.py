"""A/B comparisons: the mean log ratio over pairs, its interval, the noise floor of A/A pairs, what could be resolved."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from scalebench.analysis.confidence import CONFIDENCE

POWER = 0.8  # probability with which the smallest detectable effect is detected
RESOLVE = 0.02  # the effect for which "so many more pairs" is told
MOST_PAIRS = 1000


@dataclass(frozen=True)
class Paired:
    """B relative to A. Ratios of tokens/s; 1.05 is 5 % faster."""

    n: int
    ratio: float
    low: float
    high: float
    floor: float  # ratio - 1 that pairs of A against A show by themselves: the root mean square of their log ratios
    null_ratios: list[float]
    ratios: list[float]
    detectable: float  # ratio - 1 that this many pairs detect with a probability of 80 %
    more_pairs: int | None  # pairs beyond these that would detect 2 %; None: more than 1,000
    claim: str | None  # "faster" or "slower"; None where the pairs do not carry it


def compare(ratios: list[float], null_ratios: list[float]) -> Paired:
    """Estimate from B/A ratios of pairs (two or more) and from A/A ratios (two or more).

    Each ratio comes from two runs side by side, so that drift and the choice of the node cancel in it; the interval is
    Student's t over the logarithms. A claim needs an interval without 1 and an effect above the noise floor.
    """
    logs, null = np.log(ratios), np.log(null_ratios)
    n, mean, sd = len(logs), float(np.mean(logs)), float(np.std(logs, ddof=1))
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * sd / math.sqrt(n)
    floor = float(np.sqrt(np.mean(null**2)))
    claimed = abs(mean) > half and abs(mean) > floor
    return Paired(
        n=n,
        ratio=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        floor=math.exp(floor) - 1,
        null_ratios=[float(r) for r in null_ratios],
        ratios=[float(r) for r in ratios],
        detectable=math.exp(_detectable(sd, n)) - 1,
        more_pairs=_more_pairs(sd, n),
        claim=("faster" if mean > 0 else "slower") if claimed else None,
    )


def _detectable(sd: float, n: int) -> float:
    """Log effect that n pairs with a standard deviation `sd` detect with probability POWER (theory of the t test)."""
    return float(stdtrit(n - 1, (1 + CONFIDENCE) / 2) + stdtrit(n - 1, POWER)) * sd / math.sqrt(n)


def _more_pairs(sd: float, n: int) -> int | None:
    wanted = math.log(1 + RESOLVE)
    return next((m - n for m in range(n, MOST_PAIRS) if _detectable(sd, m) <= wanted), None)
