"""Short stages in processes that are forked from a server: the same words, streams and exit codes as without it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest
from patience import wait_until

from scaleproof.driver.stage_client import HEADER
from scaleproof.driver.stage_server import StageServer

STAGE = ["stage", "table", "scaling", "results/none"]


@pytest.fixture(scope="module")
def server():
    server = StageServer(early=["json"], late=["ast"], stages=["table"])
    yield server
    server.close()


def call(server, *words, **options):
    return subprocess.run([server.folder / "scaleproof", *words], capture_output=True, text=True, **options)


def test_a_stage_of_the_server_is_the_stage(server, tmp_path):
    own = subprocess.run([sys.executable, "-m", "scaleproof", *STAGE], cwd=tmp_path, capture_output=True, text=True)
    forked = call(server, *STAGE, cwd=tmp_path)
    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)
    assert forked.returncode == 2
    assert "results/none" in forked.stderr


def test_other_commands_are_those_of_the_environment(server):
    done = call(server, "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("scaleproof ")


def test_a_stage_sees_the_environment_of_its_caller(server, tmp_path):
    """The code of another checkout is that of PYTHONPATH."""
    package = tmp_path / "scaleproof"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("print('of another checkout')\nraise SystemExit(7)\n")
    done = call(server, *STAGE, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (7, "of another checkout\n")


def test_ctrl_c_ends_a_stage_and_its_client_without_tracebacks(server, tmp_path):
    """It reaches both: the processes of a workflow are a terminal's."""
    package = tmp_path / "scaleproof"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    client = subprocess.Popen(
        [server.folder / "scaleproof", *STAGE],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stage = int(client.stdout.readline())
    os.kill(client.pid, signal.SIGINT)
    os.kill(stage, signal.SIGINT)
    _, errors = client.communicate(timeout=30)
    assert (client.returncode, errors) == (-signal.SIGINT, "")
    wait_until(lambda: stage not in {process.pid for process in running_stages(server)})


def running_stages(server):
    """The stages of the server that have not ended; it takes note of those that have with the next request."""
    stages = []
    for stage in psutil.Process(server._process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            stages += [stage] if stage.status() != psutil.STATUS_ZOMBIE else []
    return stages


@pytest.mark.parametrize("size", [0, 100])
def test_a_client_that_ends_before_its_request_harms_nobody(server, tmp_path, size):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.folder / "socket"))
        if size:
            socket.send_fds(client, [HEADER.pack(size)], [0, 1, 2])
            client.sendall(b"[[")
    assert call(server, *STAGE, cwd=tmp_path).returncode == 2
    wait_until(lambda: not running_stages(server))  # nothing waits for the rest for ever
    assert (server.folder / "socket").exists()


def test_nothing_is_imported_before_the_first_stage_and_all_before_it_ends(tmp_path, monkeypatch):
    for name in ("early", "late"):
        (tmp_path / f"{name}_library.py").write_text(f"open({str(tmp_path / name)!r}, 'w').close()\n")
    places = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))
    server = StageServer(early=["early_library"], late=["json", "late_library"], stages=["table"])
    try:
        assert call(server, "--version").returncode == 0
        assert not (tmp_path / "early").exists()
        assert call(server, *STAGE, cwd=tmp_path).returncode == 2
        assert (tmp_path / "late").exists()
        assert call(server, *STAGE, cwd=tmp_path).returncode == 2
    finally:
        server.close()


@pytest.mark.parametrize("written", ["", "1"])
def test_stages_compile_once_and_leave_nothing_behind(tmp_path, monkeypatch, written):
    """Where Python may write no bytecode, the server keeps that of its stages as long as it lives."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", written)
    package = tmp_path / "scaleproof"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import scaleproof.own\nprint(scaleproof.own.__cached__)\n")
    (package / "own.py").write_text("")
    server = StageServer(early=[], late=[], stages=["table"])
    cached = call(server, *STAGE, env=os.environ | {"PYTHONPATH": str(tmp_path)}).stdout.strip()
    assert os.path.isfile(cached)
    assert cached.startswith(str(server.folder if written else package))
    server.close()
    assert os.path.isfile(cached) != bool(written)


def test_without_its_server_a_stage_is_made_all_the_same(tmp_path):
    server = StageServer(early=[], late=[], stages=["table"])
    command = (server.folder / "scaleproof").read_text()
    server.close()
    assert not server.folder.exists()
    script = tmp_path / "scaleproof"
    script.write_text(command)
    script.chmod(0o755)
    done = subprocess.run([script, *STAGE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "results/none" in done.stderr


def test_a_server_ends_with_the_workflow_that_started_it():
    code = (
        "import os, signal; from scaleproof.driver.stage_server import StageServer; "
        "print(StageServer().folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    folder = done.stdout.strip()
    wait_until(lambda: not os.path.exists(folder))
