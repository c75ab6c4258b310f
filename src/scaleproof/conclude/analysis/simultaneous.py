"""Comparisons of all cells of one size with each other, at a family-wise level: whatever pair is looked at, the
probability that any interval misses its true ratio is at most 5 %.

Where repeats match, repeat k of every cell ran in round k and shares the state of the machine: a randomised complete
block design, analysed by Tukey's studentized range with the pooled residual after cells and rounds (Tukey 1953; Hsu
1996, Multiple Comparisons, chapter 5). Where they do not, rounds are left out: Tukey and Kramer's intervals.

Both pool the variance of all cells, so a quiet majority lends its small variance to a noisy cell. Therefore a pair must
also pass its own t interval (paired; else Welch's), at the level of all pairs (Bonferroni) where Bartlett's test finds
that the cells are not equally noisy. Why not each pair for itself, with Holm's levels: docs/statistics.md.

Whether a cell may be taken for the best asks less than all pairs do: that no other is much faster. These one-sided
bounds (Hsu's comparisons with the best, by Dunnett's quantile) are in `Family.worst`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

import numpy as np
from scipy.special import chdtri, fdtri, stdtrit

from scaleproof.conclude.analysis.studentized_range import largest_of_others, studentized_range
from scaleproof.ground.campaign.repeats import GROWTH, rounds
from scaleproof.ground.confidence import (
    CONFIDENCE,
    FEWEST_REPEATS,
    OWN_NOISE,
    UNEQUAL_NOISE,
    Estimate,
    are_unequal,
)
from scaleproof.ground.records.scaling_report import FurtherRepeats, Method, Resolution

POWER = 0.8
# How often a difference that is called reliably shown is shown, by simulation: 8 in 10 where noise is normal and even,
# less where it is heavy-tailed, more where the noisiest pair was planned for (docs/statistics.md).
POWER_IN_WORDS = "7 to 9 times in 10"
MOST_REPEATS = 1000
SPENDING_POWER = 3  # of the repeats, to which the spent part of 5 % is proportional (stopping.py)
MOST_TIMES = 5  # as many repeats as were made: more of them are not advised
# Level of a look after a further round, at least (stopping.py): the last round spends this part of 5 % or more.
ROUND_CONFIDENCE = 1 - (1 - CONFIDENCE) * (1 - GROWTH**-SPENDING_POWER)
DRAWS = 20_000  # of the Monte Carlo behind a power; its error is below half a percent


@dataclass(frozen=True)
class Noise:
    """How exactly the ratios of all pairs are known, as logarithms: matrices are indexed [i, j], as in Family."""

    pooled: np.ndarray  # standard error by the variance of all cells
    freedom: int  # of that
    own: np.ndarray  # standard error by the runs of the pair alone
    own_freedom: np.ndarray  # of that
    unequal: bool  # whether Bartlett's test finds that the cells are not equally noisy

    def own_quantile(self, probability: float, claims: int) -> np.ndarray:
        """Student's quantile for each pair alone, as a matrix.

        It is at the Bonferroni level of `claims` where the cells are not equally noisy. `probability`: by which the
        quantile may be missed.
        """
        part = probability / claims if self.unequal else probability
        return np.asarray(stdtrit(self.own_freedom, 1 - part))


@dataclass(frozen=True)
class Family:
    """All pairs of `cells`. Matrices are indexed [i, j]: natural logarithm of rate i over rate j."""

    cells: list[str]
    method: Method
    n: int  # repeats of the cell with the fewest
    log_ratio: np.ndarray
    half: np.ndarray  # half-width of the simultaneous interval
    noise: Noise
    confidence: float = CONFIDENCE

    def low(self, i: int, j: int) -> float:
        return math.exp(self.log_ratio[i, j] - self.half[i, j])

    def high(self, i: int, j: int) -> float:
        return math.exp(self.log_ratio[i, j] + self.half[i, j])

    @property
    def differ(self) -> np.ndarray:
        """Which pairs are told apart."""
        return np.abs(self.log_ratio) > self.half

    @property
    def pairs(self) -> int:
        return len(self.cells) * (len(self.cells) - 1) // 2

    def worst(self, count: int) -> np.ndarray:
        """Lower bounds of the ratio of each of the first `count` cells to the fastest other of these; 1 at most.

        They hold together, one-sided: the cell that is truly best is shown to be slower by so much with at most 5 %.
        """
        noise = self.noise
        part = 1 - self.confidence
        dunnett = largest_of_others(self.confidence, count, noise.freedom) * noise.pooled
        half = np.maximum(dunnett, noise.own_quantile(part, count - 1) * noise.own)
        lowest = self.log_ratio - half
        np.fill_diagonal(lowest, 0.0)
        return np.exp(lowest[:count, :count].min(axis=1))


def compare_all(
    rates: Mapping[str, Mapping[int, float]],
    values: Mapping[str, float] | None = None,
    confidence: float = CONFIDENCE,
) -> Family | None:
    """Compare all pairs of cells, with simultaneous intervals of their ratios.

    `rates`: cell -> repeat -> tokens/s; `values`: the rates that are printed, around which intervals lie. None where a
    cell has fewer than FEWEST_REPEATS runs, or there is one cell. Without `values` ratios are those of geometric means.
    """
    cells = list(rates)
    repeats = [sorted(rates[cell]) for cell in cells]
    n = min((len(of_cell) for of_cell in repeats), default=0)
    k = len(cells)
    if k < 2 or n < FEWEST_REPEATS:
        return None
    logs = [np.log([rates[cell][repeat] for repeat in own]) for cell, own in zip(cells, repeats, strict=True)]
    matched = all(own == repeats[0] for own in repeats)
    noise = _noise_in_blocks(np.array(logs)) if matched else _noise_without_blocks(logs)
    tukey = studentized_range(confidence, k, noise.freedom) / math.sqrt(2) * noise.pooled
    half = np.maximum(tukey, noise.own_quantile((1 - confidence) / 2, k * (k - 1) // 2) * noise.own)
    np.fill_diagonal(half, 0.0)
    centre = np.log([values[cell] for cell in cells]) if values else np.array([x.mean() for x in logs])
    log_ratio = centre[:, None] - centre[None, :]
    return Family(cells, "tukey-blocks" if matched else "tukey-kramer", n, log_ratio, half, noise, confidence)


def _noise_in_blocks(logs: np.ndarray) -> Noise:
    """The noise of cells whose repeats match. `logs`: logarithms of rates, cells x rounds.

    Pooled, it is what is left after the means of cells and rounds; of a pair, the scatter of its differences.
    """
    k, n = logs.shape
    residual = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    squares = (residual**2).sum(axis=1)
    freedom = (k - 1) * (n - 1)
    pooled = np.full((k, k), math.sqrt(2 * float(squares.sum()) / freedom / n))
    own = (logs[:, None, :] - logs[None, :, :]).std(axis=2, ddof=1) / math.sqrt(n)
    unequal = are_unequal(squares, np.full(k, n - 1.0), UNEQUAL_NOISE)
    return Noise(pooled, freedom, own, np.full((k, k), n - 1.0), unequal)


def _noise_without_blocks(logs: list[np.ndarray]) -> Noise:
    """The noise of cells whose repeats do not match. `logs`: of each cell, the logarithms of its rates.

    Pooled, it is what is left after the means of cells; of a pair, Welch's with Satterthwaite's degrees of freedom.
    """
    n = np.array([len(x) for x in logs])
    squares = np.array([float(((x - x.mean()) ** 2).sum()) for x in logs])
    freedom = int(n.sum()) - len(logs)
    pooled = np.sqrt(float(squares.sum()) / freedom * (1 / n[:, None] + 1 / n[None, :]))
    own_variance = squares / (n - 1) / n
    total = own_variance[:, None] + own_variance[None, :]
    parts = own_variance**2 / (n - 1)
    satterthwaite = total**2 / np.maximum(parts[:, None] + parts[None, :], np.finfo(float).tiny)
    unequal = are_unequal(squares, n - 1.0, UNEQUAL_NOISE)
    return Noise(pooled, freedom, np.sqrt(total), np.maximum(satterthwaite, 1.0), unequal)


def letters(family: Family, count: int) -> dict[str, str]:
    """Compact letter display of the first `count` cells, cell -> letters: those that share one are not told apart.

    Source: Piepho 2004, insert and absorb.
    """
    groups: list[set[int]] = [set(range(count))]
    for i, j in zip(*np.nonzero(np.triu(family.differ[:count, :count])), strict=True):
        # Cells that differ share no group: each that holds both is split into one without either.
        split: list[set[int]] = []
        for group in groups:
            if {int(i), int(j)} <= group:
                split += [group - {int(i)}, group - {int(j)}]
            else:
                split.append(group)
        # Groups within another one say nothing.
        unique = [set(g) for g in {frozenset(g) for g in split}]
        groups = [g for g in unique if not any(g < other for other in unique)]
    order = sorted(range(count), key=lambda i: -family.log_ratio[i, 0])
    rank = {cell: place for place, cell in enumerate(order)}
    groups.sort(key=lambda group: sorted(rank[i] for i in group))
    return {
        cell: "".join(_letter(place) for place, group in enumerate(groups) if i in group)
        for i, cell in enumerate(family.cells[:count])
    }


def _letter(place: int) -> str:
    return chr(ord("a") + place) if place < 26 else f"{_letter(place // 26 - 1)}{_letter(place % 26)}"


def resolution(family: Family, effect: float) -> Resolution:
    """What further repeats of these cells would show, from the noise of the runs so far.

    `effect`: the difference that is asked for (0.05: 5 %).
    """
    k = len(family.cells)
    sd, freedom = _sd_of_pair(family)

    def shown_by(n: int, confidence: float) -> float:
        return math.expm1(detectable(n, k, confidence, freedom, family.noise.unequal) * sd)

    return _resolution(family.n, effect, family.confidence, shown_by)


def resolution_of_ratio(ratio: Estimate, effect: float, confidence: float) -> Resolution:
    """What further repeats would show of a single ratio. `confidence`: of its interval."""
    assert ratio.variance is not None  # as of every ratio that has bounds
    assert ratio.freedom is not None
    sd = math.sqrt(ratio.variance * ratio.n)
    others = max(0, int(ratio.freedom / (ratio.n - 1)) - 1)  # cells whose noise counts beside that of the pair

    def shown_by(n: int, confidence: float) -> float:
        return math.expm1(detectable_ratio(n, others, confidence, ratio.freedom) * sd)

    return _resolution(ratio.n, effect, confidence, shown_by)


def _resolution(n: int, effect: float, confidence: float, shown_by: Callable[[int, float], float]) -> Resolution:
    """What `n` repeats show, what more would, and how many would show `effect`.

    `shown_by(n, confidence)`: difference that n repeats show at a level with a probability of POWER. Further repeats
    are added in rounds, so they are judged at the level of such a look, and their numbers are those of looks. The
    probabilities count in that the noise is an estimate (`detectable`).
    """
    looks = [k for k in takewhile(lambda k: k <= MOST_REPEATS, rounds(n)) if k > n]
    in_reach = max((k for k in looks if k <= MOST_TIMES * n), default=n)
    return Resolution(
        effect=effect,
        n=n,
        repeats=next((k for k in looks if shown_by(k, ROUND_CONFIDENCE) <= effect), None),
        detectable=shown_by(n, confidence),
        further=FurtherRepeats(repeats=in_reach, detectable=shown_by(in_reach, ROUND_CONFIDENCE)),
    )


def _sd_of_pair(family: Family) -> tuple[float, float]:
    """Standard deviation of the logarithm of the ratio of two runs, and its degrees of freedom.

    Pooled; of the noisiest pair where cells are not equally noisy, so that no difference needs more repeats.
    """
    noise = family.noise
    if noise.unequal:
        i, j = np.unravel_index(np.argmax(noise.own), noise.own.shape)
        return float(noise.own[i, j]) * math.sqrt(family.n), float(noise.own_freedom[i, j])
    return float(noise.pooled[0, 1]) * math.sqrt(family.n), float(noise.freedom)


def sd_interval(sd: float, freedom: float, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a standard deviation of normal values by chi-square."""
    tail = (1 - confidence) / 2
    low = sd * math.sqrt(freedom / float(chdtri(freedom, tail)))
    return low, sd * math.sqrt(freedom / float(chdtri(freedom, 1 - tail)))


@lru_cache(maxsize=4096)
def detectable(
    n: int, k: int, confidence: float = CONFIDENCE, freedom: float | None = None, unequal: bool = False
) -> float:
    """Log ratio, in units of the sd of a pair of runs, that n repeats of k cells show with a probability of POWER.

    Under the rule of `compare_all` for repeats that match; `unequal`: of a pair that is noisier than the others. With z
    the error of the mean and t the threshold that a draw has, the claim is made from an effect of t - z on; its POWER
    quantile is the answer. With `freedom` in units of an estimate of that sd with as many degrees of freedom: the
    probability is over the estimate, too, so that a sentence that is printed from it is as often true as it says.
    """
    random = np.random.default_rng(20_260_101)
    own = random.chisquare(n - 1, DRAWS)
    others = random.chisquare((k - 2) * (n - 1), DRAWS) if k > 2 else np.zeros(DRAWS)
    z = random.standard_normal(DRAWS)
    residual = (k - 1) * (n - 1)
    own_sd = np.sqrt(own / (n - 1))
    alone, among_all = (float(stdtrit(n - 1, 1 - (1 - confidence) / 2 / pairs)) for pairs in (1, k * (k - 1) // 2))
    threshold = among_all * own_sd
    if not unequal:
        tukey = studentized_range(confidence, k, residual) / math.sqrt(2) * np.sqrt((own + others) / residual)
        taken_for_unequal = (random.random(DRAWS) < UNEQUAL_NOISE) & (k > 2)
        threshold = np.where(taken_for_unequal, threshold, np.maximum(tukey, alone * own_sd))
    effects = threshold - z
    if freedom is not None:
        effects = effects / np.sqrt(random.chisquare(freedom, DRAWS) / freedom)
    return float(np.quantile(effects, POWER)) / math.sqrt(n)


@lru_cache(maxsize=4096)
def detectable_ratio(n: int, others: int, confidence: float, freedom: float | None = None) -> float:
    """Log ratio, in units of the sd of a pair of runs, that n repeats of two cells show with a probability of POWER.

    By the rule of `pooled_variance`; `others`: how many cells lend their noise. `freedom`: as of `detectable`.
    """
    random = np.random.default_rng(20_260_101)
    own_freedom, rest_freedom = n - 1, others * (n - 1)
    own = random.chisquare(own_freedom, DRAWS)
    z = random.standard_normal(DRAWS)
    tail = (1 - confidence) / 2
    threshold = float(stdtrit(own_freedom, 1 - tail)) * np.sqrt(own / own_freedom)
    if others:
        rest = random.chisquare(rest_freedom, DRAWS)
        noisier = own / own_freedom > float(fdtri(own_freedom, rest_freedom, 1 - OWN_NOISE)) * rest / rest_freedom
        both = own_freedom + rest_freedom
        pooled = float(stdtrit(both, 1 - tail)) * np.sqrt((own + rest) / both)
        threshold = np.where(noisier, threshold, pooled)
    effects = threshold - z
    if freedom is not None:
        effects = effects / np.sqrt(random.chisquare(freedom, DRAWS) / freedom)
    return float(np.quantile(effects, POWER)) / math.sqrt(n)
