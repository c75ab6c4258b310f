"""Is the series of steps whole, and is it one run's, at one speed, without stalls and periods?"""

from collections.abc import Iterator

import numpy as np

from scaleproof.conclude.checks.cpu_time import computing_s, cores_used
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import fixed, percent, seconds, significant
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.steps import median

# A step below this share of the median, or of a step's processor time, is too short: 0.5 was the least in 230 sound
# runs on machines of their own.
SHORT = 0.1
SHIFT, SIDE = 1.7, 10  # the ratio of two levels, which was 1.5 in sound runs on a busy machine; steps on either side
FULL = 0.9  # a rank that uses this share of its cores is never kept waiting
SEPARATE = 0.05  # this share of the steps of either side may be out of its place


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
    warmup_count, window_count = work["warmup_steps"], work["steps"]
    total = warmup_count + window_count
    for rank in range(len(run.metrics.ranks)):
        rows = run.steps[run.steps["rank"] == rank]
        steps = np.sort(rows["step"])
        if len(steps) != total or (steps != np.arange(total)).any():
            yield Flag(f"rank {rank} has {len(steps)} rows of {len(set(steps.tolist()))} steps; {total} are configured")

        window_steps = rows["step"][rows["phase"] == "window"]
        if len(window_steps) != window_count or (window_steps < warmup_count).any():
            yield Flag(
                f"rank {rank}: {len(window_steps)} steps are of the window; {window_count} after {warmup_count} are "
                "configured"
            )


def _is_as_written(run: MeasuredRun) -> bool:
    """Return whether steps.csv has all rows in order (step, rank): nearly every series passes this short cut."""
    work, rows = run.metrics.config["work"], run.steps
    n_ranks = len(run.metrics.ranks)
    if len(rows) != (work["warmup_steps"] + work["steps"]) * n_ranks:
        return False
    # Row i is of step i // n_ranks and of rank i % n_ranks.
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
    # A step needs its processor time on CPUs, where a busy machine makes most steps longer than that.
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
    index = find_shift(times)
    if index is not None:
        step = int(run.window["step"][index])
        before_s, after_s = median(times[:index]), median(times[index:])
        yield Flag(
            f"the median step took {significant(1e3 * before_s)} ms before step {step} and "
            f"{significant(1e3 * after_s)} ms from it on ({fixed(after_s / before_s, 2)} times){_likely_cause(run)}"
        )


def _likely_cause(run: MeasuredRun) -> str:
    """Return "; ... likely the machine changed its speed" for ranks that never waited for their cores, else ""."""
    used_share = cores_used(run)
    if used_share is None or used_share < FULL:
        return ""
    used = percent(used_share)
    return f"; the ranks used {used} of their cores: most likely the machine changed its speed, not the trainer"


def find_shift(times: np.ndarray) -> int | None:
    """Return the index at which step times change to a level SHIFT times higher or lower, for good; None without one.

    It is where two levels fit the series best, by least squares of logarithms.
    """
    step_count = len(times)
    if step_count < 2 * SIDE:
        return None
    logs = np.log(np.maximum(times, 1e-9))
    # The squares about the means of both sides are least where the squares between these means are largest.
    left_counts = np.arange(1, step_count)  # an entry for each cut: the steps before it
    left_sums = logs.cumsum()[:-1]  # the sum of the logarithms of these steps
    between = (left_sums - left_counts * logs.mean()) ** 2 / (left_counts * (step_count - left_counts))
    index = int(between[SIDE - 1 : step_count - SIDE].argmax()) + SIDE  # leaves SIDE steps or more on either side

    left, right = np.sort(times[:index]), np.sort(times[index:])
    lower, upper = (left, right) if median(left) < median(right) else (right, left)
    if not median(upper) >= SHIFT * median(lower):  # true of NaN as well
        return None
    # Nearly all of one side is below nearly all of the other: a few odd steps may be out of place.
    high_of_lower = lower[int((1 - SEPARATE) * (len(lower) - 1))]
    low_of_upper = upper[int(SEPARATE * (len(upper) - 1))]
    return index if high_of_lower < low_of_upper else None


STALL, STALL_SHARE = 10.0, 0.05  # a stalled step is so many times the median, and this share of the window
SLOW = 1.3  # something was added to a step of so many times the median
PERIODIC_SHARE, PERIODIC_STEPS = 0.02, 4  # this share of the window, lost in so many slow steps, makes a pattern


@of_run.finds("step-stalled", "suspect")
def no_step_stalls(run: MeasuredRun) -> Iterator[Flag]:
    """One step took many times as long as the others: the rate is that of the disturbance as well.

    Detected: A step above ten times the median that takes 5 % of the window or more.
    Seen: Checkpoints, evaluation and garbage collection inside the window; network file systems.
    Repair: Find out what happened at that step (train.log, the machine's log) and run the cell again.
    """
    times, median_s = run.step_times, run.median_step_s
    longest_s = times.max()
    lost_s = float(longest_s) - median_s
    window_s = run.metrics.window.wall_time_s
    if longest_s > STALL * median_s and lost_s > STALL_SHARE * window_s:
        step = int(run.window["step"][times.argmax()])
        yield Flag(
            f"step {step} took {seconds(longest_s)}, the median is {seconds(median_s)}: {seconds(lost_s)} of "
            f"{seconds(window_s)} lost"
        )


@of_run.finds("steps-periodic", "suspect")
def steps_have_no_period(run: MeasuredRun) -> Iterator[Flag]:
    """Every n-th step is slower: something that is not training takes part in the window.

    Detected: Steps above 1.3 times the median that stand in one regular pattern, four or more, with 2 % of the window.
    Seen: Checkpoints, logging, a scheduler or a validation every n steps.
    Repair: Take what runs every n steps out of the window, or state it.
    """
    times = run.step_times
    pattern = find_period(times)
    if pattern is None:
        return
    period, slow_steps = pattern
    lost_s = float((times[slow_steps] - run.median_step_s).sum())  # what slow steps took beyond the median
    window_s = run.metrics.window.wall_time_s
    if lost_s > PERIODIC_SHARE * window_s:
        yield Flag(
            f"one step in {period} is slower ({len(slow_steps)} of {len(times)}): {seconds(lost_s)} of "
            f"{seconds(window_s)} lost"
        )


def find_period(times: np.ndarray) -> tuple[int, np.ndarray] | None:
    """Return n > 1, and the slow steps, if exactly every n-th step is slow, from first to last; else None.

    PERIODIC_STEPS or more are needed. A step is slow above SLOW times the median. Where these steps have no period,
    because other steps were disturbed too, a step is slow that is nearer to the slowest step than to the median.
    """
    median_s = median(times)
    slow_s = SLOW * median_s
    if (times > slow_s).sum() < PERIODIC_STEPS:  # a short cut: nearly all runs end here
        return None
    very_slow_s = max(slow_s, (median_s + float(times.max())) / 2)
    for threshold_s in (slow_s, very_slow_s):
        slow_steps = np.flatnonzero(times > threshold_s)
        if len(slow_steps) < PERIODIC_STEPS:
            continue
        gaps = np.diff(slow_steps)
        period = int(gaps[0])
        is_throughout = slow_steps[0] < period and len(times) - slow_steps[-1] <= period
        if period > 1 and (gaps == period).all() and is_throughout:
            return period, slow_steps
    return None
