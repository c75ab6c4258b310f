"""How to spend the time of a campaign or of an A/B comparison: more short runs, or fewer long ones."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from scaleproof.conclude.analysis.ab_comparison import Pair
from scaleproof.conclude.analysis.power import detectable_by_pairs, detectable_ratio_of_cells
from scaleproof.conclude.analysis.run_tables import rates_by_round
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS, remove_means
from scaleproof.ground.records.run import MeasuredRun

FEWEST_STEPS = 4  # a window has no fewer
SHORTEST_S = 0.5  # a window takes twice the time below which it is a finding (window-short)
MOST_REPEATS = 12
PAIR_COUNTS = range(4, 25, 2)  # even, because A goes first in half of the pairs
PROPOSED_SHARE = 0.9  # a split is proposed if it shows a difference below this share of what is shown now


@dataclass(frozen=True)
class VarianceParts:
    """The two parts of the variance of the logarithm of a run's rate, or of the ratio of the two runs of a pair.

    What the runs of a round share is in neither part: ratios cancel that.
    """

    of_runs: float  # between whole runs
    of_steps: float  # between windows of as many steps as were timed

    @classmethod
    def of(cls, total: float, of_steps: float) -> "VarianceParts":
        """Return the parts of a variance `total`. `of_steps`: an estimate of a part, which may exceed the total."""
        return cls(of_runs=max(total - of_steps, 0.0), of_steps=min(of_steps, total))


@dataclass(frozen=True)
class Split:
    """`repeats` runs (or pairs) of `steps` timed steps each, and the difference that these show, as a part."""

    repeats: int
    steps: int
    difference: float


def variance_parts(cells: Mapping[str, Sequence[MeasuredRun]]) -> VarianceParts | None:
    """Return the parts of the variance of a run's log rate. `cells`: cell -> its runs.

    Returns None without two cells that have the same repeats, FEWEST_REPEATS or more.
    """
    rates = list(rates_by_round(cells).values())
    cell_count = len(rates)
    if cell_count < 2 or any(rates_of_cell.keys() != rates[0].keys() for rates_of_cell in rates):
        return None
    repeats = sorted(rates[0])
    if len(repeats) < FEWEST_REPEATS:
        return None

    logs = np.log([[rates_of_cell[repeat] for repeat in repeats] for rates_of_cell in rates])
    residuals = remove_means(logs)  # without the means of cells and of repeats
    total = float((residuals**2).sum()) / ((cell_count - 1) * (len(repeats) - 1))
    return VarianceParts.of(total, _window_variance(chain.from_iterable(cells.values())))


def _window_variance(runs: Iterable[MeasuredRun]) -> float:
    """Return the variance of the log rate of a window that its steps explain; 0 where no run has two steps.

    It is a quarter of the mean squared difference of the log rates of a window's two halves: a difference of two halves
    has four times the variance of their mean.
    """
    differences = []
    for run in runs:
        half = len(run.step_times) // 2
        if half:
            first_mean_s = float(run.step_times[:half].mean())
            second_mean_s = float(run.step_times[half : 2 * half].mean())
            differences.append(math.log(first_mean_s / second_mean_s))
    return float(np.mean(np.square(differences))) / 4 if differences else 0.0


def best_split(cells: Mapping[str, Sequence[MeasuredRun]]) -> tuple[Split, Split] | None:
    """Return the split into repeats and steps that a campaign has, and the best split that takes the same time.

    The best split shows the smallest difference. None where it is not a tenth (PROPOSED_SHARE) below the present one,
    or where `variance_parts` gives none. `cells`: cell -> its runs.
    """
    parts = variance_parts(cells)
    if parts is None:
        return None
    runs = list(chain.from_iterable(cells.values()))
    cell_count = len(cells)
    current_repeats = len(runs) // cell_count  # all cells have the same repeats
    # Of the estimate of the variance, which comes from the runs so far, whatever the split.
    degrees_of_freedom = (cell_count - 1) * (current_repeats - 1)

    def detectable_in_run_sds(repeats: int) -> float:
        # The formula counts standard deviations of a pair; sqrt(2) turns them into those of one run.
        return math.sqrt(2) * detectable_ratio_of_cells(repeats, cell_count, CONFIDENCE, degrees_of_freedom)

    repeats_to_try = range(FEWEST_REPEATS, MOST_REPEATS + 1)
    return _current_and_best_split(runs, parts, current_repeats, repeats_to_try, detectable_in_run_sds)


def best_split_of_pairs(pairs: Sequence[Pair]) -> tuple[Split, Split] | None:
    """Return the splits of `best_split` for the pairs of an A/B comparison; the number of A/A pairs stays as it is."""
    ratios: list[float] = []
    null_ratios: list[float] = []
    runs: list[MeasuredRun] = []
    for pair in pairs:
        if pair.ratio is not None:
            (null_ratios if pair.null else ratios).append(pair.ratio)
            runs += [run for run in pair.runs if isinstance(run, MeasuredRun)]  # both, where there is a ratio
    pair_count, null_count = len(ratios), len(null_ratios)
    if pair_count < FEWEST_REPEATS or null_count < 2:
        return None

    logs = np.log(ratios)
    # The mean of A/A pairs is known, 0: their squares are taken about it, and each pair is a degree of freedom.
    sum_of_squares = ((logs - logs.mean()) ** 2).sum() + (np.log(null_ratios) ** 2).sum()
    total = float(sum_of_squares) / (pair_count - 1 + null_count)
    parts = VarianceParts.of(total, 2 * _window_variance(runs))  # a ratio has the steps of two runs
    detectable_in_sds = partial(detectable_by_pairs, nulls=null_count)
    return _current_and_best_split(runs, parts, pair_count, PAIR_COUNTS, detectable_in_sds, other_repeats=null_count)


def _current_and_best_split(
    runs: Sequence[MeasuredRun],
    parts: VarianceParts,
    current_repeats: int,
    repeats_to_try: Iterable[int],
    detectable_in_sds: Callable[[int], float],
    other_repeats: int = 0,
) -> tuple[Split, Split] | None:
    """Return the current split and the best one that takes the time of the `runs`; None if no other is better.

    `parts`: the variance of the log rate (or ratio); `detectable_in_sds`: repeats -> the log ratio that they show, in
    standard deviations of that variance; `other_repeats`: A/A pairs, which take time but whose number does not change.
    """
    work = runs[0].metrics.config["work"]
    current_steps, warmup_steps = int(work["steps"]), int(work["warmup_steps"])
    step_s = float(np.mean([run.metrics.window.wall_time_s for run in runs])) / current_steps
    run_s = float(np.mean([run.metrics.total_wall_time_s for run in runs]))
    beside_steps_s = max(run_s - (current_steps + warmup_steps) * step_s, 0.0)  # start and end of a run

    def split(repeats: int, steps: int) -> Split:
        # A window's rate is a mean over its steps: their part of the variance shrinks with their number.
        sd = math.sqrt(parts.of_runs + parts.of_steps * current_steps / steps)
        return Split(repeats, steps, math.expm1(detectable_in_sds(repeats) * sd))

    current = split(current_repeats, current_steps)
    candidates = [current]
    for repeats in repeats_to_try:
        # The time that a run may take so that this many repeats last as long, in all, as those already made.
        allowed_s = run_s * (current_repeats + other_repeats) / (repeats + other_repeats)
        steps = math.floor((allowed_s - beside_steps_s) / step_s) - warmup_steps
        if steps >= FEWEST_STEPS and steps * step_s >= SHORTEST_S:
            candidates.append(split(repeats, steps))

    best = min(candidates, key=lambda candidate: candidate.difference)
    return (current, best) if best.difference < PROPOSED_SHARE * current.difference else None
