"""What other programs take of a machine, told from what a command takes itself."""

import itertools
import subprocess
import sys

import psutil
import pytest

from scaleproof.measure.launch import other_programs
from scaleproof.measure.launch.other_programs import OtherPrograms

BURN = "import time\nwhile time.process_time() < {}: pass"


@pytest.fixture
def machine_busy(monkeypatch):
    """Sets by how many CPU seconds the machine is busier at the end, all of one CPU."""

    def busier_by(seconds: float) -> None:
        readings = itertools.chain([0.0], itertools.repeat(seconds))
        monkeypatch.setattr(other_programs, "busy_s", lambda times: next(readings))
        monkeypatch.setattr(psutil, "cpu_count", lambda: 1)

    return busier_by


def share(code: str, wait: bool = True) -> float | None:
    with OtherPrograms() as others:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        if wait:
            process.wait()
        else:
            process.stdout.readline()
    process.kill()
    process.wait()
    return others.share


def test_time_of_others_is_told_from_that_of_the_command(machine_busy):
    machine_busy(1000.0)
    assert share(BURN.format(0.5)) > 1.0
    machine_busy(0.5)
    assert share(BURN.format(0.5)) == 0.0


def test_processes_that_nobody_has_waited_for_are_the_command(machine_busy, monkeypatch):
    monkeypatch.setattr(other_programs, "LOOK_PERIOD_S", 0.05)
    machine_busy(0.9)
    assert share(BURN.format(1.0) + "\nprint(flush=True)\ntime.sleep(0.2)\nprint(flush=True)", wait=False) < 0.5


def test_work_that_is_done_elsewhere_is_not_known(machine_busy):
    machine_busy(1000.0)
    assert share("import time; time.sleep(3)") is None
