"""Ranks on the nodes of an allocation: srun starts one launcher on each, which becomes that node's torchrun.

This module is that launcher: started with REQUEST PORT PROGRAM.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.files import write_json
from scaleproof.measure.launch import local
from scaleproof.measure.machine.allocation import Allocation, ask_daemon_port, cancel_own_job, without_job
from scaleproof.measure.machine.network import interface_to, short_host
from scaleproof.measure.machine.provenance import describe_hardware
from scaleproof.measure.trainer.request import VARIABLE, Request

FIRST_PORT = 20_000
PORTS = 12_000  # from FIRST_PORT on; all are below the ports that systems hand out by themselves
NODE = "node.{host}.json"  # what a node says about itself, in the request's folder
TRIES = 3  # to reach a node
TRY_SECONDS = 5  # until a try has failed


def srun_command(
    cell: Cell, request: Path, allocation: Allocation, port: int, program: str = local.PROGRAM
) -> list[str]:
    """Return the command line of srun that starts this module on each of the cell's nodes.

    `request`: the file that `program`, a module, gets; `port`: where the nodes meet, on the first of them.
    """
    return [
        *srun_words(cell, allocation),
        *(sys.executable, "-m", "scaleproof.measure.launch.allocated", str(request), str(port), program),
    ]


def srun_words(cell: Cell, allocation: Allocation) -> list[str]:
    """Return the first words of an srun line that starts one task on each of the cell's nodes.

    They are the first nodes of the allocation. Each option is given here: in jobs of Snakemake's plugin srun finds none
    in the environment.
    """
    nodes = cell.execution.geometry.nodes
    return [
        *("srun", "--kill-on-bad-exit=1"),  # one rank that fails ends all nodes
        *(f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"),
        f"--cpus-per-task={allocation.cores_per_node}",
        f"--nodelist={','.join(allocation.hosts[:nodes])}",
    ]


def torchrun_words(cell: Cell, request: Path, first: str, port: int, run_id: str, program: str) -> list[str]:
    """Return the command line of torchrun on one node, which runs the module `program` on each of its ranks.

    `request`: the file that `program` gets; `first`, `port`: the node at which all nodes meet, and its port.
    """
    return [
        *(sys.executable, "-m", local.TORCHRUN),
        *(f"--nnodes={cell.execution.geometry.nodes}", f"--nproc-per-node={cell.processes_per_node}"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={first}:{port}", f"--rdzv-id={run_id}"),
        *local.torchrun_options(request),
        *("-m", program, str(request)),
    ]


def rank_environment(cell: Cell, heartbeat: Path, cores: int = 1, gpus: int = 0) -> dict[str, str]:
    """Return the ranks' environment (see `local.rank_environment`), without variables that are options of srun."""
    return without_job(local.rank_environment(cell, heartbeat, cores, gpus))


def describe_shortage(cell: Cell, allocation: Allocation, visible: int | None) -> str | None:
    """Return which nodes or devices the job lacks for the cell. Returns None where none is missing.

    `visible`: number of CUDA devices on this node, None for a torch without CUDA, for which devices do not count.
    Without this check, a job whose device does not work would silently run on the CPU.
    """
    geometry = cell.execution.geometry
    hosts = allocation.hosts
    if len(hosts) < geometry.nodes:
        return f"{geometry.nodes} nodes were asked for, job {allocation.job} has {len(hosts)}: {', '.join(hosts)}"
    if cell.execution.device == "cpu" or visible is None:
        return None
    required = min(geometry.devices_per_node, allocation.devices_per_node)  # a job may have asked for none
    if visible < required:
        return f"{required} devices were asked for on each node, {os.uname().nodename} shows {visible}"
    return None


def find_free_port(job: str) -> int:
    """Return a free port of this node, at which ranks meet. The job's number decides where the search begins."""
    number = sum(map(int, job.split("_")))  # "25_2" is the second task of array 25
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


def main(request_path: Path, port: int, program: str) -> None:
    """Write this node's record, choose its interface, and run torchrun with `program`; nodes meet at `port`."""
    request = Request.read(request_path)
    here = short_host(socket.gethostname())
    write_json(request_path.parent / NODE.format(host=here), describe_hardware())
    interface = interface_to(request.hosts)
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if interface and not os.environ.get(variable):  # what the site has set stands
            os.environ[variable] = interface

    first_host = request.hosts[0]
    # The launcher asks a run that hangs for its stacks with this signal; torchrun itself must outlive it.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    words = torchrun_words(request.cell, request_path, first_host, port, request.run_id, program)
    sys.stdout.flush()
    if here == short_host(first_host):
        os.execv(words[0], words)  # this process becomes torchrun; on other nodes it stays, to watch the first node

    os.environ.pop(VARIABLE, None)  # the heartbeat's file: the launcher, on the first node, watches that node's ranks
    exit_code = subprocess.run(words).returncode
    if exit_code and not node_answers(first_host):
        # With --no-kill the job would go on without its batch script until its time limit; cancelled, it is sent again.
        print(f"{first_host}, where this run's launcher was, does not answer: the job is cancelled", flush=True)
        cancel_own_job()
    sys.exit(1 if exit_code else 0)


def node_answers(host: str) -> bool:
    """Return whether the scheduler's daemon on the node `host` can be reached."""
    port = ask_daemon_port()
    for _ in range(TRIES):
        try:
            socket.create_connection((host, port), timeout=TRY_SECONDS).close()
            return True
        except OSError:
            time.sleep(1)
    return False


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
