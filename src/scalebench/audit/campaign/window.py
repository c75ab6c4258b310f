"""What disturbed the window: stalls, periodic steps, other programs, ranks that had no core or nothing to do."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from scalebench.audit.registry import Code, Flag, of_run
from scalebench.record.run import MeasuredRun

STALL, STALL_SHARE = 10.0, 0.05  # times the median; of the window
SLOW = 1.3  # times the median: a step that something was added to
PERIODIC_SHARE, PERIODIC_STEPS = 0.02, 4  # of the window; slow steps that make a pattern
BUSY = 0.25  # part of the machine's CPU time that others may take
STARVED = 0.15  # part of a rank's cores that others may take
TICK_S = 0.03  # clock ticks that the kernel's counts are rounded to
IDLE = 0.6  # cores that a rank uses of each that it has
LONG_ENOUGH_S = 1.0  # for counts in clock ticks


@of_run.check(
    Code(
        "step-stalled",
        "suspect",
        what="One step took many times as long as the others: the rate is that of the disturbance as well.",
        detected="A step above ten times the median that takes 5 % of the window or more.",
        seen="Checkpoints, evaluation and garbage collection inside the window; network file systems.",
        repair="Find out what happened at that step (train.log, the machine's log) and run the cell again.",
    )
)
def no_step_stalls(run: MeasuredRun) -> Iterator[Flag]:
    """No step is far longer than the others."""
    times = run.window["step_time_s"]
    middle = float(np.median(times))
    lost = float(times.max()) - middle
    wall = run.metrics.window.wall_time_s
    if times.max() > STALL * middle and lost > STALL_SHARE * wall:
        step = int(run.window["step"][times.argmax()])
        yield Flag(
            f"step {step} took {times.max():.3f} s, the median is {middle:.3f} s: {lost:.3f} s of {wall:.3f} s lost"
        )


@of_run.check(
    Code(
        "steps-periodic",
        "suspect",
        what="Every n-th step is slower: something that is not training takes part in the window.",
        detected="Steps above 1.3 times the median that stand in one regular pattern, four or more, with 2 % "
        "of the window.",
        seen="Checkpoints, logging, a scheduler or a validation every n steps.",
        repair="Take what runs every n steps out of the window, or state it.",
    )
)
def steps_have_no_period(run: MeasuredRun) -> Iterator[Flag]:
    """Slow steps, where there are some, stand in no regular pattern."""
    times = run.window["step_time_s"]
    period = period_of(times)
    if period is None:
        return
    slow = times > SLOW * np.median(times)
    lost = float((times[slow] - np.median(times)).sum())
    wall = run.metrics.window.wall_time_s
    if lost > PERIODIC_SHARE * wall:
        yield Flag(
            f"every {period}th step is slower ({int(slow.sum())} of {len(times)}): {lost:.3f} s of {wall:.3f} s lost"
        )


def period_of(times: np.ndarray) -> int | None:
    """The period of the slow steps; None unless there are several and they are exactly every n-th one, n > 1.

    Slow is above SLOW times the median, or, where other steps are disturbed as well, nearer to the slowest than to it.
    """
    middle = float(np.median(times))
    for level in (SLOW * middle, max(SLOW * middle, (middle + float(times.max())) / 2)):
        places = np.flatnonzero(times > level)
        if len(places) < PERIODIC_STEPS:
            continue
        gaps = np.diff(places)
        period = int(gaps[0])
        whole = places[0] < period and len(times) - places[-1] <= period  # from the first step to the last
        if period > 1 and (gaps == period).all() and whole:
            return period
    return None


@of_run.check(
    Code(
        "machine-busy",
        "suspect",
        what="Other programs took CPU time during the window, and so from the run.",
        detected="CPU time of the whole machine during the window, less that of the ranks: more than a "
        "quarter. In files "
        "without that count: just before the run.",
        seen="Laptops; pollers of earlier runs; two runs at once.",
        repair="Close them and run the cell again: they take time from some runs and not from others.",
    )
)
def machine_was_free(run: MeasuredRun) -> Iterator[Flag]:
    """Others took little CPU time while the window was open."""
    if any("machine_busy_s" not in rank for rank in run.metrics.ranks):
        busy = run.metrics.host["cpu_busy_before"]
        if busy > BUSY:
            yield Flag(f"other programs used {busy:.0%} of the CPU time just before the run")
        return
    ranks_by_host: dict[str, list[dict]] = defaultdict(list)
    for rank in run.metrics.ranks:
        ranks_by_host[rank["host"]].append(rank)
    for host, ranks in ranks_by_host.items():
        first = ranks[0]
        length = first["window_end_epoch_s"] - first["window_start_epoch_s"]
        capacity = first["machine_cpus"] * length
        others = first["machine_busy_s"] - sum(rank["cpu_s"] for rank in ranks)
        if capacity and others - TICK_S * first["machine_cpus"] > BUSY * capacity:
            share = others / capacity
            yield Flag(
                f"other programs used {share:.0%} of the CPU time of {host} during the window, {others:.2f} "
                "s of processor time"
            )


@of_run.check(
    Code(
        "process-starved",
        "suspect",
        what="A rank had to share its cores with other programs, or the host of a virtual machine took them away.",
        detected="CPU time on the cores that a rank is bound to, less its own, and stolen time: 15 % of the window.",
        seen="Two runs on the same cores; oversold virtual machines.",
        repair="Keep other programs off these cores and run the cell again.",
    ),
    Code(
        "process-idle",
        "suspect",
        what="No rank used its cores for much of the window: what was timed is largely waiting.",
        detected="CPU time of every rank on one machine below 60 % of its cores, in windows of 1 s or more.",
        seen="A sleep in one rank's step that all others wait for; slow disks.",
        repair="Take a trace: it tells what the ranks wait for.",
    ),
)
def ranks_had_their_cores(run: MeasuredRun) -> Iterator[Flag]:
    """On CPU devices, each rank's cores were its own and it used them."""
    ranks = [rank for rank in run.metrics.ranks if rank["device_name"] == "cpu" and "cores_busy_s" in rank]
    shared = len({core for rank in ranks for core in rank["cores"]}) < sum(len(rank["cores"]) for rank in ranks)
    for rank in ranks if not shared else ():
        length = rank["window_end_epoch_s"] - rank["window_start_epoch_s"]
        available = len(rank["cores"]) * length
        taken = rank["cores_busy_s"] - rank["cpu_s"] + rank["machine_steal_s"] / rank["machine_cpus"]
        if available and taken - TICK_S > STARVED * available:
            yield Flag(
                f"others used {taken / available:.0%} of the cores of rank {rank['rank']}: {taken:.2f} s of "
                "the window lost",
                code="process-starved",
            )
            return
    one_host = len({rank["host"] for rank in ranks}) == 1
    if one_host and run.metrics.window.wall_time_s >= LONG_ENOUGH_S and len(ranks) == len(run.metrics.ranks):
        loads = [rank["cpu_load"] / max(1, len(rank["cores"])) for rank in ranks]
        if max(loads) < IDLE:
            shares = ", ".join(f"{load:.0%}" for load in loads)
            yield Flag(f"the ranks used {shares} of their cores during the window", code="process-idle")
