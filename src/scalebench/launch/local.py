"""Ranks on this machine, started by torchrun."""

import os
import sys
from pathlib import Path

from scalebench.campaign.cells import Cell
from scalebench.trainer.heartbeat import VARIABLE

PROGRAM = "scalebench.trainer"
TORCHRUN = "scalebench.launch.torchrun"
PREFIX = "[default${rank}]:"  # of every line in the log: the rank in the world, not the one on its node


def command(cell: Cell, request: Path, program: str = PROGRAM) -> list[str]:
    """The torchrun line for one node: one process per device, a free port, no restarts, all output tagged by rank."""
    return [
        *(sys.executable, "-m", TORCHRUN, "--standalone"),
        f"--nproc-per-node={cell.processes_per_node}",
        *options(request),
        *("-m", program, str(request)),
    ]


def options(request: Path) -> tuple[str, ...]:
    """Options of torchrun, on a cluster as well: no restarts, and every rank's output, here and in a file."""
    return ("--max-restarts=0", "--tee=3", f"--log-dir={request.parent / 'ranks'}")


def environment(cell: Cell, heartbeat: Path) -> dict[str, str]:
    """This process' environment with the threads set: torchrun would set them for several ranks but not for one."""
    threads = str(cell.execution.threads_per_device)
    own = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1", VARIABLE: str(heartbeat)}
    own["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] = PREFIX
    return os.environ | own
