"""Nodes on which jobs keep failing: not asked for again by this Snakemake.

A run that fails by itself ends as a row, and its job with success. A job that fails has met something else: a node that
died, a file system that is not mounted there, an environment that does not start.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaleproof.driver.cluster.ledger import outputs_text
from scaleproof.driver.cluster.scheduler import JobEnd, Scheduler, SoundJob, Submission
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.excluded_nodes import ExcludedNode, note_excluded
from scaleproof.ground.snakemake_command import RESULTS

NODE_STATES = ("NODE_FAIL", "BOOT_FAIL")  # states of jobs for which Slurm itself blames the node
FAILED_STATES = (*NODE_STATES, "FAILED")
LIMIT = 2  # failed jobs for which a node is excluded


@dataclass(frozen=True)
class FailedJob:
    """A job that failed on a node."""

    state: str  # as Slurm calls it
    ended: str  # time of the end, in the scheduler's own form, in which times can be compared
    outputs: str  # the files that the job makes, by which a later job for the same files is known


class BadNodes:
    """Counts the failed jobs of each node.

    A job that failed is sent elsewhere if it can be, because a node that fails a job at once is free again at once, and
    would get the job back. A node is excluded after two failed jobs, unless a job has ended well there since the first.
    Where Slurm says nothing but FAILED, one of the failed jobs must also have ended well on another node, because what
    fails everywhere is not the node's fault.
    """

    def __init__(self, scheduler: Scheduler, given: Iterable[str] = (), results: Path = RESULTS) -> None:
        """Begin without failed jobs.

        `scheduler`: is asked which jobs have ended well, and where. `given`: nodes that the user excludes. `results`:
        the folder of all campaigns, which get a record of excluded nodes.
        """
        self._scheduler = scheduler
        self._excluded_by_user = set(given)
        self._excluded: dict[str, ExcludedNode] = {}  # node -> its record
        self._results = results
        self._campaigns: set[str] = set()  # names of the campaigns whose jobs were submitted
        self._failures: dict[str, dict[str, FailedJob]] = {}  # node -> number of a job -> the job
        self._failed_on: dict[str, set[str]] = {}  # outputs of a job -> nodes on which it failed
        self._outputs_of_job: dict[str, str] = {}  # number of a job -> the files that it makes

    @property
    def excluded(self) -> set[str]:
        return self._excluded_by_user | set(self._excluded)

    def note_submitted(self, number: str, job: Any) -> None:
        """Remember a job of Snakemake that was submitted under the scheduler's id `number`.

        With the first job of a campaign, the nodes excluded so far are written down for the campaign's report.
        """
        self._outputs_of_job[number] = outputs_text(job)
        campaign = getattr(getattr(job, "wildcards", None), "campaign", None)
        if campaign and campaign not in self._campaigns:
            self._campaigns.add(campaign)
            if self._excluded:  # before this campaign began: by failed jobs of other campaigns, or of corpora
                self._note(campaign, list(self._excluded.values()))

    def note_failed(self, number: str, state: str, end: JobEnd) -> None:
        """Remember on which nodes a job failed. `number`: the scheduler's id of the job; `state`: how it ended."""
        if end.unstarted:  # a node that does not start a job is to blame, though Slurm does not say so
            state = "NODE_FAIL"
        if state not in FAILED_STATES:  # such as TIMEOUT: no fault of a node
            return
        for node in end.nodes:
            job = FailedJob(state, end.ended, self._outputs_of_job[number])
            self._failures.setdefault(node, {})[number] = job
            self._failed_on.setdefault(job.outputs, set()).add(node)

    def judge(self) -> None:
        """Exclude the nodes that are to blame for failed jobs, by the rules of the class."""
        suspects = [node for node, jobs in self._failures.items() if len(jobs) >= LIMIT and node not in self._excluded]
        sound_jobs = self._scheduler.ended_well() if suspects else []
        for node in suspects:
            if self._is_to_blame(node, sound_jobs):
                self._exclude(node)

    def _exclude(self, node: str) -> None:
        """Exclude a node: print why, and write it down for the reports of all campaigns."""
        states = {number: job.state for number, job in self._failures[node].items()}
        ends = ", ".join(f"{number} {state}" for number, state in states.items())
        advice = "Their logs are in results/job-logs/; tell the site"
        print(f"node {node} is excluded from here on: jobs failed there ({ends}). {advice}", file=sys.stderr)
        self._excluded[node] = ExcludedNode(node=node, jobs=states)
        for campaign in sorted(self._campaigns):
            self._note(campaign, [self._excluded[node]])

    def _is_to_blame(self, node: str, sound_jobs: Sequence[SoundJob]) -> bool:
        """Return whether a node is to blame for its failed jobs, by the class's rules and all `sound_jobs`."""
        failures = self._failures[node].values()
        first_failure = min(job.ended for job in failures)
        if any(job.ended >= first_failure and node in job.nodes for job in sound_jobs):
            return False  # a job has ended well there since
        if sum(job.state in NODE_STATES for job in failures) >= LIMIT:
            return True
        return any(self._was_made_elsewhere(job, node, sound_jobs) for job in failures)

    def _was_made_elsewhere(self, failed: FailedJob, node: str, sound_jobs: Sequence[SoundJob]) -> bool:
        """Return whether a later job has made the files of a job that failed on `node`, on other nodes."""
        return any(
            job.ended >= failed.ended and self._outputs_of_job.get(job.job) == failed.outputs and node not in job.nodes
            for job in sound_jobs
        )

    def _note(self, campaign: str, nodes: list[ExcludedNode]) -> None:
        """Write excluded nodes down for a campaign's report. If that fails, prints why, and the driver goes on."""
        try:
            note_excluded(self._results / campaign, nodes)
        except (OSError, UserError) as error:
            names = ", ".join(entry.node for entry in nodes)
            print(f"the report of {campaign} will not name {names}: {error}", file=sys.stderr)

    def excluded_for(self, job: Any, submission: Submission) -> frozenset[str]:
        """Return the nodes that a job must not get: excluded nodes, and nodes on which the job has failed.

        A node on which it has failed is allowed again where no other node is left for it.
        """
        failed_on = self._failed_on.get(outputs_text(job), set()) - self.excluded
        with_failed = frozenset(self.excluded | failed_on)
        if failed_on and self._scheduler.would_take(replace(submission, excluded=with_failed)):
            return with_failed
        return frozenset(self.excluded)
