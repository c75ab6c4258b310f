"""Publishing: a run is there as a whole or not at all."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from patience import HANGS
from synthetic import cells, write_run

from scaleproof.ground.errors import UserError
from scaleproof.ground.records.run import read_run
from scaleproof.measure.launch import run as launch
from scaleproof.measure.launch.attempt import begin_attempt
from scaleproof.measure.launch.supervise import Interrupted
from scaleproof.measure.machine import allocation as slurm
from scaleproof.measure.machine.allocation import Allocation
from scaleproof.measure.machine.network import loopback_problem
from scaleproof.measure.trainer.request import PlannedRun


@pytest.fixture
def cell():
    return cells(workload={"tokenizer": "bpe-512", "seq_len": 32})[0]


@pytest.mark.fault("a run is interrupted", "its folder holds the log only")
def test_an_interrupted_run_publishes_nothing(monkeypatch, tmp_path, tokens, cell):
    def interrupted(*arguments):
        raise Interrupted("stopped by SIGTERM", 143)

    monkeypatch.setattr("scaleproof.measure.launch.attempt.run_supervised", interrupted)
    with pytest.raises(Interrupted):
        launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), tmp_path / "rep1")
    assert [p.name for p in (tmp_path / "rep1").iterdir()] == ["train.log"]
    assert (
        tmp_path / "rep1/train.log"
    ).read_text() == "scaleproof: stopped by SIGTERM; nothing of this run was published\n"


NODE_LOST = ["srun: error: Node failure on n2"]
GIVEN = {"nodelist": "n[1-2]", "nnodes": "2", "elapsed": "00:00:01"}


def in_job(monkeypatch, *hosts: str, devices: int = 0) -> None:
    """As inside of Slurm job 5 with these nodes, of which Slurm says later that n1 alone is left."""
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setattr(launch, "current_allocation", lambda: Allocation("5", hosts, 2, devices, GIVEN))
    monkeypatch.setattr(
        slurm, "describe_job", lambda job, patience: {"NodeList": "n1", "NumNodes": "1", "RunTime": "00:01:02"}
    )


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: *** STEP 5.2 ON n1 CANCELLED AT 2026-11-22T10:58:57 DUE TO TIME LIMIT ***",
        "srun: error: Unable to create step for job 5: Job/step already completing or completed",
    ],
)
@pytest.mark.fault(
    "Slurm's time limit cuts off a job of several runs",
    "no row for the run that it cut, nor for those that follow: the next job makes them",
    cluster=True,
)
def test_a_run_that_the_end_of_its_job_cuts_off_is_no_failed_run(monkeypatch, tmp_path, tokens, cell, line):
    in_job(monkeypatch, "n1")
    monkeypatch.setattr(
        "scaleproof.measure.launch.attempt.run_supervised", lambda *arguments: launch.CommandOutcome(1, False, [line])
    )
    with pytest.raises(Interrupted, match="left to the next job"):
        launch.run_one_of_several(PlannedRun(cell, "c", tokens, HANGS), tmp_path / "rep1")
    assert not (tmp_path / "rep1/training_metrics.json").exists()
    assert launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), tmp_path / "alone").failure.failure_class == "timeout"


@pytest.mark.parametrize(("state", "ended"), [("COMPLETING", True), ("CANCELLED", True), ("RUNNING", False)])
def test_ranks_that_the_end_of_their_job_reaches_first_have_not_crashed(
    monkeypatch, tmp_path, tokens, cell, state, ended
):
    """On another node they are told to end before the launcher is."""
    in_job(monkeypatch, "n1")
    monkeypatch.setattr(slurm, "describe_job", lambda job, patience: {"JobState": state})
    outcome = launch.CommandOutcome(1, False, ["ConnectionError: closed by peer"])
    monkeypatch.setattr("scaleproof.measure.launch.attempt.run_supervised", lambda *arguments: outcome)
    if ended:
        with pytest.raises(Interrupted, match="the scheduler has ended the job"):
            launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), tmp_path)
        assert not (tmp_path / "training_metrics.json").exists()
        assert "nothing of this run was published" in (tmp_path / "train.log").read_text()
    else:
        assert launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), tmp_path).failure.failure_class == "crash"


WARNED = ["[default0]:window", "W1124 torch/distributed/elastic/agent/server/api.py:753] Received 15 death signal"]


@pytest.mark.parametrize(
    ("elapsed", "log", "kind"),
    [
        ("00:05:50", WARNED, "timeout"),
        ("00:05:50", ["srun: error: n1: task 0: Terminated"], "timeout"),
        ("00:05:50", ["RuntimeError: no"], "crash"),  # by itself, near the end
        ("00:02:00", WARNED, "crash"),  # somebody else has ended it
    ],
)
@pytest.mark.fault(
    "Slurm's time limit is near, whoever has set it", "its steps are told to end: a row `timeout`", cluster=True
)
def test_a_run_that_is_told_to_end_before_slurm_s_limit(monkeypatch, tmp_path, tokens, cell, elapsed, log, kind):
    in_job(monkeypatch, "n1")
    facts = {"JobState": "RUNNING", "TimeLimit": "00:07:00", "RunTime": elapsed}
    monkeypatch.setattr(slurm, "describe_job", lambda job, patience: facts)
    outcome = launch.CommandOutcome(1, False, log)
    monkeypatch.setattr("scaleproof.measure.launch.attempt.run_supervised", lambda *arguments: outcome)
    assert launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), tmp_path).failure.failure_class == kind


@pytest.mark.fault(
    "a node is lost in a job of several runs", "a row for this run; the others are left to the next job", cluster=True
)
def test_after_a_lost_node_the_runs_that_follow_are_left_to_the_next_job(monkeypatch, tmp_path, tokens):
    """They would be made on what is left, or be called not applicable."""
    two = cells(workload={"tokenizer": "bpe-512", "seq_len": 32}, vary={"geometry": ["2x1"]})[0]
    in_job(monkeypatch, "n1", "n2")
    monkeypatch.setattr(
        "scaleproof.measure.launch.attempt.run_supervised",
        lambda *arguments: launch.CommandOutcome(1, False, NODE_LOST),
    )
    with pytest.raises(Interrupted, match="node n2 was lost during the run; the runs that follow"):
        launch.run_one_of_several(PlannedRun(two, "c", tokens, HANGS), tmp_path)
    found = read_run(tmp_path).metrics
    assert found.failure.failure_class == "node_fail"
    assert found.scheduler["nodelist"] == "n[1-2]", "as it was when the run began"
    assert found.scheduler["elapsed"] == "00:01:02"


@pytest.mark.fault("fewer nodes in the job than the cell has", "a row `wrong_world`", cluster=True)
def test_a_job_with_fewer_nodes_than_the_cell_is_the_wrong_world(monkeypatch, tmp_path, tokens):
    two = cells(workload={"tokenizer": "bpe-512", "seq_len": 32}, vary={"geometry": ["2x1"]})[0]
    in_job(monkeypatch, "n1")
    failure = launch.run_cell(PlannedRun(two, "c", tokens, HANGS), tmp_path).failure
    assert (failure.failure_class, failure.reason) == ("wrong_world", "2 nodes were asked for, job 5 has 1: n1")


@pytest.mark.fault(
    "a GPU that Slurm gave does not answer", "a row `wrong_world`; it is not measured on the CPU", cluster=True
)
def test_devices_that_were_given_and_do_not_answer_are_the_wrong_world(monkeypatch, tmp_path, tokens, cell):
    """`device: auto` would make the run on the CPU."""
    in_job(monkeypatch, "n1", devices=1)
    monkeypatch.setattr(launch, "torch_has_cuda", lambda: True)
    failure = launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), tmp_path).failure
    assert failure.failure_class == "wrong_world"
    assert failure.reason.startswith("1 devices were asked for on each node")


def test_a_new_attempt_clears_what_an_old_one_left(monkeypatch, tmp_path, tokens, cell):
    out = tmp_path / "rep1"
    (out / ".attempt-old").mkdir(parents=True)
    for name in ("training_metrics.json", "RUN_COMPLETE.txt", "train.log"):
        (out / name).write_text("old")
    monkeypatch.setattr(
        "scaleproof.measure.launch.attempt.run_supervised",
        lambda *arguments: launch.CommandOutcome(7, False, ["last words"]),
    )
    metrics = launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), out)
    assert metrics.failure.reason == "the ranks ended with exit code 7"
    assert metrics.failure.log_tail == ["last words"]
    left = {p.name for p in out.iterdir()}
    assert left == {"training_metrics.json", "steps.csv", "launcher_metadata.json", "train.log"}
    assert "old" not in (out / "training_metrics.json").read_text()[:10]


@pytest.mark.fault("the run's folder is taken away during the run", "nothing is published")
def test_an_attempt_whose_folder_was_taken_away_cannot_publish(monkeypatch, tmp_path, tokens, cell):
    """A launcher that was given up on, and comes to its end later than the one that replaced it."""
    out = tmp_path / "rep1"

    def replaced(*arguments):
        begin_attempt(out, "the-next-attempt", [])
        return launch.CommandOutcome(0, False, [])

    monkeypatch.setattr("scaleproof.measure.launch.attempt.run_supervised", replaced)
    with pytest.raises(FileNotFoundError):
        launch.run_cell(PlannedRun(cell, "c", tokens, HANGS), out)
    assert [p.name for p in out.iterdir()] == [".attempt-the-next-attempt"]


@pytest.mark.fault("too few tokens for the run", "said before anything starts")
def test_too_few_tokens_are_said_before_anything_starts(tmp_path, tokens):
    large = cells(workload={"tokenizer": "bpe-512", "seq_len": 1024}, work={"global_batch": 4096})[0]
    with pytest.raises(UserError, match="fewer than one global batch of 4096"):
        launch.run_cell(PlannedRun(large, "c", tokens, HANGS), tmp_path / "rep1")


def test_world_size_in_what_is_published_counts_ranks(tmp_path):
    """nn.DataParallel: two devices, one rank."""
    dp = cells(execution={"strategy": "dp", "device": "cuda"}, vary={"geometry": ["1x2"]})[0]
    run = write_run(tmp_path / "attempt", dp)
    launch._publish_run(SimpleNamespace(cell=dp), run.metrics, None, run.folder, tmp_path)
    assert " world_size=1 " in (tmp_path / "RUN_COMPLETE.txt").read_text()
    assert json.loads((tmp_path / "launcher_metadata.json").read_text())["world_size"] == 1
    assert (dp.world_size, dp.batch.n_devices) == (1, 2)


@pytest.mark.fault("the loopback interface is down", "said at once, before ranks start")
def test_without_a_loopback_interface_nothing_starts(monkeypatch, tmp_path, tokens):
    """Ranks would look for each other for two minutes, and say nothing of the network."""
    two = cells(workload={"tokenizer": "bpe-512", "seq_len": 32}, vary={"geometry": ["1x2"]})[0]
    monkeypatch.setattr(launch, "loopback_problem", lambda: "127.0.0.1 cannot be reached")
    with pytest.raises(UserError, match=r"2 ranks cannot meet: 127\.0\.0\.1 cannot be reached"):
        launch.run_cell(PlannedRun(two, "c", tokens, HANGS), tmp_path / "rep1")
    assert not (tmp_path / "rep1/training_metrics.json").exists()


def test_a_loopback_interface_that_is_down_is_noticed():
    assert loopback_problem() is None
    code = "from scaleproof.measure.machine.network import loopback_problem; print(loopback_problem())"
    done = subprocess.run(["unshare", "--net", sys.executable, "-c", code], capture_output=True, text=True)
    if "unshare" in done.stderr:
        pytest.skip("this machine gives no network namespaces")
    assert "127.0.0.1 cannot be reached" in done.stdout
