"""Does a step take longer than training explains? Its control: a bare loop on the same devices, right after the run."""

from collections.abc import Iterator

from scaleproof.conclude.checks.cpu_time import machine_was_free
from scaleproof.conclude.checks.execution import moved_bytes
from scaleproof.ground.campaign.strategies import zero_stage
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import fixed, integer, megabytes
from scaleproof.ground.records.census import BareLoop
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun

# Of the bare loop's step, and seconds, that nobody has to explain. Seven sound runs on a machine with four times the
# load of its cores took 18 % less to 6 % more on the rank with the least.
SHARE, LEAST_S = 0.5, 0.001
BYTE_S = 4e-9  # of processor time, for each byte exchanged with another process of the machine
COLLECTIVE_S = 3e-3  # of sharding, for each collective of a step; ten sound runs took 0.8 ms at most
WHOLE, SHARDED = ("single", "ddp"), ("fsdp", "zero1", "zero2")
COLLECTED = 0.5  # full collections of garbage a step; sound windows have one in dozens of steps
PAGE = 4096  # bytes a step
STEPS = 4  # as many steps make a habit
OF_STEP = 0.05  # of a step, for functions beside training
MORE, MORE_S = 0.5, 0.002  # in the window than after it; 16 sound runs took 20 % less to 30 % more
# Of a bare loop on a CPU, whose core computes half as fast while its sibling works for another guest of the host:
# loops of one cell took 2.6 to 5.4 ms within a minute.
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
    habit = _habit_beside_training(run) or _functions_beside_training(run) or _busier_main_thread(run)
    if habit:
        yield Flag(f"{habit}{_bare_loop_evidence(run)}")
    else:
        yield from _flag_longer_than_bare_loop(run)


def _habit_beside_training(run: MeasuredRun) -> str | None:
    """Return in words what a rank does in many of its steps beside training; None where no rank does.

    It starts processes or collects garbage in half of them, writes a page to files in each, or keeps other threads
    busy. A window of fewer than STEPS steps shows no habit.
    """
    steps = run.metrics.window.step_time_n
    if steps < STEPS:
        return None
    in_window = f"in the {steps} steps of the window"
    # On a CPU, stage 3 of DeepSpeed 0.19 itself starts numactl in each step, to count NUMA nodes.
    engine_starts_processes = zero_stage(run.metrics.training_config.strategy) == 3
    for number, census in enumerate(run.metrics.census or []):
        updates = census.updates_in_window
        if updates and updates.children >= COLLECTED * steps and not engine_starts_processes:
            return f"processes that rank {number} had started ended {plural(updates.children, 'time')} {in_window}"
    for rank in run.metrics.ranks:
        collections, written = rank.get("full_collections") or 0, rank.get("bytes_written") or 0
        if collections >= COLLECTED * steps:
            return f"rank {rank['rank']} collected all garbage {plural(collections, 'time')} {in_window}"
        if written >= PAGE * steps:
            return f"rank {rank['rank']} wrote {megabytes(written)} to files {in_window}"
        beside_s = _other_threads_s(run, rank)
        if beside_s:
            return f"other threads of rank {rank['rank']} computed for {fixed(beside_s * 1e3, 1)} ms of each step"
    return None


def _other_threads_s(run: MeasuredRun, rank: Rank) -> float | None:
    """Return the seconds of a step for which other threads than a rank's main one compute; None if sound runs do too.

    None, too, unless ranks hold the whole model on CPU devices with one thread: elsewhere other threads have work.
    """
    has_one_thread = run.metrics.config["execution"]["threads_per_device"] == 1 and rank["device_name"] == "cpu"
    main_s, steps = rank.get("main_thread_s"), run.metrics.window.step_time_n
    if not main_s or not has_one_thread or run.metrics.training_config.strategy not in WHOLE:
        return None
    beside_s = (rank["cpu_s"] - main_s) / steps
    explained_s = SHARE * main_s / steps + LEAST_S + BYTE_S * _exchanged_bytes(run)  # the exchange has own threads
    return beside_s if beside_s > explained_s else None


def _functions_beside_training(run: MeasuredRun) -> str | None:
    """Return in words which functions beside training a rank of a CPU ran in its steps; None where that is little."""
    if not run.is_on_cpus:  # the host's thread runs ahead of a GPU
        return None
    for rank, census in enumerate(run.metrics.census or []):
        times = census.witness.beside if census.witness else {}  # function -> seconds of a step
        if sum(times.values()) > max(LEAST_S, OF_STEP * run.metrics.window.step_time_mean_s):
            longest = sorted(times, key=times.__getitem__, reverse=True)[:3]
            listed = ", ".join(f"{fixed(times[name] * 1e3, 1)} ms in {name}" for name in longest)
            return f"of each step rank {rank} computed beside training: {listed}"
    return None


def _busier_main_thread(run: MeasuredRun) -> str | None:
    """Return in words which main thread computed longer in a step of the window than in steps after it; None if none.

    None, too, where other programs used the machine in the window, since they slow a processor's caches.
    """
    if not run.is_on_cpus or any(machine_was_free(run)):
        return None
    for rank, census in zip(run.metrics.ranks, run.metrics.census or [], strict=False):
        plain_s = census.witness.plain_s if census.witness else None  # of a step after the witness's
        if plain_s is None or rank.get("main_thread_s") is None:
            continue
        step_s = rank["main_thread_s"] / run.metrics.window.step_time_n
        if step_s > (1 + MORE) * plain_s + MORE_S:
            return (
                f"rank {rank['rank']} computed for {fixed(step_s * 1e3, 1)} ms of each step of the window, and for "
                f"{fixed(plain_s * 1e3, 1)} ms when it made the cell's steps again"
            )
    return None


def _flag_longer_than_bare_loop(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run of which a step takes longer, on every rank, than its bare loop and the exchange explain."""
    exchange_s = _explained_exchange_s(run)
    controls = _bare_loops(run)
    if exchange_s is None or not controls:
        return
    on_gpu = not run.is_on_cpus
    times = []  # (seconds of a step, seconds of it that are explained) of each rank
    for number, (rank, control) in enumerate(zip(run.metrics.ranks, controls, strict=True)):
        if on_gpu:
            times.append((run.median_step_s, (1 + SHARE) * control.step_s + MORE_S + exchange_s))
        else:  # processor time, which other programs do not lengthen much
            step_s = _least_processor_time_s(run, number, rank)
            times.append((step_s, (1 + SLOWER_CORE) * control.cpu_s + MORE_S + exchange_s))
    step_s, explained_s = min(times, key=lambda of_rank: of_rank[0] - of_rank[1])  # with the least unexplained
    if step_s > explained_s:
        kind = "" if on_gpu else " of processor time"
        yield Flag(
            f"a step takes {fixed(step_s * 1e3, 1)} ms{kind}; a bare loop and the exchange of "
            f"{integer(_exchanged_bytes(run))} bytes explain {fixed(explained_s * 1e3, 1)} ms, so that "
            f"{fixed((step_s - explained_s) * 1e3, 1)} ms or more of each step are something else",
            severity="note" if on_gpu else None,
        )


def _least_processor_time_s(run: MeasuredRun, number: int, rank: Rank) -> float:
    """Return the processor time of rank `number` in a step: in the window, or in those after it, nearer to the control.

    `_busier_main_thread` names what is in the window alone.
    """
    steps, witness = run.metrics.window.step_time_n, (run.metrics.census or [])[number].witness
    step_s = rank["cpu_s"] / steps
    if witness is None or witness.plain_s is None or rank.get("main_thread_s") is None:
        return step_s
    return min(step_s, witness.plain_s + (rank["cpu_s"] - rank["main_thread_s"]) / steps)


def _explained_exchange_s(run: MeasuredRun) -> float | None:
    """Return the seconds of a step that the exchange between ranks may take; None where nobody can say.

    On CPUs its bytes take time, and under sharding each collective too (COLLECTIVE_S), which costs more than its bytes.
    On several GPUs the exchange overlaps with the step, which only a trace shows.
    """
    strategy, exchange_s = run.metrics.training_config.strategy, BYTE_S * _exchanged_bytes(run)
    if strategy in WHOLE:
        return exchange_s if run.is_on_cpus or run.n_devices == 1 else None
    collectives = run.metrics.census[0].collectives_of_step if run.metrics.census else None
    if strategy not in SHARDED or not run.is_on_cpus or collectives is None:
        return None
    return exchange_s + COLLECTIVE_S * collectives


def _bare_loops(run: MeasuredRun) -> list[BareLoop]:
    """Return the control of each rank: its times in a loop without the trainer. Empty unless all ranks have one."""
    censuses = run.metrics.census or []
    controls = [census.control for census in censuses if census.control]
    return controls if len(controls) == len(censuses) else []


def _bare_loop_evidence(run: MeasuredRun) -> str:
    """Return the end of the evidence: a step's time beside that in the bare loop; "" unless all ranks ran one."""
    times = [control.step_s for control in _bare_loops(run)]
    if not times:
        return ""
    return f": a step took {fixed(run.median_step_s * 1e3, 1)} ms, in a bare loop {fixed(max(times) * 1e3, 1)} ms"


def _exchanged_bytes(run: MeasuredRun) -> int:
    """Return the bytes that the ranks exchange in a step."""
    return sum(moved_bytes(run).values()) if run.n_devices > 1 else 0
