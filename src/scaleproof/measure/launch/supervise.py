"""Start a command and supervise it: log, progress, time limit, signals, orphans."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from tqdm import tqdm

from scaleproof.ground.files import scrub
from scaleproof.measure.trainer.request import PHASES

POLL = 0.5  # seconds between two looks at a run; each look costs microseconds of one core
GRACE = 5.0  # seconds between asking a process group to end and killing it ...
STOPPED_GRACE = 0.5  # ... if we ourselves were told to stop, and somebody waits
STOP = (signal.SIGTERM, signal.SIGKILL)
PLANNED_STOP = (signal.SIGINT, *STOP)  # the first as from a keyboard: programs tidy up
LOG_LINES = 400  # lines of the log that are kept in memory
LOOK_SHARE = 0.25  # share of the time after which a command is ended: then `is_hopeless` is asked
STUCK_SHARE = 0.25  # share of the time limit: a run without a step for so long hangs, it is not slow


class Interrupted(Exception):
    """Raised where the launcher was told to stop, or its driver is gone: the run is neither done nor failed."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class Heartbeat:
    """The progress of this node's ranks, in a memory-mapped file, which must not be on a network file system."""

    def __init__(self, ranks: int, steps: int, warmup_steps: int = 0) -> None:
        """Make the file in which ranks mark their phases, PHASES in each of the run's `steps`, warm-up included."""
        self.window_ends = (warmup_steps, steps)  # the timed window: from and to these numbers of ended steps
        self.reached_s: dict[int, float] = {}  # number of steps -> when all ranks were first seen to have ended them
        descriptor, name = tempfile.mkstemp(prefix="scaleproof-heartbeat-")
        os.close(descriptor)
        self.path = Path(name)
        self.marks = np.memmap(self.path, dtype=np.int64, mode="w+", shape=(ranks,))
        self.last_marks = self.marks.copy()
        self.last_move_s = self.last_look_s = time.monotonic()
        self.longest_s = 0.0  # the longest time between two looks
        self.bar = tqdm(total=steps, unit="step", disable=None)  # on a terminal only

    def note_progress(self) -> None:
        """Read the marks of all ranks, and note when they have moved."""
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.last_look_s)
        self.last_look_s = now
        if (self.marks == self.last_marks).all():  # no rank has moved
            return
        self.last_marks = self.marks.copy()
        self.last_move_s = now
        self.bar.update(self.steps_done - self.bar.n)
        for end in self.window_ends:
            if self.steps_done >= end:
                self.reached_s.setdefault(end, now)

    @property
    def steps_done(self) -> int:
        """How many steps all ranks have ended."""
        return int(self.last_marks.min()) // PHASES

    @property
    def window_s(self) -> float | None:
        """Seconds from the end of the warm-up to the end of the last step, as seen by looks; None without both."""
        start, end = self.window_ends
        if start not in self.reached_s or end not in self.reached_s:
            return None
        return self.reached_s[end] - self.reached_s[start]

    def rank_behind(self) -> int | None:
        """Return the local rank that is behind all others. None where several are, or for a single rank."""
        lowest_ranks = np.flatnonzero(self.last_marks == self.last_marks.min())
        return int(lowest_ranks[0]) if len(lowest_ranks) == 1 and len(self.last_marks) > 1 else None

    def close(self) -> None:
        """End the progress bar and remove the file."""
        self.bar.close()
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class CommandOutcome:
    """How a supervised command ended."""

    exit_code: int
    timed_out: bool
    tail: list[str]  # the last lines of the log
    hung: bool = False  # at the limit, steps had been made but none for a long time
    behind: int | None = None  # the rank that was behind the others at the end
    steps: int = 1  # steps that all ranks had ended
    memory_kills: int = 0  # processes that the kernel killed meanwhile because memory ran out
    ranks_s: float = 0.0  # seconds from the command's start to its end
    window_s: float | None = None  # seconds of the timed steps, as seen from outside; None where they were not seen
    resolution_s: float = POLL  # the longest time between two looks at the steps
    arrivals: Sequence[float] = ()  # when each line of its output came: seconds since the command's start
    others_cpu: float | None = None  # share of this machine's CPU time that other programs used; None: unknown
    ended: bool = False  # we ended it as planned, after a given time: a proper end, whatever its exit code


def run_supervised(
    command: list[str],
    env: dict[str, str],
    log: Path,
    limit: float,
    heartbeat: Heartbeat | None = None,
    remote: Callable[[str], None] | None = None,
    end_after: float | None = None,
    is_hopeless: Callable[[], bool] | None = None,
) -> CommandOutcome:
    """Run `command` in its own process group for at most `limit` seconds, and return how it ended.

    `log`: the file that takes its output, without private paths. `heartbeat`: the marks of its ranks' progress.
    `remote`: a function that sends a signal (a name without SIG) to its processes on other nodes. `end_after`: the
    seconds after which the command is ended as planned, by SIGINT first; after a quarter of them if `is_hopeless`.
    Raises Interrupted, with nothing left running, on SIGINT or SIGTERM, and when the Snakemake that started us ends.
    """
    last_lines: list[str] = []
    arrivals = array("d")
    is_stopped = threading.Event()
    kills_before = _memory_kills()
    stop, grace = _Stop(), STOPPED_GRACE  # for `finally`, if waiting for the end raises
    with _catch_signals() as received:
        process = _start_process(command, env)
        began = time.monotonic()
        copier_arguments = (process, log, last_lines, arrivals, is_stopped)
        copier = threading.Thread(target=_copy_output, args=copier_arguments, daemon=True)
        copier.start()
        try:
            stop = _wait_for_end(process, limit, end_after, heartbeat, received, is_hopeless)
            if stop.timed_out:
                _ask_for_stacks(process, remote)
            grace = GRACE  # nobody has told us to stop, so that there is time
        finally:
            ended = time.monotonic()
            if process.poll() is None:
                is_stopped.set()  # what ranks and launcher print about being stopped by us is dropped
                if remote:
                    remote("INT" if stop.as_planned else "TERM")
            _end_group(process, PLANNED_STOP if stop.as_planned else STOP, grace)
            if remote:
                remote("KILL")
            copier.join(GRACE)

    return CommandOutcome(
        exit_code=process.returncode,
        timed_out=stop.timed_out,
        tail=last_lines,
        hung=stop.hung,
        behind=stop.behind,
        steps=heartbeat.steps_done if heartbeat else 1,
        memory_kills=_memory_kills() - kills_before,
        ranks_s=ended - began,
        window_s=heartbeat.window_s if heartbeat else None,
        resolution_s=max(POLL, heartbeat.longest_s) if heartbeat else POLL,
        arrivals=[moment - began for moment in arrivals],
        ended=stop.as_planned,
    )


class _Stop(NamedTuple):
    """Why we end a command. No field is set where it has ended by itself."""

    as_planned: bool = False
    timed_out: bool = False
    hung: bool = False  # as in CommandOutcome
    behind: int | None = None


def _start_process(command: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    """Start `command` in a process group of its own, with all its output in one pipe and no input."""
    return subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,  # nobody is there to answer a question
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


@contextlib.contextmanager
def _catch_signals() -> Iterator[list[int]]:
    """Yield a list that collects SIGINT and SIGTERM during the block, instead of ending this process."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, lambda caught, _: received.append(caught)) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _wait_for_end(
    process: subprocess.Popen[str],
    limit: float,
    end_after: float | None,
    heartbeat: Heartbeat | None,
    received: list[int],
    is_hopeless: Callable[[], bool] | None,
) -> _Stop:
    """Wait until `process` ends, or must be ended: at its `limit`, or as planned after `end_after` (both seconds).

    As planned it is also ended where it `is_hopeless` before, which is asked once. Raises Interrupted when a signal is
    `received`, or the Snakemake that started us is gone.
    """
    began = time.monotonic()
    while process.poll() is None:
        if received:
            raise _error_after_signal(received[0])
        _stop_without_driver()
        if heartbeat:
            heartbeat.note_progress()
        passed_s = time.monotonic() - began
        if passed_s > limit:
            return _stop_at_limit(heartbeat, limit)
        if end_after is not None and passed_s > end_after:
            return _Stop(as_planned=True)
        if end_after is not None and is_hopeless and passed_s > LOOK_SHARE * end_after:
            if is_hopeless():
                return _Stop(as_planned=True)
            is_hopeless = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL)
    # Whoever ends us may end the ranks at the same moment: they have not failed.
    if received and process.returncode:
        raise _error_after_signal(received[0])
    return _Stop()


def _stop_at_limit(heartbeat: Heartbeat | None, limit: float) -> _Stop:
    """Return why a command is ended at its `limit` (seconds): its steps have stopped, or are too slow."""
    if heartbeat and heartbeat.steps_done and time.monotonic() - heartbeat.last_move_s > STUCK_SHARE * limit:
        return _Stop(timed_out=True, hung=True, behind=heartbeat.rank_behind())
    return _Stop(timed_out=True)


def _error_after_signal(number: int) -> Interrupted:
    """Return the error to raise after the signal `number`, with the exit code that a shell gives such a process."""
    return Interrupted(f"stopped by {signal.Signals(number).name}", 128 + number)


def _copy_output(
    process: subprocess.Popen[str],
    log: Path,
    last_lines: list[str],
    arrivals: "array[float]",
    is_stopped: threading.Event,
) -> None:
    """Copy the output of a process into `log`, `last_lines` and `arrivals` (times); drop it once `is_stopped`."""
    assert process.stdout is not None  # run_supervised pipes it
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as file:
        for line in process.stdout:
            if is_stopped.is_set():
                continue
            arrivals.append(time.monotonic())
            clean = scrub(line.rstrip("\n"))
            last_lines.append(clean)
            del last_lines[:-LOG_LINES]
            with contextlib.suppress(OSError):  # the disk may be full; ranks whose output nobody reads stand still
                print(clean, file=file, flush=True)
            if sys.stdout.isatty():
                print(clean, flush=True)


def _ask_for_stacks(process: subprocess.Popen, signal_remote_ranks: Callable[[str], None] | None) -> None:
    """Send SIGUSR1 to every rank, which then prints the stacks of its threads."""
    if signal_remote_ranks:
        signal_remote_ranks("USR1")
    else:
        launcher = psutil.Process(process.pid)
        # A client of the fork server has no children and passes the signal on.
        for receiver in launcher.children() or [launcher]:
            with contextlib.suppress(psutil.Error):
                receiver.send_signal(signal.SIGUSR1)
    time.sleep(POLL)  # let them print


def _end_group(process: subprocess.Popen, signals: Sequence[signal.Signals], grace: float) -> None:
    """End the process group of `process` by `signals`, `grace` seconds apart, and kill all its descendants."""
    descendants: list[psutil.Process] = []
    # Looked up first: torchrun's ranks have groups of their own, which `killpg` does not reach.
    with contextlib.suppress(psutil.Error):
        descendants = psutil.Process(process.pid).children(recursive=True)

    for number in signals:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            continue
        # The process has ended; others of its group may not have.
        if not _group_lives(process.pid):
            break

    for descendant in descendants:
        with contextlib.suppress(psutil.Error):
            descendant.kill()
    process.wait()


def _group_lives(group: int) -> bool:
    """Return whether any process of the process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _memory_kills() -> int:
    """Return how often this machine's kernel has killed a process because memory ran out."""
    try:
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    except OSError:
        return 0
    return int(counters.get("oom_kill", 0))


def pause_for_devices(seconds: float) -> None:
    """Wait for `seconds` until the devices of a run may be free. Raises Interrupted where nobody waits for it."""
    _stop_without_driver()
    time.sleep(seconds)


def _stop_without_driver() -> None:
    """Raise Interrupted if the Snakemake that started this process is gone since this was first asked."""
    driver = _snakemake_process()
    if driver is not None and not _is_alive(driver):
        raise Interrupted("the Snakemake that started this run is gone", 1)


def _is_alive(process: psutil.Process) -> bool:
    """Return whether a process has not ended, nor left a zombie, as in a container without an init."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@functools.cache  # it is no ancestor any more when it is gone
def _snakemake_process() -> psutil.Process | None:
    """Return the Snakemake that started this process, if there is one. If it is killed, its jobs must notice."""
    for parent in psutil.Process().parents():
        try:
            if any("snakemake" in Path(part).name for part in parent.cmdline()[:3]):
                return parent
        except psutil.Error:
            continue
    return None
