"""Many runs as few Slurm job arrays: `slurm-array-jobs: train` in the profile.

Version 2.8.0 of the plugin cannot do this for our rules as it stands, in three ways. It gives a whole array the
resources of its first job, whatever the others ask for. It waits for as many ready jobs as an array has at most, for
ever where `jobs` lets fewer in. And a task of a rule with the resource `mpi`, which ours have, runs the first task's
command.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

OPTION = "--slurm-jobstep-array-execs"
# A task's command reaches its batch script as a part of one argument, which Linux limits to 128 KiB: some 3 KB a task.
LARGEST = 40
UNLIKE = ("_nodes", "_cores", "tmpdir")  # resources that sbatch is not asked for


class Arrays:
    """Replaces the plugin's `Executor.run_jobs` if the profile wants arrays: equal jobs that are ready go together."""

    def __init__(self, executor_class: Any) -> None:
        original = executor_class.run_jobs

        def run_jobs(executor: Any, jobs: Sequence[Any]) -> None:
            chosen: set[str] = getattr(executor, "array_jobs", set())
            together, single = grouped(jobs, chosen, min(LARGEST, getattr(executor, "max_array_size", LARGEST)))
            # The plugin's own keeps the event loop to report to; with no rule chosen it submits one by one.
            executor.array_jobs = set()
            try:
                original(executor, single)
            finally:
                executor.array_jobs = chosen
            for array in together:
                executor._submit_array_jobs(array)

        executor_class.run_jobs = run_jobs


def grouped(jobs: Iterable[Any], rules: Iterable[str], largest: int) -> tuple[list[list[Any]], list[Any]]:
    """Arrays of two or more jobs that ask for the same, and all other jobs."""
    rules = set(rules)
    alike: dict[tuple, list[Any]] = {}
    single = []
    for job in jobs:
        # The tasks of an array get the same nodes; what has failed must not get its node again.
        if job.is_group() or job.attempt > 1 or not ({job.rule.name, "all"} & rules):
            single.append(job)
        else:
            alike.setdefault((job.rule.name, _request(job)), []).append(job)
    arrays: list[list[Any]] = []
    for group in alike.values():
        for start in range(0, len(group), largest):
            part = group[start : start + largest]
            if len(part) > 1:
                arrays.append(part)
            else:
                single += part
    return arrays, single


def _request(job: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in job.resources.items() if name not in UNLIKE))


def become_task(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """In a task of an array: become the Snakemake of this task's job. In all else, and in the first task: nothing."""
    call = task_call(arguments, environment)
    if call is not None:
        sys.stdout.flush()
        os.execvp("sh", ["sh", "-c", call])


def task_call(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The command of this task of an array; None where this is no task, or the first, whose command this is already."""
    task = environment.get("SLURM_ARRAY_TASK_ID", "")
    if not task.isdigit() or task == environment.get("SLURM_ARRAY_TASK_MIN"):
        return None
    for place, word in enumerate(arguments):
        if word.startswith(f"{OPTION}="):
            payload = word.partition("=")[2]
        elif word == OPTION and place + 1 < len(arguments):
            payload = arguments[place + 1]
        else:
            continue
        from snakemake_executor_plugin_slurm_jobstep import _decompress_array_task_call

        return _decompress_array_task_call(payload, int(task))
    return None
