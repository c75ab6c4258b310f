"""Which job is this process in? In the words of Slurm 22.05 about an array, one job, and one of several components."""

import pytest

from scaleproof.measure.machine import allocation as slurm
from scaleproof.measure.machine.provenance import provenance_fields

REST = (
    "JobName=wrap UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901758 Nice=0 Account=(null) QOS=(null) "
    "JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 "
    "RunTime=00:00:04 TimeLimit=00:10:00 TimeMin=N/A SubmitTime=2026-11-23T10:34:37 EligibleTime=2026-11-23T10:34:38 "
    "AccrueTime=Unknown StartTime=2026-11-23T10:34:38 EndTime=2026-11-23T10:44:38 Deadline=N/A "
    "SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-23T10:34:38 Scheduler=Main Partition=gpu "
    "AllocNode:Sid=login:0 ReqNodeList=(null) ExcNodeList=(null) NodeList={0} BatchHost={0} NumNodes=1 NumCPUs=8 "
    "NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=8,mem=4000M,node=1,billing=8 Socks/Node=* "
    "NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=1 MinMemoryCPU=500M MinTmpDiskNode=0 Features=(null) "
    "DelayBoot=00:00:00 OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null) Command=(null) "
    "WorkDir=/home/x/bench StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power= "
)
TASKS = (  # of an array of two, the last one first, as Slurm prints them for `scontrol show job 4`
    "JobId=4 ArrayJobId=4 ArrayTaskId=2 " + REST.format("n2"),
    "JobId=5 ArrayJobId=4 ArrayTaskId=1 " + REST.format("n1"),
)
WAITING = "JobId=4 ArrayJobId=4 ArrayTaskId=2-3%1 " + REST.format("n2")  # before its last task has started
COMPONENTS = tuple(
    f"JobId={8 + offset} HetJobId=8 HetJobOffset={offset} " + REST.format(f"n{offset + 1}") for offset in (0, 1)
)
SAID = {
    "4": "\n".join(TASKS),
    "5": TASKS[1],
    "4_1": TASKS[1],
    "4_2": TASKS[0],
    "7": "JobId=7 " + REST.format("n1"),
    "8": "\n".join(COMPONENTS),
}


NO_SUCH_JOB = "slurm_load_jobs error: Invalid job id specified"


@pytest.fixture
def asked(monkeypatch):
    """Commands that were given, but for the question after a job."""
    given = []

    def run_command(*command):
        if command[:3] == ("scontrol", "show", "job"):
            return SAID.get(command[-1], "")
        given.append(command)
        return "4_2.0\n4_2.batch" if command[0] == "squeue" else ""

    monkeypatch.setattr(slurm, "run_command", run_command)
    monkeypatch.setattr(slurm, "_answer", lambda *command, **_: (run_command(*command), NO_SUCH_JOB))
    monkeypatch.setattr(slurm.shutil, "which", lambda name: name)
    for name in ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    return given


@pytest.mark.parametrize(
    ("number", "name", "node"), [("4", "4_2", "n2"), ("5", "4_1", "n1"), ("7", "7", "n1"), ("8", "8", "n1")]
)
def test_a_job_knows_its_own_node_and_name(monkeypatch, asked, number, name, node):
    monkeypatch.setenv("SLURM_JOB_ID", number)
    own = slurm.current_allocation()
    assert (own.job, own.hosts) == (name, (node,))
    assert own.recorded["job_id"] == name
    assert own.recorded["nodelist"] == node
    assert provenance_fields("x", own.known_at_start)["scheduler"]["job_id"] == name


@pytest.mark.parametrize(
    ("state", "recorded"),
    [
        ("RUNNING", {"elapsed": "00:01:02"}),
        ("COMPLETING", {"elapsed": "00:01:02", "state": "COMPLETING", "reason": "None"}),
    ],
)
def test_a_job_that_goes_on_has_no_state_in_the_record(monkeypatch, state, recorded):
    monkeypatch.setattr(
        slurm, "_answer", lambda *command: (f"JobId=7 JobState={state} Reason=None RunTime=00:01:02 NodeList=n1", "")
    )
    assert slurm.ask_how_job_ended("7") == recorded


def test_the_number_of_an_outer_job_s_array_is_not_believed(monkeypatch, asked):
    """A job that a task of an array has submitted inherits these two; `scancel` of it would end that task."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    assert slurm.current_allocation().job == "7"
    slurm.cancel_own_job()
    mark = "Comment=scaleproof-lost-first-node"  # by which the driver knows that nobody has cancelled it by hand
    assert asked == [("scontrol", "update", "JobId=7", mark), ("scancel", "7")]


def test_a_task_ends_and_signals_itself_alone(monkeypatch, asked):
    monkeypatch.setenv("SLURM_JOB_ID", "4")
    slurm.cancel_own_job()
    assert asked.pop() == ("scancel", "4_2")
    asked.clear()
    slurm.signal_steps(slurm.current_allocation().job, "USR1")
    assert asked[0][asked[0].index("--jobs") + 1] == "4_2"
    assert asked[1:] == [("scancel", "--signal=USR1", "4_2.0")]


@pytest.mark.parametrize(
    ("errors", "tries"), [(NO_SUCH_JOB, 1), ("Unable to contact slurm controller", len(slurm.PATIENCE))]
)
def test_a_job_that_slurm_does_not_know_is_not_waited_for(monkeypatch, errors, tries):
    waited = []
    monkeypatch.setattr(slurm.time, "sleep", waited.append)
    monkeypatch.setattr(slurm, "_answer", lambda *command: ("", errors))
    assert slurm.describe_job("99") == {}
    assert len(waited) == tries


def test_without_an_answer_nothing_is_ended(monkeypatch, asked):
    monkeypatch.setattr(slurm.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("SLURM_JOB_ID", "99")
    slurm.cancel_own_job()
    assert asked == []


@pytest.mark.parametrize(("job", "node"), [("4_1", "n1"), ("4_2", "n2"), ("5", "n1"), ("4", "n2")])
def test_a_job_is_described_by_its_own_line(asked, job, node):
    assert slurm.describe_job(job, patience=(0,))["NodeList"] == node


def test_what_waits_in_an_array_is_no_task(monkeypatch, asked):
    monkeypatch.setitem(SAID, "4", "\n".join([WAITING, TASKS[1]]))
    assert slurm.job_id(slurm.describe_job("4", patience=(0,))) == "4"


def test_a_job_that_shares_its_nodes_knows_it(monkeypatch, asked):
    monkeypatch.setitem(
        SAID, "9", SAID["7"].replace("JobId=7", "JobId=9").replace("OverSubscribe=NO", "OverSubscribe=OK")
    )
    for number, job in (("7", None), ("9", "9"), ("99", None), ("", None)):
        monkeypatch.setenv("SLURM_JOB_ID", number)
        assert slurm.shared_nodes_job() == job
