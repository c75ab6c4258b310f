"""Commands that are watched: time limit, signals, a driver that dies."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from patience import HANGS, alive, wait_until

from scaleproof.measure.launch.device_lock import hold_devices
from scaleproof.measure.launch.supervise import Interrupted, run_supervised


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_output_goes_to_the_log_without_places_of_this_machine(tmp_path):
    outcome = run_supervised(python("import os; print('from', os.getcwd())"), dict(os.environ), tmp_path / "log", HANGS)
    assert outcome.exit_code == 0
    assert outcome.tail == ["from ."]
    assert (tmp_path / "log").read_text() == "from .\n"


def test_a_program_that_asks_a_question_gets_no_answer(tmp_path):
    """Whatever our own standard input is: here a pipe that nobody writes to, and nobody closes."""
    reader, writer = os.pipe()
    before = os.dup(0)
    os.dup2(reader, 0)
    try:
        outcome = run_supervised(python("input('y/n? ')"), dict(os.environ), tmp_path / "log", HANGS)
    finally:
        os.dup2(before, 0)
        for descriptor in (before, reader, writer):
            os.close(descriptor)
    assert outcome.tail[-1] == "EOFError: EOF when reading a line"


@pytest.mark.fault("the log of a run is on a full disk", "the ranks go on: their output is still read")
def test_a_log_that_cannot_be_written_stops_nobody():
    """More than a pipe holds: a program whose output nobody reads stands still."""
    outcome = run_supervised(python("print('line\\n' * 50_000, 'end')"), dict(os.environ), Path("/dev/full"), HANGS)
    assert (outcome.exit_code, outcome.timed_out, outcome.tail[-1]) == (0, False, " end")


def test_the_whole_group_ends_at_the_limit(tmp_path):
    """Also a process that ignores the request to end, and one that the first one started."""
    code = """
        import signal, subprocess, sys
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()  # limit-child"])
        signal.pause()  # limit-parent
    """
    outcome = run_supervised(python(code), dict(os.environ), tmp_path / "log", 1.5)
    assert outcome.timed_out
    wait_until(lambda: not alive("limit-child") and not alive("limit-parent"))


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_a_program_is_ended_after_the_time_that_it_was_given(tmp_path, is_stubborn):
    """By SIGINT, as from a keyboard, and with all that it has started; what it says about that is not in the log."""
    code = """
        import signal, subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()  # ended-child"])
        if {is_stubborn}:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        print("begun", flush=True)
        try:
            while True:
                signal.pause()  # ended-parent
        except KeyboardInterrupt:
            open({tidied!r}, "w").close()
            print("KeyboardInterrupt")
    """
    code = code.format(is_stubborn=is_stubborn, tidied=str(tmp_path / "tidied"))
    outcome = run_supervised(python(code), dict(os.environ), tmp_path / "log", HANGS, end_after=2.0)
    assert (outcome.ended, outcome.timed_out, outcome.tail) == (True, False, ["begun"])
    assert 2.0 < outcome.ranks_s < HANGS
    assert (tmp_path / "tidied").exists() != is_stubborn
    wait_until(lambda: not alive("ended-child") and not alive("ended-parent"))


def test_a_program_that_is_done_before_is_not_ended(tmp_path):
    outcome = run_supervised(python("raise SystemExit(3)"), dict(os.environ), tmp_path / "log", HANGS, end_after=HANGS)
    assert (outcome.exit_code, outcome.ended) == (3, False)


LAUNCHER = """
import os, sys, pathlib
from scaleproof.measure.launch.supervise import Interrupted, run_supervised
command = [sys.executable, "-c", "import signal; print('started', flush=True); signal.pause()  # {marker}"]
try:
    run_supervised(command, dict(os.environ), pathlib.Path({log!r}), {limit})
except Interrupted as stopped:
    print(stopped)
    sys.exit(stopped.code)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.fault("Ctrl-C or SIGTERM in a run", "nothing is published, nothing is left running")
def test_a_signal_stops_the_run_and_leaves_nothing_running(tmp_path, number):
    log, marker = tmp_path / "log", f"signal-{number}"
    code = LAUNCHER.format(marker=marker, log=str(log), limit=HANGS)
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: log.exists() and "started" in log.read_text(), launcher)
    launcher.send_signal(number)
    assert launcher.wait(HANGS) == 128 + number
    assert "stopped by SIG" in launcher.stdout.read()
    wait_until(lambda: not alive(marker))


def test_a_stubborn_program_does_not_outlive_the_signal(tmp_path):
    """Nor does what it has started in a session of its own, as torchrun starts its ranks."""
    code = """
        import os, signal, subprocess, sys
        code = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; print('up', flush=True); "
        code += "signal.pause()  # stubborn-rank"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE).stdout.readline()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()  # stubborn-parent
    """
    with pytest.raises(Interrupted, match="stopped by SIGINT"):
        run_supervised(python(code), dict(os.environ), tmp_path / "log", HANGS)
    wait_until(lambda: not alive("stubborn-rank") and not alive("stubborn-parent"))


def test_ranks_that_are_ended_together_with_the_launcher_have_not_failed(tmp_path):
    """As Slurm ends a job: the signal reaches all at once, and the ranks may be gone before the launcher looks."""
    code = "import os, signal, sys; os.kill(os.getppid(), signal.SIGTERM); sys.exit(1)"
    with pytest.raises(Interrupted, match="stopped by SIGTERM"):
        run_supervised(python(code), dict(os.environ), tmp_path / "log", HANGS)


def test_a_run_that_is_done_when_the_signal_comes_is_done(tmp_path):
    code = "import os, signal; os.kill(os.getppid(), signal.SIGTERM); os._exit(0)"  # at once, however busy it is
    assert run_supervised(python(code), dict(os.environ), tmp_path / "log", HANGS).exit_code == 0


def killed_driver(launcher, is_ready):
    """Start `launcher` (a script) below a process called snakemake, and kill that once it `is_ready`. Returns it."""
    driver = launcher.with_name("snakemake")
    driver.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, {str(launcher)!r}])\n")
    process = subprocess.Popen([sys.executable, str(driver)])
    wait_until(is_ready, process)
    process.kill()
    return process


def test_a_run_that_waits_for_devices_ends_with_its_driver(tmp_path):
    """Else it would be made later, and Snakemake make it once more. Nobody reaps the driver: it stays a zombie."""
    launcher = tmp_path / "launcher.py"
    launcher.write_text(
        "from pathlib import Path\nfrom scaleproof.measure.launch.device_lock import hold_devices\n"
        "from scaleproof.measure.launch.supervise import pause_for_devices\n"
        f"with hold_devices(['core-0'], 'run', Path({str(tmp_path)!r}), pause_for_devices):\n    pass\n"
    )
    with hold_devices(["core-0"], "the first", tmp_path):
        process = killed_driver(launcher, lambda: list(tmp_path.glob("*.place")))
        wait_until(lambda: not alive(str(launcher)))
    process.wait()


@pytest.mark.fault("the launcher's parent is killed", "the run ends with it")
def test_a_driver_that_is_killed_takes_its_run_along(tmp_path):
    """SIGKILL tells nobody; the launcher notices that the Snakemake above it is gone."""
    log, marker = tmp_path / "log", "orphan-run"
    (tmp_path / "launcher.py").write_text(LAUNCHER.format(marker=marker, log=str(log), limit=HANGS))
    killed_driver(tmp_path / "launcher.py", lambda: log.exists() and "started" in log.read_text()).wait()
    wait_until(lambda: not alive(marker))
    wait_until(lambda: not alive(str(tmp_path / "launcher.py")))
