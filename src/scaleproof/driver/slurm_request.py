"""What is asked of a cluster: nodes, devices, cores, memory, time, for a run or for several in one job."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Resources
from scaleproof.ground.campaign.shared_jobs import run_minutes

# A lost node ends the run's processes, not the job: the launcher lives to write down what happened.
ALWAYS = "--no-kill"
EXCLUSIVE = "--exclusive"
# Resources of a rule, named as Snakemake's own Slurm plugin names them -> options of sbatch.
OPTIONS = {
    "slurm_partition": "partition",
    "slurm_account": "account",
    "constraint": "constraint",
    "qos": "qos",
    "nodes": "nodes",
    "tasks": "ntasks",
    "cpus_per_task": "cpus-per-task",
    "mem_mb": "mem",
    "runtime": "time",
    "gres": "gres",
}
CORES_BESIDE_GPU = 4  # a rank's own thread, the loader's, and NCCL's two


@dataclass(frozen=True)
class Job:
    """A request, in Slurm's words."""

    nodes: int
    gres: str  # devices on each node; empty on the CPU
    cpus_per_task: int  # a task is the launcher of one node
    mem_mb: int  # per node
    runtime: int  # minutes
    options: str  # further ones of sbatch

    @property
    def devices_per_node(self) -> int:
        """GPUs on each node; 0 on the CPU."""
        return int(self.gres.rpartition(":")[2] or 0)

    @property
    def resources(self) -> dict[str, int | str]:
        """Return the request as resources of a rule. One launcher per node is one task per node."""
        return {
            "nodes": self.nodes,
            "tasks": self.nodes,
            "cpus_per_task": self.cpus_per_task,
            "mem_mb": self.mem_mb,
            "runtime": self.runtime,
            "gres": self.gres,
            "slurm_extra": self.options,
        }


def sbatch_options(resources: Mapping[str, Any]) -> list[str]:
    """What sbatch is given for a rule's resources."""
    options = [f"--{option}={resources[name]}" for name, option in OPTIONS.items() if resources.get(name)]
    return [*options, *shlex.split(str(resources.get("slurm_extra") or ""))]


def job(cell: Cell, resources: Resources) -> Job:
    """Return the request for one run of `cell`.

    Devices are asked for unless the cell says `device: cpu`: what `auto` finds is known only on the node.
    """
    geometry, on_cpu = cell.execution.geometry, cell.execution.device == "cpu"
    threads = cell.execution.threads_per_device
    cores = threads if on_cpu else max(threads, CORES_BESIDE_GPU)
    if resources.cpus_per_device != "derive":
        cores = resources.cpus_per_device
    return Job(
        nodes=geometry.nodes,
        gres="" if on_cpu else f"gpu:{geometry.devices_per_node}",
        cpus_per_task=cores * geometry.devices_per_node,
        mem_mb=round(resources.memory_per_device * 1000) * geometry.devices_per_node,
        runtime=run_minutes(resources),
        options=f"{ALWAYS} {EXCLUSIVE}" if resources.exclusive else ALWAYS,
    )


def job_of_replay(cell: Cell, resources: Resources) -> Job:
    """The request for the replay of `cell`, which is one process: one of the nodes of its run."""
    return replace(job(cell, resources), nodes=1)


def job_together(cells: Sequence[Cell], resources: Resources) -> Job:
    """Return the request for one run of each of `cells`, one after the other: room for the largest, time for all."""
    jobs = [job(cell, resources) for cell in cells]
    return Job(
        nodes=max(j.nodes for j in jobs),
        gres=max(jobs, key=lambda request: request.devices_per_node).gres,
        cpus_per_task=max(j.cpus_per_task for j in jobs),
        mem_mb=max(j.mem_mb for j in jobs),
        runtime=sum(j.runtime for j in jobs),
        options=jobs[0].options,
    )
