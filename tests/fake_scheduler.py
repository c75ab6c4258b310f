"""A scheduler of no site: it takes jobs, and says of each what a test has written down."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from scaleproof.driver.cluster.scheduler import JobEnd, JobState, Refused, SoundJob, Submission


@dataclass
class FakeScheduler:
    """Answers from its fields; `sent` and `cancelled` have what it was asked to do."""

    name: str = "the fake"
    cancel_command: str = "fakecancel"
    answers: dict[str, JobState] | None = field(default_factory=dict)  # None: it is away
    ends: dict[str, JobEnd] = field(default_factory=dict)
    sound: list[SoundJob] = field(default_factory=list)
    refusals: list[Refused] = field(default_factory=list)  # of the next jobs, one each
    has_room: bool = True  # elsewhere than on excluded nodes
    in_folder: list[str] = field(default_factory=list)
    sent: list[Submission] = field(default_factory=list)
    questions: list[Submission] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def submit(self, job: Submission) -> str:
        if self.refusals:
            raise self.refusals.pop(0)
        self.sent.append(job)
        return str(40 + len(self.sent))

    def would_take(self, job: Submission) -> bool:
        self.questions.append(job)
        return self.has_room

    def states(self, jobs: Set[str]) -> dict[str, JobState] | None:
        if self.answers is None:
            return None
        return {job: self.answers.get(job, JobState("RUNNING", "running")) for job in jobs}

    def end_of(self, job: str, state: JobState, log: Path) -> JobEnd:
        return self.ends.get(job, JobEnd(state.name, kind=state.name))

    def ended_well(self) -> list[SoundJob]:
        return self.sound

    def cancel(self, jobs: Sequence[str]) -> None:
        self.cancelled += jobs

    def left_in(self, folder: Path) -> list[str]:
        return self.in_folder
