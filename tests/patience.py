"""Waiting for what must happen, however slow the machine is and however long its cores are taken away."""

import subprocess
import time
from collections.abc import Callable

import psutil

HANGS = 3600.0  # seconds: what has not happened by then will not happen
# Findings that are right about a sound run where other programs used the machine meanwhile, and only there.
OF_A_BUSY_MACHINE = {
    "machine-busy",
    "process-starved",
    "process-idle",  # ranks that wait for one that was starved
    "step-stalled",
    "steps-shift",
    "ranks-start-apart",
    "ranks-slow-by-turns",
}


def wait_until(happened: Callable[[], object], driver: subprocess.Popen | None = None) -> None:
    """Wait for it, as long as `driver`, on which it depends, is running."""
    deadline = time.monotonic() + HANGS
    while not happened():
        assert driver is None or driver.poll() is None, driver.stdout and driver.stdout.read()[-5000:]
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def alive(marker: str) -> bool:
    """Whether a process has this in its command line."""
    return any(marker in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
