"""Nodes on which jobs keep failing: not asked for again by this Snakemake.

A run that fails by itself ends as a row, and its job with success. A job that fails has met something else: a node that
died, a file system that is not mounted there, an environment that does not start.
"""

import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaleproof.driver.slurm_test_only import why_refused
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.excluded_nodes import ExcludedNode, note_excluded
from scaleproof.measure.machine.slurm import describe, hosts, rows

NODE_STATES = ("NODE_FAIL", "BOOT_FAIL")  # Slurm itself blames the node
FAILED_STATES = (*NODE_STATES, "FAILED")
LIMIT = 2  # failed jobs on a node


@dataclass(frozen=True)
class FailedJob:
    """A job that failed on a node."""

    state: str
    ended: str  # as Slurm writes a time: 2026-11-22T13:00:00
    makes: str  # its files, the same for the job that is sent in its place


class BadNodes:
    """Counts the failed jobs of each node.

    A job that failed is sent elsewhere where it can: a node that fails a job at once is free again at once, and would
    get it back. A node is excluded after two failed jobs, unless a job has ended well there since the first. Where
    Slurm says nothing but FAILED, one of them must have ended well on another node, too: what fails everywhere is not
    the node's fault.
    """

    def __init__(self, results: Path = Path("results")) -> None:
        """`results`: where each campaign whose jobs were sent gets a record of the excluded nodes."""
        self._excluded: dict[str, ExcludedNode] = {}
        self._results = results
        self._campaigns: set[str] = set()
        self._failures: dict[str, dict[str, FailedJob]] = {}  # node -> job
        self._failed_on: dict[str, set[str]] = {}  # what a job makes -> nodes
        self._makes: dict[str, str] = {}  # job -> what it makes
        self._seen: set[str] = set()

    @property
    def excluded(self) -> set[str]:
        """The nodes that are asked for no more."""
        return set(self._excluded)

    def hear(self, states: dict[str, str]) -> None:
        """Take note of the states of jobs; says which nodes are excluded from now on."""
        known = self._makes.keys() - self._seen
        for job in [job for job, state in states.items() if state in FAILED_STATES and job in known]:
            self._seen.add(job)
            facts = describe(job, patience=(0,))
            for node in hosts(facts.get("NodeList", "")):
                failed = FailedJob(states[job], facts.get("EndTime", ""), self._makes[job])
                self._failures.setdefault(node, {})[job] = failed
                self._failed_on.setdefault(failed.makes, set()).add(node)
        suspects = [n for n, jobs in self._failures.items() if len(jobs) >= LIMIT and n not in self._excluded]
        if suspects:
            self._judge(suspects)

    def _judge(self, suspects: Iterable[str]) -> None:
        completed = rows("squeue", "--me", "--states=COMPLETED", columns=("%e", "%N", "%i"))
        ended_well = [(end, hosts(nodes), self._makes.get(job)) for end, nodes, job in completed]
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
                    "results/slurm-logs/; tell the site",
                    file=sys.stderr,
                )
                excluded = ExcludedNode(node=node, jobs={number: job.state for number, job in jobs.items()})
                self._excluded[node] = excluded
                for campaign in sorted(self._campaigns):
                    self._note(campaign, [excluded])

    def _note(self, campaign: str, nodes: list[ExcludedNode]) -> None:
        """Write it down for the report; what cannot be written does not stop the driver."""
        try:
            note_excluded(self._results / campaign, nodes)
        except (OSError, UserError) as error:
            names = ", ".join(entry.node for entry in nodes)
            print(f"the report of {campaign} will not name {names}: {error}", file=sys.stderr)

    def submitted(self, report: Callable[..., None]) -> Callable[..., None]:
        """The executor's method that is told of each job in the queue, noting what that makes.

        Slurm's comment does not say it: the tasks of an array all have that of the first.
        """

        def report_and_note(executor: Any, sent: Any) -> None:
            self._makes[sent.external_jobid] = _files(sent.job)
            report(executor, sent)

        return report_and_note

    def submit(self, command: Callable[..., str], devices: Callable[[Any], str]) -> Callable[..., str]:
        """The plugin's function that writes the sbatch line, leaving out these nodes as well.

        `devices`: the part of the line that the plugin adds to what `command` gives.
        """

        def without_bad_nodes(job: Any, params: Any, settings: Any = None, **options: Any) -> str:
            campaign = getattr(getattr(job, "wildcards", None), "campaign", None)
            if campaign and campaign not in self._campaigns:
                self._campaigns.add(campaign)
                if self._excluded:  # by jobs of no campaign, or of another one
                    self._note(campaign, list(self._excluded.values()))
            left_out = {*(options.pop("failed_nodes", None) or ()), *self.excluded}
            failed_on = self._failed_on.get(_files(job), set()) - left_out
            if failed_on:
                line = command(job, params, settings=settings, failed_nodes=left_out | failed_on, **options)
                if why_refused([*shlex.split(line + devices(job)), "--test-only", "--wrap=true"]) is None:
                    return line
            return command(job, params, settings=settings, failed_nodes=left_out, **options)

        return without_bad_nodes


def _files(job: Any) -> str:
    """What a job makes."""
    return " ".join(map(str, job.output))
