"""How to spend the time of a campaign or of an A/B comparison: more short runs, or fewer long ones."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from scaleproof.conclude.analysis.ab_comparison import Pair
from scaleproof.conclude.analysis.power import detectable_by_pairs, detectable_ratio_of_cells
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS, remove_means
from scaleproof.ground.records.run import MeasuredRun

FEWEST_STEPS = 4  # of a window
SHORTEST_S = 0.5  # a window takes twice the time below which it is a finding (window-short)
MOST_REPEATS = 12
PAIRS = range(4, 25, 2)  # A goes first in half of them
WORTH = 0.9  # of the difference that is shown now: a split that shows more than that is not proposed


@dataclass(frozen=True)
class VarianceParts:
    """The two parts of the variance of the logarithm of a run's rate, or of the ratio of the two runs of a pair.

    What the runs of a round share is not in it: ratios cancel that.
    """

    run: float  # of whole runs
    steps: float  # of a window of as many steps as were timed

    @classmethod
    def of(cls, total: float, steps: float) -> "VarianceParts":
        """Return the parts of a variance `total`. `steps`: an estimate of one part, which may come out larger."""
        return cls(run=max(total - steps, 0.0), steps=min(steps, total))


@dataclass(frozen=True)
class Split:
    """`repeats` runs (or pairs) of `steps` timed steps each, and the difference that these show, as a part."""

    repeats: int
    steps: int
    difference: float


def variance_parts(cells: Mapping[str, Sequence[MeasuredRun]]) -> VarianceParts | None:
    """Return the parts of the variance of a run's log rate; None without two cells whose repeats match and suffice."""
    repeats = [sorted(runs, key=lambda run: run.metrics.repeat) for runs in cells.values()]
    numbers = {tuple(run.metrics.repeat for run in runs) for runs in repeats}
    if len(repeats) < 2 or len(numbers) > 1 or len(repeats[0]) < FEWEST_REPEATS:
        return None
    logs = np.log([[run.metrics.window.tokens_per_s for run in runs] for runs in repeats])  # cells x repeats
    n_cells, n_repeats = logs.shape
    # Without the means of cells and of repeats.
    total = float((remove_means(logs) ** 2).sum()) / ((n_cells - 1) * (n_repeats - 1))
    return VarianceParts.of(total, _window_variance(run for runs in repeats for run in runs))


def _window_variance(runs: Iterable[MeasuredRun]) -> float:
    """Return the variance of the log rate of a window that its steps explain; 0 where no run has two steps.

    It is a quarter of the mean squared difference of the log rates of both halves: the mean of a window is off by half
    of what its halves differ by.
    """
    differences = []
    for run in runs:
        half = len(run.step_times) // 2
        if half:
            first, second = run.step_times[:half], run.step_times[half : 2 * half]
            differences.append(math.log(float(first.mean()) / float(second.mean())))
    return float(np.mean(np.square(differences))) / 4 if differences else 0.0


def best_split(cells: Mapping[str, Sequence[MeasuredRun]]) -> tuple[Split, Split] | None:
    """Return the split into repeats and steps that a campaign has, and the one of the same time that shows most.

    None where no other split shows a difference that is smaller by a tenth (WORTH), or where `variance_parts` gives
    none. `cells`: cell -> its runs.
    """
    parts = variance_parts(cells)
    if parts is None:
        return None
    runs = [run for own_runs in cells.values() for run in own_runs]
    repeats = len(runs) // len(cells)  # of each cell, because repeats match
    freedom = (len(cells) - 1) * (repeats - 1)  # of the variance as it is estimated now, whatever the split

    def shown_in_deviations(number: int) -> float:  # of a run; the report's formula has those of a pair
        return math.sqrt(2) * detectable_ratio_of_cells(number, len(cells), CONFIDENCE, freedom)

    return _current_and_best_split(runs, parts, repeats, range(FEWEST_REPEATS, MOST_REPEATS + 1), shown_in_deviations)


def best_split_of_pairs(pairs: Sequence[Pair]) -> tuple[Split, Split] | None:
    """Return the splits of `best_split` for the pairs of an A/B comparison; the number of A/A pairs stays as it is."""
    ratios: dict[bool, list[float]] = {False: [], True: []}  # by whether the pair is of A twice
    runs: list[MeasuredRun] = []
    for pair in pairs:
        if pair.ratio is not None:
            ratios[pair.null].append(pair.ratio)
            runs += [run for run in (pair.a, pair.b) if isinstance(run, MeasuredRun)]  # both, where there is a ratio
    n_pairs, n_nulls = len(ratios[False]), len(ratios[True])
    if n_pairs < FEWEST_REPEATS or n_nulls < 2:
        return None
    logs, null_logs = np.log(ratios[False]), np.log(ratios[True])
    squares = ((logs - logs.mean()) ** 2).sum() + (null_logs**2).sum()  # the mean of A/A pairs is known: 0
    total = float(squares) / (n_pairs - 1 + n_nulls)
    parts = VarianceParts.of(total, 2 * _window_variance(runs))  # a ratio has the steps of two runs

    shown_in_deviations = partial(detectable_by_pairs, nulls=n_nulls)
    return _current_and_best_split(runs, parts, n_pairs, PAIRS, shown_in_deviations, beside=n_nulls)


def _current_and_best_split(
    runs: Sequence[MeasuredRun],
    parts: VarianceParts,
    repeats: int,
    numbers: Iterable[int],
    shown_in_deviations: Callable[[int], float],
    beside: int = 0,
) -> tuple[Split, Split] | None:
    """Return the split as it is, and the best in the time of the `runs`; None if none is better.

    `parts`: of the variance of the log rate (or ratio); `repeats`: of the split as it is; `numbers`: of repeats to try;
    `shown_in_deviations(number)`: the log ratio that so many repeats show, in standard deviations of that variance;
    `beside`: repeats of another kind, which take time but stay as many: A/A pairs.
    """
    work = runs[0].metrics.config["work"]
    steps, warmup = int(work["steps"]), int(work["warmup_steps"])
    step_s = float(np.mean([run.metrics.window.wall_time_s for run in runs])) / steps
    run_s = float(np.mean([run.metrics.total_wall_time_s for run in runs]))
    start_s = max(run_s - (steps + warmup) * step_s, 0.0)  # outside of its steps

    def split(number: int, steps_of_run: int) -> Split:
        # The part of the steps is that of a mean: it shrinks with their number.
        deviation = math.sqrt(parts.run + parts.steps * steps / steps_of_run)
        return Split(number, steps_of_run, math.expm1(shown_in_deviations(number) * deviation))

    now = split(repeats, steps)
    possible = [now]
    for number in numbers:
        # So many runs may take this long each to take together the time of those that were made.
        allowed_s = run_s * (repeats + beside) / (number + beside)
        fitting_steps = math.floor((allowed_s - start_s) / step_s) - warmup
        if fitting_steps >= FEWEST_STEPS and fitting_steps * step_s >= SHORTEST_S:
            possible.append(split(number, fitting_steps))
    best = min(possible, key=lambda candidate: candidate.difference)
    return (now, best) if best.difference < WORTH * now.difference else None
