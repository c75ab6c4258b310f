"""A second process beside this one."""

import os
import signal

import psutil
import pytest

from scaleproof.ground import cores
from scaleproof.ground.cores import MANY_RUNS, beside


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: 2)


def end_unless(pid: int, number: int) -> int:
    """Ends this process where it is another than `pid`."""
    if os.getpid() != pid:
        os.kill(os.getpid(), number)
    return pid


def refuse() -> None:
    raise ValueError("not this one")


def test_work_on_many_runs_is_done_in_another_process():
    with beside(lambda: (os.getpid(), "x" * 100_000), MANY_RUNS) as other:
        pid, text = other()
    assert pid != os.getpid()
    assert len(text) == 100_000


def test_work_on_few_runs_or_on_one_core_is_done_here(monkeypatch):
    with beside(os.getpid, MANY_RUNS - 1) as here:
        assert here() == os.getpid()
    monkeypatch.setattr(cores, "available_cores", lambda: 1)
    with beside(os.getpid, MANY_RUNS) as here:
        assert here() == os.getpid()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_work_of_a_process_that_was_ended_is_done_here(number, capfd):
    own = os.getpid()
    with beside(lambda: end_unless(own, number), MANY_RUNS) as other:
        assert other() == own
    assert capfd.readouterr().err == ""


def test_an_error_is_raised_here_alone(capfd):
    with beside(refuse, MANY_RUNS) as other, pytest.raises(ValueError, match="not this one"):
        other()
    assert capfd.readouterr().err == ""


def test_the_process_ends_with_the_block():
    before = set(psutil.Process().children())
    with beside(signal.pause, MANY_RUNS):
        (process,) = set(psutil.Process().children()) - before
        assert process.is_running()
    assert not process.is_running()
