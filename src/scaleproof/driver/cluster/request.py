"""What a job of one or several runs asks of a cluster, whatever its scheduler."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Resources
from scaleproof.ground.campaign.shared_jobs import run_minutes

# Rules whose jobs stop a run themselves after `resources.time_limit`.
STOPPING_RULES = ("train", "shared_job", "pairs", "trace_capture", "frontier")
CORES_BESIDE_GPU = 4  # for the thread of a rank, the loader's thread, and two threads of NCCL


@dataclass(frozen=True)
class JobRequest:
    """What one job asks for: nodes, what each of them must have, and for how long."""

    nodes: int
    devices: int  # GPUs of each node; 0 for a job on CPUs
    cores: int  # of each node
    memory_mb: int  # of each node
    minutes: int
    exclusive: bool = True  # whether jobs of others are kept off the nodes


def request_of_run(cell: Cell, resources: Resources) -> JobRequest:
    """Return the request for a job that makes one run of `cell`.

    It asks for GPUs unless the cell says `device: cpu`: with `device: auto` only the node can tell whether it has any.
    """
    geometry = cell.execution.geometry
    is_on_cpu = cell.execution.device == "cpu"
    threads = cell.execution.threads_per_device

    if resources.cpus_per_device != "derive":
        cores_per_device = resources.cpus_per_device
    elif is_on_cpu:
        cores_per_device = threads
    else:
        cores_per_device = max(threads, CORES_BESIDE_GPU)
    return JobRequest(
        nodes=geometry.nodes,
        devices=0 if is_on_cpu else geometry.devices_per_node,
        cores=cores_per_device * geometry.devices_per_node,
        memory_mb=round(resources.memory_per_device * 1000) * geometry.devices_per_node,
        minutes=run_minutes(resources),
        exclusive=resources.exclusive,
    )


def request_of_replay(cell: Cell, resources: Resources) -> JobRequest:
    """Return the request for the replay of `cell`: one untimed process, on a part of one node."""
    return replace(request_of_run(cell, resources), nodes=1, exclusive=False)


def request_of_shared_job(cells: Sequence[Cell], resources: Resources) -> JobRequest:
    """Return the request for a job that makes one run of each of `cells`, one after the other.

    The job has room for the largest run, and time for all of them.
    """
    requests = [request_of_run(cell, resources) for cell in cells]
    return JobRequest(
        nodes=max(request.nodes for request in requests),
        devices=max(request.devices for request in requests),
        cores=max(request.cores for request in requests),
        memory_mb=max(request.memory_mb for request in requests),
        minutes=sum(request.minutes for request in requests),
        exclusive=resources.exclusive,
    )


def complaint_on_job_time(rule: str, minutes: float, resources: Resources) -> str | None:
    """Return why `minutes` are too few for a job of `rule`: they must exceed the time limit of its run.

    Otherwise the scheduler ends the job first, and the run leaves no row in the results. Returns None where `minutes`
    suffice, and for rules whose runs have no time limit.
    """
    limit = resources.time_limit
    if rule not in STOPPING_RULES or minutes > limit:
        return None
    return (
        f"set-resources gives a job of {rule} {minutes:g} minutes, but a run may take {limit:g} "
        "(resources.time_limit): the scheduler would end it before that, without a row; lower time_limit in the "
        f"campaign, or leave runtime out of set-resources: the job then asks for {run_minutes(resources)} at least"
    )
