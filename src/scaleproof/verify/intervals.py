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
DRAWS = 20_000  # points of a Halton sequence
TINY = 1e-300  # a variance that stands for 0 in a logarithm
# Part of a log ratio by which a simulated one may differ from that of these draws; and one of earlier versions.
ERROR, EARLIER_ERROR = 0.005, 0.06
MEANS, STEP = np.linspace(-9, 9, 181, retstep=True)  # of a normal mean: the grid of an integral over it

Logs = Mapping[int, float]  # repeat -> logarithm of a rate
Bounds = tuple[float, float]


def half_width(variance: float, freedom: float, confidence: float) -> float:
    """Return half of Student's interval of a quantity with that variance. `freedom`: degrees of freedom."""
    return float(stats.t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(variance)


@dataclass(frozen=True)
class PairNoise:
    """The variance of the logarithm of a ratio of two cells, its degrees of freedom, and the runs of a cell."""

    variance: float
    freedom: float
    n: int

    def bounds(self, ratio: float, confidence: float) -> Bounds:
        factor = math.exp(half_width(self.variance, self.freedom, confidence))
        return ratio / factor, ratio * factor


def pair_noise(top: Logs, bottom: Logs, squares_of_cells: Sequence[float] = ()) -> PairNoise | None:
    """Return the noise of a ratio of two cells; None where a cell has fewer than three runs.

    It is Welch's where the repeats of both do not match. Else it is pooled over all cells with these repeats, or taken
    from the pair alone where there are fewer than three such cells, the pair is noisier than the others (F test), or
    cells are unequally noisy (Bartlett). `squares_of_cells`: the residual sum of squares of each such cell.
    """
    n = min(len(top), len(bottom))
    if n < FEWEST:
        return None
    if set(top) != set(bottom):
        return welch_noise([top, bottom], n)

    run_variance = statistics.variance([top[repeat] - bottom[repeat] for repeat in top]) / 2  # a ratio has two runs
    pair_alone = PairNoise(variance=2 * run_variance / n, freedom=n - 1, n=n)
    n_cells = len(squares_of_cells)
    sum_of_squares = sum(squares_of_cells)
    if n_cells < 3 or _is_noisy_pair(run_variance, n, n_cells, sum_of_squares):
        return pair_alone
    if _are_unequal(squares_of_cells, [n - 1] * n_cells, NOISY_CELLS):
        return pair_alone
    freedom = (n_cells - 1) * (n - 1)
    return PairNoise(variance=2 * sum_of_squares / freedom / n, freedom=freedom, n=n)


def _is_noisy_pair(run_variance: float, n: int, n_cells: int, sum_of_squares: float) -> bool:
    """Return whether a pair is noisier than the other cells, by an F test. `sum_of_squares`: of all cells."""
    other_freedom = (n_cells - 2) * (n - 1)  # all cells have (n_cells - 1) * (n - 1), and the pair n - 1 of them
    other_run_variance = (sum_of_squares - run_variance * (n - 1)) / other_freedom
    if other_run_variance <= 0:
        return True
    return bool(stats.f.sf(run_variance / other_run_variance, n - 1, other_freedom) < NOISY_PAIR)


def welch_noise(pair: Sequence[Logs], n: int) -> PairNoise:
    """Return the noise of a ratio of two cells whose repeats do not match, with Satterthwaite's degrees of freedom."""
    freedoms = [len(cell) - 1 for cell in pair]
    variances = [statistics.variance(cell.values()) / len(cell) for cell in pair]  # of the mean of each cell
    variance = sum(variances)
    squares = sum(own**2 / freedom for own, freedom in zip(variances, freedoms, strict=True))
    freedom = variance**2 / squares if squares else sum(freedoms)  # all variances are 0: the formula has no value
    return PairNoise(variance, freedom, n)


def residual_sums_of_squares(cells: Sequence[Logs]) -> list[float]:
    """Return the residual sum of squares of each cell in the two-way table cells x rounds.

    Round k is repeat k of all cells, which have the same repeats.
    """
    repeats = list(cells[0])
    round_means = {repeat: statistics.fmean(cell[repeat] for cell in cells) for repeat in repeats}
    grand_mean = statistics.fmean(round_means.values())
    sums = []
    for cell in cells:
        cell_mean = statistics.fmean(cell.values())
        residuals = [cell[repeat] - cell_mean - round_means[repeat] + grand_mean for repeat in repeats]
        sums.append(math.fsum(residual**2 for residual in residuals))
    return sums


def _are_unequal(squares: Sequence[float], freedoms: Sequence[int], level: float) -> bool:
    """Return whether Bartlett's test at `level` finds the variances of cells unequal; False for fewer than three cells.

    `squares`: the sum of squares of each cell about its mean. `freedoms`: the degrees of freedom of each cell.
    """
    n_cells = len(squares)
    total_freedom = sum(freedoms)
    if n_cells < 3 or sum(squares) <= 0:
        return False
    by_cell = zip(squares, freedoms, strict=True)
    logs = [freedom * math.log(max(square / freedom, TINY)) for square, freedom in by_cell]
    statistic = total_freedom * math.log(sum(squares) / total_freedom) - math.fsum(logs)
    correction = 1 + (sum(1 / freedom for freedom in freedoms) - 1 / total_freedom) / (3 * (n_cells - 1))
    return bool(stats.chi2.sf(statistic / correction, n_cells - 1) < level)


@dataclass(frozen=True)
class CellFamily:
    """All pairs of some cells, whose intervals hold together.

    `runs`: cell -> number of its runs. `rates`: cell -> its rate as printed. `own`: pair of cells, in either order ->
    noise of the pair alone, which counts in all pairs where the cells are `unequal`.
    """

    runs: Mapping[str, int]
    rates: Mapping[str, float]
    method: str  # "tukey-blocks" where the repeats of all cells match, else "tukey-kramer"
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
        """Return the bounds of the rate of `a` over the rate of `b`."""
        centre, half = self.log_ratio(a, b), self.half(a, b)
        return math.exp(centre - half), math.exp(centre + half)

    def log_ratio(self, a: str, b: str) -> float:
        """Return the logarithm of the rate of `a` over the rate of `b`."""
        return math.log(self.rates[a] / self.rates[b])

    def half(self, a: str, b: str) -> float:
        """Return the half-width of a pair's log ratio: the wider of Tukey's and that by the noise of the pair alone."""
        # The quantile is in standard errors of one mean, of which the error of a ratio has sqrt(2).
        quantile = studentized_range_quantile(self.confidence, len(self.runs), self.freedom) / math.sqrt(2)
        pair_count = math.comb(len(self.runs), 2)
        own_level = 1 - (1 - self.confidence) / (pair_count if self.unequal else 1)  # by Bonferroni
        noise = self.own[a, b]
        own_half = half_width(noise.variance, max(noise.freedom, 1.0), own_level)
        return max(quantile * self.standard_error(a, b), own_half)

    def differ(self, a: str, b: str) -> bool:
        """Return whether two cells are told apart: their interval leaves out a ratio of 1."""
        return abs(self.log_ratio(a, b)) > self.half(a, b)

    def worst(self, cell: str, others: Sequence[str]) -> float:
        """Return the lower bound of the ratio of a cell to the fastest of `others`, by Dunnett; it is at most 1."""
        quantile = dunnett_quantile(self.confidence, len(others) + 1, self.freedom)
        level = 1 - (1 - self.confidence) / (len(others) if self.unequal else 1)  # by Bonferroni
        lowest_log_ratio = 0.0  # a cell that is faster than all others loses nothing
        for other in others:
            noise = self.own[cell, other]
            own_width = float(stats.t.ppf(level, noise.freedom)) * math.sqrt(noise.variance)
            width = max(quantile * self.standard_error(cell, other), own_width)
            lowest_log_ratio = min(lowest_log_ratio, self.log_ratio(cell, other) - width)
        return math.exp(lowest_log_ratio)

    def standard_error(self, a: str, b: str) -> float:
        """Return the standard error of the logarithm of a pair's ratio, by the noise of all cells."""
        if self.method == "tukey-blocks":
            return self.pooled
        return self.pooled * math.sqrt(1 / self.runs[a] + 1 / self.runs[b])


def family(logs: Mapping[str, Logs], rates: Mapping[str, float], confidence: float) -> CellFamily | None:
    """Return all pairs of the cells of `logs`; None for one cell, or for fewer than three runs of a cell.

    `rates`: cell -> its rate as printed.
    """
    runs = {name: len(cell) for name, cell in logs.items()}
    k, n = len(runs), min(runs.values(), default=0)  # number of cells, and the fewest runs of a cell
    if k < 2 or n < FEWEST:
        return None

    repeats_match = len({frozenset(cell) for cell in logs.values()}) == 1
    if repeats_match:  # what a round adds to all cells cancels in their ratios: residuals leave it out
        squares = residual_sums_of_squares(list(logs.values()))
        freedom = (k - 1) * (n - 1)
        pooled = math.sqrt(2 * sum(squares) / freedom / n)
    else:
        squares = [statistics.variance(cell.values()) * (len(cell) - 1) for cell in logs.values()]
        freedom = sum(runs.values()) - k
        pooled = math.sqrt(sum(squares) / freedom)

    own: dict[tuple[str, str], PairNoise] = {}
    for a, b in combinations(runs, 2):
        # One method for all pairs, also where the repeats of some pairs match and those of others do not.
        noise = pair_noise(logs[a], logs[b]) if repeats_match else None
        own[a, b] = own[b, a] = noise or welch_noise([logs[a], logs[b]], min(runs[a], runs[b]))
    return CellFamily(
        runs=runs,
        rates=rates,
        method="tukey-blocks" if repeats_match else "tukey-kramer",
        unequal=_are_unequal(squares, [count - 1 for count in runs.values()], NOISY_CELLS),
        pooled=pooled,
        freedom=freedom,
        own=own,
        confidence=confidence,
    )


@lru_cache(maxsize=64)
def dunnett_quantile(confidence: float, cells: int, freedom: float) -> float:
    """Return Dunnett's one-sided quantile for `cells` means over equally many runs: one is compared with all others."""
    return _solve_for_quantile(confidence, freedom, lambda t: special.ndtr(MEANS + math.sqrt(2) * t) ** (cells - 1))


@lru_cache(maxsize=64)
def studentized_range_quantile(confidence: float, cells: int, freedom: float) -> float:
    """Return the quantile of (largest - smallest of `cells` means) / their standard error at that confidence."""

    def within(t: np.ndarray) -> np.ndarray:  # one of `cells` means is the largest, at MEANS; the rest are in [-t, 0]
        return cells * (special.ndtr(MEANS) - special.ndtr(MEANS - t)) ** (cells - 1)

    return _solve_for_quantile(confidence, freedom, within)


def _solve_for_quantile(confidence: float, freedom: float, within: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the t below which a statistic of means stays with a probability of `confidence`.

    `within(t)`: that probability at each of MEANS, with t in units of the true standard deviation. The result is in
    units of the estimated one, whose distribution (chi with that `freedom`) is integrated over by Gauss-Legendre.
    """
    largest = math.sqrt(stats.chi2.isf(1e-16, freedom) / freedom)  # of the spreads: larger ones hardly occur
    nodes, weights = np.polynomial.legendre.leggauss(120)
    spreads = largest * (nodes + 1) / 2  # estimated over true
    # The rule's weight for [0, largest], times the density of the spread.
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
    if family.unequal:  # the noisiest pair, so that no pair needs a larger difference
        noisiest = max(family.own.values(), key=lambda noise: noise.variance)
        standard_error, freedom = math.sqrt(noisiest.variance), noisiest.freedom
    else:  # the first pair: all have the same where repeats match
        standard_error, freedom = family.standard_error(family.cells[0], family.cells[1]), family.freedom
    spread = standard_error * math.sqrt(family.n)  # of a ratio of two runs
    return spread * _detectable_in_spreads_of_family(n, k, family.unequal, freedom, confidence)


@lru_cache(maxsize=256)
def _detectable_in_spreads_of_family(n: int, k: int, unequal: bool, freedom_so_far: float, confidence: float) -> float:
    """Return `detectable_by_family` of `k` cells in standard deviations of a ratio of two runs."""
    draws = _draws(3)  # noise of the pair, noise of the other cells, error of the estimated spread
    own_chi2 = stats.chi2.ppf(draws[0], n - 1)
    own_spreads = np.sqrt(own_chi2 / (n - 1))
    pair_count = k * (k - 1) // 2
    # Thresholds by the noise of the pair alone: at the level of one pair, and of all pairs together by Bonferroni.
    of_one_pair = own_spreads * stats.t.ppf(1 - (1 - confidence) / 2, n - 1)
    of_all_pairs = own_spreads * stats.t.ppf(1 - (1 - confidence) / 2 / pair_count, n - 1)
    rules = [(1.0, of_all_pairs)]  # as in `effect_shown`: (probability that the rule is followed, its thresholds)
    if not unequal:
        other_chi2 = stats.chi2.ppf(draws[1], (k - 2) * (n - 1)) if k > 2 else 0.0
        freedom_of_all = (k - 1) * (n - 1)
        quantile = studentized_range_quantile(confidence, k, freedom_of_all) / math.sqrt(2)
        by_all_cells = quantile * np.sqrt((own_chi2 + other_chi2) / freedom_of_all)
        # The test of NOISY_CELLS takes equally noisy cells for unequal ones with a probability of its level.
        mistake_rate = NOISY_CELLS if k > 2 else 0.0
        rules = [(mistake_rate, of_all_pairs), (1 - mistake_rate, np.maximum(of_one_pair, by_all_cells))]
    return effect_shown(rules, n, _estimated_spreads(freedom_so_far, draws[2]))


def detectable_by_pair(noise: PairNoise, n: int, confidence: float) -> float:
    """Return the smallest log ratio of one pair that `n` repeats show with probability POWER.

    A difference is shown where it passes the half-width that the rule of `pair_noise` gives to drawn noise. `noise`:
    the noise of the pair, as estimated so far.
    """
    # Pooled noise has (cells - 1) * (n - 1) degrees of freedom, that of the pair alone n - 1: others = cells - 2.
    others = max(0, int(noise.freedom / (noise.n - 1)) - 1)
    spread = math.sqrt(noise.variance * noise.n)  # of a ratio of two runs
    return spread * _detectable_in_spreads(n, others, noise.freedom, confidence)


@lru_cache(maxsize=256)
def _detectable_in_spreads(n: int, others: int, freedom_so_far: float, confidence: float) -> float:
    """Return `detectable_by_pair` in standard deviations of a ratio of two runs. `others`: number of other cells."""
    draws = _draws(3)
    own_freedom, other_freedom = n - 1, others * (n - 1)
    level = (1 + confidence) / 2
    own_chi2 = stats.chi2.ppf(draws[0], own_freedom)
    thresholds = stats.t.ppf(level, own_freedom) * np.sqrt(own_chi2 / own_freedom)
    if others:
        other_chi2 = stats.chi2.ppf(draws[1], other_freedom)
        limit = stats.f.ppf(1 - NOISY_PAIR, own_freedom, other_freedom)  # of own / other variance: _is_noisy_pair
        is_noisy = own_chi2 / own_freedom > limit * other_chi2 / other_freedom
        freedom = own_freedom + other_freedom
        by_all_cells = stats.t.ppf(level, freedom) * np.sqrt((own_chi2 + other_chi2) / freedom)
        thresholds = np.where(is_noisy, thresholds, by_all_cells)
    return effect_shown([(1.0, thresholds)], n, _estimated_spreads(freedom_so_far, draws[2]))


@lru_cache(maxsize=1024)
def detectable_by_ab_pairs(n: int, nulls: int) -> float:
    """Return the smallest log ratio that `n` A/B pairs, beside `nulls` A/A pairs, claim with probability POWER.

    It is in standard deviations of a pair. A claim must pass two bounds: its half-width, and the noise floor.
    """
    draws = _draws(2)
    own_chi2 = stats.chi2.ppf(draws[0], n - 1)
    null_chi2 = stats.chi2.ppf(draws[1], nulls)
    freedom = n - 1 + nulls
    half_widths = stats.t.ppf(0.975, n - 1) * np.sqrt(own_chi2 / (n - 1))
    noise_floors = stats.t.ppf(0.975, freedom) * np.sqrt((own_chi2 + null_chi2) / freedom)
    return effect_shown([(1.0, np.maximum(half_widths, noise_floors))], n, np.ones(1))


@lru_cache(maxsize=4)
def _draws(dimensions: int) -> np.ndarray:
    """Return DRAWS points of the unit cube, a row for each dimension. The first of the sequence, 0, is left out."""
    return np.asarray(stats.qmc.Halton(dimensions, scramble=False).random(DRAWS + 1)[1:].T)


def _estimated_spreads(freedom: float, probabilities: np.ndarray) -> np.ndarray:
    """Return drawn estimates of a spread of 1 with that many degrees of freedom."""
    return np.sqrt(stats.chi2.ppf(probabilities, freedom) / freedom)


def effect_shown(rules: Sequence[tuple[float, np.ndarray]], n: int, spreads: np.ndarray) -> float:
    """Return the log ratio that `n` repeats (pairs) show with probability POWER, in standard deviations of one repeat.

    `rules`: (probability that a rule is followed, its drawn thresholds of the mean, in standard errors) of each rule.
    `spreads`: drawn estimates of a spread of 1.
    """

    def excess_power(effect: float) -> float:
        power = sum(weight * float(special.ndtr(effect * spreads - limits).mean()) for weight, limits in rules)
        return power - POWER

    largest_effect = max(float(np.max((limits + 9) / spreads)) for _, limits in rules)  # its power is 1 in each draw
    return float(brentq(excess_power, 0, largest_effect)) / math.sqrt(n)
