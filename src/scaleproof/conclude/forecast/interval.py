"""Intervals for forecasts, and how they are scored.

An interval over repeats does not hold for a prediction: it covers 39 to 77 % where 95 % is claimed. Intervals of
forecasts say how wrong the law was: on public series; in the ledger, by split conformal inference (Vovk, Gammerman and
Shafer 2005; Lei et al. 2018); about the largest measured sizes of the campaign itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import betaincinv, ndtri, stdtrit

from scaleproof.ground.number_format import percent

LEVEL = 0.95
LIKELY = 0.80
WIDE = 0.15  # half-width at 80 % from which on a forecast has no point and ranks nothing
WITHOUT_POINT = f"Where only intervals stand, that of 80 % is wider than +-{percent(WIDE)}."


@dataclass(frozen=True)
class HalfWidths:
    """Half-widths, in logarithms, of the intervals that hold 80 % and 95 % of what is forecast."""

    likely: float
    nearly_all: float

    def times(self, factor: float) -> "HalfWidths":
        """Return both, multiplied by `factor`."""
        return HalfWidths(self.likely * factor, self.nearly_all * factor)


@dataclass(frozen=True)
class Interval:
    """A positive quantity that was not measured, with bounds at `level` and, where they are known, at 80 %.

    `n`: number of residuals that give the width.
    """

    value: float
    low: float
    high: float
    level: float
    construction: str
    n: int
    likely: tuple[float, float] | None = None

    @classmethod
    def around(cls, value: float, half: HalfWidths, construction: str, n: int) -> "Interval":
        """Return the interval whose bounds lie equally far from `value`, in logarithms."""
        low, high = value * math.exp(-half.nearly_all), value * math.exp(half.nearly_all)
        likely = (value * math.exp(-half.likely), value * math.exp(half.likely))
        return cls(value, low, high, LEVEL, construction, n, likely)

    @property
    def half_width(self) -> float:
        """Half the logarithm of the ratio of the bounds."""
        return math.log(self.high / self.low) / 2

    @property
    def wide(self) -> bool:
        """Whether it is too wide to state a point: by its bounds at 80 %, else by its bounds at `level`."""
        low, high = self.likely or (self.low, self.high)
        return math.log(high / low) / 2 > WIDE

    def holds(self, measured: float) -> bool:
        """Return whether the measured quantity is within the bounds at `level`."""
        return self.low <= measured <= self.high

    def inverse(self, numerator: float) -> "Interval":
        """Return the interval of numerator / quantity, such as tokens/s from seconds: the bounds change places."""
        likely = None
        if self.likely:
            likely_low, likely_high = self.likely
            likely = (numerator / likely_high, numerator / likely_low)
        return replace(
            self, value=numerator / self.value, low=numerator / self.high, high=numerator / self.low, likely=likely
        )


def widen_by_noise(half: HalfWidths, variance: float) -> HalfWidths:
    """Return the half-widths, widened by normal noise of the measured mean. `variance`: of that mean's logarithm."""
    error = math.sqrt(variance)
    return HalfWidths(
        likely=math.hypot(half.likely, error * float(ndtri((1 + LIKELY) / 2))),
        nearly_all=math.hypot(half.nearly_all, error * float(ndtri((1 + LEVEL) / 2))),
    )


def half_widths_by_largest_sizes(residuals: Sequence[float], distance: float) -> HalfWidths | None:
    """Return the half-widths from forecasting the largest size of each series from its smaller sizes.

    They are by Student's t, with as many degrees of freedom as series. Returns None without a series. `residuals`:
    log(measured / forecast) per doubling, of each series. `distance`: doublings to the target.
    """
    n = len(residuals)
    if not n:
        return None
    # Around 0, the forecast, not around their mean.
    spread = math.sqrt(sum(residual**2 for residual in residuals) / n)
    quantiles = HalfWidths(float(stdtrit(n, (1 + LIKELY) / 2)), float(stdtrit(n, (1 + LEVEL) / 2)))
    return quantiles.times(spread * distance)


def conformal_rank(n: int, level: float) -> int | None:
    """Return the rank, from 1, of the residual that a further one exceeds with probability 1 - `level`.

    Returns None where `n` residuals are too few.
    """
    rank = math.ceil((n + 1) * level - 1e-9)  # a float may lie a little above a whole number
    return rank if rank <= n else None


def conformal_half_widths(residuals: Sequence[float], distance: float) -> HalfWidths | None:
    """Return the half-widths by split conformal inference from past forecasts; None for fewer than 19 campaigns.

    `residuals`: |log(measured / forecast)| per doubling, the largest of each campaign, because its cells share their
    errors. `distance`: doublings to the target.
    """
    ascending = sorted(residuals)
    likely_rank, nearly_all_rank = (conformal_rank(len(ascending), level) for level in (LIKELY, LEVEL))
    if likely_rank is None or nearly_all_rank is None:
        return None
    return HalfWidths(ascending[likely_rank - 1], ascending[nearly_all_rank - 1]).times(distance)


def interval_score(interval: Interval, measured: float) -> float:
    """Return the score of an interval: width, plus 2 / alpha times how far `measured` is outside; smaller is better.

    It is of logarithms, so relative to the value; alpha is 1 - level. Gneiting and Raftery 2007, section 6.2.
    """
    low, high = math.log(interval.low), math.log(interval.high)
    value = math.log(measured)
    distance_outside = max(0.0, low - value, value - high)
    return high - low + 2 / (1 - interval.level) * distance_outside


def clopper_pearson(inside: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % bounds of a share of which a sample has `inside` of `n` (Clopper and Pearson 1934)."""
    if n == 0:
        return 0.0, 1.0
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(inside, n - inside + 1, tail)) if inside else 0.0
    high = float(betaincinv(inside + 1, n - inside, 1 - tail)) if inside < n else 1.0
    return low, high
