"""Intervals for forecasts, and how they are scored.

An interval over repeats is no interval of a prediction: it covers 39 to 77 % where 95 % is claimed. Two
constructions hold: leave out the largest measured size, and split conformal over past forecasts (Vovk, Gammerman
and Shafer 2005; Lei et al. 2018).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaincinv, stdtrit

LEVEL = 0.95
WIDE = 0.15  # half-width of an interval from which on a forecast ranks nothing
LEVELS = (0.95, 0.9, 0.8)


@dataclass(frozen=True)
class Interval:
    """A positive quantity that was not measured. `n`: residuals that the width comes from."""

    value: float
    low: float
    high: float
    level: float
    construction: str
    n: int

    @property
    def half_width(self) -> float:
        """Relative: half the ratio of the bounds, in logarithms."""
        return math.log(self.high / self.low) / 2

    @property
    def wide(self) -> bool:
        return self.half_width > WIDE

    def holds(self, measured: float) -> bool:
        return self.low <= measured <= self.high

    def scaled(self, factor: float) -> "Interval":
        """The interval of the quantity times an exact positive number."""
        bounds = (self.value * factor, self.low * factor, self.high * factor)
        return Interval(*bounds, self.level, self.construction, self.n)

    def inverse(self, numerator: float) -> "Interval":
        """The interval of numerator / quantity."""
        bounds = (numerator / self.value, numerator / self.high, numerator / self.low)
        return Interval(*bounds, self.level, self.construction, self.n)


def doublings(target: int, largest: int) -> float:
    """From the largest measured size to the target; at least 1: nothing is known to be nearer than a measurement."""
    return max(1.0, math.log2(target / largest)) if target > largest else 1.0


def leave_largest_out(
    value: float, residuals: Sequence[float], distance: float, repeat_variance: float, level: float = LEVEL
) -> Interval | None:
    """From what the model gets wrong when the largest measured size of each series is predicted from the smaller ones.

    `residuals`: log(measured / predicted) per doubling, one a series. `distance`: doublings to the target.
    `repeat_variance`: of the logarithm of the anchoring measurement's mean. Student's t with as many degrees of
    freedom as there are series. None without residuals.
    """
    n = len(residuals)
    if not n:
        return None
    variance = sum(r * r for r in residuals) / n * distance**2 + repeat_variance
    half = float(stdtrit(n, (1 + level) / 2)) * math.sqrt(variance)
    return Interval(value, value * math.exp(-half), value * math.exp(half), level, "leave-largest-out", n)


def conformal_rank(n: int, level: float) -> int | None:
    """Which of n sorted absolute residuals bounds a further one with probability `level`; None where n is too small."""
    rank = math.ceil((n + 1) * level - 1e-9)
    return rank if rank <= n else None


def conformal(value: float, residuals: Sequence[float], distance: float, level: float = LEVEL) -> Interval | None:
    """Split conformal: the interval at `level`, or at the highest level that so many past residuals allow.

    `residuals`: |log(measured / forecast)| per doubling, one a campaign (cells of a campaign share their errors: its
    largest). 19 campaigns for 95 %, 9 for 90 %, 4 for 80 %; None below that.
    """
    ordered = sorted(residuals)
    for allowed in (level, *(lower for lower in LEVELS if lower < level)):
        rank = conformal_rank(len(ordered), allowed)
        if rank:
            half = ordered[rank - 1] * distance
            bounds = (value * math.exp(-half), value * math.exp(half))
            return Interval(value, *bounds, allowed, "conformal", len(ordered))
    return None


def interval_score(interval: Interval, measured: float) -> float:
    """Width, plus 2 / alpha for what lies outside; in logarithms, so in parts of the value. Smaller is better.

    Gneiting and Raftery 2007, section 6.2.
    """
    low, high, at = (math.log(v) for v in (interval.low, interval.high, measured))
    miss = max(0.0, low - at, at - high)
    return high - low + 2 / (1 - interval.level) * miss


def clopper_pearson(inside: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Exact bounds of a proportion of which `inside` of `n` were seen (Clopper and Pearson 1934)."""
    if n == 0:
        return 0.0, 1.0
    tail = (1 - level) / 2
    low = float(betaincinv(inside, n - inside + 1, tail)) if inside else 0.0
    high = float(betaincinv(inside + 1, n - inside, 1 - tail)) if inside < n else 1.0
    return low, high
