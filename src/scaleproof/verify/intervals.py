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
NOISY_PAIR = 0.3  # level at which a pair, or a cell, is noisier than the others, whose noise then counts no more
NOISY_CELLS = 0.1  # level at which cells are not equally noisy
POWER = 0.8
DRAWS = 50_000
TOLERANCE_OF_DRAWS = 0.06  # of what they decide
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
    """Return the noise of a ratio: of pairs by repeat where repeats match, else Welch's; None below three runs each.

    `squares_of_cells`: of all cells with these repeats (`squares`), whose scatter counts where it is like the pair's.
    """
    n = min(len(top), len(bottom))
    if n < FEWEST:
        return None
    if set(top) != set(bottom):
        return welch_noise([top, bottom], n)
    pair_variance = statistics.variance([top[repeat] - bottom[repeat] for repeat in top]) / 2  # of a run
    noise_of_pair = PairNoise(2 * pair_variance / n, n - 1, n)
    if len(squares_of_cells) <= 2:
        return noise_of_pair
    freedom = (len(squares_of_cells) - 1) * (n - 1)
    other_freedom = freedom - (n - 1)
    other_variance = (sum(squares_of_cells) - pair_variance * (n - 1)) / other_freedom  # of a run of other cells
    is_noisy = other_variance <= 0 or stats.f.sf(pair_variance / other_variance, n - 1, other_freedom) < NOISY_PAIR
    if is_noisy or _are_unequal(squares_of_cells, [n - 1] * len(squares_of_cells), NOISY_CELLS):
        return noise_of_pair
    return PairNoise(2 * sum(squares_of_cells) / freedom / n, freedom, n)


def welch_noise(pair: Sequence[Logs], n: int) -> PairNoise:
    """Return the noise of a ratio of two cells whose repeats do not match, with Satterthwaite's degrees of freedom."""
    parts = [(statistics.variance(cell.values()) / len(cell), len(cell) - 1) for cell in pair]
    variance = sum(part for part, _ in parts)
    squares = sum(part**2 / freedom for part, freedom in parts)
    return PairNoise(variance, variance**2 / squares if squares else sum(freedom for _, freedom in parts), n)


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
    """Return whether Bartlett's test at `level` finds the variances of cells unequal; False for two cells.

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

    `log_ratio`, `half`: of a pair of names, logarithm of the first rate over the second, and its half-width. `n`:
    repeats of the cell with the fewest; `own`: the noise of each pair alone.
    """

    cells: list[str]
    method: str
    n: int
    log_ratio: Mapping[tuple[str, str], float]
    half: Mapping[tuple[str, str], float]
    unequal: bool
    pooled: float  # by the noise of all cells: standard error of a ratio; of a run where repeats do not match
    freedom: float
    own: Mapping[tuple[str, str], PairNoise]
    confidence: float

    def bounds(self, a: str, b: str) -> Bounds:
        """Return the bounds of the rate of `a` over that of `b`."""
        centre, half = self.log_ratio[a, b], self.half[a, b]
        return math.exp(centre - half), math.exp(centre + half)

    def differ(self, a: str, b: str) -> bool:
        """Return whether two cells are told apart: their interval leaves out a ratio of 1."""
        return abs(self.log_ratio[a, b]) > self.half[a, b]

    def worst(self, cell: str, others: Sequence[str]) -> float:
        """Return the lower bound of the ratio of a cell to the fastest of `others`, all of which hold together."""
        lowest = 0.0
        quantile = dunnett_quantile(self.confidence, len(others) + 1, self.freedom)
        claims = len(others) if self.unequal else 1
        for other in others:
            noise = self.own[cell, other]
            alone = stats.t.ppf(1 - (1 - self.confidence) / claims, noise.freedom) * math.sqrt(noise.variance)
            half = max(quantile * self.standard_error(cell, other), float(alone))
            lowest = min(lowest, self.log_ratio[cell, other] - half)
        return math.exp(lowest)

    def standard_error(self, a: str, b: str) -> float:
        """Return the standard error of the logarithm of a pair's ratio, by the noise of all cells."""
        if self.method == "tukey-blocks":
            return self.pooled
        return self.pooled * math.sqrt(1 / self.own[a, a].n + 1 / self.own[b, b].n)


def family(logs: Mapping[str, Logs], rates: Mapping[str, float], confidence: float) -> CellFamily | None:
    """Return all pairs of the cells of `logs`; None for one cell, or below three runs of each. `rates`: as printed."""
    names = list(logs)
    n = min((len(cell) for cell in logs.values()), default=0)
    if len(names) < 2 or n < FEWEST:
        return None
    matched = len({frozenset(cell) for cell in logs.values()}) == 1
    counts = {name: len(cell) for name, cell in logs.items()}
    if matched:
        squares_of_cells = squares(list(logs.values()))
        freedom = (len(names) - 1) * (n - 1)
        pooled = math.sqrt(2 * sum(squares_of_cells) / freedom / n)
    else:
        squares_of_cells = [statistics.variance(cell.values()) * (len(cell) - 1) for cell in logs.values()]
        freedom = sum(counts.values()) - len(names)
        pooled = math.sqrt(sum(squares_of_cells) / freedom)
    unequal = _are_unequal(squares_of_cells, [count - 1 for count in counts.values()], NOISY_CELLS)
    quantile = studentized_range_quantile(confidence, len(names), freedom) / math.sqrt(2)
    claims = len(names) * (len(names) - 1) // 2 if unequal else 1
    ratio, half = {}, {}
    own = {(name, name): PairNoise(0.0, 1, counts[name]) for name in names}
    for a, b in combinations(names, 2):
        # Of one method for all pairs: some may have matching repeats where others have not.
        noise = pair_noise(logs[a], logs[b]) if matched else welch_noise([logs[a], logs[b]], min(counts[a], counts[b]))
        assert noise is not None
        spread = pooled if matched else pooled * math.sqrt(1 / counts[a] + 1 / counts[b])
        alone = half_width(noise.variance, max(noise.freedom, 1.0), 1 - (1 - confidence) / claims)
        for pair, sign in (((a, b), 1), ((b, a), -1)):
            ratio[pair] = sign * math.log(rates[a] / rates[b])
            half[pair] = max(quantile * spread, alone)
            own[pair] = noise
    method = "tukey-blocks" if matched else "tukey-kramer"
    return CellFamily(names, method, n, ratio, half, unequal, pooled, freedom, own, confidence)


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

    `within(t)`: the probability at each of MEANS, where the spread is known; it is an estimate of that `freedom`.
    """
    largest_spread = math.sqrt(stats.chi2.isf(1e-16, freedom) / freedom)
    nodes, weights = np.polynomial.legendre.leggauss(120)
    spreads = largest_spread * (nodes + 1) / 2
    of_spread = weights * largest_spread * freedom * spreads * stats.chi2.pdf(freedom * spreads**2, freedom)
    of_mean = stats.norm.pdf(MEANS) * STEP

    def missed(t: float) -> float:
        return float(of_spread @ (within(t * spreads[:, None]) @ of_mean)) - confidence

    return float(brentq(missed, 0.0, 1000.0))


def detectable_by_family(n: int, family: CellFamily, confidence: float) -> float:
    """Return the smallest relative difference that `n` repeats of a family show with probability POWER, simulated."""
    k = len(family.cells)
    pairs = k * (k - 1) // 2
    if family.unequal:
        noise_of_pairs = [noise for (a, b), noise in family.own.items() if a != b]
        noisiest = max(noise_of_pairs, key=lambda noise: noise.variance)
        spread, freedom = math.sqrt(noisiest.variance * family.n), noisiest.freedom
    else:
        error = family.standard_error(family.cells[0], family.cells[1])
        spread, freedom = error * math.sqrt(family.n), family.freedom
    random = np.random.default_rng(7)
    own_chi2 = random.chisquare(n - 1, DRAWS)
    other_chi2 = random.chisquare((k - 2) * (n - 1), DRAWS) if k > 2 else 0.0
    alone = np.sqrt(own_chi2 / (n - 1)) * stats.t.ppf(1 - (1 - confidence) / 2, n - 1)
    among_all = np.sqrt(own_chi2 / (n - 1)) * stats.t.ppf(1 - (1 - confidence) / 2 / pairs, n - 1)  # Bonferroni's
    thresholds = among_all
    if not family.unequal:
        freedom_of_all = (k - 1) * (n - 1)
        quantile = studentized_range_quantile(confidence, k, freedom_of_all) / math.sqrt(2)
        by_all = quantile * np.sqrt((own_chi2 + other_chi2) / freedom_of_all)
        # Equally noisy cells are now and then taken for unequal ones, by the level of that test.
        is_mistaken = (random.random(DRAWS) < NOISY_CELLS) & (k > 2)
        thresholds = np.where(is_mistaken, among_all, np.maximum(alone, by_all))
    return math.expm1(_detectable(thresholds, n, freedom, random) * spread)


def detectable_by_pair(n: int, noise: PairNoise, confidence: float) -> float:
    """Return the smallest relative difference of one pair that `n` repeats show with probability POWER, by simulation.

    The threshold is a t quantile: of the pair's own spread where an F test finds it noisier than the other cells, else
    of the pooled one. `noise`: of the pair, estimated so far.
    """
    others = max(0, int(noise.freedom / (noise.n - 1)) - 1)  # cells whose noise counts beside that of the pair
    in_spreads = _detectable_in_spreads(n, others, noise.freedom, confidence)
    return math.expm1(in_spreads * math.sqrt(noise.variance * noise.n))


@lru_cache(maxsize=256)
def _detectable_in_spreads(n: int, others: int, freedom_so_far: float, confidence: float) -> float:
    """Return what `detectable_by_pair` does as a logarithm, in standard deviations of a ratio of two runs."""
    random = np.random.default_rng(7)
    own_chi2 = random.chisquare(n - 1, DRAWS)
    tail = (1 - confidence) / 2
    thresholds = stats.t.ppf(1 - tail, n - 1) * np.sqrt(own_chi2 / (n - 1))
    if others:
        freedom = others * (n - 1)
        other_chi2 = random.chisquare(freedom, DRAWS)
        is_noisy = own_chi2 / (n - 1) > stats.f.ppf(1 - NOISY_PAIR, n - 1, freedom) * other_chi2 / freedom
        pooled_freedom = freedom + n - 1
        pooled = stats.t.ppf(1 - tail, pooled_freedom) * np.sqrt((own_chi2 + other_chi2) / pooled_freedom)
        thresholds = np.where(is_noisy, thresholds, pooled)
    return _detectable(thresholds, n, freedom_so_far, random)


def _detectable(thresholds: np.ndarray, n: int, freedom: float, random: np.random.Generator) -> float:
    """Return the effect that passes the drawn thresholds 8 times in 10, in spreads of a pair, known to `freedom`."""
    effects = (thresholds - random.standard_normal(DRAWS)) / np.sqrt(random.chisquare(freedom, DRAWS) / freedom)
    return float(np.quantile(effects, POWER)) / math.sqrt(n)
