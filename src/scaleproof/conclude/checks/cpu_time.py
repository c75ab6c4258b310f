"""Who used the cores during the window: the ranks, evenly, or other programs, or nobody?"""

from collections.abc import Iterator
from statistics import median
from typing import Any

from scaleproof.conclude.checks.clock import window_length
from scaleproof.ground.findings.registry import Flag, of_printed, of_run
from scaleproof.ground.number_format import fixed, percent, seconds
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun, TimedRun

BUSY = 0.25  # others may take this share of the machine's CPU time
STARVED = 0.15  # others may take this share of a rank's cores while the rank waits for them
ROUNDED_S = 0.03  # the kernel's counts are in hundredths of a second
TICK_S = 0.01  # the kernel samples: a core counts as busy for a whole tick if it was at the tick's end
IDLE = 0.4  # this share of the ranks' cores may stay unused; 0.19 was the most in sound runs of two ranks
IDLE_ALONE = 0.3  # the same for one rank with one thread, which waits for nobody; 0.01 was the most
LONG_ENOUGH_S = 1.0  # in shorter windows counts in clock ticks say little
IDLE_STEP, IDLE_STEP_S = 0.20, 0.005  # a rank may sleep for this share of a mean step, or for these seconds
UNEVEN = 1.25  # a rank may take so many times the processor time of the others
UNEVEN_SHARE = 0.05  # or as much more as this share of the window


def busy_time_error_s(cpu_s: float) -> float:
    """Return by how many seconds the kernel may miscount `cpu_s` seconds of busy time, of one core or several.

    It rounds, and it samples once a tick: of the n samples of a core that is busy half of the time, the standard
    deviation is sqrt(n) / 2 ticks. Of 18 ranks on a quiet machine, in windows of 1.6 to 3.2 s, the count was within
    3.5 %; this allows 4 to 6 %.
    """
    return ROUNDED_S + 0.5 * float((TICK_S * cpu_s) ** 0.5)


@of_run.finds("machine-busy", "suspect")
def machine_was_free(run: MeasuredRun) -> Iterator[Flag]:
    """Other programs took CPU time during the window, and so from the run.

    Detected: CPU time of the whole machine during the window, less that of the ranks: more than a quarter; a `note`
    where the ranks are bound to cores that nobody else used. In files without that count: just before the run. Of a
    command: during its whole run, less that of its processes, if these used some (docker and ssh work elsewhere).
    Seen: Laptops; pollers of earlier runs; two runs at once.
    Repair: Close them and run the cell again: they take time from some runs and not from others.
    """
    # Of trainers' runs. Those of commands have the same finding by `machine_was_free_for_the_command`.
    if all("machine_busy_s" in rank for rank in run.metrics.ranks):
        yield from _flag_busy_hosts(run)
        return
    busy = run.metrics.host.get("cpu_busy_before")
    if busy is not None and busy > BUSY:
        yield Flag(f"other programs used {percent(busy)} of the CPU time just before the run")


@of_printed.check(*machine_was_free.codes)
def machine_was_free_for_the_command(run: TimedRun) -> Iterator[Flag]:
    """Flag a run of a command in which other programs took much of its machine's CPU time."""
    others = run.metrics.host.get("others_cpu")
    if others is not None and others > BUSY:
        yield Flag(f"other programs used {percent(others)} of {run.metrics.host['hostname']}'s CPU time during the run")


def _flag_busy_hosts(run: MeasuredRun) -> Iterator[Flag]:
    """Flag each host whose CPU time other programs took in the window; a note where they left the ranks' cores alone.

    The first rank of each host speaks for it, because every rank counted the busy time of its whole machine.
    """
    for host, ranks in group_by(run.metrics.ranks, lambda rank: rank["host"]).items():
        capacity_s = ranks[0]["machine_cpus"] * (window_length(ranks[0]) or 0.0)
        others_s = ranks[0]["machine_busy_s"] - sum(rank["cpu_s"] for rank in ranks)
        if not capacity_s or others_s - busy_time_error_s(capacity_s) <= BUSY * capacity_s:  # unknown, or not busy
            continue

        bound_ranks = [rank for rank in _bound_ranks(run) if rank["host"] == host]
        # More was taken from the cores of these ranks than the kernel may miscount.
        disturbed = [rank for rank in bound_ranks if _taken_s(rank) > busy_time_error_s(_available_s(rank))]
        is_elsewhere = bool(bound_ranks) and not disturbed
        where = ", on other cores than those of the ranks" if is_elsewhere else ""
        yield Flag(
            f"other programs used {percent(others_s / capacity_s)} of {host}'s CPU time during the window, "
            f"{seconds(others_s, 2)} of processor time{where}",
            severity="note" if is_elsewhere else None,
        )


@of_run.finds("process-starved", "suspect", only_first=True)
def ranks_had_their_cores(run: MeasuredRun) -> Iterator[Flag]:
    """A rank had to share its cores with other programs, or the host of a virtual machine took them away.

    Detected: CPU time of others on the cores that a rank is bound to, but no more than the rank's threads waited for a
    core, and stolen time: 15 % of the window beyond what the kernel's sampling can be off.
    Seen: Two runs on the same cores; oversold virtual machines.
    Repair: Keep other programs off these cores and run the cell again.
    """
    ranks = _bound_ranks(run)
    cores = [(rank["host"], core) for rank in ranks for core in rank["cores"]]
    if len(set(cores)) < len(cores):  # two ranks share one: `cores-shared` says so
        return
    for rank in ranks:
        available_s, taken_s = _available_s(rank), _taken_s(rank)
        if taken_s - busy_time_error_s(available_s) > STARVED * available_s:
            yield Flag(
                f"other programs used {percent(taken_s / available_s)} of rank {rank['rank']}'s cores: "
                f"{seconds(taken_s, 2)} of the window lost"
            )


@of_run.finds("process-idle", "suspect")
def cores_were_used(run: MeasuredRun) -> Iterator[Flag]:
    """Nobody used the ranks' cores for much of the window: what was timed is largely waiting.

    Detected: Time in which the cores of every rank, all on one machine, did nothing and nobody stole them: 40 %, of one
    rank with one thread 30 %, in windows of 1 s or more.
    Seen: A sleep in one rank's step that all others wait for; slow disks.
    Repair: Take a trace: it shows what the ranks wait for.
    """
    ranks = _bound_ranks(run)
    is_one_host = len({rank["host"] for rank in ranks}) == 1
    are_all_watched = len(ranks) == len(run.metrics.ranks)
    if not is_one_host or not are_all_watched or run.metrics.window.wall_time_s < LONG_ENOUGH_S:
        return
    idle_shares = [_idle_share(rank) for rank in ranks]
    is_alone = len(ranks) == 1 and run.metrics.config["execution"]["threads_per_device"] == 1
    if min(idle_shares) > (IDLE_ALONE if is_alone else IDLE):
        yield Flag(f"the cores of the ranks stood idle for {', '.join(map(percent, idle_shares))} of the window")


def _idle_share(rank: Rank) -> float:
    """Return the share of a rank's cores that neither a program nor the host of a virtual machine used."""
    available_s = _available_s(rank)
    # An upper bound of the use, so that the rest was idle for certain.
    used_s = rank["cores_busy_s"] + _stolen_s(rank) + busy_time_error_s(available_s)
    return float(1 - used_s / available_s)


@of_run.finds("step-idle", "suspect", only_first=True)
def steps_do_not_sleep(run: MeasuredRun) -> Iterator[Flag]:
    """A rank sleeps in its steps: it neither computes, nor communicates, nor waits for a core.

    The other ranks wait for it.

    Detected: Time of a rank's thread outside of collectives, less processor time and time without a core, in the probed
    steps before and after the window: 20 % of a mean step in both, and more than the host of a virtual machine took
    from a step. On CPU devices with one thread.
    Seen: A sleep or a retry left in one strategy's step; files read in the step.
    Repair: Take a trace of this rank, remove what it waits for, and run the cell again.
    """
    if run.metrics.config["execution"]["threads_per_device"] != 1:  # the main thread rightly waits for others
        return
    window = run.metrics.window
    tolerated_s = max(IDLE_STEP * window.step_time_mean_s, IDLE_STEP_S)
    for rank, census in enumerate(run.metrics.census or []):
        idle_times_s = [step.idle_s for step in (census.before, census.after) if step and step.idle_s is not None]
        idle_s = min(idle_times_s) if len(idle_times_s) == 2 else 0.0  # in one probed step alone it may be chance
        # What the host of a virtual machine takes from a step looks like sleep: the guest sees neither use nor waiting.
        stolen_s = (run.metrics.ranks[rank].get("machine_steal_s") or 0.0) / window.step_time_n

        if idle_s > tolerated_s + stolen_s:
            lost_s = idle_s * window.step_time_n
            yield Flag(
                f"rank {rank} slept for {fixed(idle_s * 1e3, 1)} ms or more in the probed steps; the mean step takes "
                f"{fixed(window.step_time_mean_s * 1e3, 1)} ms: about {seconds(lost_s, 2)} of "
                f"{seconds(window.wall_time_s, 2)} lost"
            )


@of_run.finds("ranks-uneven", "suspect")
def ranks_work_evenly(run: MeasuredRun) -> Iterator[Flag]:
    """One rank needs more processor time than the others for an equal share of the work, and they wait for it.

    Detected: Processor time of a rank over the median of the others: 1.25 in the window, and in both probed steps, for
    5 % of the window or more.
    Seen: Work that one rank does beside its steps; cores of two kinds in one machine.
    Repair: Take a trace of the slow rank and of another, and compare them.
    """
    ranks, window = run.metrics.ranks, run.metrics.window
    are_all_watched = len(_bound_ranks(run)) == len(ranks)
    if len(ranks) < 2 or not are_all_watched or window.wall_time_s < LONG_ENOUGH_S:
        return
    used_s = [float(rank["cpu_s"]) for rank in ranks]
    slowest = used_s.index(max(used_s))

    # A rank that is not slower in both probed steps has no more work in a step: something happened in the window once.
    for when in ("before", "after"):
        probed_steps = [getattr(census, when) for census in run.metrics.census or []]
        busy_s = [step.busy_s if step else None for step in probed_steps]  # for each rank
        if len(busy_s) < len(ranks) or None in busy_s:  # not known of all ranks
            return
        ratio, _ = _excess_over_median(busy_s, slowest)
        if ratio < UNEVEN:
            return

    ratio, extra_s = _excess_over_median(used_s, slowest)
    if ratio > UNEVEN and extra_s > UNEVEN_SHARE * window.wall_time_s:
        yield Flag(
            f"rank {slowest} used {seconds(used_s[slowest], 2)} of processor time in the window, {fixed(ratio, 2)} "
            f"times as much as the others: {seconds(extra_s, 2)} of {seconds(window.wall_time_s, 2)} lost"
        )


def _excess_over_median(values: list[Any], index: int) -> tuple[float, float]:
    """Return the value at `index` over the median of the others (0 where that is 0), and their difference."""
    median_of_others = median([*values[:index], *values[index + 1 :]])
    ratio = values[index] / median_of_others if median_of_others else 0.0
    return ratio, values[index] - median_of_others


def cores_used(run: MeasuredRun) -> float | None:
    """Return the share of its cores' time that the rank with the least use used in the window; None: unknown."""
    ranks = _bound_ranks(run)
    if not ranks or len(ranks) < len(run.metrics.ranks) or not all(_available_s(rank) for rank in ranks):
        return None
    return min(float(rank["cpu_s"]) / _available_s(rank) for rank in ranks)


def computing_s(run: MeasuredRun) -> float | None:
    """Return the seconds of a mean step in which the cores of the rank with the least use compute; None: unknown."""
    used_share = cores_used(run)
    if used_share is None:
        return None
    return used_share * run.metrics.window.wall_time_s / run.metrics.window.step_time_n


def _bound_ranks(run: MeasuredRun) -> list[Rank]:
    """Return the ranks that are bound to cores of a CPU and whose cores were watched."""
    ranks = [rank for rank in run.metrics.ranks if rank["device_name"] == "cpu" and rank["cores"]]
    return [rank for rank in ranks if rank.get("cores_busy_s") is not None]


def _taken_s(rank: Rank) -> float:
    """Return the seconds that others, or a virtual machine's host, took from a rank's cores while it wanted them."""
    taken_s = rank["cores_busy_s"] - rank["cpu_s"]  # used by others
    # Others may use a core that the rank did not want, and its threads wait for each other, too: the lesser counts.
    waited_s = rank.get("run_delay_s")  # for a core
    if waited_s is not None:
        taken_s = min(taken_s, waited_s)
    return float(max(0.0, taken_s) + _stolen_s(rank))


def _stolen_s(rank: Rank) -> float:
    """Return the seconds that a virtual machine's host took from a rank's cores, if it took as much of every core."""
    return float(rank["machine_steal_s"] * len(rank["cores"]) / rank["machine_cpus"])


def _available_s(rank: Rank) -> float:
    """Return the processor seconds of the rank's cores in the window; 0 where its length is not recorded."""
    return len(rank["cores"]) * (window_length(rank) or 0.0)
