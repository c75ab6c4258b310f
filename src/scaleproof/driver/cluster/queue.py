"""Queues that a profile reaches by three commands: one to submit, one to ask, one to cancel (PBS, Kubernetes)."""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from scaleproof.driver.cluster.scheduler import (
    NO_ANSWER,
    JobEnd,
    JobState,
    Phase,
    Refused,
    Scheduler,
    Submission,
    run_scheduler_command,
)
from scaleproof.ground.errors import did_you_mean, nearest_path, shortened

FORGOTTEN = 4  # answers without a job; the first may be too early to have it
PHASES: dict[str, Phase] = {
    "waiting": "waiting",
    "running": "running",
    "success": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}


def submit_line(command: str, values: Mapping[str, object]) -> str:
    """Return the submit command with the `values` of a job in it. Raises Refused for a misspelt name in it."""
    for name in re.findall(r"(?<!\$)\{(\w+)\}", command):  # ${HOME} is the shell's
        if name not in values and (hint := did_you_mean(name, values)):
            raise Refused(f"scaleproof-submit has {{{name}}}.{hint} Allowed: {', '.join(values)}")
    return re.sub(r"\{(\w+)\}", lambda name: str(values.get(name[1], name[0])), command)


def faults_of_commands(commands: Mapping[str, str]) -> list[str]:
    """Return which of the commands (option -> a line of shell) begin with a program that is not there."""
    faults = []
    for option, line in commands.items():
        word = line.partition(" ")[0]
        if not re.fullmatch(r"[\w.+/-]+", word) or shutil.which(word):  # the shell may make another word of it
            continue
        code, *_ = run_scheduler_command(["sh", "-c", f"command -v {word}"], os.environ)  # a word of the shell's own
        if code:
            hint = nearest_path(Path(word)) if "/" in word else ""
            faults.append(f"{option}: there is no program {word}{hint and f'.{hint}'}")
    return faults


@dataclass
class Queue(Scheduler):
    """A queue behind three commands, each a line of shell, which cannot be asked about nodes and senders.

    `submit_command` names resources as {mem_mb}, gets the script appended, and prints the job's number last.
    `status_command` gets numbers, and prints a line for each: NUMBER STATE, and the queue's own words.
    """

    submit_command: str
    status_command: str
    cancel_command: str
    environment: Callable[[], Mapping[str, str]]  # called for each job, returns its variables
    name: str = "the queue"
    _fault: str = ""  # of the last question for states that was not answered
    _missed: dict[str, int] = field(default_factory=dict)  # job -> number of answers in turn without it

    def submit(self, job: Submission) -> str:
        """Send a job and return its number, the last word that the command prints. Raises Refused."""
        line = submit_line(self.submit_command, {**job.resources, "log": job.log, "name": job.name})
        command = ["sh", "-c", f"{line} {shlex.quote(str(job.script))}"]
        code, printed, errors = run_scheduler_command(command, self.environment())
        words = printed.split()
        if code or not words:
            reason = " ".join((errors or printed).split()) or f"the submit command ended with exit code {code}"
            raise Refused(reason, passing=code == NO_ANSWER)  # a queue that is silent now may answer later
        return words[-1]

    def states(self, jobs: Set[str]) -> dict[str, JobState] | None:
        """Return the state of each of `jobs` that the queue knows. Returns None where it does not answer."""
        command = f"{self.status_command} {shlex.join(sorted(jobs))}"
        code, printed, errors = run_scheduler_command(["sh", "-c", command], self.environment())
        if code:
            words = shortened(" ".join((errors or printed).split()) or "it prints nothing", 200)
            self._fault = f"`{self.status_command}` of scaleproof-status ends with exit code {code}: {words}"
            return None
        states = {}
        for job in jobs:
            self._missed[job] = self._missed.get(job, 0) + 1
            if self._missed[job] >= FORGOTTEN:  # the loop below corrects it if this answer has the job again
                states[job] = JobState("forgotten", "unknown")
        for line in printed.splitlines():
            job, state, words = [*line.split(maxsplit=2), "", "", ""][:3]  # "7 waiting for a node", or without words
            if job in jobs and state in PHASES:
                self._missed[job] = 0
                states[job] = JobState(state, PHASES[state], words)
        return states

    def why_silent(self) -> str:
        return self._fault

    def end_of(self, job: str, state: JobState, log: Path) -> JobEnd:
        words = state.reason or state.name
        by_hand = state.phase == "cancelled"
        return JobEnd(words, kind="" if by_hand else words, by_hand=by_hand)

    def cancel(self, jobs: Sequence[str]) -> None:
        run_scheduler_command(["sh", "-c", f"{self.cancel_command} {shlex.join(jobs)}"], self.environment())
