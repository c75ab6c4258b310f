"""Nodes on which jobs keep failing: not asked for again by this Snakemake.

A run that fails by itself ends as a row, and its job with success. A job that fails has met something else: a node that
died, a file system that is not mounted there, an environment that does not start.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from scalebench.machine.slurm import describe, run_command

NODE_STATES = ("NODE_FAIL", "BOOT_FAIL")  # Slurm itself blames the node
FAILED_STATES = (*NODE_STATES, "FAILED")
LIMIT = 2  # failed jobs on a node


class BadNodes:
    """Counts the failed jobs of each node.

    A node is excluded after two of them, unless a job of this Snakemake has ended well there: what fails everywhere is
    not the node's fault. Where Slurm says nothing but FAILED, some other node must have done better, too.
    """

    def __init__(self) -> None:
        self.excluded: set[str] = set()
        self._failures: dict[str, dict[str, str]] = {}  # node -> job -> state
        self._seen: set[str] = set()

    def hear(self, states: dict[str, str]) -> None:
        """Take note of the states of jobs; says which nodes are excluded from now on."""
        new = [job for job, state in states.items() if state in FAILED_STATES and job not in self._seen]
        if not new:
            return
        self._seen.update(new)
        for job in new:
            for node in hosts(describe(job, patience=(0,)).get("NodeList", "")):
                self._failures.setdefault(node, {})[job] = states[job]
        suspects = [n for n, jobs in self._failures.items() if len(jobs) >= LIMIT and n not in self.excluded]
        if suspects:
            self._judge(suspects)

    def _judge(self, suspects: Iterable[str]) -> None:
        listed = run_command("squeue", "--me", "--noheader", "--states=COMPLETED", "--format=%N").splitlines()
        sound = {node for nodes in listed for node in hosts(nodes)}
        for node in suspects:
            jobs = self._failures[node]
            blamed = sum(state in NODE_STATES for state in jobs.values()) >= LIMIT
            if node not in sound and (blamed or sound):
                self.excluded.add(node)
                ends = ", ".join(f"{job} {state}" for job, state in jobs.items())
                print(
                    f"node {node} is excluded from here on: jobs failed there ({ends}). Their logs are in "
                    "results/slurm-logs/; tell the site",
                    file=sys.stderr,
                )

    def submit(self, command: Callable[..., str]) -> Callable[..., str]:
        """The plugin's function that writes the sbatch line, leaving out these nodes as well."""

        def without_bad_nodes(job: Any, params: Any, settings: Any = None, **options: Any) -> str:
            options["failed_nodes"] = {*(options.get("failed_nodes") or ()), *self.excluded}
            return command(job, params, settings=settings, **options)

        return without_bad_nodes


def hosts(nodelist: str) -> list[str]:
    """The names in a list of nodes as Slurm writes it: n[1-2]."""
    if not nodelist or nodelist.startswith("("):  # (null), or the reason of a job that has never started
        return []
    if "[" not in nodelist:
        return nodelist.split(",")
    return run_command("scontrol", "show", "hostnames", nodelist).split()
