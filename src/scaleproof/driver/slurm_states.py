"""How jobs are, in Slurm's words: from squeue, and from sacct for those that the controller has forgotten."""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from scaleproof.measure.machine.slurm import run_command

COMPLETED = "COMPLETED"
UNKNOWN = "UNKNOWN"
FAILED = (
    *("BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
ORDINARY = ("None", "Priority", "Resources")  # reasons for which jobs wait anywhere
MEMORY = (
    "It took more memory than it had asked for. Raise resources.memory_per_device in the campaign, or for a job that "
    "makes tokens `set-resources: {corpus_tokenise: {mem_mb: ...}}` in the profile. "
)


@dataclass(frozen=True)
class JobState:
    """What Slurm says of a job; UNKNOWN where nobody remembers it."""

    name: str
    reason: str = "None"

    @property
    def waits_for(self) -> str | None:
        """Why the job has not started, where that is not the ordinary queue: what is wrong may never end."""
        return self.reason if self.name == "PENDING" and self.reason not in ORDINARY else None


def job_states(jobs: Set[str]) -> dict[str, JobState] | None:
    """Return the state of each of `jobs`; None while the controller does not answer."""
    # With its heading, so that an empty queue is an answer.
    table = run_command("squeue", "--me", "--states=all", "--array", "--format=%i|%T|%r")
    if not table:
        return None
    entries = (line.split("|", 2) for line in table.splitlines()[1:])
    states = {job: JobState(state, reason) for job, state, reason in entries}
    if forgotten := jobs - states.keys():
        states |= accounted(forgotten)
    return {job: states.get(job, JobState(UNKNOWN)) for job in jobs}


def accounted(jobs: Set[str]) -> dict[str, JobState]:
    """Return the states that Slurm's accounting has of `jobs`; empty on a cluster that keeps none."""
    numbers = f"--jobs={','.join(sorted(jobs))}"
    table = run_command("sacct", "--noheader", "--allocations", "--parsable2", numbers, "--format=JobID,State")
    entries = (line.split("|") for line in table.splitlines())
    return {job: JobState(state.split()[0]) for job, state in entries}  # "CANCELLED by 1000"


def in_words(facts: Mapping[str, str]) -> str:
    """Return `facts`, Slurm's description of a job, in words: "FAILED on n1, NonZeroExitCode, exit code 1"."""
    code, _, signal = facts.get("ExitCode", "").partition(":")
    entries = [
        facts.get("JobState", "no state") + (f" on {facts['NodeList']}" if facts.get("NodeList") else ""),
        facts.get("Reason", "None").replace("None", ""),
        f"limit {facts['TimeLimit']}" if facts.get("JobState") == "TIMEOUT" and facts.get("TimeLimit") else "",
        f"exit code {code}" if code.strip("0") else "",
        f"signal {signal}" if signal.strip("0") else "",
    ]
    return ", ".join(filter(None, entries))
