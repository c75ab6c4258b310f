"""Starting a command and not leaving it alone: log, time limit, signals, orphans."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from scalebench.record.write import scrub

POLL = 0.5  # seconds; each look costs microseconds of one core
GRACE = 5.0  # seconds between asking a process group to end and ending it


class Interrupted(Exception):
    """The launcher was told to stop, or the driver that started it is gone. The run is neither done nor failed."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Outcome:
    exit_code: int
    timed_out: bool
    tail: list[str]  # the last lines of the log


def run_watched(command: list[str], env: dict[str, str], log: Path, limit: float) -> Outcome:
    """Run `command` in a process group of its own, its output scrubbed into `log`, for at most `limit` seconds.

    Raises Interrupted, with nothing left running, on SIGINT or SIGTERM and when the Snakemake that started us ends.
    """
    told: list[int] = []
    previous = {s: signal.signal(s, lambda number, frame: told.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}
    driver = _driver()
    lines: list[str] = []
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    copier = threading.Thread(target=_copy, args=(process, log, lines), daemon=True)
    copier.start()
    deadline, timed_out = time.monotonic() + limit, False
    try:
        while process.poll() is None:
            if told:
                raise Interrupted(f"stopped by {signal.Signals(told[0]).name}", 128 + told[0])
            if driver is not None and not driver.is_running():
                raise Interrupted("the Snakemake that started this run is gone", 1)
            if time.monotonic() > deadline:
                timed_out = True
                break
            try:
                process.wait(POLL)
            except subprocess.TimeoutExpired:
                continue
    finally:
        _end(process)
        copier.join(GRACE)
        for number, handler in previous.items():
            signal.signal(number, handler)
    return Outcome(process.returncode, timed_out, lines[-40:])


def _copy(process: subprocess.Popen, log: Path, lines: list[str]) -> None:
    with log.open("a", encoding="utf-8") as file:
        for line in process.stdout:
            clean = scrub(line.rstrip("\n"))
            lines.append(clean)
            del lines[:-200]
            print(clean, file=file, flush=True)
            if sys.stdout.isatty():
                print(clean, flush=True)


def _end(process: subprocess.Popen) -> None:
    """End the whole process group: first by asking."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM and not _group_lives(process.pid):
            break
    process.wait()


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _driver() -> psutil.Process | None:
    """The Snakemake among our ancestors. A killed Snakemake does not take its jobs along; they have to notice."""
    for parent in psutil.Process().parents():
        try:
            if any("snakemake" in Path(part).name for part in parent.cmdline()[:3]):
                return parent
        except psutil.Error:
            continue
    return None
