"""Many runs as few Slurm job arrays: `scaleproof-array-jobs: train` in the profile."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

LARGEST = 40  # tasks; sites limit the size of arrays, and of scripts, in which each task has some 3 KB
UNLIKE = ("_nodes", "_cores", "tmpdir")  # resources that are no options of sbatch

# srun and libraries take Slurm's variables for options and for facts of a step; the launcher asks Slurm itself.
OWN = "SLURM_(JOB_?ID|CLUSTER_NAME|CONF|ARRAY_.*)"
CLEAN = f"unset $(compgen -e | grep -E '^(SLURM|SRUN|SBATCH)_' | grep -vE '^{OWN}$')"


def group_into_arrays(jobs: Iterable[Any], rules: Collection[str]) -> list[list[Any]]:
    """Group jobs of `rules` (or "all") with equal requests into arrays of at most LARGEST. Other jobs stay alone."""
    groups: dict[object, list[Any]] = {}  # rule and resources -> jobs
    for job in jobs:
        is_of_rules = job.rule.name in rules or "all" in rules
        # The tasks of an array get the same nodes, and a job that has failed must not get its node again.
        stays_alone = job.is_group() or job.attempt > 1 or not is_of_rules
        resources = sorted((name, str(value)) for name, value in job.resources.items() if name not in UNLIKE)
        key = id(job) if stays_alone else (job.rule.name, *resources)
        groups.setdefault(key, []).append(job)
    return [group[start : start + LARGEST] for group in groups.values() for start in range(0, len(group), LARGEST)]


def batch_script(commands: Sequence[str]) -> str:
    """Return the script for sbatch: a single command, or for an array a `case` with each task's command, from 1 on."""
    body = commands[0]
    if len(commands) > 1:
        cases = "".join(f"{task})\n{command}\n;;\n" for task, command in enumerate(commands, 1))
        body = f'case "$SLURM_ARRAY_TASK_ID" in\n{cases}esac'
    return f"#!/bin/bash\n{CLEAN}\n{body}\n"
