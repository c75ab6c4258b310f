"""Intervals of ratios of rates, computed again: of a pair, of a family of cells, and what further repeats would show.

Quantiles of means are integrals over a grid, all others scipy's; the analysis has code of its own for them.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy import special, stats
from scipy.optimize import brentq

FEWEST = 3  # repeats of which a ratio has an interval
NOISY_PAIR = 0.3  # level of the test that finds a pair, or a cell, noisier than the others: its own noise counts then
NOISY_CELLS = 0.1  # level of the test that finds cells unequally noisy: of each pair its own noise counts then
POWER = 0.8
DRAWS = 20_000  # of a Halton sequence
# Part of a log ratio by which a simulated one may differ from that of these draws; and one of earlier versions.
ERROR, EARLIER_ERROR = 0.005, 0.06
MEANS, STEP = np.linspace(-9, 9, 181, retstep=True)  # of a normal mean: the grid of an integral over it

Logs = Mapping[int, float]  # repeat -> logarithm of a rate
Bounds = tuple[float, float]


def half_width(variance: float, freedom: float, confidence: float) -> float:
    """Return half of Student's interval of a quantity with that variance."""
    return float(stats.t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(variance)


@dataclass(frozen=True)
class PairNoise:
    """The variance of the logarithm of a ratio of two cells, its degrees of freedom, and the runs of a cell."""

    variance: float
    freedom: float
    n: int

    def bounds(self, ratio: float, confidence: float) -> Bounds:
        """Return the bounds of a ratio with this noise."""
        factor = math.exp(half_width(self.variance, self.freedom, confidence))
        return ratio / factor, ratio * factor


def pair_noise(top: Logs, bottom: Logs, squares_of_cells: Sequence[float] = ()) -> PairNoise | None:
    """Return the noise of a ratio of two cells, by Welch where their repeats do not match; None below three runs each.

    `squares_of_cells`: what `squares` returns of all cells with these repeats. Their common noise counts, unless the
    pair is noisier than the others (F test) or all are unequally noisy (Bartlett): then that of the pair alone does.
    """
    n = min(len(top), len(bottom))
    if n < FEWEST:
        return None
    if set(top) != set(bottom):
        return welch_noise([top, bottom], n)
    pair_variance = statistics.variance([top[repeat] - bottom[repeat] for repeat in top]) / 2  # of a run
    alone = PairNoise(2 * pair_variance / n, n - 1, n)
    n_cells, total = len(squares_of_cells), sum(squares_of_cells)
    if n_cells < 3:
        return alone
    other_freedom = (n_cells - 2) * (n - 1)
    other_variance = (total - pair_variance * (n - 1)) / other_freedom  # of a run of the other cells
    is_noisy = other_variance <= 0 or stats.f.sf(pair_variance / other_variance, n - 1, other_freedom) < NOISY_PAIR
    if is_noisy or _are_unequal(squares_of_cells, [n - 1] * n_cells, NOISY_CELLS):
        return alone
    freedom = (n_cells - 1) * (n - 1)
    return PairNoise(2 * total / freedom / n, freedom, n)


def welch_noise(pair: Sequence[Logs], n: int) -> PairNoise:
    """Return the noise of a ratio of two cells whose repeats do not match, with Satterthwaite's degrees of freedom."""
    parts = [(statistics.variance(cell.values()) / len(cell), len(cell) - 1) for cell in pair]
    variance = sum(part for part, _ in parts)
    squares = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / squares if squares else sum(freedom for _, freedom in parts)  # no noise: all there is
    return PairNoise(variance, freedom, n)


def squares(cells: Sequence[Logs]) -> list[float]:
    """Return the sum of squares of each cell about its own mean and the means of the rounds. All have the same repeats.

    Round k is repeat k of all cells.
    """
    repeats = list(cells[0])
    round_means = {repeat: statistics.fmean(cell[repeat] for cell in cells) for repeat in repeats}
    mean = statistics.fmean(round_means.values())
    squares_of_cells = []
    for cell in cells:
        cell_mean = statistics.fmean(cell.values())
        squares_of_cells.append(math.fsum((cell[k] - cell_mean - round_means[k] + mean) ** 2 for k in repeats))
    return squares_of_cells


def _are_unequal(squares: Sequence[float], freedom: Sequence[float], level: float) -> bool:
    """Return whether Bartlett's test at `level` finds the variances of cells unequal; False for two cells: one pair.

    `squares`, `freedom`: of each cell, the sum of squares about its mean and its degrees of freedom.
    """
    total, cells = sum(freedom), len(squares)
    if cells < 3 or sum(squares) <= 0:
        return False
    logs = [degrees * math.log(max(square / degrees, 1e-300)) for square, degrees in zip(squares, freedom, strict=True)]
    statistic = total * math.log(sum(squares) / total) - math.fsum(logs)
    correction = 1 + (sum(1 / degrees for degrees in freedom) - 1 / total) / (3 * (cells - 1))
    return bool(stats.chi2.sf(statistic / correction, cells - 1) < level)


@dataclass(frozen=True)
class CellFamily:
    """All pairs of some cells, whose intervals hold together.

    `runs`: cell -> how many. `log_ratio`, `half`: of a pair of cells, logarithm of the first rate over the second, and
    its half-width. `own`: the noise of each pair alone, which counts in all pairs where the cells are `unequal`.
    """

    runs: Mapping[str, int]
    method: str  # "tukey-blocks" where the repeats of all cells match, else "tukey-kramer"
    log_ratio: Mapping[tuple[str, str], float]
    half: Mapping[tuple[str, str], float]
    unequal: bool
    pooled: float  # by the noise of all cells: standard error of a ratio; of a run where repeats do not match
    freedom: float
    own: Mapping[tuple[str, str], PairNoise]
    confidence: float

    @property
    def cells(self) -> list[str]:
        return list(self.runs)

    @property
    def n(self) -> int:
        return min(self.runs.values())

    def bounds(self, a: str, b: str) -> Bounds:
        """Return the bounds of the rate of `a` over that of `b`."""
        centre, half = self.log_ratio[a, b], self.half[a, b]
        return math.exp(centre - half), math.exp(centre + half)

    def differ(self, a: str, b: str) -> bool:
        """Return whether two cells are told apart: their interval leaves out a ratio of 1."""
        return abs(self.log_ratio[a, b]) > self.half[a, b]

    def worst(self, cell: str, others: Sequence[str]) -> float:
        """Return the lower bound of the ratio of a cell to the fastest of `others`, by Dunnett; it is at most 1."""
        quantile = dunnett_quantile(self.confidence, len(others) + 1, self.freedom)
        level = 1 - (1 - self.confidence) / (len(others) if self.unequal else 1)  # by Bonferroni
        lowest = 0.0  # logarithm
        for other in others:
            noise = self.own[cell, other]
            alone = float(stats.t.ppf(level, noise.freedom)) * math.sqrt(noise.variance)
            wider = max(quantile * self.standard_error(cell, other), alone)
            lowest = min(lowest, self.log_ratio[cell, other] - wider)
        return math.exp(lowest)

    def standard_error(self, a: str, b: str) -> float:
        """Return the standard error of the logarithm of a pair's ratio, by the noise of all cells."""
        if self.method == "tukey-blocks":
            return self.pooled
        return self.pooled * math.sqrt(1 / self.runs[a] + 1 / self.runs[b])


def family(logs: Mapping[str, Logs], rates: Mapping[str, float], confidence: float) -> CellFamily | None:
    """Return all pairs of the cells of `logs`; None for one cell, or below three runs of each. `rates`: as printed.

    An interval is Tukey's, by the noise of all cells, or that of its pair alone where this is wider.
    """
    runs = {name: len(cell) for name, cell in logs.items()}
    k, n = len(runs), min(runs.values(), default=0)
    if k < 2 or n < FEWEST:
        return None
    matched = len({frozenset(cell) for cell in logs.values()}) == 1
    if matched:  # what all cells of a round share is no noise of their ratios
        squares_of_cells = squares(list(logs.values()))
        freedom = (k - 1) * (n - 1)
        pooled = math.sqrt(2 * sum(squares_of_cells) / freedom / n)
    else:
        squares_of_cells = [statistics.variance(cell.values()) * (len(cell) - 1) for cell in logs.values()]
        freedom = sum(runs.values()) - k
        pooled = math.sqrt(sum(squares_of_cells) / freedom)
    unequal = _are_unequal(squares_of_cells, [count - 1 for count in runs.values()], NOISY_CELLS)
    level_alone = 1 - (1 - confidence) / (k * (k - 1) // 2 if unequal else 1)  # of all pairs, by Bonferroni
    quantile = studentized_range_quantile(confidence, k, freedom) / math.sqrt(2)
    log_ratio, half = {}, {}
    own = {}
    for a, b in combinations(runs, 2):
        # Of one method for all pairs: some may have matching repeats where others have not.
        noise = pair_noise(logs[a], logs[b]) if matched else welch_noise([logs[a], logs[b]], min(runs[a], runs[b]))
        assert noise is not None
        standard_error = pooled if matched else pooled * math.sqrt(1 / runs[a] + 1 / runs[b])
        alone = half_width(noise.variance, max(noise.freedom, 1.0), level_alone)
        for pair, sign in (((a, b), 1), ((b, a), -1)):
            log_ratio[pair] = sign * math.log(rates[a] / rates[b])
            half[pair] = max(quantile * standard_error, alone)
            own[pair] = noise
    method = "tukey-blocks" if matched else "tukey-kramer"
    return CellFamily(runs, method, log_ratio, half, unequal, pooled, freedom, own, confidence)


@lru_cache(maxsize=64)
def dunnett_quantile(confidence: float, cells: int, freedom: float) -> float:
    """Return Dunnett's quantile, one-sided, of the largest of `cells` - 1 differences to one mean, of equal numbers."""
    return _solve_for_quantile(confidence, freedom, lambda t: special.ndtr(MEANS + math.sqrt(2) * t) ** (cells - 1))


@lru_cache(maxsize=64)
def studentized_range_quantile(confidence: float, cells: int, freedom: float) -> float:
    """Return what (largest - smallest of `cells` means) / their standard error stays below with that confidence."""

    def within(t: np.ndarray) -> np.ndarray:  # any one mean is the largest, at MEANS; the others lie within t below it
        return cells * (special.ndtr(MEANS) - special.ndtr(MEANS - t)) ** (cells - 1)

    return _solve_for_quantile(confidence, freedom, within)


def _solve_for_quantile(confidence: float, freedom: float, within: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the t below which a statistic of means stays with a probability of `confidence`.

    `within(t)`: that probability, for each of MEANS, where t is in true spreads of a mean. The result is in estimated
    ones: the integral goes over the estimate, a chi variable of that `freedom`, by Gauss and Legendre's nodes.
    """
    largest = math.sqrt(stats.chi2.isf(1e-16, freedom) / freedom)
    nodes, weights = np.polynomial.legendre.leggauss(120)
    spreads = largest * (nodes + 1) / 2  # estimated over true
    weight_of_spread = weights * largest * freedom * spreads * stats.chi2.pdf(freedom * spreads**2, freedom)
    weight_of_mean = stats.norm.pdf(MEANS) * STEP

    def excess(t: float) -> float:
        return float(weight_of_spread @ (within(t * spreads[:, None]) @ weight_of_mean)) - confidence

    return float(brentq(excess, 0.0, 1000.0))


def detectable_by_family(family: CellFamily, n: int, confidence: float) -> float:
    """Return the smallest log ratio that `n` repeats of a family show with probability POWER.

    A difference is shown where it passes the half-width that the rule of `family` gives to drawn noise.
    """
    k = len(family.cells)
    if family.unequal:
        noisiest = max(family.own.values(), key=lambda noise: noise.variance)
        spread, freedom = math.sqrt(noisiest.variance * family.n), noisiest.freedom  # of a ratio of two runs
    else:
        error = family.standard_error(family.cells[0], family.cells[1])
        spread, freedom = error * math.sqrt(family.n), family.freedom
    noise = _draws(3)
    own_chi2 = stats.chi2.ppf(noise[0], n - 1)
    own_spread = np.sqrt(own_chi2 / (n - 1))
    alone, of_all_pairs = (
        own_spread * stats.t.ppf(1 - (1 - confidence) / 2 / claims, n - 1) for claims in (1, k * (k - 1) // 2)
    )
    spreads = _estimated_spreads(freedom, noise[2])
    rules = [(1.0, of_all_pairs)]
    if not family.unequal:
        other_chi2 = stats.chi2.ppf(noise[1], (k - 2) * (n - 1)) if k > 2 else 0.0
        freedom_of_all = (k - 1) * (n - 1)
        quantile = studentized_range_quantile(confidence, k, freedom_of_all) / math.sqrt(2)
        by_all_cells = quantile * np.sqrt((own_chi2 + other_chi2) / freedom_of_all)
        # Equally noisy cells are now and then taken for unequal ones, by the level of that test.
        mistakes = NOISY_CELLS if k > 2 else 0.0
        rules = [(mistakes, of_all_pairs), (1 - mistakes, np.maximum(alone, by_all_cells))]
    return spread * effect_shown(rules, n, spreads)


def detectable_by_pair(noise: PairNoise, n: int, confidence: float) -> float:
    """Return the smallest log ratio of one pair that `n` repeats show with probability POWER.

    A difference is shown where it passes the half-width that the rule of `pair_noise` gives to drawn noise. `noise`: of
    the pair, estimated so far.
    """
    # Freedom is n - 1 for the pair, and as much for each further cell whose noise counts beside that of the pair.
    others = max(0, int(noise.freedom / (noise.n - 1)) - 1)
    spread = math.sqrt(noise.variance * noise.n)  # of a ratio of two runs
    return spread * _detectable_in_spreads(n, others, noise.freedom, confidence)


@lru_cache(maxsize=256)
def _detectable_in_spreads(n: int, others: int, freedom_so_far: float, confidence: float) -> float:
    """Return the log ratio that a pair shows beside `others` cells, in standard deviations of a ratio of two runs."""
    noise = _draws(3)
    own_freedom, other_freedom = n - 1, others * (n - 1)
    level = (1 + confidence) / 2
    own_chi2 = stats.chi2.ppf(noise[0], own_freedom)
    thresholds = stats.t.ppf(level, own_freedom) * np.sqrt(own_chi2 / own_freedom)
    if others:
        other_chi2 = stats.chi2.ppf(noise[1], other_freedom)
        limit = stats.f.ppf(1 - NOISY_PAIR, own_freedom, other_freedom)  # of own variance over that of the others
        is_noisy = own_chi2 / own_freedom > limit * other_chi2 / other_freedom
        freedom = own_freedom + other_freedom
        by_all_cells = stats.t.ppf(level, freedom) * np.sqrt((own_chi2 + other_chi2) / freedom)
        thresholds = np.where(is_noisy, thresholds, by_all_cells)
    return effect_shown([(1.0, thresholds)], n, _estimated_spreads(freedom_so_far, noise[2]))


@lru_cache(maxsize=1024)
def detectable_by_ab_pairs(n: int, nulls: int) -> float:
    """Return the log ratio that `n` A/B pairs, beside `nulls` A/A pairs, claim with probability POWER.

    It is in standard deviations of a pair. Both bounds that a claim must pass follow from the spread that is drawn.
    """
    noise = _draws(2)
    own_chi2, freedom = stats.chi2.ppf(noise[0], n - 1), n - 1 + nulls
    half_widths = stats.t.ppf(0.975, n - 1) * np.sqrt(own_chi2 / (n - 1))
    noise_floors = stats.t.ppf(0.975, freedom) * np.sqrt((own_chi2 + stats.chi2.ppf(noise[1], nulls)) / freedom)
    return effect_shown([(1.0, np.maximum(half_widths, noise_floors))], n, np.ones(1))


@lru_cache(maxsize=4)
def _draws(dimensions: int) -> np.ndarray:
    """Return DRAWS points of the unit cube, a row for each dimension. The first of the sequence, 0, is left out."""
    return np.asarray(stats.qmc.Halton(dimensions, scramble=False).random(DRAWS + 1)[1:].T)


def _estimated_spreads(freedom: float, probabilities: np.ndarray) -> np.ndarray:
    """Return draws of an estimate with that `freedom` of a spread of 1."""
    return np.sqrt(stats.chi2.ppf(probabilities, freedom) / freedom)


def effect_shown(rules: Sequence[tuple[float, np.ndarray]], n: int, spreads: np.ndarray) -> float:
    """Return the log ratio that `n` repeats or pairs show with probability POWER, in spreads of one.

    `rules`: the probability that each is followed, and its drawn thresholds of the mean, in standard errors of that;
    `spreads`: drawn estimates of a spread of 1.
    """

    def excess(effect: float) -> float:
        return sum(weight * float(special.ndtr(effect * spreads - limits).mean()) for weight, limits in rules) - POWER

    highest = max(float(np.max((limits + 9) / spreads)) for _, limits in rules)  # shown in each draw
    return float(brentq(excess, 0, highest)) / math.sqrt(n)
