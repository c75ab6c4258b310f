"""What is asked of a cluster: nodes, devices, cores, memory, time, for a run or for several in one job."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Resources
from scaleproof.ground.campaign.shared_jobs import run_minutes

# A lost node ends the run's processes, not the job: the launcher lives to write down what happened.
ALWAYS = "--no-kill"
EXCLUSIVE = "--exclusive"
CORES_BESIDE_GPU = 4  # a rank's own thread, the loader's, and NCCL's two


@dataclass(frozen=True)
class Job:
    """A request, in the words of the Slurm plugin."""

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
    def mpi(self) -> str:
        """ "srun" over several nodes; empty for one, where the plugin's rules for MPI must not hold.

        The plugin looks at the key's presence as well: with it the rule's command runs in the batch script, from where
        the
        launcher starts all nodes' ranks.
        """
        return "srun" if self.nodes > 1 else ""


def job(cell: Cell, resources: Resources) -> Job:
    """The request for one run of `cell`.

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
    """The request for one run of each of `cells`, one after the other: room for the largest, time for all."""
    jobs = [job(cell, resources) for cell in cells]
    return Job(
        nodes=max(j.nodes for j in jobs),
        gres=max(jobs, key=lambda request: request.devices_per_node).gres,
        cpus_per_task=max(j.cpus_per_task for j in jobs),
        mem_mb=max(j.mem_mb for j in jobs),
        runtime=sum(j.runtime for j in jobs),
        options=jobs[0].options,
    )
