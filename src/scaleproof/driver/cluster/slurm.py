"""Slurm: how a job is sent, how it is, and how it has ended, in Slurm's own words."""

import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from scaleproof.driver.cluster.scheduler import (
    NO_ANSWER,
    NOT_STARTED,
    JobEnd,
    JobState,
    Phase,
    Refused,
    SoundJob,
    Submission,
    run_scheduler_command,
)
from scaleproof.ground.files import write_atomic
from scaleproof.measure.machine.allocation import (
    LOST_FIRST_NODE,
    WARNING_S,
    ask_for_table,
    describe_job,
    expand_node_list,
    run_command,
)

JOB_PREFIX = "scaleproof-"  # with which the names of jobs begin
DONE = "COMPLETED"
FAILED = (
    *("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
ORDINARY = ("None", "Priority", "Resources", "Dependency", "JobArrayTaskLimit")  # reasons for which jobs wait anywhere
# Reasons that last until the job, the partition or a limit is changed.
FOR_EVER = re.compile(
    r"Partition(TimeLimit|NodeLimit|Inactive|Down)|BadConstraints|(Account|QOS)NotAllowed|Invalid(Account|QOS)"
    r"|\w+Per(Job|Node)(Limit)?\b|QOSMin\w+|MaxMemPerLimit|\w*MaxWallDuration\w*|DependencyNeverSatisfied"
    r"|ReservationDeleted|Job's (account|QOS) not permitted|launch failed requeued held"
    r"|ReqNodeNotAvail\b.*(DRAINED|DOWN)"
)
# Words of sbatch on a job that may be taken later: too many jobs, or a controller that does not answer.
TOO_MANY = re.compile(r"job submit limit|MaxSubmit\w*|Invalid job array specification")  # the last: MaxArraySize
AWAY = re.compile(
    r"Unable to contact slurm controller|Socket timed out|temporarily unable|Resource temporarily unavailable"
    r"|Connection refused|Zero Bytes were transmitted"
)
ABSENT = re.compile(r"configuration source|Unable to process configuration file")  # a client without a cluster
MEMORY = (
    "It took more memory than it had asked for. Raise resources.memory_per_device in the campaign, or for a job that "
    "makes tokens `set-resources: {corpus_tokenise: {mem_mb: ...}}` in the profile. "
)
OUT_OF_MEMORY = re.compile(r"exceeded (?:job |step )?memory limit|oom[-_]kill", re.IGNORECASE)
OF_DAEMON = re.compile(
    r"^(?:slurmstepd|slurmd|srun): error: (.*(?:limit|oom|kill|No such file|denied).*)$", re.MULTILINE
)
OF_PYTHON = re.compile(r"^(\w+Error: \S.*)$", re.MULTILINE)  # Snakemake itself may not start on a node
# Resources of a rule, named as Snakemake's own Slurm plugin names them -> options of sbatch.
OPTIONS = {
    "slurm_partition": "partition",
    "slurm_account": "account",
    "constraint": "constraint",
    "qos": "qos",
    "nodes": "nodes",
    "tasks": "ntasks",
    "cpus_per_task": "cpus-per-task",
    "mem_mb": "mem",
    "runtime": "time",
    "gres": "gres",
}
# A node that cannot start a job's script makes Slurm cancel the job, as --no-requeue forbids it to wait for another.
AT_ONCE = ("00:00:00", "00:00:01")
UNSTARTED = "the node did not start its script, and Slurm has cancelled it"
ANSWER_S = 60.0  # a busy controller takes seconds
CONTROLLER_MEMORY_S = 100.0  # a controller surely remembers a job that has ended for so long
CANCELLED_TASK = JobState("CANCELLED", "cancelled", "cancelled before it began")


class Slurm:
    """Sends jobs with sbatch, and asks squeue, sacct and scontrol for their states."""

    name = "Slurm"
    cancel_command = "scancel"

    def __init__(self, environment: Callable[[], Mapping[str, str]]) -> None:
        """Prepare for jobs. `environment` is called for each job, and returns its variables."""
        self._environment = environment
        self._last_shared = ""  # the last job that measures on nodes which others may use, too
        self._nodes: dict[str, str] = {}  # job -> its nodes when it was first seen running
        self._arrays: set[str] = set()  # the numbers of job arrays that were sent
        self._queue_read_at = time.monotonic()

    def why_absent(self) -> str:
        """Return why there is no Slurm here, "" where there is: its commands are missing, or know of no cluster."""
        code, _, errors = run_scheduler_command(["squeue", "--me"], os.environ, ANSWER_S)
        if code == NOT_STARTED:
            return errors
        return join_error_lines(errors) if ABSENT.search(errors) else ""

    def submit(self, job: Submission) -> str:
        """Send a job and return its number, with sbatch's options written into its script. Raises Refused.

        A job that shares nodes waits for the last such job (`shares_nodes` says why).
        """
        shares = shares_nodes(job.resources)
        chain = [f"--dependency=afterany:{self._last_shared}"] if shares and self._last_shared else []
        options = _submit_options(job)
        shell, _, rest = job.script.read_text().partition("\n")  # "#!/bin/bash", and what follows
        lines = [f"#SBATCH {shlex.quote(option)}" for option in options]  # so that it can be sent by hand as well
        write_atomic(job.script, "\n".join([shell, *lines, rest]))
        command = ["sbatch", "--parsable", *options, *chain, str(job.script)]
        code, printed, errors = run_scheduler_command(command, self._environment())
        number = printed.strip().rpartition("\n")[2].partition(";")[0]  # last line: NUMBER or NUMBER;CLUSTER
        if code == 0 and number.isdigit():
            if shares:
                self._last_shared = number
            if job.tasks > 1:
                self._arrays.add(number)
            return number
        words = join_error_lines(errors + printed) or f"sbatch ended with exit code {code}"
        # A limit on the number of jobs passes; the reasons of FOR_EVER do not, though their words may match as well.
        too_many = bool(TOO_MANY.search(words)) and not FOR_EVER.search(words)
        is_away = bool(AWAY.search(words)) or code == NO_ANSWER
        raise Refused(words, passing=too_many or is_away, too_many=too_many)

    def would_take(self, job: Submission) -> bool:
        return why_refused(["sbatch", "--test-only", *_submit_options(job), "--wrap=true"]) is None

    def states(self, jobs: Set[str]) -> dict[str, JobState] | None:
        """Return the state of each of `jobs`. Returns None while the controller does not answer."""
        # The table has a heading, so that an empty queue is an answer, too.
        table = run_command("squeue", "--me", "--states=all", "--array", "--format=%i|%T|%B|%N|%r")
        if not table:
            return None
        unread_s, self._queue_read_at = time.monotonic() - self._queue_read_at, time.monotonic()
        states: dict[str, JobState] = {}
        for line in table.splitlines()[1:]:
            if line.count("|") < 4:  # a site's own line
                continue
            job, name, batch_host, nodes, reason = line.split("|", 4)
            states[job] = state_of(name, reason)
            if job in jobs and name == "RUNNING" and self._has_lost(job, batch_host, nodes):
                run_command("scancel", job)
                states[job] = JobState(LOST_FIRST_NODE, "failed", f"its first node, {batch_host}, was lost")
        missing = jobs - states.keys()
        if unread_s <= CONTROLLER_MEMORY_S:  # else a missing task may have run to its end and been forgotten
            states |= dict.fromkeys(self._cancelled_tasks(missing, states), CANCELLED_TASK)
        if missing:
            states |= states_by_accounting(missing)
        return {job: states.get(job, JobState("UNKNOWN", "unknown")) for job in jobs}

    def why_silent(self) -> str:
        return "squeue prints no table"

    def _cancelled_tasks(self, missing: Set[str], states: Mapping[str, JobState]) -> list[str]:
        """Return array tasks cancelled before their start: Slurm drops them at once, but lists others of the array."""
        arrays = self._arrays & {job.partition("_")[0] for job in states if "_" in job}
        never_ran = missing - self._nodes.keys()
        return [job for job in never_ran if job.partition("_")[0] in arrays]

    def _has_lost(self, job: str, batch_host: str, nodes: str) -> bool:
        """Return whether a running job has lost the node of its script. With --no-kill it would hold the others."""
        # `_nodes` keeps the nodes of the first look: a job whose nodes have not changed has lost none.
        return nodes != self._nodes.setdefault(job, nodes) and batch_host not in expand_node_list(nodes)

    def end_of(self, job: str, state: JobState, log: Path) -> JobEnd:
        """Describe the end of a job by the controller's facts, else by `state`, and by the last error in its log.

        Errors of Slurm's daemons count before errors of Python. A cancelled job was cancelled by hand, unless its node
        did not start it (AT_ONCE), or it ended itself because its first node was lost.
        """
        facts = describe_job(job, patience=(0,)) or {"JobState": state.name}
        text = log.read_text(errors="replace") if log.is_file() else ""
        logged_error = (OF_DAEMON.findall(text) or OF_PYTHON.findall(text) or [""])[-1].strip()
        is_cancelled = state.phase == "cancelled"
        ended_at_once = facts.get("RunTime") in AT_ONCE and bool(facts.get("NodeList"))
        unstarted = is_cancelled and ended_at_once and not log.exists()
        by_hand = is_cancelled and not unstarted and LOST_FIRST_NODE not in facts.get("Comment", "")
        ended_by_others = by_hand or state.name == "PREEMPTED"
        lacked_memory = state.name == "OUT_OF_MEMORY" or OUT_OF_MEMORY.search(logged_error)
        words = [state.reason or describe_state(facts), logged_error, UNSTARTED if unstarted else ""]
        return JobEnd(
            words="; ".join(filter(None, words)),
            kind="" if ended_by_others else describe_state(facts | {"NodeList": ""}),  # whatever its nodes
            nodes=expand_node_list(facts.get("NodeList", "")),
            ended=facts.get("EndTime", ""),
            by_hand=by_hand,
            unstarted=unstarted,
            advice=MEMORY if lacked_memory else "",
        )

    def ended_well(self) -> list[SoundJob]:
        """Return the user's jobs that have ended well and are still in the controller's memory."""
        table = ask_for_table("squeue", "--me", f"--states={DONE}", columns=("%e", "%N", "%i"))
        return [SoundJob(end, expand_node_list(nodes), job) for end, nodes, job in table]

    def cancel(self, jobs: Sequence[str]) -> None:
        run_command("scancel", *jobs)

    def left_in(self, folder: Path) -> list[str]:
        """Return this user's jobs that a Snakemake in `folder` has submitted and that have not ended."""
        table = ask_for_table("squeue", "--me", columns=("%A", "%Z", "%j"))
        own = ((job, place) for job, place, name in table if name.startswith(JOB_PREFIX))
        return [job for job, place in own if Path(place).resolve() == folder.resolve()]


def _submit_options(job: Submission) -> list[str]:
    options = [*sbatch_options(job.resources), f"--job-name={job.name}", f"--output={job.log}"]
    options += [f"--chdir={job.folder}", "--no-requeue", f"--signal=TERM@{WARNING_S}", "--export=ALL"]
    if job.tasks > 1:
        options.append(f"--array=1-{job.tasks}" + ("%1" if shares_nodes(job.resources) else ""))  # %1: one at a time
    if job.excluded:
        options.append(f"--exclude={','.join(sorted(job.excluded))}")
    return options


def shares_nodes(resources: Mapping[str, Any]) -> bool:
    """Return whether a job with these `resources` measures on nodes that it does not have for itself.

    Such jobs run one after the other: side by side they would wait for each other's devices, and use up their time.
    """
    has_whole_nodes = "--exclusive" in shlex.split(str(resources.get("slurm_extra") or ""))
    return "devices_per_node" in resources and not has_whole_nodes  # only jobs that measure have this resource


def sbatch_options(resources: Mapping[str, Any]) -> list[str]:
    """Return the options of sbatch that a rule's resources ask for."""
    options = [f"--{option}={resources[name]}" for name, option in OPTIONS.items() if resources.get(name)]
    return [*options, *shlex.split(str(resources.get("slurm_extra") or ""))]


def state_of(name: str, reason: str = "") -> JobState:
    """Return a job's state from Slurm's `name` for it. The `reason` why it waits is kept unless it is ORDINARY."""
    phases: dict[str, Phase] = {"PENDING": "waiting", DONE: "done", "CANCELLED": "cancelled"}
    phase = phases.get(name, "failed" if name in FAILED else "running")
    notable = reason if phase == "waiting" and reason not in ORDINARY else ""
    return JobState(name, phase, notable, for_ever=bool(FOR_EVER.match(notable)))


def states_by_accounting(jobs: Set[str]) -> dict[str, JobState]:
    """Return job -> state from Slurm's accounting; {} on a cluster without accounting."""
    numbers = f"--jobs={','.join(sorted(jobs))}"
    table = run_command("sacct", "--noheader", "--allocations", "--parsable2", numbers, "--format=JobID,State")
    entries = (line.split("|") for line in table.splitlines())
    return {job: state_of(state.split()[0]) for job, state in entries}  # "CANCELLED by 1000"


def describe_state(facts: Mapping[str, str]) -> str:
    """Describe a job by Slurm's `facts`: "FAILED on n1, NonZeroExitCode, exit code 1"."""
    code, _, signal = facts.get("ExitCode", "").partition(":")
    entries = [
        facts.get("JobState", "no state") + (f" on {facts['NodeList']}" if facts.get("NodeList") else ""),
        facts.get("Reason", "None").replace("None", ""),
        f"limit {facts['TimeLimit']}" if facts.get("JobState") == "TIMEOUT" and facts.get("TimeLimit") else "",
        f"exit code {code}" if code.strip("0") else "",
        f"signal {signal}" if signal.strip("0") else "",
    ]
    return ", ".join(filter(None, entries))


def why_refused(line: Sequence[str]) -> str | None:
    """Return Slurm's reason against the job of an sbatch line with --test-only; None where Slurm would take the job."""
    code, _, errors = run_scheduler_command(line, os.environ, ANSWER_S)
    return (join_error_lines(errors) or f"exit code {code}") if code else None


def join_error_lines(text: str) -> str:
    """Join the error lines of a command of Slurm, without prefixes: "QOS limit; Job violates policy".

    No line is left out, because the site's own explanation often comes first, and a general one last.
    """
    prefix = re.compile(r"^(?:(?:sbatch|scontrol|srun|squeue|allocation failure|error|fatal): )+")
    lines = [prefix.sub("", line.strip()) for line in text.splitlines()]
    return "; ".join(dict.fromkeys(filter(None, lines)))
