"""What is asked of a cluster for a run or for several in one job, in the words of no scheduler."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Resources
from scaleproof.ground.campaign.shared_jobs import run_minutes

# Rules whose jobs stop runs at their own limit.
STOPPING_RULES = ("train", "shared_job", "pairs", "trace_capture", "frontier")
CORES_BESIDE_GPU = 4  # a rank's own thread, the loader's, and NCCL's two


@dataclass(frozen=True)
class JobRequest:
    """Nodes, what each of them must have, and for how long."""

    nodes: int
    devices: int  # GPUs on each node; 0 on the CPU
    cores: int  # on each node
    memory_mb: int  # on each node
    minutes: int
    exclusive: bool = True  # whether others are to stay away from the nodes


def request_of_run(cell: Cell, resources: Resources) -> JobRequest:
    """Return the request for a job that makes one run of `cell`.

    It asks for GPUs unless the cell says `device: cpu`: what `auto` finds is known on the node alone.
    """
    geometry, on_cpu = cell.execution.geometry, cell.execution.device == "cpu"
    threads = cell.execution.threads_per_device
    cores = threads if on_cpu else max(threads, CORES_BESIDE_GPU)
    if resources.cpus_per_device != "derive":
        cores = resources.cpus_per_device
    return JobRequest(
        nodes=geometry.nodes,
        devices=0 if on_cpu else geometry.devices_per_node,
        cores=cores * geometry.devices_per_node,
        memory_mb=round(resources.memory_per_device * 1000) * geometry.devices_per_node,
        minutes=run_minutes(resources),
        exclusive=resources.exclusive,
    )


def request_of_replay(cell: Cell, resources: Resources) -> JobRequest:
    """Return the request for the replay of `cell`: one untimed process, on a part of one of its run's nodes."""
    return replace(request_of_run(cell, resources), nodes=1, exclusive=False)


def request_of_shared_job(cells: Sequence[Cell], resources: Resources) -> JobRequest:
    """Return the request for one run of each of `cells`, in turn: room for the largest, and time for all."""
    jobs = [request_of_run(cell, resources) for cell in cells]
    return JobRequest(
        nodes=max(request.nodes for request in jobs),
        devices=max(request.devices for request in jobs),
        cores=max(request.cores for request in jobs),
        memory_mb=max(request.memory_mb for request in jobs),
        minutes=sum(request.minutes for request in jobs),
        exclusive=resources.exclusive,
    )


def complaint_on_job_time(rule: str, minutes: float, resources: Resources) -> str | None:
    """Return why `minutes` are too few for a job of `rule`: the scheduler would end it before its run ends itself.

    Such a run leaves no row. None where `minutes` exceed the run's own limit, and for rules without such a limit.
    """
    limit = resources.time_limit
    if rule not in STOPPING_RULES or minutes > limit:
        return None
    return (
        f"set-resources gives a job of {rule} {minutes:g} minutes, but a run may take {limit:g} "
        "(resources.time_limit): the scheduler would end it before that, without a row; lower time_limit in the "
        f"campaign, or leave runtime out of set-resources: the job then asks for {run_minutes(resources)} at least"
    )
