"""What the driver asks of any scheduler. `Slurm` and `Queue` (any queue behind three commands) implement it."""

import subprocess
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Phase = Literal["waiting", "running", "done", "failed", "cancelled", "unknown"]
OVER: tuple[Phase, ...] = ("done", "failed", "cancelled", "unknown")
NO_ANSWER = 124  # the exit code of timeout(1)
NOT_STARTED = 127  # the exit code of a shell where there is no such command


@dataclass(frozen=True)
class Submission:
    """A job to send: its script, the resources that it asks for, and the nodes that it may not get."""

    name: str
    script: Path
    log: Path  # file for the job's output; its name has the scheduler's pattern for the number of the job
    folder: Path  # working folder of the job
    resources: Mapping[str, object]  # name -> value, as the rule and the profile of the site give them
    tasks: int = 1  # more than one: the job is an array
    excluded: frozenset[str] = frozenset()  # names of nodes


@dataclass(frozen=True)
class JobState:
    """The state of a job in the queue."""

    name: str  # of the state, as the scheduler calls it
    phase: Phase
    reason: str = ""  # why the job waits or has ended, in the scheduler's words
    for_ever: bool = False  # whether the job cannot start until somebody changes something


@dataclass(frozen=True)
class JobEnd:
    """The end of a job that failed or was cancelled."""

    words: str  # of the scheduler, on the end
    # Equal for jobs that end in the same way; "" for jobs that somebody cancelled, or that gave way to others.
    kind: str
    nodes: Sequence[str] = ()  # on which the job ran
    ended: str = ""  # time of the end, as the scheduler writes it; such times can be compared as texts
    by_hand: bool = False  # whether somebody has cancelled the job
    unstarted: bool = False  # whether the job's node could not start it
    advice: str = ""  # what to change before the job is sent again


@dataclass(frozen=True)
class SoundJob:
    """A job that has ended well."""

    ended: str  # time of the end, as in `JobEnd`
    nodes: Sequence[str]
    job: str  # the job's number


@dataclass
class Refused(Exception):
    """Raised where a scheduler does not take a job."""

    words: str  # of the scheduler, on the reason
    passing: bool = False  # whether the scheduler may take the job later: a limit on jobs, a controller that is away
    too_many: bool = False  # whether the reason is a limit on the number of jobs


class Scheduler(Protocol):
    """Sends jobs, asks for their states, and cancels them. Nothing else starts a scheduler's commands.

    A job is known by its number, a text such as "1234" or "1234_7" for a task of an array.
    """

    name: str  # for messages
    cancel_command: str  # what a person types before the numbers of jobs: "scancel"

    def why_absent(self) -> str:
        """Return why this machine cannot send it any job, "" where it can: one that does not answer now may later."""
        return ""

    def submit(self, job: Submission) -> str:
        """Send a job and return its number. Raises Refused where the scheduler does not take it."""

    def would_take(self, job: Submission) -> bool:
        """Return whether there are nodes for this job. Returns True where the scheduler cannot be asked."""
        return True

    def states(self, jobs: Set[str]) -> dict[str, JobState] | None:
        """Return number -> state of `jobs`. Returns None while the scheduler does not answer."""

    def why_silent(self) -> str:
        """Return what failed when `states` last returned None, "" where that is not known."""
        return ""

    def end_of(self, job: str, state: JobState, log: Path) -> JobEnd:
        """Describe the end of a job whose last known state is `state`. `log`: the file of its output."""

    def ended_well(self) -> list[SoundJob]:
        """Return the user's jobs that have ended well and that the scheduler still remembers; [] unless it says so."""
        return []

    def cancel(self, jobs: Sequence[str]) -> None:
        """Cancel jobs."""

    def left_in(self, folder: Path) -> list[str]:
        """Return the jobs that an earlier driver has sent from `folder` and that have not ended.

        The scheduler alone is asked; what the driver has written down is in the ledger. Returns [] unless it says so.
        """
        return []


def run_scheduler_command(
    command: Sequence[str], environment: Mapping[str, str], timeout: float = 120.0
) -> tuple[int, str, str]:
    """Run a command of a scheduler. Returns its exit code, its standard output and its standard error.

    The exit code is NO_ANSWER if the command takes longer than `timeout` seconds, NOT_STARTED if it cannot be started.
    """
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=dict(environment), timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return NO_ANSWER, "", f"{command[0]} does not answer within {timeout:g} s"
    except OSError as error:
        return NOT_STARTED, "", f"{command[0]}: {error.strerror or error}"
    return process.returncode, process.stdout, process.stderr
