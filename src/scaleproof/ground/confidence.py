"""Intervals over runs. The unit of replication is the run: steps of one run are not independent of each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, fdtrc, stdtrit  # scipy.stats takes a second to import

CONFIDENCE = 0.95
FEWEST_REPEATS = 3  # repeats from which on a ratio has an interval
UNEQUAL_NOISE = 0.1  # level at which cells are taken not to be equally noisy
OWN_NOISE = 0.3  # level at which a cell is taken to be noisier than the other cells


@dataclass(frozen=True)
class Estimate:
    """A positive quantity with its interval; `low` and `high` are None for a single run."""

    value: float
    low: float | None
    high: float | None
    n: int
    variance: float | None  # of the logarithm of the value
    freedom: float | None  # degrees of freedom of that variance


def rate_with_interval(work: list[float], seconds: list[float]) -> Estimate:
    """Return the rate of all runs together, all work over all time, with a 95 % interval; one run has no interval.

    `work`, `seconds`: of each run, in the same order. The interval is Student's t over the logarithms of the runs'
    rates. Logarithms keep bounds positive, and give ratios of rates (speed-ups) intervals of the same kind.
    """
    value, n = sum(work) / sum(seconds), len(work)
    if n < 2:
        return Estimate(value, None, None, n, None, None)
    logs = np.log(np.array(work) / np.array(seconds))
    return _t_interval(value, float(logs.var(ddof=1)) / n, n - 1, n)


def pooled_rate(own: Estimate, rates: Mapping[int, float], others: Sequence[Mapping[int, float]]) -> Estimate:
    """Return the rate `own` of a cell, with an interval by the noise of all cells of the campaign.

    `rates`, `others`: repeat -> rate, of this cell and of other cells. `own` stays as it is where no other cell has the
    same repeats, or where this cell is noisier than the others. Why pooled: three runs may be alike by chance. Where a
    machine has two states, or a slow run now and then, an interval from one cell's runs holds the truth in only a third
    of campaigns; a quiet cell may have seen one state alone.
    """
    matching = [of_cell for of_cell in others if set(of_cell) == set(rates)]
    if own.variance is None or not matching:
        return own
    logs = np.log([[of_cell[repeat] for repeat in sorted(rates)] for of_cell in (rates, *matching)])
    cells, rounds = logs.shape
    # What varies is in part shared by all runs of a round, in part a run's own. Mean squares of both, over all cells:
    by_round = cells * float(logs.mean(axis=0).var(ddof=1))
    by_run = float((remove_means(logs) ** 2).sum()) / ((cells - 1) * (rounds - 1))
    total = by_round + (cells - 1) * by_run  # the sum of the cells' variances of a run
    variance = own.variance * rounds  # of one run; `own.variance` is of the mean
    variance_of_rest = (total - variance) / (cells - 1)
    if total == 0 or _is_noisier(variance, rounds - 1, variance_of_rest, (cells - 1) * (rounds - 1)):
        return own
    freedom = (rounds - 1) * total**2 / (by_round**2 + (cells - 1) * by_run**2)  # Satterthwaite's (1946)
    return _t_interval(own.value, total / cells / rounds, freedom, rounds)


def times_per_second(seconds: list[float]) -> Estimate:
    """Return how often a second holds something that took `seconds`, once in each run: the inverse of its mean time."""
    return rate_with_interval([1.0] * len(seconds), seconds)


def mean_time(seconds: list[float]) -> Estimate:
    """Return the mean time over runs, with Student's t interval on the logarithms."""
    inverse = times_per_second(seconds)
    low, high = (None if bound is None else 1 / bound for bound in (inverse.high, inverse.low))
    return Estimate(1 / inverse.value, low, high, inverse.n, inverse.variance, inverse.freedom)


def mean_rate(rates: list[float]) -> Estimate:
    """Return the mean of rates whose work and time are unknown, as if each run had taken a second."""
    return rate_with_interval(rates, [1.0] * len(rates))


def ratio_of_independent(top: Estimate, bottom: Estimate, confidence: float = CONFIDENCE) -> Estimate:
    """Return top / bottom of two independent estimates, with Welch's interval on the logarithms.

    The degrees of freedom are Satterthwaite's (1946).
    """
    value = top.value / bottom.value
    n = min(top.n, bottom.n)
    if top.variance is None or bottom.variance is None or top.freedom is None or bottom.freedom is None:
        return Estimate(value, None, None, n, None, None)
    variance = top.variance + bottom.variance
    parts = top.variance**2 / top.freedom + bottom.variance**2 / bottom.freedom
    freedom = variance**2 / parts if parts else top.freedom + bottom.freedom
    return _t_interval(value, variance, freedom, n, confidence)


def paired_ratio(
    top: Mapping[int, float],
    bottom: Mapping[int, float],
    value: float,
    confidence: float = CONFIDENCE,
    others: Sequence[Mapping[int, float]] = (),
) -> Estimate | None:
    """Return the ratio `value` of two rates, with an interval from the ratios of their repeats, taken in pairs.

    `top`, `bottom`: repeat -> rate. Repeat k of both ran in the same round, so what the machine did in that round
    cancels. `others`: further cells of the campaign, from which the noise of a run is known better (`pooled_variance`).
    None where the repeats of both do not match, or are fewer than FEWEST_REPEATS: on a machine with two clock states,
    two runs of a cell are in the same state every other time.
    """
    if set(top) != set(bottom) or len(top) < FEWEST_REPEATS:
        return None
    repeats = sorted(top)
    matching = [rates for rates in others if set(rates) == set(top)]
    logs = np.log([[rates[repeat] for repeat in repeats] for rates in (top, bottom, *matching)])
    variance, freedom = pooled_variance(logs)  # of one run's logarithm; that of a ratio has the noise of two
    return _t_interval(value, 2 * variance / len(repeats), freedom, len(repeats), confidence)


def pooled_variance(logs: np.ndarray) -> tuple[float, int]:
    """Return the variance of the log rate of one run, to compare the first two cells by, and its degrees of freedom.

    `logs`: log rates, cells x rounds. It is pooled over all cells, about the means of cells and rounds (randomised
    complete blocks), because two cells have few runs: with three repeats of six cells this gives 10 degrees of freedom
    instead of 2, and an interval 1.6 times as narrow. Where cells are not equally noisy (`are_unequal`), or these two
    are noisier than the rest, it is that of these two alone.
    """
    cells, rounds = logs.shape
    squares = (remove_means(logs) ** 2).sum(axis=1)
    all_squares = float(squares.sum())
    all_freedom = (cells - 1) * (rounds - 1)
    own = float((logs[0] - logs[1]).var(ddof=1)) / 2  # of a run of the first two cells
    own_freedom = rounds - 1
    rest_freedom = all_freedom - own_freedom
    if rest_freedom == 0:
        return own, own_freedom
    rest = (all_squares - own * own_freedom) / rest_freedom
    unequal = are_unequal(squares, np.full(cells, rounds - 1.0))
    if unequal or _is_noisier(own, own_freedom, rest, rest_freedom):
        return own, own_freedom
    return all_squares / all_freedom, all_freedom


def remove_means(logs: np.ndarray) -> np.ndarray:
    """Return what is left of `logs` (cells x rounds) without the means of the cells and of the rounds."""
    remainder: np.ndarray = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    return remainder


def are_unequal(squares: np.ndarray, freedom: np.ndarray) -> bool:
    """Return whether the variances of three or more cells differ, by Bartlett's test (1937) at the level UNEQUAL_NOISE.

    `squares`: sum of squares of each cell, `freedom`: its degrees of freedom. False for fewer cells.
    """
    cells = len(squares)
    total = float(freedom.sum())
    pooled = float(squares.sum()) / total
    if cells < 3 or pooled <= 0:
        return False
    variance = np.maximum(squares / freedom, np.finfo(float).tiny)
    statistic = total * math.log(pooled) - float((freedom * np.log(variance)).sum())
    correction = 1 + (float((1 / freedom).sum()) - 1 / total) / (3 * (cells - 1))
    return float(chdtrc(cells - 1, statistic / correction)) < UNEQUAL_NOISE


def _is_noisier(own: float, own_freedom: int, rest: float, rest_freedom: int) -> bool:
    """Return whether the variance `own` of a cell or pair exceeds `rest`, that of all others (F test at OWN_NOISE).

    The level is far above 5 %: to miss a noisy cell makes an interval too short, to take a quiet one for noisy only
    makes it too wide. Simulated coverage is 94 % or more (docs/statistics.md).
    """
    return float(fdtrc(own_freedom, rest_freedom, own / max(rest, np.finfo(float).tiny))) < OWN_NOISE


def ratio_to_mean(value: float, others: list[float]) -> Estimate:
    """Return the ratio of `value`, of one further run, to the geometric mean of `others`; n counts `others`.

    It has a prediction interval: the further run is taken to vary as `others` do among themselves.
    """
    logs = np.log(np.array(others))
    relative = value / math.exp(float(logs.mean()))
    if len(others) < 2:
        return Estimate(relative, None, None, len(others), None, None)
    return _t_interval(relative, float(logs.var(ddof=1)) * (1 + 1 / len(others)), len(others) - 1, len(others))


def estimate_from_interval(value: float, low: float | None, high: float | None, n: int) -> Estimate:
    """Return the estimate behind a published value and its 95 % interval over `n` runs.

    The variance follows from the interval, which is Student's on the logarithm, as in `rate_with_interval`.
    """
    if low is None or high is None or n < 2:
        return Estimate(value, None, None, n, None, None)
    half = math.log(high / low) / 2  # half of the interval's width, on the logarithm
    quantile = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    return Estimate(value, low, high, n, (half / quantile) ** 2, n - 1)


def scale_estimate(estimate: Estimate, factor: float) -> Estimate:
    """Return the estimate times an exact positive number."""
    low, high = (None if bound is None else bound * factor for bound in (estimate.low, estimate.high))
    return Estimate(estimate.value * factor, low, high, estimate.n, estimate.variance, estimate.freedom)


def _t_interval(value: float, variance: float, freedom: float, n: int, confidence: float = CONFIDENCE) -> Estimate:
    """Return the estimate `value` with Student's t interval; `variance`: of its logarithm."""
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(variance)
    return Estimate(value, value * math.exp(-half), value * math.exp(half), n, variance, freedom)
