"""How to spend the time of a campaign or of an A/B comparison: more short runs, or fewer long ones."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scaleproof.conclude.analysis import paired_test, simultaneous
from scaleproof.conclude.analysis.ab_comparison import Pair
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS, residual
from scaleproof.ground.records.run import MeasuredRun

FEWEST_STEPS = 4  # of a window
SHORTEST_S = 0.5  # a window takes twice the time below which it is a finding (window-short)
MOST_REPEATS = 12
PAIRS = range(4, 25, 2)  # A goes first in half of them
WORTH = 0.9  # of the difference that is shown now: a split that shows more than that is not proposed


@dataclass(frozen=True)
class VarianceParts:
    """Variance of the logarithm of a run's rate, without what the runs of a round share: ratios cancel that.

    Or of the ratio of the two runs of a pair.
    """

    run: float  # of whole runs
    steps: float  # of a window of as many steps as were timed

    @classmethod
    def of(cls, total: float, steps: float) -> "VarianceParts":
        return cls(run=max(total - steps, 0.0), steps=min(steps, total))


@dataclass(frozen=True)
class Split:
    """`repeats` runs (or pairs) of `steps` timed steps each, and the difference that these show, as a part."""

    repeats: int
    steps: int
    difference: float


def variance_parts(cells: Mapping[str, Sequence[MeasuredRun]]) -> VarianceParts | None:
    """Variances of the log rate of a run, from cells whose repeats match; None without two cells of three repeats."""
    repeats = [sorted(runs, key=lambda run: run.metrics.repeat) for runs in cells.values()]
    numbers = {tuple(run.metrics.repeat for run in runs) for runs in repeats}
    if len(repeats) < 2 or len(numbers) > 1 or len(repeats[0]) < FEWEST_REPEATS:
        return None
    logs = np.log([[run.metrics.window.tokens_per_s for run in runs] for runs in repeats])
    n_cells, n_repeats = logs.shape
    # Without the means of cells and of repeats.
    total = float((residual(logs) ** 2).sum()) / ((n_cells - 1) * (n_repeats - 1))
    return VarianceParts.of(total, _of_steps(run for runs in repeats for run in runs))


def _of_steps(runs: Iterable[MeasuredRun]) -> float:
    """Variance of the log rate of a window by its steps: a quarter of the mean square by which its halves differ.

    A quarter, because the mean of a window is off by half of what its halves differ by.
    """
    differences = []
    for run in runs:
        middle = len(run.step_times) // 2
        first, second = run.step_times[:middle], run.step_times[middle : 2 * middle]
        if middle:
            differences.append(math.log(float(first.mean()) / float(second.mean())))
    return float(np.mean(np.square(differences))) / 4 if differences else 0.0


def best_split(cells: Mapping[str, Sequence[MeasuredRun]]) -> tuple[Split, Split] | None:
    """The split of a campaign into repeats and steps, and the one that shows the smallest difference in the same time.

    `cells`: cell -> its runs. None where the parts of the variance are not known, or no other split shows a difference
    that is smaller by a tenth.
    """
    parts = variance_parts(cells)
    if parts is None:
        return None
    runs = [run for of_cell in cells.values() for run in of_cell]
    repeats = len(runs) // len(cells)
    freedom = (len(cells) - 1) * (repeats - 1)

    def in_deviations(number: int) -> float:  # by the report's formula
        return math.sqrt(2) * simultaneous.detectable(number, len(cells), CONFIDENCE, freedom)

    return _best(runs, parts, repeats, range(FEWEST_REPEATS, MOST_REPEATS + 1), in_deviations)


def best_split_of_pairs(pairs: Sequence[Pair]) -> tuple[Split, Split] | None:
    """As `best_split`, of the pairs of an A/B comparison; the number of its A/A pairs stays."""
    whole = [pair for pair in pairs if isinstance(pair.a, MeasuredRun) and isinstance(pair.b, MeasuredRun)]
    runs = [run for pair in whole for run in (pair.a, pair.b) if isinstance(run, MeasuredRun)]
    logs = {null: np.log([pair.ratio or 1.0 for pair in whole if pair.null == null]) for null in (False, True)}
    n, nulls = len(logs[False]), len(logs[True])
    if n < FEWEST_REPEATS or nulls < 2:
        return None
    total = float(((logs[False] - logs[False].mean()) ** 2).sum() + (logs[True] ** 2).sum()) / (n - 1 + nulls)
    parts = VarianceParts.of(total, 2 * _of_steps(runs))

    def in_deviations(number: int) -> float:
        return paired_test.detectable(number, nulls)

    return _best(runs, parts, n, PAIRS, in_deviations, nulls)


def _best(
    runs: Sequence[MeasuredRun],
    parts: VarianceParts,
    repeats: int,
    numbers: Iterable[int],
    in_deviations: Callable[[int], float],
    beside: int = 0,
) -> tuple[Split, Split] | None:
    """The split as it is, and the best of `numbers` of repeats in the time of the `runs`; None where it is no better.

    `in_deviations(repeats)`: the log ratio that so many show, in standard deviations. `beside`: repeats that are made
    with any number, and take their time.
    """
    work = runs[0].metrics.config["work"]
    steps, warmup = int(work["steps"]), int(work["warmup_steps"])
    step_s = float(np.mean([run.metrics.window.wall_time_s for run in runs])) / steps
    jobs_s = [run.metrics.total_wall_time_s for run in runs]
    run_s = float(np.mean([seconds for seconds in jobs_s if seconds is not None] or [0.0]))
    # What a run takes outside of its steps.
    start_s = max(run_s - (steps + warmup) * step_s, 0.0)

    def split(number: int, steps_of_run: int) -> Split:
        deviation = math.sqrt(parts.run + parts.steps * steps / steps_of_run)
        return Split(number, steps_of_run, math.expm1(in_deviations(number) * deviation))

    now = split(repeats, steps)
    possible = [now]
    for number in numbers:
        # Steps for which so many runs take the time of those that were made.
        fitting = math.floor((run_s * (repeats + beside) / (number + beside) - start_s) / step_s) - warmup
        if fitting >= FEWEST_STEPS and fitting * step_s >= SHORTEST_S:
            possible.append(split(number, fitting))
    best = min(possible, key=lambda one: one.difference)
    return (now, best) if best.difference < WORTH * now.difference else None
