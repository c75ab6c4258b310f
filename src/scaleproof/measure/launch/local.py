"""Ranks on this machine: started by torchrun, or forked from a process that has imported their libraries."""

import json
import os
import sys
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.strategies import is_deepspeed, is_offloaded
from scaleproof.measure.trainer.request import VARIABLE as HEARTBEAT_FILE

PROGRAM = "scaleproof.measure.trainer"
TORCHRUN, FORKED = "scaleproof.measure.launch.torchrun", "scaleproof.measure.launch.forked"
# What ranks import from other projects, as they would by themselves.
LIBRARIES = (
    "torch",
    "torch.distributed.fsdp",
    "transformers.models.gpt2.modeling_gpt2",
    "numpy",
    "pydantic",
    "psutil",
    "pynvml",
)
# Of ranks of DeepSpeed's own strategies. Each stage of ZeRO imports the optimizer, and with it torch's compiler.
DEEPSPEED = ("deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer")
COMPILERS = "TORCHINDUCTOR_COMPILE_THREADS"  # the variable of how many processes compile
MOST_COMPILERS = 32  # torch's own limit
PREFIX = "[default${rank}]:"  # before every line in the log: the rank in the world, not on its node


def torchrun_command(cell: Cell, request: Path, program: str = PROGRAM) -> list[str]:
    """Return the command line of torchrun that runs `program` with the file `request` on this machine's ranks."""
    return [
        *(sys.executable, "-m", TORCHRUN),
        "--standalone",
        "--local-addr=127.0.0.1",  # the host's own name cannot be resolved on isolated or oddly named nodes
        f"--nproc-per-node={cell.processes_per_node}",
        *torchrun_options(request),
        *("-m", program, str(request)),
    ]


def forked_command(cell: Cell, request: Path, program: str = PROGRAM) -> list[str]:
    """Return the command line that has this machine's ranks forked by the fork server, in torchrun's place."""
    libraries = [LIBRARIES, DEEPSPEED] if is_deepspeed(cell.execution.strategy) else [LIBRARIES]
    ranks = str(cell.processes_per_node)
    return [sys.executable, "-m", FORKED, str(request), program, ranks, json.dumps(libraries), PREFIX]


def may_fork(cell: Cell, gpus: int) -> bool:
    """Return whether ranks on this machine are forked: on its CPU, if the campaign says so."""
    on_cpu = cell.execution.device == "cpu" or not gpus
    return cell.execution.start == "forked" and on_cpu


def torchrun_options(request: Path) -> tuple[str, ...]:
    """Return options of torchrun, here and on a cluster: no restarts; all output printed, and in a file per rank."""
    return ("--max-restarts=0", "--tee=3", f"--log-dir={request.parent / 'ranks'}")


def threads_per_rank(cell: Cell, cores: int, gpus: int) -> int:
    """Return how many OpenMP threads a rank has on a node with `cores` cores and `gpus` CUDA devices.

    It is the campaign's number, but for an offloaded optimizer, which runs on the CPU: then it is a share of the cores.
    """
    execution = cell.execution
    if gpus and execution.device != "cpu" and is_offloaded(execution.strategy):
        return max(1, cores // execution.geometry.devices_per_node)
    return execution.threads_per_device


def rank_environment(cell: Cell, heartbeat: Path, cores: int = 1, gpus: int = 0) -> dict[str, str]:
    """Return the ranks' environment: that of this process, and what ranks need.

    `heartbeat`: the file in which ranks mark their progress; `cores`, `gpus`: their numbers on this node. Of all
    variables that are set here, only the number of compilers gives way to the user's own value.
    """
    threads = str(threads_per_rank(cell, cores, gpus))
    own = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
        HEARTBEAT_FILE: str(heartbeat),
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": PREFIX,
    }
    return compiler_variables(cell, cores, gpus) | os.environ | own  # the last one that has a variable counts


def compiler_variables(cell: Cell, cores: int, gpus: int) -> dict[str, str]:
    """Return the variable that limits a rank's compiling processes, beside a GPU, to its share of the node's `cores`.

    By itself each rank would start as many as the node has cores. Returns {} on a CPU, where torch counts the cores
    that the rank is bound to.
    """
    if not gpus or cell.execution.device == "cpu":
        return {}
    return {COMPILERS: str(max(1, min(MOST_COMPILERS, cores // cell.processes_per_node)))}
