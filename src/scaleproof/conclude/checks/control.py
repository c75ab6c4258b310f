"""Does a step take longer than training explains? Its control: a bare loop on the same devices, right after the run."""

from collections.abc import Iterator
from typing import NamedTuple

from scaleproof.conclude.checks.cpu_time import machine_was_free
from scaleproof.conclude.checks.execution import moved_bytes
from scaleproof.ground.campaign.strategies import zero_stage
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import fixed, integer, megabytes
from scaleproof.ground.records.census import BareLoop, WitnessedSteps
from scaleproof.ground.records.grouping import all_known
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun

# A step may be longer than the bare loop's by this share of it, and by these seconds. Seven sound runs on a machine
# with four times the load of its cores took 18 % less to 6 % more on the rank with the least.
SHARE, LEAST_S = 0.5, 0.001
BYTE_S = 4e-9  # seconds of processor time for each byte that is exchanged with another process of the machine
COLLECTIVE_S = 3e-3  # seconds for each collective of a step under sharding; ten sound runs took 0.8 ms at most
WHOLE, SHARDED = ("single", "ddp"), ("fsdp", "zero1", "zero2")  # strategies whose ranks hold the whole model, a shard
COLLECTED = 0.5  # full collections of garbage in a step; sound windows have one in dozens of steps
PAGE = 4096  # bytes written in a step
STEPS = 4  # a window of fewer steps shows no habit
OF_STEP = 0.05  # the share of a step that functions beside training may take
# A step of the window may be longer than one after it by this share, and by these seconds; 16 sound runs took 20 % less
# to 30 % more.
MORE, MORE_S = 0.5, 0.002
# A core computes half as fast while its sibling works for another guest of the host: bare loops of one cell took 2.6 to
# 5.4 ms within a minute. On a CPU a step may be longer than the bare loop's by this share of it.
SLOWER_CORE = 1.0


@of_run.finds("step-unexplained", "suspect")
def steps_are_explained(run: MeasuredRun) -> Iterator[Flag]:
    """Something beside training takes time in each step: the rate is that of the program around it as well.

    Detected: In the window: full collections of garbage in half of the steps; a page written to files in each;
    processes that the rank had started and that ended in half of them. On CPUs, by processor time: functions of no
    library and of this program beside training, 1 ms and 5 % of a step; half + 2 ms more in a step of the window than
    in those made after it. Under single and ddp, threads beside the main one of a CPU device with one thread: half of
    its time + 1 ms and 4 ns for each byte that is exchanged; and the step against a bare loop that shares no code with
    the trainer (docs/audit.md): on a CPU the processor time of each rank, in the window and in the steps made after
    it, twice the loop's + 2 ms; on one GPU the median step, a `note`. Under fsdp, zero1 and zero2 on CPUs the same,
    with 3 ms more for each collective.
    Seen: gc.collect() in the step; loggers that write to disk; polling loops; debugging that was left on.
    Repair: Take it out of the step, or say that it belongs to what is compared. A trace shows what it is.
    """
    # A cause that was seen is named, with the bare loop's time beside it. Without one the bare loop alone may show that
    # a step takes too long, though not why.
    habit = _habit_beside_training(run) or _functions_beside_training(run) or _busier_main_thread(run)
    if habit:
        yield Flag(f"{habit}{_bare_loop_evidence(run)}")
    else:
        yield from _flag_longer_than_bare_loop(run)


def _habit_beside_training(run: MeasuredRun) -> str | None:
    """Say what a rank does beside training in many of its steps; None where no rank does anything.

    A rank starts processes or collects garbage in half of its steps, writes a page to files in each step, or keeps
    other threads busy. A window of fewer than STEPS steps shows no habit.
    """
    step_count = run.metrics.window.step_time_n
    if step_count < STEPS:
        return None
    in_window = f"in the {step_count} steps of the window"

    # On a CPU, stage 3 of DeepSpeed 0.19 itself starts numactl in each step, to count NUMA nodes.
    if zero_stage(run.metrics.training_config.strategy) != 3:
        for index, census in enumerate(run.metrics.census or []):
            updates = census.updates_in_window
            if updates and updates.children >= COLLECTED * step_count:
                return f"processes that rank {index} had started ended {plural(updates.children, 'time')} {in_window}"

    for rank in run.metrics.ranks:
        collection_count = rank.get("full_collections") or 0
        if collection_count >= COLLECTED * step_count:
            return f"rank {rank['rank']} collected all garbage {plural(collection_count, 'time')} {in_window}"
        written_bytes = rank.get("bytes_written") or 0
        if written_bytes >= PAGE * step_count:
            return f"rank {rank['rank']} wrote {megabytes(written_bytes)} to files {in_window}"
        if other_threads_s := _other_threads_s(run, rank):
            return f"other threads of rank {rank['rank']} computed for {_one_digit_ms(other_threads_s)} of each step"
    return None


def _one_digit_ms(seconds: float) -> str:
    """Return seconds as milliseconds with one digit: 0.0123 is "12.3 ms"."""
    return f"{fixed(seconds * 1e3, 1)} ms"


def _other_threads_s(run: MeasuredRun, rank: Rank) -> float | None:
    """Return the seconds that a rank's other threads than the main one compute in a step.

    None where the exchange explains them, or where other threads rightly compute. They do not on CPU devices with one
    thread under single or ddp: only these are judged.
    """
    has_one_thread = run.metrics.config["execution"]["threads_per_device"] == 1 and rank["device_name"] == "cpu"
    main_thread_s = rank.get("main_thread_s")
    if not main_thread_s or not has_one_thread or run.metrics.training_config.strategy not in WHOLE:
        return None
    step_count = run.metrics.window.step_time_n
    other_threads_s = (rank["cpu_s"] - main_thread_s) / step_count
    # The exchange has threads of its own.
    explained_s = SHARE * main_thread_s / step_count + LEAST_S + BYTE_S * _exchanged_bytes(run)
    return other_threads_s if other_threads_s > explained_s else None


def _functions_beside_training(run: MeasuredRun) -> str | None:
    """Say which functions beside training a rank of a CPU ran in its steps; None where they took little time."""
    if not run.is_on_cpus:  # beside a GPU the host's thread runs ahead: its time tells nothing
        return None
    tolerated_s = max(LEAST_S, OF_STEP * run.metrics.window.step_time_mean_s)
    for rank_index, census in enumerate(run.metrics.census or []):
        step_s_of_function = census.witness.beside if census.witness else {}  # function -> seconds of a step
        if sum(step_s_of_function.values()) > tolerated_s:
            longest = sorted(step_s_of_function, key=step_s_of_function.__getitem__, reverse=True)[:3]
            functions_text = ", ".join(f"{_one_digit_ms(step_s_of_function[name])} in {name}" for name in longest)
            return f"of each step rank {rank_index} computed beside training: {functions_text}"
    return None


def _busier_main_thread(run: MeasuredRun) -> str | None:
    """Say which main thread computed longer in a step of the window than in a step after it; None if none did.

    None, too, where other programs used the machine in the window, since they slow a processor's caches.
    """
    if not run.is_on_cpus or any(machine_was_free(run)):  # the check yields a flag where it was not free
        return None
    for rank, census in zip(run.metrics.ranks, run.metrics.census or [], strict=False):
        later_step_s = census.witness.plain_s if census.witness else None  # in the steps after the witnessed ones
        if later_step_s is None or rank.get("main_thread_s") is None:  # not recorded
            continue
        step_s = rank["main_thread_s"] / run.metrics.window.step_time_n
        if step_s > (1 + MORE) * later_step_s + MORE_S:
            return (
                f"rank {rank['rank']} computed for {_one_digit_ms(step_s)} of each step of the window, and for "
                f"{_one_digit_ms(later_step_s)} when it made the cell's steps again"
            )
    return None


class _StepTime(NamedTuple):
    """How long a step of a rank takes, and how much of that a bare loop and the exchange explain."""

    measured_s: float
    explained_s: float

    @property
    def unexplained_s(self) -> float:
        """Seconds of the step that nothing explains; negative where more than the step is explained."""
        return self.measured_s - self.explained_s


def _flag_longer_than_bare_loop(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run of which a step takes longer, on every rank, than its bare loop and the exchange explain."""
    exchange_s = _explained_exchange_s(run)
    controls = _bare_loops(run)
    if exchange_s is None or not controls:
        return

    step_times = []
    for rank, census, control in zip(run.metrics.ranks, run.metrics.census or [], controls, strict=True):
        if run.is_on_cpus:  # by processor time, which other programs do not lengthen much
            step_s = _least_processor_time_s(run, rank, census.witness)
            step_times.append(_StepTime(step_s, (1 + SLOWER_CORE) * control.cpu_s + MORE_S + exchange_s))
        else:
            explained_s = (1 + SHARE) * control.step_s + MORE_S + exchange_s
            step_times.append(_StepTime(run.median_step_s, explained_s))

    least = min(step_times, key=lambda step_time: step_time.unexplained_s)
    if least.measured_s > least.explained_s:  # then the step of every rank does
        kind = " of processor time" if run.is_on_cpus else ""
        yield Flag(
            f"a step takes {_one_digit_ms(least.measured_s)}{kind}; a bare loop and the exchange of "
            f"{integer(_exchanged_bytes(run))} bytes explain {_one_digit_ms(least.explained_s)}, so that "
            f"{_one_digit_ms(least.unexplained_s)} or more of each step are something else",
            severity=None if run.is_on_cpus else "note",
        )


def _least_processor_time_s(run: MeasuredRun, rank: Rank, witness: WitnessedSteps | None) -> float:
    """Return the processor time of a rank in a step: in the window or in the steps after it, whichever is less.

    `_busier_main_thread` names what takes time in the window alone.
    """
    step_count = run.metrics.window.step_time_n
    step_s = rank["cpu_s"] / step_count
    if witness is None or witness.plain_s is None or rank.get("main_thread_s") is None:
        return step_s
    other_threads_s = (rank["cpu_s"] - rank["main_thread_s"]) / step_count
    return min(step_s, witness.plain_s + other_threads_s)  # plain_s: of the main thread, in a step after the window


def _explained_exchange_s(run: MeasuredRun) -> float | None:
    """Return the seconds of a step that the exchange between ranks may take; None where nobody can say.

    On CPUs its bytes take time, and under sharding each collective does too (COLLECTIVE_S), more than its bytes. On
    several GPUs the exchange overlaps with the step, and only a trace shows how much of it.
    """
    strategy = run.metrics.training_config.strategy
    exchange_s = BYTE_S * _exchanged_bytes(run)
    if strategy in WHOLE:
        return exchange_s if run.is_on_cpus or run.n_devices == 1 else None
    collective_count = run.metrics.census[0].collectives_of_step if run.metrics.census else None
    if strategy not in SHARDED or not run.is_on_cpus or collective_count is None:
        return None
    return exchange_s + COLLECTIVE_S * collective_count


def _bare_loops(run: MeasuredRun) -> list[BareLoop]:
    """Return the control of each rank: its times in a loop without the trainer. Empty unless all ranks have one."""
    return all_known(census.control for census in run.metrics.census or [])


def _bare_loop_evidence(run: MeasuredRun) -> str:
    """Return the end of the evidence: a step's time beside that in the bare loop; "" unless all ranks ran one."""
    loop_steps_s = [control.step_s for control in _bare_loops(run)]
    if not loop_steps_s:
        return ""
    return f": a step took {_one_digit_ms(run.median_step_s)}, in a bare loop {_one_digit_ms(max(loop_steps_s))}"


def _exchanged_bytes(run: MeasuredRun) -> int:
    """Return the bytes that the ranks exchange in a step."""
    return sum(moved_bytes(run).values()) if run.n_devices > 1 else 0
