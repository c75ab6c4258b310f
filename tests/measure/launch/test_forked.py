"""Ranks forked from a process that has imported libraries are the ranks that torchrun starts."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from patience import HANGS

from scaleproof.ground.records.run import read_run
from scaleproof.ground.records.steps import loss_series
from scaleproof.measure.launch.forked import HEADER, connect, receive, socket_path
from scaleproof.measure.launch.local import may_fork
from scaleproof.measure.launch.run import run_cell
from scaleproof.measure.trainer.request import PlannedRun

SECTIONS = {
    "workload": {"model": {"layers": 1, "width": 32, "heads": 2, "context": 64}, "seq_len": 32, "tokenizer": "bpe-512"},
    "work": {"global_batch": 8, "steps": 12, "warmup_steps": 4},
}


def cell(**execution):
    from synthetic import cells

    return cells(**SECTIONS, vary={}, execution={"geometry": "1x2", **execution})[0]


@pytest.mark.parametrize("strategy", ["ddp", "zero2"])
def test_forked_ranks_train_as_fresh_ones_do(tokens, tmp_path, strategy):
    runs = []
    for start in ("fresh", "forked"):
        run_cell(PlannedRun(cell(strategy=strategy, start=start), "c", tokens, HANGS), tmp_path / start)
        runs.append(read_run(tmp_path / start))
    fresh, forked = runs
    assert [run.metrics.status for run in runs] == ["ok", "ok"]
    assert [run.metrics.ranks[0]["start"] for run in runs] == ["fresh", "forked"]
    assert np.array_equal(loss_series(fresh.steps), loss_series(forked.steps))
    assert fresh.metrics.collectives == forked.metrics.collectives
    assert fresh.metrics.dtypes == forked.metrics.dtypes
    assert fresh.metrics.engine_config == forked.metrics.engine_config
    assert [rank["cores"] for rank in fresh.metrics.ranks] == [rank["cores"] for rank in forked.metrics.ranks]


def test_only_runs_on_this_machines_cpu_are_forked():
    assert may_fork(cell(start="forked"), gpus=0)
    assert may_fork(cell(start="forked", device="cpu"), gpus=2)
    assert not may_fork(cell(start="forked"), gpus=2)
    assert not may_fork(cell(), gpus=0)


@pytest.mark.fault("the server that forks ranks cannot start", "said, with its reason")
def test_a_server_that_cannot_start_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(OSError, match="no_such_library"):
        connect([["no_such_library"]])
    with pytest.raises(OSError, match="no_such_library"), connect([["json"], ["no_such_library"]]):
        pass


def test_a_server_with_more_libraries_is_a_copy_of_one_with_fewer(monkeypatch, tmp_path):
    """It serves on, and those that wait for the output of its first client do not wait for it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    code = "from scaleproof.measure.launch.forked import connect; connect([['json'], ['csv']]).close()"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ, timeout=HANGS)
        assert (done.returncode, done.stderr) == (0, b"")
    assert socket_path([["json"]]).exists()
    assert socket_path([["json"], ["csv"]]).exists()


def test_servers_are_private_to_user_libraries_and_environment(monkeypatch):
    first = socket_path([["numpy"]])
    assert first.parent.stat().st_mode & 0o077 == 0
    assert first == socket_path([["numpy"]])
    assert first != socket_path([["numpy"], ["deepspeed"]])
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    assert first != socket_path([["numpy"]])


def test_a_folder_that_is_too_long_for_a_socket_is_not_used(monkeypatch, tmp_path):
    long = tmp_path / ("d" * 90)
    for folder, is_used in ((long, False), (Path(tempfile.gettempdir()), True)):
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        path = socket_path([["numpy"]])
        assert (path.is_relative_to(folder), len(str(path)) < 104) == (is_used, True)


def test_the_client_imports_only_the_standard_library():
    left_alone = "{'torch', 'numpy', 'pydantic'}"
    code = f"import sys, scaleproof.measure.launch.forked\nsys.exit(bool({left_alone} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0


@pytest.mark.parametrize("sent", [b"", HEADER.pack(10), HEADER.pack(10) + b"{}"])
def test_a_client_that_is_gone_ends_the_wait_for_its_request(sent):
    here, there = socket.socketpair()
    with here, there:
        if sent:
            socket.send_fds(there, [sent], [1])
        there.close()
        with pytest.raises(EOFError, match="the client is gone"):
            receive(here)
