"""A run of somebody's command: started, supervised, its output read."""

import math
import os
import re
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from scaleproof.ground.campaign.command import fill_in, split_command
from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.records.census import SecondClock
from scaleproof.ground.records.metrics import Failed, Printed
from scaleproof.ground.records.printed_log import PrintedLog, ReadLog
from scaleproof.ground.records.recomputed_window import merge_steps, window_figures
from scaleproof.ground.records.run import STEPS
from scaleproof.ground.records.run_sections import Failure, LogReading, PrintedWindow, Program
from scaleproof.ground.records.steps import write_steps
from scaleproof.ground.records.watched import FOLDER, VARIABLE, WatchedRank, read_watched
from scaleproof.measure.command.figures import NoFigures, TimedWork, UnknownWork, read_figures, step_rows
from scaleproof.measure.command.program import describe_program
from scaleproof.measure.command.watched import figures_of_watched_run
from scaleproof.measure.launch import allocated
from scaleproof.measure.launch.failure import TAIL, TORCHRUN_ERROR, explain_failure, last_exception, make_failed_metrics
from scaleproof.measure.launch.other_programs import OtherPrograms
from scaleproof.measure.launch.supervise import CommandOutcome, run_supervised
from scaleproof.measure.machine.allocation import Allocation, signal_steps, without_job
from scaleproof.measure.trainer.request import Request

OUT_OF_MEMORY = re.compile(r"OutOfMemoryError|CUDA out of memory|MemoryError|DefaultCPUAllocator: can't allocate")
# The last line of a traceback, behind the prefix of torchrun.
DEFAULTS_OF_PRINTED = ("data", "evidence", "training_config")  # fields that a `Printed` fills by itself
STEP_COLUMNS = ("step", "step_time_s", "data_wait_s", "loss", "samples", "tokens")  # what `merge_steps` takes
CLOCKS: dict[str, Literal["launcher"]] = {"whole program": "launcher", "progress": "launcher"}  # reader -> clock
WHOLE = "whole"  # workload.figures: of programs that are timed from start to end


def attempt_command(
    request: Request, attempt: Path, log: Path, nodes: Allocation | None, read: ReadLog
) -> tuple[Printed | Failed, CommandOutcome]:
    """Run the command of the request's cell, and return its metrics and how it ended.

    Writes steps.csv into the folder `attempt`, and all output into the file `log`. `nodes`: the allocation, None on
    this machine; `read`: the function that reads logs of known programs. Raises UserError where there is no such
    program, Interrupted where the run was stopped.
    """
    cell = request.cell
    step_counts = [cell.work.steps]
    if cell.work.fewer_steps is not None:
        # A program that is timed as a whole may run in two lengths: the difference of their times has no start-up.
        step_counts = [cell.work.fewer_steps, cell.work.steps]
    program_s: list[float] = []  # seconds of the whole program, for each number of steps
    deadline = time.monotonic() + request.time_limit
    program = describe_program(_command_words(request, nodes, cell.work.steps))  # its files as they are before it runs
    for steps in step_counts:
        words = _command_words(request, nodes, steps)
        outcome = _run_command(request, nodes, words, log, deadline - time.monotonic(), attempt / FOLDER, read)
        program_s.append(outcome.ranks_s)
        has_crashed = outcome.exit_code and not outcome.ended  # ended by us, as planned: any exit code will do
        if outcome.timed_out or has_crashed:
            return make_failed_metrics(request, _explain_failure_of_command(request, attempt, outcome)), outcome

    ranks = read_watched(attempt / FOLDER) if (attempt / FOLDER).is_dir() else []
    try:
        if ranks:  # the program has the two lines of scaleproof.watch
            timed = figures_of_watched_run(ranks, cell)
        elif cell.workload.figures == WHOLE:
            timed = _work_of_whole_runs(request, program_s)
        else:
            timed = read_figures(log, cell, read, outcome.arrivals, outcome.ended)
    except NoFigures as error:
        seconds = cell.work.seconds or 0.0
        after = f"{seconds:g} s (work.seconds)" if outcome.ranks_s >= seconds else f"{outcome.ranks_s:.2g} s"
        ending = f"it was ended after {after}, and " if outcome.ended else ""
        failure = Failure(failure_class="no_figures", reason=f"{ending}{error}", log_tail=outcome.tail[-TAIL:])
        return make_failed_metrics(request, failure), outcome

    write_steps(timed.rows, attempt / STEPS)
    return _metrics_of_command(request, program, timed, outcome, ranks), outcome


def _command_words(request: Request, nodes: Allocation | None, steps: int) -> list[str]:
    """Return the words of the command for a run of `steps` steps, with its placeholders filled in."""
    cell = request.cell
    assert cell.command is not None
    if nodes:
        meeting_point: dict[str, object] = {"host": nodes.hosts[0], "port": allocated.find_free_port(nodes.job)}
    else:
        meeting_point = _local_rendezvous(cell.command)
    values = cell.values_of_command(request.repeat) | {"steps": steps} | meeting_point
    return split_command(fill_in(cell.command, values))


def _local_rendezvous(command: str) -> dict[str, object]:
    """Return where ranks of one machine meet: values of the placeholders "host", and "port" if the command has it."""
    if "{port}" not in command:
        return {"host": "127.0.0.1"}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # 0: any port that is free now
        _, port = probe.getsockname()
        return {"host": "127.0.0.1", "port": port}


def _run_command(
    request: Request,
    nodes: Allocation | None,
    words: Sequence[str],
    log: Path,
    limit: float,
    watch: Path,
    read: ReadLog,
) -> CommandOutcome:
    """Run the command `words` here, or on each node of a cell with several nodes, and return how it ended.

    `limit`: seconds that it may take; `watch`: the folder that scaleproof.watch writes into, if the program uses it;
    `read`: as in `attempt_command`. A first run whose log will not do is ended early. Raises UserError where it
    cannot be started.
    """
    # Unbuffered, so that lines arrive when they are printed.
    environment = os.environ | {"PYTHONUNBUFFERED": "1", VARIABLE: str(watch.absolute())}
    remote = None
    if nodes and request.cell.execution.geometry.nodes > 1:
        words = [*allocated.srun_words(request.cell, nodes), *words]
        environment = without_job(environment)  # srun would take options from the job's variables
        remote = partial(signal_steps, nodes.job)

    seconds = request.cell.work.seconds

    def is_hopeless() -> bool:
        """Return whether the log so far has figures of steps, and lacks what only the campaign can say."""
        try:
            is_read = log.is_file() and not watch.is_dir() and request.cell.workload.figures != WHOLE
            if is_read and request.repeat == 1:
                read_figures(log, request.cell, read, was_ended=True)
        except UnknownWork:
            return True
        except NoFigures:  # it may come
            pass
        return False

    try:
        with OtherPrograms() as others:
            outcome = run_supervised(list(words), environment, log, limit, None, remote, seconds, is_hopeless)
    except (FileNotFoundError, PermissionError) as error:
        raise UserError(f"workload.command: {words[0]} cannot be started: {error.strerror}") from None
    if remote:  # the ranks are no descendants of this process: their CPU time would count as that of others
        return outcome
    return replace(outcome, others_cpu=others.share)


def _explain_failure_of_command(request: Request, attempt: Path, outcome: CommandOutcome) -> Failure:
    """Return class and reason of a command's failure, by its exit code and its last lines of output."""
    failure = explain_failure(request, attempt, outcome)
    if failure.failure_class != "crash":  # its reason is known already
        return failure

    code = outcome.exit_code
    was_killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    memory_error = OUT_OF_MEMORY.search("\n".join(outcome.tail))
    if was_killed and outcome.memory_kills:
        failure_class = "host_oom"
        reason = "the kernel ended a process of the command: the machine's memory ran out"
    elif memory_error:
        failure_class = "oom"
        reason = f"the command ended with exit code {code} after printing {memory_error[0]}"
    else:
        failure_class = "crash"
        reason = failure.reason.replace("the ranks ended", "the command ended")
        last_words = [line for line in outcome.tail if line.strip() and TORCHRUN_ERROR not in line]
        if last_words and not last_exception(outcome.tail):
            reason += f" after printing: {shortened(last_words[-1].strip(), 200)}"
    return failure.model_copy(update={"failure_class": failure_class, "reason": reason})


def _work_of_whole_runs(request: Request, program_s: Sequence[float]) -> TimedWork:
    """Return the figures of a program that was timed from start to end.

    `program_s`: the seconds of one run, or of a shorter and a longer run, whose difference counts. Raises NoFigures
    where the longer run took no longer.
    """
    cell = request.cell
    log = PrintedLog("whole program")
    if cell.work.fewer_steps is None:
        rows = step_rows([program_s[0]], [1], [None])
        return TimedWork(log=log, unit="runs", rows=rows, window=[], per_step=None)

    shorter_s, longer_s = program_s
    steps = cell.work.steps - cell.work.fewer_steps
    if longer_s <= shorter_s:
        raise NoFigures(
            f"{cell.work.steps} steps took {longer_s:.3g} s and {cell.work.fewer_steps} steps {shorter_s:.3g} s: the "
            "difference is noise, or {steps} changes nothing; give lengths that are further apart"
        )
    unit = cell.workload.per_step.unit if cell.workload.per_step else "steps"
    rows = step_rows([longer_s - shorter_s], [steps * (cell.per_step or 1)], [None])
    return TimedWork(log=log, unit=unit, rows=rows, window=[], per_step=cell.per_step)


def _metrics_of_command(
    request: Request, program: Program, work: TimedWork, outcome: CommandOutcome, ranks: list[WatchedRank]
) -> Printed:
    """Return the metrics of a run from its figures (`work`). `ranks`: the records of a watched run, else none."""
    reading = _log_reading(work, outcome, ranks)
    window_s: float | None = None  # by the arrival of the window's lines
    if reading.first_line_s is not None and reading.last_line_s is not None:
        window_s = reading.last_line_s - reading.first_line_s
    known_fields = request.known()
    known_fields["host"] = known_fields["host"] | {"others_cpu": outcome.others_cpu}

    return Printed(
        evidence="watched" if ranks else "printed",
        watched=ranks,
        unit=work.unit,
        window=_printed_window(request, work, ranks),
        reading=reading,
        program=program,
        total_wall_time_s=time.time() - request.started,
        second_clock=SecondClock(ranks_s=outcome.ranks_s, window_s=window_s, resolution_s=outcome.resolution_s),
        **{name: value for name, value in known_fields.items() if name not in DEFAULTS_OF_PRINTED},
    )


def _printed_window(request: Request, work: TimedWork, ranks: list[WatchedRank]) -> PrintedWindow:
    """Return the figures of the window. It lasts as long as the steps of its slowest rank together."""
    rows = work.rows[work.rows["phase"] == "window"]
    seconds = max(float(rows[rows["rank"] == rank]["step_time_s"].sum()) for rank in set(rows["rank"].tolist()))
    steps = merge_steps(zip(*(rows[name].tolist() for name in STEP_COLUMNS), strict=True))
    figures = vars(window_figures(steps, seconds))
    del figures["data_wait_mean_s"]  # unknown for a command
    # A loss that was not printed is NaN in the rows, and None in the record.
    unknown_losses = {name: None for name, value in figures.items() if "loss" in name and not math.isfinite(value)}
    return PrintedWindow(
        **figures | unknown_losses,
        wall_time_s=seconds,
        tokens_per_s_per_device=figures["tokens_per_s"] / request.cell.execution.geometry.n_devices,
        clock=ranks[0].clock if ranks else CLOCKS.get(work.log.reader, "printed"),
    )


def _log_reading(work: TimedWork, outcome: CommandOutcome, ranks: list[WatchedRank]) -> LogReading:
    """Return where the figures of a run come from: lines of its log, or the records of `ranks` if it was watched."""
    # All four are unknown for a program that was timed as a whole, or that counts aloud.
    first_step: int | None = None
    last_step: int | None = None
    first_line_s: float | None = None
    last_line_s: float | None = None
    n_steps = len(work.log.steps) or len(work.rows)
    if ranks:
        n_steps = len(ranks[0].step_s)
        window_steps = work.rows[work.rows["phase"] == "window"]["step"]
        first_step, last_step = int(window_steps.min()), int(window_steps.max())
    elif work.window:
        first, last = work.window[0], work.window[-1]
        first_step, last_step = first.step, last.step
        first_line_s, last_line_s = _arrival_s(outcome, first.line), _arrival_s(outcome, last.line)

    return LogReading(
        reader=work.log.reader,
        guessed=work.log.guessed,
        steps=n_steps,
        first_step=first_step,
        last_step=last_step,
        first_line_s=first_line_s,
        last_line_s=last_line_s,
        world_size=work.log.world_size,
        per_step=work.per_step,
        counts_to=work.counts_to,
        losses_lost=work.losses_lost,
        ended_after_s=outcome.ranks_s if outcome.ended else None,
    )


def _arrival_s(outcome: CommandOutcome, line: int | None) -> float | None:
    """Return the seconds from the command's start to the arrival of line number `line` (from 1), None if unknown."""
    if line is None or line > len(outcome.arrivals):
        return None
    return outcome.arrivals[line - 1]
