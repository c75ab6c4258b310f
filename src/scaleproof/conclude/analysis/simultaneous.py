"""Comparisons of all cells of one size with each other, at a family-wise level: whatever pair is looked at, the
probability that any interval misses its true ratio is at most 5 %. A cell is one configuration, with a rate per repeat.

Where repeats match, repeat k of every cell ran in round k and shares the state of the machine: a randomised complete
block design, analysed by Tukey's studentized range with the pooled residual after cells and rounds (Tukey 1953; Hsu
1996, Multiple Comparisons, chapter 5). Where they do not, rounds are left out: Tukey and Kramer's intervals.

Both pool the variance of all cells, so a quiet majority lends its small variance to a noisy cell. Therefore a pair must
also pass its own t interval (paired; else Welch's), at the level of all pairs (Bonferroni) where Bartlett's test finds
that the cells are not equally noisy. Why not each pair for itself, with Holm's levels: docs/statistics.md.

Whether a cell may be taken for the best asks less than all pairs do: that no other is much faster. These one-sided
bounds (Hsu's comparisons with the best, by Dunnett's quantile) are in `Family.lower_bounds`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from scipy.special import chdtri, stdtrit

from scaleproof.conclude.analysis.power import detectable_ratio_of_cells, detectable_ratio_of_two
from scaleproof.conclude.analysis.studentized_range import dunnett_quantile, studentized_range_quantile
from scaleproof.ground.campaign.repeats import GROWTH, repeats_at_looks
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS, Estimate, are_unequal, remove_means
from scaleproof.ground.records.scaling_report import FurtherRepeats, Method, Resolution

# How often a difference that is called reliably shown is shown, by simulation: 8 in 10 where noise is normal and even,
# less where it is heavy-tailed, more where the noisiest pair was planned for (docs/statistics.md).
POWER_IN_WORDS = "7 to 9 times in 10"
MOST_REPEATS = 1000
SPENDING_POWER = 3  # the spent part of 5 % is proportional to this power of the repeats (stopping.py)
MOST_TIMES = 5  # more than so many times the repeats that were made are not advised
# The least level of a look after a further round (stopping.py): the last round spends this part of 5 % or more.
ROUND_CONFIDENCE = 1 - (1 - CONFIDENCE) * (1 - GROWTH**-SPENDING_POWER)


@dataclass(frozen=True)
class Noise:
    """How exactly the ratios of all pairs are known, as logarithms: matrices are indexed [i, j], as in Family."""

    pooled: np.ndarray  # standard error by the variance of all cells
    freedom: int  # degrees of freedom of `pooled`
    own: np.ndarray  # standard error by the runs of the pair alone
    own_freedom: np.ndarray  # degrees of freedom of `own`
    unequal: bool  # whether Bartlett's test finds that the cells are not equally noisy

    def own_quantile(self, probability: float, claims: int) -> np.ndarray:
        """Return Student's quantile of each pair, as a matrix indexed [i, j]; a value exceeds it with `probability`.

        Where the cells are not equally noisy, `claims` pairs share the probability (Bonferroni).
        """
        probability_of_pair = probability / claims if self.unequal else probability
        return np.asarray(stdtrit(self.own_freedom, 1 - probability_of_pair))


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
        """Whether the interval of [i, j] leaves out a ratio of 1, as a matrix of bool: these pairs are told apart."""
        return np.abs(self.log_ratio) > self.half

    @property
    def pairs(self) -> int:
        return len(self.cells) * (len(self.cells) - 1) // 2

    def lower_bounds(self, count: int) -> np.ndarray:
        """Return for each of the first `count` cells the lower bound of its ratio to the fastest other; 1 at most.

        All bounds hold together: the chance that any of the cells is slower than its bound says, is at most 5 %.
        """
        # The wider of two margins, as for all pairs: by the noise of all cells, and by the noise of the pair alone.
        dunnett = dunnett_quantile(self.confidence, count, self.noise.freedom) * self.noise.pooled
        students_t = self.noise.own_quantile(1 - self.confidence, count - 1) * self.noise.own
        log_bounds = self.log_ratio - np.maximum(dunnett, students_t)
        np.fill_diagonal(log_bounds, 0.0)  # a cell and itself: a ratio of 1
        return np.exp(log_bounds[:count, :count].min(axis=1))


def compare_all(
    rates: Mapping[str, Mapping[int, float]], values: Mapping[str, float] | None = None, confidence: float = CONFIDENCE
) -> Family | None:
    """Compare all pairs of cells, with simultaneous intervals of their ratios.

    `rates`: cell -> repeat -> tokens/s; `values`: cell -> the rate that is printed, around which intervals lie; without
    them, around geometric means. None where a cell has fewer than FEWEST_REPEATS runs, or there is one cell.
    """
    n_cells = len(rates)
    repeats_of_cells = [sorted(rate_of_repeat) for rate_of_repeat in rates.values()]  # cells in the order of `rates`
    fewest_repeats = min(map(len, repeats_of_cells), default=0)
    if n_cells < 2 or fewest_repeats < FEWEST_REPEATS:
        return None
    logs = [np.log([rate_of_repeat[repeat] for repeat in sorted(rate_of_repeat)]) for rate_of_repeat in rates.values()]

    method: Method
    if all(repeats == repeats_of_cells[0] for repeats in repeats_of_cells):
        method, noise = "tukey-blocks", _noise_in_blocks(np.array(logs))
    else:
        method, noise = "tukey-kramer", _noise_without_blocks(logs)

    # The wider of two intervals: by the noise of all cells, and by the noise of the pair alone.
    tukey = studentized_range_quantile(confidence, n_cells, noise.freedom) / math.sqrt(2) * noise.pooled
    students_t = noise.own_quantile((1 - confidence) / 2, claims=n_cells * (n_cells - 1) // 2) * noise.own
    half_widths = np.maximum(tukey, students_t)
    np.fill_diagonal(half_widths, 0.0)

    centres = np.array([logs_of_cell.mean() for logs_of_cell in logs])
    if values:
        centres = np.log([values[cell] for cell in rates])
    log_ratio = centres[:, None] - centres[None, :]
    return Family(list(rates), method, fewest_repeats, log_ratio, half_widths, noise, confidence)


def _noise_in_blocks(logs: np.ndarray) -> Noise:
    """Return the noise of cells whose repeats match. `logs`: logarithms of rates, cells x rounds.

    Pooled noise is what is left after the means of cells and rounds; the noise of a pair is the scatter of its
    differences.
    """
    n_cells, n_rounds = logs.shape
    squares_of_cells = (remove_means(logs) ** 2).sum(axis=1)
    freedom = (n_cells - 1) * (n_rounds - 1)
    # A difference of two means has twice the variance of one mean.
    standard_error = math.sqrt(2 * float(squares_of_cells.sum()) / freedom / n_rounds)
    return Noise(
        pooled=np.full((n_cells, n_cells), standard_error),
        freedom=freedom,
        own=(logs[:, None, :] - logs[None, :, :]).std(axis=2, ddof=1) / math.sqrt(n_rounds),
        own_freedom=np.full((n_cells, n_cells), n_rounds - 1.0),
        unequal=are_unequal(squares_of_cells, np.full(n_cells, n_rounds - 1.0)),
    )


def _noise_without_blocks(logs: list[np.ndarray]) -> Noise:
    """Return the noise of cells whose repeats do not match. `logs`: for each cell, the logarithms of its rates.

    Pooled noise is what is left after the means of cells; the noise of a pair is Welch's, with Satterthwaite's degrees
    of freedom.
    """
    run_counts = np.array([len(logs_of_cell) for logs_of_cell in logs])
    squares_of_cells = np.array([float(((logs_of_cell - logs_of_cell.mean()) ** 2).sum()) for logs_of_cell in logs])
    freedom = int(run_counts.sum()) - len(logs)
    pooled_variance = float(squares_of_cells.sum()) / freedom
    pooled = np.sqrt(pooled_variance * (1 / run_counts[:, None] + 1 / run_counts[None, :]))

    variance_of_mean = squares_of_cells / (run_counts - 1) / run_counts
    variance_of_pair = variance_of_mean[:, None] + variance_of_mean[None, :]
    np.fill_diagonal(variance_of_pair, 0.0)  # a cell is no pair with itself
    terms = variance_of_mean**2 / (run_counts - 1)  # of the denominator of Satterthwaite's formula
    smallest_number = np.finfo(float).tiny  # two cells without any noise would divide by 0
    satterthwaite = variance_of_pair**2 / np.maximum(terms[:, None] + terms[None, :], smallest_number)
    return Noise(
        pooled=pooled,
        freedom=freedom,
        own=np.sqrt(variance_of_pair),
        own_freedom=np.maximum(satterthwaite, 1.0),
        unequal=are_unequal(squares_of_cells, run_counts - 1.0),
    )


def letter_groups(family: Family, count: int) -> dict[str, str]:
    """Return cell -> letters, for the first `count` cells: "a", "ab", "b". Cells that share a letter do not differ.

    The rest of the family are references, which have no letters. The fastest cell has an a. Source: Piepho 2004, whose
    algorithm is called insert and absorb.
    """
    fastest_first = sorted(range(count), key=lambda cell: -family.log_ratio[cell, 0])  # any column gives this order
    groups = _groups_not_told_apart(family.differ[:count, :count])
    # For each group the places of its cells in `fastest_first`.
    places_of_groups = [[place for place, cell in enumerate(fastest_first) if cell in group] for group in groups]

    letters = dict.fromkeys(family.cells[:count], "")
    for index, places in enumerate(sorted(places_of_groups)):  # the group of the fastest cell comes first
        for place in places:
            letters[family.cells[fastest_first[place]]] += _group_letter(index)
    return letters


def _groups_not_told_apart(differ: np.ndarray) -> list[set[int]]:
    """Return the largest groups of cells of which no two differ. `differ`: whether cells i and j do, as a matrix."""
    groups: list[set[int]] = [set(range(len(differ)))]
    for i, j in np.argwhere(np.triu(differ)).tolist():
        # Cells that differ share no group: a group that holds both is split into two without one of them.
        split_groups: set[frozenset[int]] = set()
        for group in groups:
            if {i, j} <= group:
                split_groups |= {frozenset(group - {i}), frozenset(group - {j})}
            else:
                split_groups.add(frozenset(group))
        # A group within another group says nothing.
        groups = [set(group) for group in split_groups if not any(group < other for other in split_groups)]
    return groups


def _group_letter(index: int) -> str:
    """Return the letter of a group: a to z, then aa, ab and so on."""
    if index < 26:
        return chr(ord("a") + index)
    return f"{_group_letter(index // 26 - 1)}{_group_letter(index % 26)}"


def resolution_of_family(family: Family, effect: float) -> Resolution:
    """Return what further repeats of these cells would show, by the noise so far. `effect`: the difference to show."""
    noise = family.noise
    run_factor = math.sqrt(family.n)  # turns the noise of means of n runs into that of single runs
    if noise.unequal:  # the noisiest pair, so that no difference needs more repeats
        noisiest_pair = np.unravel_index(np.argmax(noise.own), noise.own.shape)
        sd, freedom = float(noise.own[noisiest_pair]) * run_factor, float(noise.own_freedom[noisiest_pair])
    else:  # pooled over all cells, and the same for all pairs
        sd, freedom = float(noise.pooled[0, 1]) * run_factor, float(noise.freedom)

    def shown_by(n: int, confidence: float) -> float:
        ratio_in_sds = detectable_ratio_of_cells(n, len(family.cells), confidence, freedom, noise.unequal)
        return math.expm1(ratio_in_sds * sd)

    return _make_resolution(family.n, effect, family.confidence, shown_by)


def resolution_of_ratio(ratio: Estimate, effect: float, confidence: float) -> Resolution:
    """Return what further repeats would show about a single `ratio` with bounds. `confidence`: of its interval."""
    assert ratio.variance is not None  # as of every ratio that has bounds
    assert ratio.freedom is not None
    sd = math.sqrt(ratio.variance * ratio.n)  # of the log ratio of two runs; the variance is that of means of n runs
    # The pair has n - 1 degrees of freedom, and so has each further cell whose noise counts: this gives their number.
    others = max(0, int(ratio.freedom / (ratio.n - 1)) - 1)

    def shown_by(n: int, confidence: float) -> float:
        return math.expm1(detectable_ratio_of_two(n, others, confidence, ratio.freedom) * sd)

    return _make_resolution(ratio.n, effect, confidence, shown_by)


def _make_resolution(n: int, effect: float, confidence: float, shown_by: Callable[[int, float], float]) -> Resolution:
    """Return the differences that `n` repeats show and that more would show, and the repeats that would show `effect`.

    `shown_by(n, confidence)`: the difference that n repeats show with probability POWER. More repeats are made round by
    round (`repeats_at_looks`); results are looked at after each round, and so are judged at ROUND_CONFIDENCE.
    """
    looks = takewhile(lambda look: look <= MOST_REPEATS, repeats_at_looks(n))
    further_looks = [repeats for repeats in looks if repeats > n]
    advised_repeats = max((repeats for repeats in further_looks if repeats <= MOST_TIMES * n), default=n)
    enough_repeats = (repeats for repeats in further_looks if shown_by(repeats, ROUND_CONFIDENCE) <= effect)
    return Resolution(
        effect=effect,
        n=n,
        repeats=next(enough_repeats, None),
        detectable=shown_by(n, confidence),
        further=FurtherRepeats(repeats=advised_repeats, detectable=shown_by(advised_repeats, ROUND_CONFIDENCE)),
    )


def sd_interval(sd: float, freedom: float) -> tuple[float, float]:
    """Return the 95 % interval by chi-square of a standard deviation whose estimate `sd` has `freedom` degrees."""
    tail = (1 - CONFIDENCE) / 2
    low = sd * math.sqrt(freedom / float(chdtri(freedom, tail)))
    high = sd * math.sqrt(freedom / float(chdtri(freedom, 1 - tail)))
    return low, high
