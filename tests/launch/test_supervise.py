"""Commands that are watched: time limit, signals, a driver that dies."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from scalebench.launch.supervise import Interrupted, run_watched


def alive(marker: str) -> bool:
    return any(marker in " ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))


def gone(marker: str) -> bool:
    deadline = time.monotonic() + 30
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not alive(marker)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_output_goes_to_the_log_without_places_of_this_machine(tmp_path):
    outcome = run_watched(python("import os; print('from', os.getcwd())"), dict(os.environ), tmp_path / "log", 20)
    assert outcome.exit_code == 0
    assert outcome.tail == ["from ."]
    assert (tmp_path / "log").read_text() == "from .\n"


@pytest.mark.fault("the log of a run is on a full disk", "the ranks go on: their output is still read")
def test_a_log_that_cannot_be_written_stops_nobody():
    """More than a pipe holds: a program whose output nobody reads stands still."""
    outcome = run_watched(python("print('line\\n' * 50_000, 'end')"), dict(os.environ), Path("/dev/full"), 60)
    assert (outcome.exit_code, outcome.timed_out, outcome.tail[-1]) == (0, False, " end")


def test_the_whole_group_ends_at_the_limit(tmp_path):
    """Also a process that ignores the request to end, and one that the first one started."""
    code = """
        import signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)  # limit-child"])
        time.sleep(99)  # limit-parent
    """
    outcome = run_watched(python(code), dict(os.environ), tmp_path / "log", 1.5)
    assert outcome.timed_out
    assert gone("limit-child")
    assert gone("limit-parent")


LAUNCHER = """
import os, sys, pathlib
from scalebench.launch.supervise import Interrupted, run_watched
command = [sys.executable, "-c", "import time; print('started', flush=True); time.sleep(99)  # {marker}"]
try:
    run_watched(command, dict(os.environ), pathlib.Path({log!r}), 60)
except Interrupted as stopped:
    print(stopped)
    sys.exit(stopped.code)
"""


def wait_for(path, text):
    deadline = time.monotonic() + 120
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.fault("Ctrl-C or SIGTERM in a run", "nothing is published, nothing is left running")
def test_a_signal_stops_the_run_and_leaves_nothing_running(tmp_path, number):
    log, marker = tmp_path / "log", f"signal-{number}"
    code = LAUNCHER.format(marker=marker, log=str(log))
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    wait_for(log, "started")
    launcher.send_signal(number)
    assert launcher.wait(60) == 128 + number
    assert "stopped by SIG" in launcher.stdout.read()
    assert gone(marker)


def test_ranks_that_are_ended_together_with_the_launcher_have_not_failed(tmp_path):
    """As Slurm ends a job: the signal reaches all at once, and the ranks may be gone before the launcher looks."""
    code = "import os, signal, sys; os.kill(os.getppid(), signal.SIGTERM); sys.exit(1)"
    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        run_watched(python(code), dict(os.environ), tmp_path / "log", 60)


def test_a_run_that_is_done_when_the_signal_comes_is_done(tmp_path):
    code = "import os, signal; os.kill(os.getppid(), signal.SIGTERM)"
    assert run_watched(python(code), dict(os.environ), tmp_path / "log", 60).exit_code == 0


@pytest.mark.fault("the launcher's parent is killed", "the run ends with it")
def test_a_driver_that_is_killed_takes_its_run_along(tmp_path):
    """SIGKILL tells nobody; the launcher notices that the Snakemake above it is gone."""
    log, marker = tmp_path / "log", "orphan-run"
    (tmp_path / "launcher.py").write_text(LAUNCHER.format(marker=marker, log=str(log)))
    driver = tmp_path / "snakemake"
    driver.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, {str(tmp_path / 'launcher.py')!r}])\n")
    process = subprocess.Popen([sys.executable, str(driver)])
    wait_for(log, "started")
    process.kill()
    process.wait()
    assert gone(marker)
    assert gone(str(tmp_path / "launcher.py"))
