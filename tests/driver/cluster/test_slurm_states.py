"""What Slurm says of jobs: of those in the queue, of those that it has forgotten, and of those that failed."""

import pytest

from scaleproof.driver.cluster import slurm as slurm_module
from scaleproof.driver.cluster.queue import Queue
from scaleproof.driver.cluster.scheduler import Submission
from scaleproof.driver.cluster.slurm import Slurm, describe_state, state_of


def job_states(jobs):
    return Slurm(dict).states(jobs)


HEADING = "JOBID|STATE|EXEC_HOST|NODELIST|REASON\n"


@pytest.fixture
def slurm(monkeypatch):
    """What its commands print; nothing where they fail."""
    answers = {"squeue": "", "sacct": ""}
    monkeypatch.setattr(slurm_module, "run_command", lambda *command: answers[command[0]])
    return answers


def test_nothing_is_known_while_the_controller_is_away(slurm):
    assert job_states({"7"}) is None


def test_every_job_has_a_state(slurm):
    slurm["squeue"] = (
        HEADING + "7|RUNNING|n1|n1|None\n27_1|PENDING|n/a||JobArrayTaskLimit\n27_2|PENDING|n/a||PartitionTimeLimit"
    )
    states = job_states({"7", "27_1", "27_2"})
    assert {job: state.name for job, state in states.items()} == {"7": "RUNNING", "27_1": "PENDING", "27_2": "PENDING"}
    answers = [(states[job].reason, states[job].for_ever) for job in ("7", "27_1", "27_2")]
    assert answers == [("", False), ("", False), ("PartitionTimeLimit", True)]


@pytest.mark.parametrize(
    ("reason", "for_ever"),
    [
        ("QOSMaxMemoryPerJob", True),
        ("AssocMaxWallDurationPerJobLimit", True),
        ("BadConstraints", True),
        ("DependencyNeverSatisfied", True),
        ("ReservationDeleted", True),
        ("QOSMaxGRESPerNode", True),
        ("Job's account not permitted to use this partition (a100 allows others not mine)", True),
        ("Licenses", False),
        ("BeginTime", False),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("AssocGrpCpuLimit", False),
        ("JobHeldUser", False),
        ("ReqNodeNotAvail, UnavailableNodes:n1", False),
    ],
)
def test_a_reason_that_cannot_end_by_itself(reason, for_ever):
    assert state_of("PENDING", reason).for_ever == for_ever


@pytest.mark.fault("the cluster forgets a job before anybody looked", "the accounts say it, or its files decide")
def test_a_job_that_the_cluster_has_forgotten(slurm):
    slurm["squeue"] = HEADING + "8|RUNNING|n1|n1|None"
    assert job_states({"7", "8"})["7"].name == "UNKNOWN"
    slurm["sacct"] = "7|CANCELLED by 1000"
    assert job_states({"7", "8"})["7"].name == "CANCELLED"


@pytest.mark.fault("a waiting task of a job array is cancelled by hand", "it is not sent again")
def test_a_cancelled_task_of_which_slurm_keeps_nothing(slurm, monkeypatch, tmp_path):
    monkeypatch.setattr(slurm_module, "run_scheduler_command", lambda command, environment: (0, "27", ""))
    (tmp_path / "x.sh").touch()
    scheduler = Slurm(dict)
    array = Submission("scaleproof-train", tmp_path / "x.sh", tmp_path / "x.log", tmp_path, {}, tasks=3)
    assert scheduler.submit(array) == "27"
    slurm["squeue"] = HEADING + "27_2|PENDING|n/a||BeginTime\n27_3|RUNNING|n1|n1|None"
    assert scheduler.states({"27_1", "27_3"})["27_1"].phase == "cancelled"
    assert job_states({"27_1"})["27_1"].phase == "unknown", "another snakemake has sent it"
    slurm["squeue"] = HEADING + "27_2|PENDING|n/a||BeginTime"
    assert scheduler.states({"27_3"})["27_3"].phase == "unknown", "it was running"
    monkeypatch.setattr(slurm_module, "CONTROLLER_MEMORY_S", 0)
    assert scheduler.states({"27_1"})["27_1"].phase == "unknown", "it may have run since the last look"


def test_an_empty_queue_is_an_answer(slurm):
    slurm["squeue"] = HEADING.strip()
    assert job_states({"7"})["7"].name == "UNKNOWN"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (("FAILED", "n1", "NonZeroExitCode", "1:0"), "FAILED on n1, NonZeroExitCode, exit code 1"),
        (("FAILED", "", "JobLaunchFailure", "0:1"), "FAILED, JobLaunchFailure, signal 1"),
        (("TIMEOUT", "n[1-2]", "TimeLimit", "0:0"), "TIMEOUT on n[1-2], TimeLimit, limit 00:01:00"),
        (("CANCELLED", "n1", "None", "0:0"), "CANCELLED on n1"),
        (("OUT_OF_MEMORY", "n1", "OutOfMemory", "0:125"), "OUT_OF_MEMORY on n1, OutOfMemory, signal 125"),
    ],
)
def test_the_words(facts, words):
    given = dict(zip(("JobState", "NodeList", "Reason", "ExitCode"), facts, strict=True)) | {"TimeLimit": "00:01:00"}
    assert describe_state(given) == words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("Building DAG\nOSError: [Errno 30] Read-only file system: '/home/a'\n", "; OSError: [Errno 30] Read-only"),
        ("WorkflowError:\nAt least one job failed\nError in rule train:\n", ""),
        ("slurmstepd: error: Exceeded job memory limit\nValueError: x\n", "; Exceeded job memory limit"),
    ],
)
@pytest.mark.fault("Snakemake does not start on a node: its home cannot be written", "the console has the error")
def test_the_last_error_of_a_job_s_log_is_said(monkeypatch, tmp_path, log, words):
    monkeypatch.setattr(slurm_module, "describe_job", lambda job, patience: {"JobState": "FAILED", "NodeList": "n1"})
    (tmp_path / "job.log").write_text(log)
    end = Slurm(dict).end_of("7", state_of("FAILED"), tmp_path / "job.log")
    assert end.words.startswith(f"FAILED on n1{words}")
    assert bool(end.advice) == ("memory" in words)


@pytest.mark.parametrize(
    ("seconds", "nodes", "started", "by_hand"),
    [(0, "n1", False, False), (0, "n1", True, True), (9, "n1", False, True), (0, "", False, True)],
)
@pytest.mark.fault("a node cannot start a job's script", "it is sent again, and the node counts as one that fails")
def test_a_job_that_its_node_did_not_start_was_not_cancelled_by_hand(
    monkeypatch, tmp_path, seconds, nodes, started, by_hand
):
    facts = {"JobState": "CANCELLED", "NodeList": nodes, "RunTime": f"00:00:0{seconds}"}
    monkeypatch.setattr(slurm_module, "describe_job", lambda job, patience: facts)
    if started:
        (tmp_path / "job.log").touch()
    end = Slurm(dict).end_of("7", state_of("CANCELLED"), tmp_path / "job.log")
    assert (end.by_hand, end.unstarted) == (by_hand, not by_hand)
    assert ("did not start" in end.words) == (not by_hand)


@pytest.mark.fault("the first node of a run is gone, and nobody on the others notices", "its job is ended, sent again")
def test_a_job_without_its_first_node_is_ended(slurm, monkeypatch):
    commands = []
    monkeypatch.setattr(slurm_module, "run_command", lambda *command: commands.append(command) or slurm[command[0]])
    monkeypatch.setattr(slurm_module, "expand_node_list", lambda nodes: {"n[1-2]": ["n1", "n2"]}.get(nodes, [nodes]))
    slurm["scancel"] = ""
    scheduler = Slurm(dict)
    phases = []
    for nodes in ("n[1-2]", "n1", "n2"):  # whole; without the second node, which is a row; without the first
        slurm["squeue"] = HEADING + f"7|RUNNING|n1|{nodes}|None"
        phases.append(scheduler.states({"7"})["7"].phase)
    assert phases == ["running", "running", "failed"]
    assert commands[-1] == ("scancel", "7")


def test_a_blank_line_of_a_queue_is_no_job():
    queue = Queue("true", r"printf '\n\n7 running\n'; true", "true", dict)
    assert queue.states({"7"})["7"].phase == "running"
