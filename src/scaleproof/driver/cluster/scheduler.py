"""What the driver asks of any scheduler. Slurm and queues that are reached by three commands answer it."""

import subprocess
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Phase = Literal["waiting", "running", "done", "failed", "cancelled", "unknown"]
OVER: tuple[Phase, ...] = ("done", "failed", "cancelled", "unknown")
NO_ANSWER = 124  # the exit code of timeout(1)


@dataclass(frozen=True)
class Submission:
    """A job as it is sent: a script, what it asks for, and where it may not run."""

    name: str
    script: Path
    log: Path  # with the scheduler's own sign for the number of the job
    folder: Path  # that the job begins in
    resources: Mapping[str, object]  # of the rule, in the words of the site
    tasks: int = 1  # several are an array
    excluded: frozenset[str] = frozenset()  # nodes


@dataclass(frozen=True)
class JobState:
    """How a job is."""

    name: str  # in the scheduler's own word
    phase: Phase
    reason: str = ""  # for which it waits or has ended, in the scheduler's words
    for_ever: bool = False  # whether the reason for which it waits cannot end without somebody's help


@dataclass(frozen=True)
class JobEnd:
    """How a job has ended that did not end well."""

    words: str  # of the scheduler
    kind: str  # what jobs have in common that end in the same way; "" where others have ended them, by hand or by rank
    nodes: Sequence[str] = ()
    ended: str = ""  # in the scheduler's own form, in which times can be compared
    by_hand: bool = False  # whether somebody has cancelled it
    unstarted: bool = False  # whether its node could not start it
    advice: str = ""  # what to change before it is sent again


@dataclass(frozen=True)
class SoundJob:
    """A job that has ended well."""

    ended: str  # as in `JobEnd`
    nodes: Sequence[str]
    job: str


@dataclass
class Refused(Exception):
    """Raised where a scheduler does not take a job."""

    words: str
    passing: bool = False  # whether it may take the job later: a limit on jobs, a controller away
    too_many: bool = False  # whether it is a limit on the number of jobs


class Scheduler(Protocol):
    """Takes jobs and says how they are. Nothing else starts a scheduler's commands."""

    name: str  # for messages
    cancel_command: str  # what a person types before the numbers of jobs

    def submit(self, job: Submission) -> str:
        """Send a job and return its number. Raises Refused."""

    def would_take(self, job: Submission) -> bool:
        """Return whether there are nodes for this job; True where that cannot be asked."""

    def states(self, jobs: Set[str]) -> dict[str, JobState] | None:
        """Return the state of each of `jobs`; None while the scheduler does not answer."""

    def end_of(self, job: str, state: JobState, log: Path) -> JobEnd:
        """Return how a job has ended whose last known state is `state`; `log`: the file of its output."""

    def ended_well(self) -> list[SoundJob]:
        """Return the user's jobs that have ended well lately, as far as the scheduler remembers."""

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs."""

    def left_in(self, folder: Path) -> list[str]:
        """Return jobs of an earlier driver in `folder` that have not ended, by what the scheduler knows alone."""


def run_scheduler_command(
    command: Sequence[str], environment: Mapping[str, str], timeout: float = 120.0
) -> tuple[int, str, str]:
    """Run a command of a scheduler; return its exit code, its output and its errors.

    NO_ANSWER where it does not answer within `timeout` seconds, 127 where it cannot be started.
    """
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=dict(environment), timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return NO_ANSWER, "", f"{command[0]} does not answer within {timeout:g} s"
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr
