"""Do clocks that know nothing of each other agree on the window?"""

import csv
import math
from collections.abc import Iterator

import numpy as np

from scaleproof.conclude.checks.copies import start_epoch_s
from scaleproof.conclude.checks.timing import SHORTEST_S
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import fixed, percent, seconds
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import BENCHMARK, MeasuredRun

# Sound runs: start-up, window, validation and closing added up to the total, to 0.1 s, in all of 663 runs, some of
# them on busy machines; two readings around the window differ by far less.
BUDGET_SHARE, BUDGET_S = 0.10, 0.1
MOST_SLOWED = 10.0
WRITING_S = 2e-5  # seconds to write a row of steps.csv
AROUND_SHARE, AROUND_S = 0.02, 0.05
# Ranks on a CPU: of 119 windows, none differed by more than 0.002 s. Beside a GPU the readings enclose a little more.
AROUND_CPU_SHARE, AROUND_CPU_S = 0.005, 0.01
LAUNCHER_SHARE, LAUNCHER_S = 0.10, 0.5  # beside twice the time between two of the launcher's looks
STARTED_S = 120.0  # between the time in the record and the launcher's request lies a look at the machine
# In windows of so many steps or more, steps that took the same time are counted. CUDA's events tell half a microsecond
# apart: half of the steps would be alike only with a scatter below 0.4 microseconds.
COARSE_STEPS = 8
APART_SHARE, APART_S = 0.02, 0.02
# A job is longer than its run by the start of Python, and of an environment on a slow network disk.
SHORTER_SHARE, SHORTER_S = 0.01, 1.0
LONGER_SHARE, LONGER_S = 0.10, 300.0


@of_run.finds("clock-differs", "invalid", only_first=True)
def clocks_agree(run: MeasuredRun) -> Iterator[Flag]:
    """The time of the window is not what other clocks saw: step times and rates are wrong by as much.

    Detected: The step timer against the clock of each rank around the window (0.5 % + 0.01 s and as much as ranks
    waited for cores, 2 % + 0.05 s at most and beside GPUs), against the time up to the end of the validation less
    the validation (10 % + 0.1 s, in a window shorter than 0.25 s as much more as it lacks of that, longer by as
    much as the mean step is longer than the shortest, or the window than what the ranks did not wait for cores),
    against the launcher, another process, which sees the window begin and end (10 % + 1.5 s); the whole run against
    its job by Snakemake's clock (longer by 1 % + 1 s, shorter by 10 % + 300 s).
    `suspect` where most steps took the same time, to 0.1 microseconds: the clock ticks too slowly, or steps were not
    timed one by one.
    Seen: Timers that leave micro-steps out; windows that were timed before the warm-up; edited results.
    Repair: Trust no time of this run. Look at what starts and stops the step timer, then run the cell again.
    """
    # The first disagreement is flagged: the others follow from it. A time that is NaN is never near enough to another.
    for compare_clocks in (_on_start, _on_clocks_of_ranks, _on_other_phases, _on_launcher, _on_job):
        yield from compare_clocks(run)


def _on_start(run: MeasuredRun) -> Iterator[Flag]:
    """Compare the record's `timestamp_utc` with the launcher's own time of day at its start (`launcher_epoch_s`)."""
    launcher_epoch_s = run.metrics.startup.launcher_epoch_s
    if launcher_epoch_s is None:
        return
    distance_s = abs(start_epoch_s(run) - launcher_epoch_s)
    if not distance_s <= STARTED_S:
        yield Flag(
            f"the record says that it began at {run.metrics.timestamp_utc}, {seconds(distance_s, 0)} from its "
            "launcher's clock"
        )


def _on_clocks_of_ranks(run: MeasuredRun) -> Iterator[Flag]:
    """Compare the window with the clock that each rank read before and after it; the slowest rank's is the window's."""
    window_s = run.metrics.window.wall_time_s
    lengths_s = [length_s for length_s in map(window_length, run.metrics.ranks) if length_s is not None]
    if not lengths_s:
        return
    around_s = max(lengths_s)
    if not abs(around_s - window_s) <= _timer_tolerance_s(run):
        yield Flag(
            f"the window took {seconds(window_s)} by its step timer and {seconds(around_s)} by the clock around it"
        )


def _on_other_phases(run: MeasuredRun) -> Iterator[Flag]:
    """Compare the window with the time that other phases leave for it. What slows the window slows these as much."""
    window_s = run.metrics.window.wall_time_s
    remaining_s = window_by_other_phases(run)
    tolerance_s = BUDGET_SHARE * window_s + (BUDGET_S + WRITING_S * len(run.steps)) * _slowdown_of_window(run)
    tolerance_s += max(SHORTEST_S - window_s, 0.0)  # of a window that is too short for anything, `window-short` says so
    if remaining_s is not None and not abs(remaining_s - window_s) <= tolerance_s:
        yield Flag(
            f"start-up, validation and closing leave {seconds(remaining_s)} of the total of "
            f"{seconds(run.metrics.total_wall_time_s)} for the window, which took {seconds(window_s)} by its step timer"
        )


def _on_launcher(run: MeasuredRun) -> Iterator[Flag]:
    """Compare the window with what the launcher, another process, saw begin and end."""
    window_s = run.metrics.window.wall_time_s
    launcher_clock = run.metrics.second_clock
    if not launcher_clock or launcher_clock.window_s is None:
        return
    # The launcher may see the begin and the end of the window late by the time between two of its looks.
    tolerance_s = LAUNCHER_SHARE * window_s + LAUNCHER_S + 2 * launcher_clock.resolution_s
    if not abs(launcher_clock.window_s - window_s) <= tolerance_s:
        seen_text = seconds(launcher_clock.window_s)
        yield Flag(f"the launcher saw a window of {seen_text}; by its step timer it took {seconds(window_s)}")


def _on_job(run: MeasuredRun) -> Iterator[Flag]:
    """Compare the whole run with its job by Snakemake's clock."""
    run_s = run.metrics.total_wall_time_s
    job_s = seconds_of_job(run)
    if job_s is None:
        return
    # The job may be longer than the run by LONGER_..., and shorter by SHORTER_... .
    least_s = job_s - LONGER_SHARE * job_s - LONGER_S
    most_s = job_s + SHORTER_SHARE * job_s + SHORTER_S
    if not least_s <= run_s <= most_s:
        yield Flag(
            f"by its own clock the whole run took {seconds(run_s)}; by Snakemake's its job took {seconds(job_s)}"
        )


@of_run.check(*clocks_agree.codes)
def steps_are_timed_one_by_one(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run with fewer different step times than half of its steps: the clock ticks too slowly to time one."""
    times = run.step_times
    different_times = len(np.unique(np.round(times, 7)))  # to 0.1 microseconds
    if len(times) >= COARSE_STEPS and 2 * different_times < len(times):
        evidence = f"the {len(times)} steps of the window took {plural(different_times, 'different time')}"
        yield Flag(evidence, severity="suspect")


def seconds_of_job(run: MeasuredRun) -> float | None:
    """Return the seconds of a run's job by Snakemake's benchmark file; None without such a file or on several hosts."""
    if len({rank["host"] for rank in run.metrics.ranks}) > 1:
        return None
    try:
        with (run.folder / BENCHMARK).open(encoding="utf-8", newline="") as file:
            time = float(next(csv.DictReader(file, delimiter="\t"))["s"])
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    return time if math.isfinite(time) else None


def _slowdown_of_window(run: MeasuredRun) -> float:
    """Return by which factor (1 to MOST_SLOWED) other programs slowed the window, and so the other phases, down."""
    times, window_s = run.step_times, run.metrics.window.wall_time_s
    factor_by_steps = times.mean() / max(times.min(), 1e-9)
    # Where all steps are slowed alike, the wait for a core shows it.
    waited_s = max(rank.get("run_delay_s") or 0.0 for rank in run.metrics.ranks)
    factor_by_waiting = window_s / max(window_s - waited_s, 1e-9)
    return float(min(MOST_SLOWED, max(factor_by_steps, factor_by_waiting)))


def _timer_tolerance_s(run: MeasuredRun) -> float:
    """Return the seconds by which the step timer and the clock around the window may differ.

    On a CPU a rank may lose its core between the two readings, for no longer than all that it lost in the window.
    """
    window_s, ranks = run.metrics.window.wall_time_s, run.metrics.ranks
    largest_s = AROUND_SHARE * window_s + AROUND_S  # beside a GPU, or where it is not known what a rank lost
    is_loss_known = all(rank.get(name) is not None for rank in ranks for name in ("run_delay_s", "machine_steal_s"))
    if run.metrics.window.clock != "monotonic" or not is_loss_known:
        return largest_s
    lost_s = max((rank["run_delay_s"] or 0.0) + rank["machine_steal_s"] for rank in ranks)
    return float(min(largest_s, AROUND_CPU_SHARE * window_s + AROUND_CPU_S + lost_s))


def window_length(rank: Rank) -> float | None:
    """Return the seconds of a rank's window by the monotonic clock; None where an older record does not have them."""
    if "window_start_monotonic_s" not in rank:
        return None
    return rank["window_end_monotonic_s"] - rank["window_start_monotonic_s"]


def window_by_other_phases(run: MeasuredRun) -> float | None:
    """Return the seconds that the other phases of a run leave for its window; None on several hosts.

    That is the time from the window's start to the end of the validation, less the validation; in older records, which
    lack these times, the total less all other phases.
    """
    metrics = run.metrics
    if len({rank["host"] for rank in metrics.ranks}) > 1:
        return None
    validation_s = metrics.validation.wall_time_s if metrics.validation else 0.0
    if all("closing_monotonic_s" in rank for rank in metrics.ranks):
        closing = max(rank["closing_monotonic_s"] for rank in metrics.ranks)
        # A rank that the operating system stops between the barrier and its first step has not begun the window.
        window_start = max(rank["window_start_monotonic_s"] for rank in metrics.ranks)
        return closing - window_start - validation_s
    startup = metrics.startup
    other_phases_s = startup.launch_s + startup.setup_s + startup.warmup_s + (metrics.closing_s or 0.0)
    return metrics.total_wall_time_s - other_phases_s - validation_s


@of_run.finds("clock-stepped", "suspect", only_first=True)
def time_of_day_runs_on(run: MeasuredRun) -> Iterator[Flag]:
    """The time of day was set during the window, or one of the machine's clocks runs wrong.

    Detected: Length of the window by the time of day and by the monotonic clock of each rank (2 % + 0.05 s).
    Seen: Machines that come up without a network and set their clock later; virtual machines that were moved.
    Repair: Let the clock be adjusted slowly (chrony without makestep), and run the cell again.
    """
    for rank in run.metrics.ranks:
        window_s = window_length(rank)
        if window_s is not None:
            shift_s = rank["window_end_epoch_s"] - rank["window_start_epoch_s"] - window_s
            if abs(shift_s) > AROUND_SHARE * window_s + AROUND_S:
                yield Flag(
                    f"the time of day of {rank['host']} moved by {fixed(shift_s, 3, signed=True)} s against its "
                    "monotonic clock"
                )


@of_run.finds("ranks-start-apart", "suspect")
def ranks_start_together(run: MeasuredRun) -> Iterator[Flag]:
    """A rank began the window later than another: what it did meanwhile is in the time of those that waited.

    Detected: Time of day at the first timed step of each rank of a node, 2 % of the window + 0.02 s.
    Seen: A barrier that is missing; monitors that take different times to start.
    Repair: Let all ranks meet right before the window; run the cell again on a quiet machine.
    """
    ranks_with_start = [rank for rank in run.metrics.ranks if "window_start_epoch_s" in rank]
    window_s = run.metrics.window.wall_time_s
    for host, ranks in group_by(ranks_with_start, lambda rank: rank["host"]).items():
        starts = [rank["window_start_epoch_s"] for rank in ranks]
        spread_s = max(starts) - min(starts)
        if spread_s > APART_SHARE * window_s + APART_S:
            share = percent(spread_s / window_s, 1)
            yield Flag(f"on {host} the ranks began the window {seconds(spread_s)} apart ({share} of it)")
