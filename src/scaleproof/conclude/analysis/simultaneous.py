"""Comparisons of all cells of one size with each other, at a family-wise level: whatever pair is looked at, the
probability that any interval misses its true ratio is at most 5 %.

Where repeats match, repeat k of every cell ran in round k and shares the state of the machine: a randomised complete
block design, analysed by Tukey's studentized range with the pooled residual after cells and rounds (Tukey 1953; Hsu
1996, Multiple Comparisons, chapter 5). Where they do not, rounds are left out: Tukey and Kramer's intervals.

Both pool the variance of all cells, so a quiet majority lends its small variance to a noisy cell. Therefore a pair must
also pass its own t interval (paired; else Welch's), at the level of all pairs (Bonferroni) where Bartlett's test finds
that the cells are not equally noisy. Why not each pair for itself, with Holm's levels: docs/statistics.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

import numpy as np
from scipy.special import chdtrc, chdtri, stdtrit

from scaleproof.conclude.analysis.studentized_range import studentized_range
from scaleproof.ground.campaign.repeats import GROWTH, rounds
from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.records.scaling_report import FurtherRepeats, Method, Resolution

POWER = 0.8
MOST_REPEATS = 1000
MOST_TIMES = 5  # as many repeats as were made: more of them are not advised
# Level of a look after a further round, at least: the round spends 1 - 1 / GROWTH or more of 5 % (stopping.py).
ROUND_CONFIDENCE = 1 - (1 - CONFIDENCE) * (1 - 1 / GROWTH)
# Two repeats are compared with nothing: if the machine has two clock states, both runs of a cell are in one of them
# every other time, and two or three equal cells are told apart in 8 % of campaigns (docs/statistics.md).
FEWEST = 3
DRAWS = 20_000  # of the Monte Carlo behind a power; its error is below half a percent
UNEQUAL_NOISE = 0.05  # level of the test that cells are equally noisy


@dataclass(frozen=True)
class Family:
    """All pairs of `cells`. Matrices are indexed [i, j]: natural logarithm of rate i over rate j."""

    cells: list[str]
    method: Method
    n: int  # repeats of the cell with the fewest
    log_ratio: np.ndarray
    half: np.ndarray  # half-width of the simultaneous interval, same index
    sd: float  # of the logarithm of the ratio of two runs, pooled over pairs
    freedom: float  # of that
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


def compare_all(
    rates: Mapping[str, Mapping[int, float]],
    values: Mapping[str, float] | None = None,
    confidence: float = CONFIDENCE,
) -> Family | None:
    """`rates`: cell -> repeat -> tokens/s; `values`: the rates that are printed, around which intervals lie.

    None where a cell has fewer than FEWEST runs, or there is one cell. Without `values` ratios are those of geometric
    means.
    """
    cells = list(rates)
    repeats = [sorted(rates[cell]) for cell in cells]
    n = min((len(of_cell) for of_cell in repeats), default=0)
    if len(cells) < 2 or n < FEWEST:
        return None
    logs = [np.log([rates[cell][k] for k in ks]) for cell, ks in zip(cells, repeats, strict=True)]
    matched = all(ks == repeats[0] for ks in repeats)
    half, sd, freedom = (_tukey_blocks if matched else _tukey_kramer)(logs, confidence)
    centre = np.log([values[cell] for cell in cells]) if values else np.array([x.mean() for x in logs])
    log_ratio = centre[:, None] - centre[None, :]
    return Family(cells, "tukey-blocks" if matched else "tukey-kramer", n, log_ratio, half, sd, freedom, confidence)


def _tukey_blocks(logs: list[np.ndarray], confidence: float) -> tuple[np.ndarray, float, float]:
    matrix = np.array(logs)  # cells x rounds
    k, n = matrix.shape
    residual = matrix - matrix.mean(axis=1, keepdims=True) - matrix.mean(axis=0) + matrix.mean()
    freedom = (k - 1) * (n - 1)
    variance = float((residual**2).sum()) / freedom
    pooled = studentized_range(confidence, k, freedom) * math.sqrt(variance / n)
    own_sd = (matrix[:, None, :] - matrix[None, :, :]).std(axis=2, ddof=1)
    level = _own_level((residual**2).sum(axis=1), np.full(k, n - 1.0), confidence)
    half = np.maximum(pooled, float(stdtrit(n - 1, level)) * own_sd / math.sqrt(n))
    np.fill_diagonal(half, 0.0)
    return half, math.sqrt(2 * variance), float(freedom)


def _tukey_kramer(logs: list[np.ndarray], confidence: float) -> tuple[np.ndarray, float, float]:
    k = len(logs)
    n = np.array([len(x) for x in logs])
    sums = np.array([float(((x - x.mean()) ** 2).sum()) for x in logs])
    freedom = int(n.sum()) - k
    pooled_variance = float(sums.sum()) / freedom
    q = studentized_range(confidence, k, freedom) / math.sqrt(2)
    pooled = q * np.sqrt(pooled_variance * (1 / n[:, None] + 1 / n[None, :]))
    own_variance = sums / (n - 1) / n
    total = own_variance[:, None] + own_variance[None, :]
    parts = own_variance**2 / (n - 1)
    satterthwaite = total**2 / np.maximum(parts[:, None] + parts[None, :], np.finfo(float).tiny)
    welch = stdtrit(np.maximum(satterthwaite, 1.0), _own_level(sums, n - 1.0, confidence)) * np.sqrt(total)
    half = np.maximum(pooled, welch)
    np.fill_diagonal(half, 0.0)
    return half, math.sqrt(2 * pooled_variance), float(freedom)


def _own_level(sums: np.ndarray, freedom: np.ndarray, confidence: float) -> float:
    """Quantile level of a pair's own interval. `sums`: of squares, `freedom`: of each cell."""
    k = len(sums)
    pairs = k * (k - 1) / 2 if k > 2 and _unequal(sums, freedom) else 1
    return 1 - (1 - confidence) / 2 / pairs


def _unequal(sums: np.ndarray, freedom: np.ndarray) -> bool:
    """Bartlett's test (1937): are the variances of the cells unequal?"""
    variance = np.maximum(sums / freedom, np.finfo(float).tiny)
    total = float(freedom.sum())
    pooled = float(sums.sum()) / total
    if pooled <= 0:
        return False
    statistic = total * math.log(pooled) - float((freedom * np.log(variance)).sum())
    correction = 1 + (float((1 / freedom).sum()) - 1 / total) / (3 * (len(sums) - 1))
    return float(chdtrc(len(sums) - 1, statistic / correction)) < UNEQUAL_NOISE


def letters(family: Family) -> dict[str, str]:
    """Compact letter display: cells that share a letter cannot be told apart (Piepho 2004, insert and absorb)."""
    groups: list[set[int]] = [set(range(len(family.cells)))]
    for i, j in zip(*np.nonzero(np.triu(family.differ)), strict=True):
        split: list[set[int]] = []
        for group in groups:
            split += [group - {int(i)}, group - {int(j)}] if {int(i), int(j)} <= group else [group]
        unique = [set(g) for g in {frozenset(g) for g in split}]
        groups = [g for g in unique if not any(g < other for other in unique)]
    order = sorted(range(len(family.cells)), key=lambda i: -family.log_ratio[i, 0])
    rank = {cell: place for place, cell in enumerate(order)}
    groups.sort(key=lambda group: sorted(rank[i] for i in group))
    return {
        cell: "".join(_letter(place) for place, group in enumerate(groups) if i in group)
        for i, cell in enumerate(family.cells)
    }


def _letter(place: int) -> str:
    return chr(ord("a") + place) if place < 26 else f"{_letter(place // 26 - 1)}{_letter(place % 26)}"


def resolution(family: Family, effect: float) -> Resolution:
    """What further repeats of these cells would show, from the noise of the runs so far.

    `repeats`: per cell, that tell cells apart which differ by `effect` (0.05: 5 %), with a probability of POWER; None
    above MOST_REPEATS. `detectable`: the difference that the `n` repeats of this family show with that probability;
    `further`: a number of repeats that is still in reach, and the difference that these show. The probabilities count
    in that the noise is an estimate (`detectable`). Further repeats are added in rounds, so they are judged at the
    level of such a look, and their numbers are those of looks.
    """
    k = len(family.cells)
    looks = [n for n in takewhile(lambda n: n <= MOST_REPEATS, rounds(family.n)) if n > family.n]

    def shown_by(n: int, confidence: float = ROUND_CONFIDENCE) -> float:
        return math.expm1(detectable(n, k, confidence, family.freedom) * family.sd)

    in_reach = max((n for n in looks if n <= MOST_TIMES * family.n), default=family.n)
    return Resolution(
        effect=effect,
        n=family.n,
        repeats=next((n for n in looks if shown_by(n) <= effect), None),
        detectable=shown_by(family.n, family.confidence),
        further=FurtherRepeats(repeats=in_reach, detectable=shown_by(in_reach)),
    )


def sd_interval(sd: float, freedom: float, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a standard deviation of normal values by chi-square."""
    tail = (1 - confidence) / 2
    low = sd * math.sqrt(freedom / float(chdtri(freedom, tail)))
    return low, sd * math.sqrt(freedom / float(chdtri(freedom, 1 - tail)))


@lru_cache(maxsize=4096)
def detectable(n: int, k: int, confidence: float = CONFIDENCE, freedom: float | None = None) -> float:
    """Log ratio of two cells, in units of the sd of a pair of runs, that n repeats of k cells tell apart with a
    probability of POWER.

    Under the rule of `_tukey_blocks`. With z the error of the mean and t the threshold that a draw has, the claim is
    made from an effect of t - z on; its POWER quantile is the answer. With `freedom` in units of an estimate of that
    sd with as many degrees of freedom: the probability is over the estimate, too, so that a sentence that is printed
    from it is as often true as it says.
    """
    random = np.random.default_rng(20_260_101)
    own = random.chisquare(n - 1, DRAWS)
    others = random.chisquare((k - 2) * (n - 1), DRAWS) if k > 2 else np.zeros(DRAWS)
    z = random.standard_normal(DRAWS)
    residual = (k - 1) * (n - 1)
    pooled = studentized_range(confidence, k, residual) / math.sqrt(2) * np.sqrt((own + others) / residual)
    paired = float(stdtrit(n - 1, (1 + confidence) / 2)) * np.sqrt(own / (n - 1))
    effects = np.maximum(pooled, paired) - z
    if freedom is not None:
        effects = effects / np.sqrt(random.chisquare(freedom, DRAWS) / freedom)
    return float(np.quantile(effects, POWER)) / math.sqrt(n)
