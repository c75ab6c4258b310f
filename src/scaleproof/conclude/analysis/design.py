"""How to spend the time of a campaign: more short runs, or fewer long ones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scaleproof.conclude.analysis.simultaneous import detectable
from scaleproof.ground.confidence import FEWEST_REPEATS, residual
from scaleproof.ground.records.run import MeasuredRun

FEWEST_STEPS = 4  # of a window
SHORTEST_S = 0.5  # a window takes twice the time below which it is a finding (window-short)
MOST_REPEATS = 12
WORTH = 0.9  # of the difference that is shown now: a split that shows more than that is not proposed


@dataclass(frozen=True)
class VarianceParts:
    """Variance of the logarithm of a run's rate, without what the runs of a round share: ratios cancel that."""

    run: float  # of whole runs
    steps: float  # of a window of as many steps as were timed


@dataclass(frozen=True)
class Split:
    """`repeats` runs of `steps` timed steps each, and the part by which two cells differ that these show."""

    repeats: int
    steps: int
    difference: float


def variance_parts(cells: Mapping[str, Sequence[MeasuredRun]]) -> VarianceParts | None:
    """Variances of the log rate of a run, from cells whose repeats match; None without two cells of three repeats.

    The part of the steps is a quarter of the mean square by which the log rates of a window's halves differ: a quarter,
    because the mean of a window is off by half of what its halves differ by. The rest is the part of whole runs.
    """
    repeats = [sorted(runs, key=lambda run: run.metrics.repeat) for runs in cells.values()]
    numbers = {tuple(run.metrics.repeat for run in runs) for runs in repeats}
    if len(repeats) < 2 or len(numbers) > 1 or len(repeats[0]) < FEWEST_REPEATS:
        return None
    logs = np.log([[run.metrics.window.tokens_per_s for run in runs] for runs in repeats])
    n_cells, n_repeats = logs.shape
    # Without the means of cells and of repeats.
    total = float((residual(logs) ** 2).sum()) / ((n_cells - 1) * (n_repeats - 1))
    differences = []  # of the halves of a window, in logarithms
    for run in (run for runs in repeats for run in runs):
        middle = len(run.step_times) // 2
        first, second = run.step_times[:middle], run.step_times[middle : 2 * middle]
        if middle:
            differences.append(math.log(float(first.mean()) / float(second.mean())))
    steps = float(np.mean(np.square(differences))) / 4 if differences else 0.0
    return VarianceParts(run=max(total - steps, 0.0), steps=min(steps, total))


def best_split(cells: Mapping[str, Sequence[MeasuredRun]]) -> tuple[Split, Split] | None:
    """The split of a campaign into repeats and steps, and the one that shows the smallest difference in the same time.

    `cells`: cell -> its runs. None where the parts of the variance are not known, or no other split shows a difference
    that is smaller by a tenth.
    """
    parts = variance_parts(cells)
    if parts is None:
        return None
    runs = [run for of_cell in cells.values() for run in of_cell]
    work = runs[0].metrics.config["work"]
    steps, warmup = int(work["steps"]), int(work["warmup_steps"])
    step_s = float(np.mean([run.metrics.window.wall_time_s for run in runs])) / steps
    jobs_s = [run.metrics.total_wall_time_s for run in runs]
    run_s = float(np.mean([seconds for seconds in jobs_s if seconds is not None] or [0.0]))
    # What a run takes outside of its steps.
    start_s = max(run_s - (steps + warmup) * step_s, 0.0)
    repeats = len(runs) // len(cells)

    def difference(repeats: int, steps_of_run: int) -> float:  # the smallest that such runs reliably show
        variance = parts.run + parts.steps * steps / steps_of_run
        return math.expm1(detectable(repeats, len(cells)) * math.sqrt(2 * variance))

    now = Split(repeats, steps, difference(repeats, steps))
    possible = [now]
    for number in range(FEWEST_REPEATS, MOST_REPEATS + 1):
        # Steps for which `number` runs take the time of the runs that were made.
        fitting = math.floor((run_s * repeats / number - start_s) / step_s) - warmup
        if fitting >= FEWEST_STEPS and fitting * step_s >= SHORTEST_S:
            possible.append(Split(number, fitting, difference(number, fitting)))
    best = min(possible, key=lambda split: split.difference)
    return (now, best) if best.difference < WORTH * now.difference else None
