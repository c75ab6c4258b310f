"""Ranks on the nodes of an allocation: srun starts one launcher on each, which becomes that node's torchrun."""

import os
import socket
import sys
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.measure.launch import local
from scaleproof.measure.machine.allocation import Allocation, without_job

FIRST_PORT, PORTS = 20_000, 12_000  # below the ports that systems hand out by themselves


def command(cell: Cell, request: Path, allocation: Allocation, port: int, program: str = local.PROGRAM) -> list[str]:
    """The srun line: one task on each of the cell's nodes, the first ones of the allocation.

    `request`: the file that `program`, a module, gets; `port`: where the nodes meet, on the first of them.
    Every option is given: what srun would take from the job's environment is gone in the jobs of Snakemake's plugin.
    """
    return [
        *srun(cell, allocation),
        *(sys.executable, "-m", "scaleproof.measure.launch.node", str(request), str(port), program),
    ]


def srun(cell: Cell, allocation: Allocation) -> list[str]:
    """The beginning of a line that starts one task on each of the cell's nodes."""
    nodes = cell.execution.geometry.nodes
    return [
        *("srun", "--kill-on-bad-exit=1"),  # one rank that fails ends all nodes
        *(f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"),
        f"--cpus-per-task={allocation.cores_per_node}",
        f"--nodelist={','.join(allocation.hosts[:nodes])}",
    ]


def torchrun(cell: Cell, request: Path, first: str, port: int, run_id: str, program: str) -> list[str]:
    """The torchrun line of one node, with which `program` is run on each of its ranks.

    `request`: the file that it gets; `first`, `port`: the node where all meet, and its port.
    """
    return [
        *(sys.executable, "-m", local.TORCHRUN),
        *(f"--nnodes={cell.execution.geometry.nodes}", f"--nproc-per-node={cell.processes_per_node}"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={first}:{port}", f"--rdzv-id={run_id}"),
        *local.options(request),
        *("-m", program, str(request)),
    ]


def environment(cell: Cell, heartbeat: Path, cores: int = 1, gpus: int = 0) -> dict[str, str]:
    """The environment of the ranks (`local.environment`), less what an allocation would make srun assume."""
    return without_job(local.environment(cell, heartbeat, cores, gpus))


def shortage(cell: Cell, allocation: Allocation, visible: int | None) -> str | None:
    """What the job lacks of what the cell's geometry asks for; None where nothing is known to be missing.

    `visible`: CUDA devices on this node; None where torch has no CUDA, so that devices are not looked for. A device
    that was given but does not work would otherwise pass for a machine without any, and the run be made on its CPU.
    """
    geometry, hosts = cell.execution.geometry, allocation.hosts
    if len(hosts) < geometry.nodes:
        return f"{geometry.nodes} nodes were asked for, job {allocation.job} has {len(hosts)}: {', '.join(hosts)}"
    required = min(geometry.devices_per_node, allocation.devices_per_node)
    if cell.execution.device != "cpu" and visible is not None and visible < required:
        return f"{required} devices were asked for on each node, {os.uname().nodename} shows {visible}"
    return None


def free_port(job: str) -> int:
    """The port of the rendezvous: a free one, counted from a number of the job, so that two jobs on one node differ."""
    number = sum(map(int, job.split("_")))  # 25, or the second task of array 25
    for offset in range(100):
        port = FIRST_PORT + (number + offset) % PORTS
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port near {FIRST_PORT + number % PORTS} on {socket.gethostname()}")
