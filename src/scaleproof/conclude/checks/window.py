"""What disturbed the window: stalls and periodic steps."""

from collections.abc import Iterator

import numpy as np

from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import seconds
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.steps import median

STALL, STALL_SHARE = 10.0, 0.05  # times the median; of the window
SLOW = 1.3  # times the median: a step that something was added to
PERIODIC_SHARE, PERIODIC_STEPS = 0.02, 4  # of the window; slow steps that make a pattern


@of_run.finds("step-stalled", "suspect")
def no_step_stalls(run: MeasuredRun) -> Iterator[Flag]:
    """One step took many times as long as the others: the rate is that of the disturbance as well.

    Detected: A step above ten times the median that takes 5 % of the window or more.
    Seen: Checkpoints, evaluation and garbage collection inside the window; network file systems.
    Repair: Find out what happened at that step (train.log, the machine's log) and run the cell again.
    """
    times, median_s = run.step_times, run.median_step_s
    lost = float(times.max()) - median_s
    wall = run.metrics.window.wall_time_s
    if times.max() > STALL * median_s and lost > STALL_SHARE * wall:
        step = int(run.window["step"][times.argmax()])
        yield Flag(
            f"step {step} took {seconds(times.max())}, the median is {seconds(median_s)}: {seconds(lost)} of "
            f"{seconds(wall)} lost"
        )


@of_run.finds("steps-periodic", "suspect")
def steps_have_no_period(run: MeasuredRun) -> Iterator[Flag]:
    """Every n-th step is slower: something that is not training takes part in the window.

    Detected: Steps above 1.3 times the median that stand in one regular pattern, four or more, with 2 % of the window.
    Seen: Checkpoints, logging, a scheduler or a validation every n steps.
    Repair: Take what runs every n steps out of the window, or state it.
    """
    times = run.step_times
    period = period_of(times)
    if period is None:
        return
    slow = times > SLOW * run.median_step_s
    lost = float((times[slow] - run.median_step_s).sum())
    wall = run.metrics.window.wall_time_s
    if lost > PERIODIC_SHARE * wall:
        yield Flag(
            f"every {period}th step is slower ({int(slow.sum())} of {len(times)}): {seconds(lost)} of "
            f"{seconds(wall)} lost"
        )


def period_of(times: np.ndarray) -> int | None:
    """Return the period of the slow steps; None unless there are several and they are exactly every n-th one, n > 1.

    Slow are steps above SLOW times the median. Where these have no period since other steps are disturbed as well, slow
    are those alone that are nearer to the slowest step than to the median.
    """
    median_s = median(times)
    slow_s = SLOW * median_s
    if (times > slow_s).sum() < PERIODIC_STEPS:  # nearly always
        return None
    very_slow_s = max(slow_s, (median_s + float(times.max())) / 2)
    for level_s in (slow_s, very_slow_s):
        places = np.flatnonzero(times > level_s)
        if len(places) < PERIODIC_STEPS:
            continue
        gaps = np.diff(places)
        period = int(gaps[0])
        is_throughout = places[0] < period and len(times) - places[-1] <= period  # from the first step to the last
        if period > 1 and (gaps == period).all() and is_throughout:
            return period
    return None
