"""Intervals over runs. The unit of replication is the run: steps of one run are not independent of each other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, fdtrc, stdtrit  # scipy.stats takes a second to import

CONFIDENCE = 0.95
FEWEST_REPEATS = 3  # repeats from which on a ratio has an interval
UNEQUAL_NOISE = 0.1  # level at which cells are taken not to be equally noisy
OWN_NOISE = 0.3  # level at which a cell is taken to be noisier than the other cells


def few_repeats_note(repeats: int) -> str:
    """Return a line, that so few repeats give no ratio an interval; "" where they do."""
    enough = repeats >= FEWEST_REPEATS
    return "" if enough else f"\nratios of cells have intervals from {FEWEST_REPEATS} repeats on (key: repeats)"


@dataclass(frozen=True)
class Estimate:
    """A positive quantity over `n` runs, with its interval. A single run has none: all that follows `n` is None."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None
    variance: float | None = None  # variance of the value's logarithm
    freedom: float | None = None  # degrees of freedom of that variance


def rate_with_interval(work: list[float], seconds: list[float]) -> Estimate:
    """Return the rate of all runs together: all work over all time, with a 95 % interval from two runs on.

    `work`, `seconds`: a value for each run, in the same order. The interval is Student's t over the logarithms of the
    runs' rates. Logarithms keep bounds positive, and give ratios of rates (speed-ups) intervals of the same kind.
    """
    value = sum(work) / sum(seconds)
    n = len(work)
    if n < 2:
        return Estimate(value, n)
    logs = np.log(np.array(work) / np.array(seconds))
    return _t_interval(value, variance=float(logs.var(ddof=1)) / n, freedom=n - 1, n=n)


def pooled_rate(own: Estimate, rates: Mapping[int, float], others: Sequence[Mapping[int, float]]) -> Estimate:
    """Return the rate `own` of a cell, with an interval by the noise of all cells of the campaign.

    `rates`: repeat -> rate, of this cell; `others`: the same of each other cell. `own` is returned as it is where no
    other cell has the same repeats, or where this cell is noisier than the others.

    Why the noise is pooled: three runs may be alike by chance. Where a machine has two states, or a slow run now and
    then, an interval from one cell's runs holds the truth in only a third of campaigns; a quiet cell may have seen one
    state alone.
    """
    matching = [of_cell for of_cell in others if set(of_cell) == set(rates)]
    if own.variance is None or not matching:
        return own
    logs = np.log([[of_cell[repeat] for repeat in sorted(rates)] for of_cell in (rates, *matching)])
    n_cells, n_rounds = logs.shape  # repeat k of all cells is made in round k

    # Analysis of variance by cell and round: part of the noise is shared by all runs of a round, part is a run's own.
    # Mean squares of both, over all cells:
    by_round = n_cells * float(logs.mean(axis=0).var(ddof=1))
    by_run = float((remove_means(logs) ** 2).sum()) / ((n_cells - 1) * (n_rounds - 1))
    sum_of_variances = by_round + (n_cells - 1) * by_run  # equals the sum, over the cells, of a single run's variance

    own_variance = own.variance * n_rounds  # `own.variance` is the mean's, this is a single run's
    variance_of_rest = (sum_of_variances - own_variance) / (n_cells - 1)  # the mean of the other cells
    rest_freedom = (n_cells - 1) * (n_rounds - 1)
    if sum_of_variances == 0 or _is_noisier(own_variance, n_rounds - 1, variance_of_rest, rest_freedom):
        return own
    # The sum of two mean squares has Satterthwaite's (1946) degrees of freedom.
    freedom = (n_rounds - 1) * sum_of_variances**2 / (by_round**2 + (n_cells - 1) * by_run**2)
    variance_of_mean = sum_of_variances / n_cells / n_rounds  # of a cell of average noise, over its runs
    return _t_interval(own.value, variance_of_mean, freedom, n_rounds)


def times_per_second(seconds: list[float]) -> Estimate:
    """Return how often a second holds what took `seconds` (once in each run): the inverse of the mean time."""
    return rate_with_interval([1.0] * len(seconds), seconds)


def mean_time(seconds: list[float]) -> Estimate:
    """Return the mean time over runs, with Student's t interval on the logarithms."""
    per_second = times_per_second(seconds)
    return replace(
        per_second,  # n, variance and freedom stay: the logarithms of a value and its inverse vary equally
        value=1 / per_second.value,
        low=None if per_second.high is None else 1 / per_second.high,
        high=None if per_second.low is None else 1 / per_second.low,
    )


def mean_rate(rates: list[float]) -> Estimate:
    """Return the mean of rates whose work and time are unknown, as if each run had taken a second."""
    return rate_with_interval(rates, [1.0] * len(rates))


def ratio_of_independent(top: Estimate, bottom: Estimate, confidence: float = CONFIDENCE) -> Estimate:
    """Return top / bottom of two independent estimates, with Welch's interval on logarithms (Satterthwaite 1946)."""
    value = top.value / bottom.value
    n = min(top.n, bottom.n)
    if top.variance is None or bottom.variance is None or top.freedom is None or bottom.freedom is None:
        return Estimate(value, n)
    variance = top.variance + bottom.variance
    denominator = top.variance**2 / top.freedom + bottom.variance**2 / bottom.freedom
    freedom = variance**2 / denominator if denominator else top.freedom + bottom.freedom
    return _t_interval(value, variance, freedom, n, confidence)


def claimed_ratio(top: Estimate, bottom: Estimate) -> Estimate:
    """Return `ratio_of_independent` of two results, without an interval for fewer than FEWEST_REPEATS runs of one."""
    ratio = ratio_of_independent(top, bottom)
    return ratio if ratio.n >= FEWEST_REPEATS else Estimate(ratio.value, ratio.n)


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
    Returns None where the repeats of both do not match, or are fewer than FEWEST_REPEATS: on a machine with two clock
    states, two runs of a cell are in the same state every other time.
    """
    if set(top) != set(bottom) or len(top) < FEWEST_REPEATS:
        return None
    repeats = sorted(top)
    matching = [rates for rates in others if set(rates) == set(top)]
    logs = np.log([[rates[repeat] for repeat in repeats] for rates in (top, bottom, *matching)])
    variance, freedom = pooled_variance(logs)  # noise of a single run; a ratio has the noise of two
    return _t_interval(value, 2 * variance / len(repeats), freedom, len(repeats), confidence)


def pooled_variance(logs: np.ndarray) -> tuple[float, int]:
    """Return the variance of a run's log rate, by which the first two cells are compared, and its degrees of freedom.

    `logs`: log rates, cells x rounds. The variance is pooled over all cells, about the means of cells and rounds
    (randomised complete blocks), because two cells have few runs: with three repeats of six cells this gives 10 degrees
    of freedom instead of 2, and an interval 1.6 times as narrow. Where cells are not equally noisy (`are_unequal`), or
    the first two are noisier than the rest, the variance is taken from these two alone.
    """
    cells, rounds = logs.shape
    squares = (remove_means(logs) ** 2).sum(axis=1)
    all_squares = float(squares.sum())
    all_freedom = (cells - 1) * (rounds - 1)

    own = float((logs[0] - logs[1]).var(ddof=1)) / 2  # of one run of the first two cells; a difference has two
    own_freedom = rounds - 1
    rest_freedom = all_freedom - own_freedom
    if rest_freedom == 0:
        return own, own_freedom
    rest = (all_squares - own * own_freedom) / rest_freedom

    is_unequal = are_unequal(squares, np.full(cells, rounds - 1.0))
    if is_unequal or _is_noisier(own, own_freedom, rest, rest_freedom):
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
    with np.errstate(over="ignore"):  # infinity, where all others are equal
        ratio = own / max(rest, np.finfo(float).tiny)
    return float(fdtrc(own_freedom, rest_freedom, ratio)) < OWN_NOISE


def ratio_to_mean(value: float, others: list[float]) -> Estimate:
    """Return the ratio of `value`, of one further run, to the geometric mean of `others`, whose number is its n.

    It has a prediction interval: the further run is taken to vary as `others` do among themselves.
    """
    logs = np.log(np.array(others))
    n = len(others)
    ratio = value / math.exp(float(logs.mean()))
    if n < 2:
        return Estimate(ratio, n)
    variance = float(logs.var(ddof=1)) * (1 + 1 / n)  # noise of the further run and of the mean
    return _t_interval(ratio, variance, freedom=n - 1, n=n)


def estimate_from_interval(value: float, low: float | None, high: float | None, n: int) -> Estimate:
    """Return the estimate behind a published value and its 95 % interval over `n` runs.

    The variance follows from the interval, which is Student's on the logarithm, as in `rate_with_interval`.
    """
    if low is None or high is None or n < 2:
        return Estimate(value, n)
    half_width = math.log(high / low) / 2
    quantile = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    return Estimate(value, n, low, high, variance=(half_width / quantile) ** 2, freedom=n - 1)


def _t_interval(value: float, variance: float, freedom: float, n: int, confidence: float = CONFIDENCE) -> Estimate:
    """Return the estimate `value` with Student's t interval. `variance`: the variance of the value's logarithm."""
    half_width = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(variance)
    low, high = value * math.exp(-half_width), value * math.exp(half_width)
    return Estimate(value, n, low, high, variance, freedom)
