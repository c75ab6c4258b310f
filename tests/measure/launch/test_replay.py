"""A replay in a process of its own: whatever ends it there is a reference, and it waits for the devices of runs."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from measure.reference.test_replay import cell

from scaleproof.ground.errors import UserError
from scaleproof.measure.launch import replay
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.launch.replay import reason_for_none, replay_cell
from scaleproof.measure.reference.replay import replay_fields
from scaleproof.measure.reference.schema import workload_name


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))


@pytest.fixture
def instead(monkeypatch):
    """What the other process does in the place of the steps."""
    return lambda work: monkeypatch.setattr("scaleproof.measure.reference.replay.replay_fields", work)


def test_a_replay_makes_a_reference(tokens, instead):
    def on_one_thread(plan, limit):  # those of this process, which tests have used torch in, are lost by forking
        torch.set_num_threads(1)
        return replay_fields(plan, limit)

    instead(on_one_thread)
    reference = replay_cell(cell(), "x", tokens)
    assert len(reference.losses) == 7
    assert (reference.shortened, reference.workload) == (None, workload_name(cell().config))


def test_a_replay_that_is_killed_leaves_a_reference(tokens, instead):
    instead(lambda plan, limit: os.kill(os.getpid(), signal.SIGKILL))
    reference = replay_cell(cell(), "x", tokens)
    assert reference.losses == []
    assert reference.shortened == "it was ended by signal 9, as where memory runs out"
    assert len(reference.step_checksums) == 8, "tokens are compared all the same"


def test_a_replay_that_hangs_is_ended(tokens, instead, monkeypatch):
    monkeypatch.setattr(replay, "SPARE_S", 0.1)
    instead(lambda plan, limit: time.sleep(600))
    began = time.monotonic()
    assert replay_cell(cell(), "x", tokens, time_limit=0.1).shortened == "it had not ended after 0 s"
    assert time.monotonic() - began < 60


def test_it_may_take_as_long_as_a_run(tokens, instead):
    instead(lambda plan, limit: {"shortened": f"limit {limit:g}"})
    assert replay_cell(cell(), "x", tokens, time_limit=90).shortened == "limit 90"
    assert replay_cell(cell(), "x", tokens, time_limit=9000).shortened == "limit 600"


def test_what_no_cell_can_train_here_is_not_replayed(tokens, monkeypatch):
    """All cells want more GPUs than there are; but in a job of a scheduler the runs may have other nodes."""
    mine = cell()
    name = workload_name(mine.config)
    assert reason_for_none([mine], name) is None
    monkeypatch.setattr(replay, "unsupported_reason", lambda one, gpus: "it asks for 4 GPUs")
    assert reason_for_none([mine], "another workload") is None
    why_not = reason_for_none([mine, mine], name)
    assert why_not == "none of its cells can run on this machine: it asks for 4 GPUs"
    reference = replay_cell(mine, "x", tokens, why_not=why_not)
    assert (reference.losses, reference.shortened, len(reference.step_checksums)) == ([], why_not, 8)
    monkeypatch.setattr(replay, "current_allocation", lambda: "a job")
    assert reason_for_none([mine], name) is None


def test_a_replay_ends_with_the_process_that_asked_for_it(tokens, instead, tmp_path):
    def work(plan, limit):
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)

    instead(work)
    asking = os.fork()
    if not asking:
        replay_cell(cell(), "x", tokens)
        os._exit(0)
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    replaying = int((tmp_path / "pid").read_text())
    os.kill(asking, signal.SIGKILL)
    os.waitpid(asking, 0)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{replaying}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{replaying}").exists()


def test_tokens_that_are_missing_stop_it(tmp_path):
    with pytest.raises(UserError, match=r"tokens\.json"):
        replay_cell(cell(), "x", tmp_path)


def test_it_waits_for_a_run_on_the_same_devices(tokens, instead, capfd):
    instead(lambda plan, limit: {})
    done = threading.Event()

    def ask():
        replay_cell(cell(), "x", tokens)
        done.set()

    with hold_devices(devices_of(cell(), []), "x ddp-n1x1/rep1"):
        thread = threading.Thread(target=ask)
        thread.start()
        assert not done.wait(1.5)
    thread.join(60)
    assert done.is_set()
    assert "waiting for x ddp-n1x1/rep1" in capfd.readouterr().err
