"""Is the series of steps whole, and is it one run's, at one speed, without stalls and periods?"""

from collections.abc import Iterator

import numpy as np

from scaleproof.conclude.checks.cpu_time import computing_s, cores_used
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import fixed, percent, seconds, significant
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.steps import median

# Of the median, or of the processor time of a step: 0.5 was the shortest of 230 sound runs on machines of their own.
SHORT = 0.1
SHIFT, SIDE = 1.7, 10  # times: of medians; steps on either side. On a busy machine sound runs came to 1.5
FULL = 0.9  # part of its cores that a rank uses which is never kept waiting
SEPARATE = 0.05  # part of the steps of either side that may be out of its place


@of_run.finds("series-incomplete", "invalid", only_first=True)
def series_has_every_step(run: MeasuredRun) -> Iterator[Flag]:
    """steps.csv does not have every step of every rank once, or the window begins at another step than configured:
    rates and percentiles are those of some of the steps.

    Detected: Steps and phases of each rank, against the configured warm-up and window.
    Seen: Slow steps that were removed by hand; a warm-up step that is counted.
    Repair: Quote no figure of this run; run the cell again.
    """
    if _is_as_written(run):
        return
    work = run.metrics.config["work"]
    warmup, total = work["warmup_steps"], work["warmup_steps"] + work["steps"]
    for rank in range(len(run.metrics.ranks)):
        rows = run.steps[run.steps["rank"] == rank]
        steps = np.sort(rows["step"])
        if len(steps) != total or (steps != np.arange(total)).any():
            yield Flag(f"rank {rank} has {len(steps)} rows of {len(set(steps.tolist()))} steps; {total} are configured")
        timed = rows["step"][rows["phase"] == "window"]
        if len(timed) != work["steps"] or (timed < warmup).any():
            yield Flag(
                f"rank {rank}: {len(timed)} steps are of the window; {work['steps']} after {warmup} are configured"
            )


def _is_as_written(run: MeasuredRun) -> bool:
    """Return whether steps.csv has all configured rows in the order in which a run writes them: step, then rank.

    Nearly every series has, and is then found complete without a look at each rank.
    """
    work, rows = run.metrics.config["work"], run.steps
    n_ranks = len(run.metrics.ranks)
    if len(rows) != (work["warmup_steps"] + work["steps"]) * n_ranks:
        return False
    steps, ranks = np.divmod(np.arange(len(rows)), n_ranks)
    has_phases = (rows["phase"] == "window") == (steps >= work["warmup_steps"])
    return bool((rows["step"] == steps).all() and (rows["rank"] == ranks).all() and has_phases.all())


@of_run.finds("step-too-short", "invalid")
def no_step_is_too_short(run: MeasuredRun) -> Iterator[Flag]:
    """A step took hardly any time: it was not timed, or did no work, and still counts in the rate.

    Detected: A step of a tenth of the median or less; on CPU devices of a tenth of the processor time of a step, where
    that is less: a machine that takes the cores away makes most steps long, not one of them short.
    Seen: Timers that leave the first or the last step out.
    Repair: Look at where the step timer starts and stops, and at what the step did.
    """
    times, median_s = run.step_times, run.median_step_s
    shortest_s = float(times.min())
    # What a step cannot do without: on CPUs its processor time, where a busy machine made most steps longer than that.
    needed_s = min(median_s, computing_s(run) or median_s)
    if shortest_s <= SHORT * needed_s:
        step = int(run.window["step"][times.argmin()])
        yield Flag(
            f"step {step} took {significant(1e3 * shortest_s)} ms, the median is {significant(1e3 * median_s)} ms"
        )


@of_run.finds("steps-shift", "suspect", shift=significant(SHIFT), side=SIDE)
def steps_keep_their_time(run: MeasuredRun) -> Iterator[Flag]:
    """From one step on, steps take far more or far less time, and stay so: the rate is a mixture of two.

    The work changed, or the machine did: its speed, most likely, where the ranks used their cores all the time.

    Detected: Medians before and after the step {shift} times apart, with {side} steps or more and 95 % of them apart on
    either side.
    Seen: Load that begins within the window; devices that change their clocks; work that stops half-way.
    Repair: Run the cell again on a quiet machine. If it shifts at the same step again, look at what begins there.
    """
    times = run.step_times
    place = find_shift(times)
    if place is not None:
        before, after = median(times[:place]), median(times[place:])
        yield Flag(
            f"the median step took {significant(1e3 * before)} ms before step {int(run.window['step'][place])} and "
            f"{significant(1e3 * after)} ms from it on ({fixed(after / before, 2)} times){_likely_cause(run)}"
        )


def _likely_cause(run: MeasuredRun) -> str:
    """Return the end of the evidence that names the likely cause; "" where the use of the cores does not tell.

    A program that never waits for its cores and takes another time runs on a machine of another speed.
    """
    used = cores_used(run)
    if used is None or used < FULL:
        return ""
    return (
        f"; the ranks used {percent(used)} of their cores: most likely the machine changed its speed, not the trainer"
    )


def find_shift(times: np.ndarray) -> int | None:
    """Return the index at which step times change to a level SHIFT times higher or lower, for good; None without one.

    It is where two levels fit the series best, by least squares of logarithms.
    """
    steps = len(times)
    if steps < 2 * SIDE:
        return None
    logs = np.log(np.maximum(times, 1e-9))
    # The squares about the means of both sides are least where the squares between these means are largest.
    left_sums = logs.cumsum()[:-1]  # of the first 1, 2, ... steps - 1
    n_left = np.arange(1, steps)
    between = (left_sums - n_left * logs.mean()) ** 2 / (n_left * (steps - n_left))
    place = int(between[SIDE - 1 : steps - SIDE].argmax()) + SIDE  # leaves SIDE steps or more on either side
    left, right = np.sort(times[:place]), np.sort(times[place:])
    lower, upper = (left, right) if median(left) < median(right) else (right, left)
    if not median(upper) >= SHIFT * median(lower):  # true of NaN as well
        return None
    # Nearly all of one side is below nearly all of the other: a few odd steps may be out of place.
    are_separate = lower[int((1 - SEPARATE) * (len(lower) - 1))] < upper[int(SEPARATE * (len(upper) - 1))]
    return place if are_separate else None


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
    period = find_period(times)
    if period is None:
        return
    slow = times > SLOW * run.median_step_s
    lost = float((times[slow] - run.median_step_s).sum())  # what slow steps took beyond the median
    wall = run.metrics.window.wall_time_s
    if lost > PERIODIC_SHARE * wall:
        yield Flag(
            f"one step in {period} is slower ({int(slow.sum())} of {len(times)}): {seconds(lost)} of "
            f"{seconds(wall)} lost"
        )


def find_period(times: np.ndarray) -> int | None:
    """Return n > 1 if exactly every n-th step is slow, from first to last, and PERIODIC_STEPS or more are; else None.

    Slow is above SLOW times the median. Where these steps have no period, because other steps were disturbed too, it is
    nearer to the slowest step than to the median.
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
        is_throughout = places[0] < period and len(times) - places[-1] <= period
        if period > 1 and (gaps == period).all() and is_throughout:
            return period
    return None
