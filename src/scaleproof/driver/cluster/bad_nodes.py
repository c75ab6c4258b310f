"""Nodes on which jobs keep failing: not asked for again by this Snakemake.

A run that fails by itself ends as a row, and its job with success. A job that fails has met something else: a node that
died, a file system that is not mounted there, an environment that does not start.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaleproof.driver.cluster.ledger import files_of
from scaleproof.driver.cluster.scheduler import JobEnd, Scheduler, Submission
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.excluded_nodes import ExcludedNode, note_excluded

NODE_STATES = ("NODE_FAIL", "BOOT_FAIL")  # the scheduler itself blames the node
FAILED_STATES = (*NODE_STATES, "FAILED")
LIMIT = 2  # failed jobs on a node


@dataclass(frozen=True)
class FailedJob:
    """A job that failed on a node."""

    state: str
    ended: str  # in the scheduler's own form
    makes: str  # its files, the same for the job that is sent in its place


class BadNodes:
    """Counts the failed jobs of each node.

    A job that failed is sent elsewhere where it can: a node that fails a job at once is free again at once, and would
    get it back. A node is excluded after two failed jobs, unless a job has ended well there since the first. Where
    Slurm says nothing but FAILED, one of them must have ended well on another node, too: what fails everywhere is not
    the node's fault.
    """

    def __init__(self, scheduler: Scheduler, given: Iterable[str] = (), results: Path = Path("results")) -> None:
        """Begin with `given`, nodes that the user excludes.

        `scheduler`: says what has ended well where. `results`: where campaigns get a record of excluded nodes.
        """
        self._scheduler = scheduler
        self._given = set(given)
        self._excluded: dict[str, ExcludedNode] = {}
        self._results = results
        self._campaigns: set[str] = set()
        self._failures: dict[str, dict[str, FailedJob]] = {}  # node -> job
        self._failed_on: dict[str, set[str]] = {}  # what a job makes -> nodes
        self._makes: dict[str, str] = {}  # job -> what it makes

    @property
    def excluded(self) -> set[str]:
        """The nodes that are asked for no more."""
        return self._given | set(self._excluded)

    def sent(self, number: str, job: Any) -> None:
        """Take note of a job of Snakemake that is in the queue now. `number`: by which the scheduler knows it."""
        self._makes[number] = files_of(job)
        campaign = getattr(getattr(job, "wildcards", None), "campaign", None)
        if campaign and campaign not in self._campaigns:
            self._campaigns.add(campaign)
            if self._excluded:  # by jobs of no campaign, or of another one
                self._note(campaign, list(self._excluded.values()))

    def failed(self, number: str, state: str, end: JobEnd) -> None:
        """Take note of a job that did not end well. `number`, `state`: by which the scheduler knows and calls it."""
        if end.unstarted:
            state = NODE_STATES[0]
        if state not in FAILED_STATES:
            return
        for node in end.nodes:
            job = FailedJob(state, end.ended, self._makes[number])
            self._failures.setdefault(node, {})[number] = job
            self._failed_on.setdefault(job.makes, set()).add(node)

    def judge(self) -> None:
        """Exclude the nodes that are to blame for failed jobs, as the class says, and print which."""
        suspects = [n for n, jobs in self._failures.items() if len(jobs) >= LIMIT and n not in self._excluded]
        if not suspects:
            return
        ended_well = [(one.ended, one.nodes, self._makes.get(one.job)) for one in self._scheduler.ended_well()]
        for node in suspects:
            jobs = self._failures[node]
            first = min(job.ended for job in jobs.values())
            sound = any(end >= first and node in nodes for end, nodes, _ in ended_well)
            made_elsewhere = any(
                end >= job.ended and makes == job.makes and node not in nodes
                for job in jobs.values()
                for end, nodes, makes in ended_well
            )
            blamed = sum(job.state in NODE_STATES for job in jobs.values()) >= LIMIT
            if not sound and (blamed or made_elsewhere):
                ends = ", ".join(f"{number} {job.state}" for number, job in jobs.items())
                print(
                    f"node {node} is excluded from here on: jobs failed there ({ends}). Their logs are in "
                    "results/job-logs/; tell the site",
                    file=sys.stderr,
                )
                excluded = ExcludedNode(node=node, jobs={number: job.state for number, job in jobs.items()})
                self._excluded[node] = excluded
                for campaign in sorted(self._campaigns):
                    self._note(campaign, [excluded])

    def _note(self, campaign: str, nodes: list[ExcludedNode]) -> None:
        """Write excluded nodes down for a campaign's report; a file that cannot be written does not stop the driver."""
        try:
            note_excluded(self._results / campaign, nodes)
        except (OSError, UserError) as error:
            names = ", ".join(entry.node for entry in nodes)
            print(f"the report of {campaign} will not name {names}: {error}", file=sys.stderr)

    def excluded_for(self, job: Any, submission: Submission) -> frozenset[str]:
        """Return the nodes that a job of Snakemake is kept from.

        Those on which it failed itself are among them if others are left. `submission`: all else that is asked for.
        """
        failed_on = self._failed_on.get(files_of(job), set()) - self.excluded
        elsewhere = frozenset(self.excluded | failed_on)
        if failed_on and self._scheduler.would_take(replace(submission, excluded=elsewhere)):
            return elsewhere
        return frozenset(self.excluded)
