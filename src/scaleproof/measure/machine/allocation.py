"""The Slurm allocation that this process is in: its nodes, its state, its steps, and what Slurm says about failures."""

import getpass
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scaleproof.ground.errors import UserError
from scaleproof.ground.records.run_sections import FailureClass

PATIENCE = (0, 2, 5, 10, 20)  # seconds before each try: a controller that restarts is back by then
# What the record says about the job: name -> Slurm's.
RECORDED = {
    "state": "JobState",
    "reason": "Reason",
    "nodelist": "NodeList",
    "nnodes": "NumNodes",
    "partition": "Partition",
    "elapsed": "RunTime",
    "time_limit": "TimeLimit",
    "tres": "TRES",
    "restarts": "Restarts",
    "qos": "QOS",
    "features": "Features",
}
NO_SUCH_JOB = "Invalid job id"  # Slurm's words on a job that it does not know, or no longer
ANSWER_S = 20  # by then a controller has told its configuration
SLURMD_PORT = 6818  # Slurm's default
RUNNING = "RUNNING"  # the state of a job whose batch script is running
AT_END = ("state", "reason", "elapsed")  # RECORDED when the run ends; everything else is recorded when it begins
# Variables of a job that its ranks get; from any other variable srun would take options.
KEPT = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_CONF")
VARIABLES = {
    "job_id": "SLURM_JOB_ID",
    "nodelist": "SLURM_JOB_NODELIST",
    "nnodes": "SLURM_NNODES",
    "procid": "SLURM_PROCID",
    "localid": "SLURM_LOCALID",
    "partition": "SLURM_JOB_PARTITION",
}
OF_QUEUES = {
    "pbs": "PBS_JOBID",
    "lsf": "LSB_JOBID",
    "kubernetes": "KUBERNETES_JOB",
}  # queue -> variable of the job's id
MEMORY = "it took more memory than it had asked for (resources.memory_per_device)"
TIME_OVER = "Slurm's time limit came before the campaign's"
JOB_OVER = "the job was over before the run began"
LOST_FIRST_NODE = "scaleproof-lost-first-node"  # the comment of a job that ends itself, which nobody has cancelled
# Seconds before its time limit when a job's steps are told to end, or up to a minute more: results can be written.
WARNING_S = 20
TERMINATED = re.compile(r"Received 15 death signal|error: \S+: tasks? \S+: Terminated")  # as torchrun and srun say it
# What srun and slurmstepd print when Slurm itself ends a run.
VERDICTS: tuple[tuple[str, FailureClass, str], ...] = (
    (r"Node failure on (\S+)", "node_fail", "node {0} was lost during the run"),
    (r"NODE FAILURE", "node_fail", "a node was lost during the run"),
    (r"srun: error: (\S+): tasks? \S+: Out Of Memory", "host_oom", f"Slurm killed the run on {{0}}: {MEMORY}"),
    (r"[Dd]etected \d+ oom[-_]kill event", "host_oom", f"Slurm killed the run: {MEMORY}"),
    (r"exceeded (?:job |step )?memory limit", "host_oom", f"Slurm killed the run: {MEMORY}"),
    (r"DUE TO TIME LIMIT", "timeout", TIME_OVER),
    (r"Job/step already completing or completed", "timeout", JOB_OVER),
)


@dataclass(frozen=True)
class Allocation:
    """The nodes that Slurm has given to this job."""

    job: str  # its id, as `job_id` makes it
    hosts: tuple[str, ...]
    cores_per_node: int
    devices_per_node: int = 0  # GPUs that the job asked for
    recorded: dict[str, str] = field(default_factory=dict)  # what the record repeats of Slurm's description of the job

    @property
    def known_at_start(self) -> dict[str, str]:
        """The part of the record `scheduler` that is known before the run."""
        return {name: value for name, value in self.recorded.items() if name not in AT_END}


def current_allocation() -> Allocation | None:
    """Return the Slurm allocation of this process, None outside of an allocation. Raises UserError if Slurm is silent.

    Of the environment only SLURM_JOB_ID is used: a job that was submitted from within a task of an array has that
    task's SLURM_ARRAY_JOB_ID and SLURM_ARRAY_TASK_ID.
    """
    number = os.environ.get("SLURM_JOB_ID")
    if not number or shutil.which("srun") is None:
        return None
    facts = describe_job(number)
    if not facts:
        raise UserError(
            f"Slurm does not answer about job {number}, which this process is in: try `scontrol show job {number}`, "
            "or unset SLURM_JOB_ID where it is left over from another shell"
        )
    hosts = expand_node_list(facts["NodeList"])
    gpu_count = re.search(r"\bgpu(?::[^:,=()]+)?[:=](\d+)", facts.get("TresPerNode", ""))  # "gres/gpu:h100:4"

    return Allocation(
        job=job_id(facts),
        hosts=tuple(hosts),
        cores_per_node=max(1, int(facts["NumCPUs"]) // len(hosts)),
        devices_per_node=int(gpu_count[1]) if gpu_count else 0,
        recorded=_recorded_facts(facts),
    )


def shared_nodes_job() -> str | None:
    """Return the id of this process' job if other jobs may use its nodes too. Returns None if not, or if unknown."""
    number = os.environ.get("SLURM_JOB_ID")
    facts = describe_job(number, patience=(0,)) if number else {}
    return job_id(facts) if facts.get("OverSubscribe", "NO") != "NO" else None


def without_job(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without the job's variables, from which srun would take options, but with those in KEPT."""
    of_slurm = ("SLURM_", "SRUN_", "SBATCH_")
    return {name: value for name, value in environment.items() if name in KEPT or not name.startswith(of_slurm)}


def scheduler_record(known: Mapping[str, str]) -> dict[str, str] | None:
    """Return the record `scheduler` of this process' job, None outside of a job. `known`: what Slurm says of it."""
    record = {name: os.environ[variable] for name, variable in VARIABLES.items() if os.environ.get(variable)}
    if record or known:
        return {"type": "slurm", **record, **known}
    for kind, variable in OF_QUEUES.items():
        if number := os.environ.get(variable):
            return {"type": kind, "job_id": number}
    return None


def cancel_own_job() -> None:
    """Cancel the job of this process, and no other task of its array, if Slurm answers."""
    if facts := describe_job(os.environ.get("SLURM_JOB_ID", "")):
        run_command("scontrol", "update", f"JobId={job_id(facts)}", f"Comment={LOST_FIRST_NODE}")
        run_command("scancel", job_id(facts))


def job_id(facts: Mapping[str, str]) -> str:
    """Return the id of a job as every Slurm command takes it: "25", or "25_2" for a task of an array.

    `facts`: what `scontrol show job` prints, name -> value. Its JobId will not do: the last task of an array has the
    array's id, which means all tasks.
    """
    array, task = facts.get("ArrayJobId"), facts.get("ArrayTaskId", "")
    return f"{array}_{task}" if array and task.isdigit() else facts.get("JobId", "")


def describe_job(job: str, patience: Sequence[float] = PATIENCE) -> dict[str, str]:
    """Return Slurm's description of a job ("25", or "25_2"): name -> value. Returns {} if Slurm is silent.

    `patience`: the seconds to wait before each try.
    """
    for seconds in patience:
        time.sleep(seconds)
        text, errors = _answer("scontrol", "show", "job", "--oneliner", job)
        # There is a line for each task of an array, or for each component of a heterogeneous job.
        for line in text.splitlines():
            facts = dict(re.findall(r"(\S+?)=(\S*)", line))
            if job in (facts.get("JobId"), job_id(facts)):
                return facts
        if NO_SUCH_JOB in errors:  # an answer: it has ended long ago
            break
    return {}


def expand_node_list(nodelist: str) -> list[str]:
    """Return the names in a list of nodes as Slurm writes it: n[1-2] -> n1, n2. [] for a job without nodes."""
    if not nodelist or nodelist.startswith("("):  # (null), or the reason of a job that has never started
        return []
    if "[" not in nodelist:
        return nodelist.split(",")
    return run_command("scontrol", "show", "hostnames", nodelist).split()


def ask_for_table(*command: str, columns: Sequence[str]) -> list[list[str]]:
    """Return the cells of each row that squeue or sinfo prints. `columns`: as in their --format."""
    text = run_command(*command, "--noheader", f"--format={'|'.join(columns)}")
    n_separators = len(columns) - 1  # a row may have more: the last cell may be a text with separators
    return [line.split("|", n_separators) for line in text.splitlines() if line.count("|") >= n_separators]


def ask_how_job_ended(job: str) -> dict[str, str]:
    """Return a job's elapsed time, state and reason, as the record has them: name -> value. {} if Slurm is silent.

    A job that is still RUNNING has no state and no reason. All else is recorded at the start, because Slurm no longer
    names a node that the job has lost.
    """
    facts = _recorded_facts(describe_job(job, patience=(0,)))
    return {name: value for name, value in facts.items() if name in AT_END}


def ask_why_run_was_ended(job: str, lines: Sequence[str]) -> str | None:
    """Return why a job ended a run: TIME_OVER at the job's limit, else the job's final state, None while it goes on.

    `lines`: the run's log, in which torchrun or srun says that it was told to end.
    """
    facts = describe_job(job, patience=(0,))
    state = facts.get("JobState", RUNNING)
    if state != RUNNING:
        return state
    left_s = 60 * (limit_minutes(facts.get("TimeLimit", "")) - limit_minutes(facts.get("RunTime", "0")))
    was_told_to_end = TERMINATED.search("\n".join(lines))
    return TIME_OVER if was_told_to_end and left_s <= WARNING_S + 60 else None


def _recorded_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Return what the record repeats of Slurm's description `facts` of a job: name -> value, without user and paths.

    A job that is RUNNING has no state in the record, which is sealed before the job ends: its end is in jobs.jsonl.
    """
    if not facts:
        return {}
    left_out = ("state", "reason") if facts.get("JobState") == RUNNING else ()
    record = {"job_id": job_id(facts)}
    for name, field_of_slurm in RECORDED.items():
        value = facts.get(field_of_slurm, "(null)")
        if name not in left_out and value != "(null)":
            record[name] = value
    return record


def ask_slurm_config() -> dict[str, str]:
    """Return the output of `scontrol show config` as name -> value, {} if Slurm is missing or silent."""
    lines = run_command("scontrol", "show", "config", timeout_s=ANSWER_S)
    return dict(re.findall(r"^(\S+)\s*=\s*(.*?)\s*$", lines, re.MULTILINE))


def ask_daemon_port() -> int:
    """Return the port on which each node's Slurm daemon listens."""
    port = re.match(r"\d+", ask_slurm_config().get("SlurmdPort", ""))
    return int(port[0]) if port else SLURMD_PORT


def limit_minutes(limit: str) -> float:
    """Return a time limit of Slurm (`30:00`, `2:00:00`, `1-12:00:00`) in minutes, infinity where there is none."""
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", limit.strip()):
        return float("inf")  # infinite, UNLIMITED, n/a
    days, _, clock = limit.strip().rpartition("-")
    numbers = [int(number) for number in clock.split(":")]
    if not days and len(numbers) < 3:  # minutes[:seconds]; others are [days-]hours[:minutes[:seconds]]
        numbers.insert(0, 0)
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    return 1440 * int(days or 0) + 60 * hours + minutes + seconds / 60


def ask_submit_limit(account: str, qos: str = "", partition: str = "") -> int | None:
    """Return how many jobs the user may have queued, None where no limit is set.

    It is the least of three limits: of their association with `account` ("": any account), of `qos` ("": their default
    QOS), and of the partition's QOS.
    """
    show = ("sacctmgr", "--noheader", "--parsable2", "show")
    associations = [f"users={getpass.getuser()}"]
    if account:
        associations.append(f"accounts={account}")
    limits: list[str] = []
    qos_names: set[str] = set()
    for line in run_command(*show, "associations", *associations, "format=maxsubmitjobs,defaultqos").splitlines():
        limit, _, default_qos = line.partition("|")
        limits.append(limit)
        qos_names.add(qos or default_qos)

    if partition_qos := re.search(r"\bQoS=(\S+)", run_command("scontrol", "show", "partition", partition)):
        qos_names.add(partition_qos[1])
    qos_names -= {"", "N/A"}
    if qos_names:
        limits += run_command(*show, "qos", ",".join(sorted(qos_names)), "format=maxsubmitjobsperuser").splitlines()
    numbers = [int(limit) for limit in limits if limit.strip().isdigit()]
    return min(numbers) if numbers else None


def signal_steps(job: str, name: str) -> None:
    """Send the signal `name` ("USR1") to all processes of a job's running srun steps, on all nodes."""
    for step in run_command("squeue", "--noheader", "--steps", "--jobs", job, "--format", "%i").split():
        if step.rpartition(".")[2].isdigit():  # "25.0"; "25.batch" is the batch script
            run_command("scancel", f"--signal={name}", step)


def find_scheduler_failure(lines: Sequence[str]) -> tuple[FailureClass, str] | None:
    """Return class and reason of a run's failure, if its output (`lines`) says that Slurm ended it, else None."""
    for pattern, failure_class, reason in VERDICTS:  # the first pattern that any line matches decides
        for line in lines:
            if match := re.search(pattern, line):
                return failure_class, reason.format(*(group.strip(",:;") for group in match.groups()))
    return None


def run_command(*command: str, timeout_s: int = 60) -> str:
    """Return the output of a command, "" where it fails or does not end within `timeout_s`."""
    return _answer(*command, timeout_s=timeout_s)[0]


def _answer(*command: str, timeout_s: int = 60) -> tuple[str, str]:
    """Return the output of a command as `run_command` does, and its errors."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    return answer.stdout.strip() if answer.returncode == 0 else "", answer.stderr
