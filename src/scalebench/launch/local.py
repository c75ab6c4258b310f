"""Ranks on this machine, started by torchrun."""

import os
import sys
from pathlib import Path

from scalebench.campaign.cells import Cell
from scalebench.trainer.pulse import VARIABLE

PROGRAM = "scalebench.trainer"


def command(cell: Cell, request: Path, program: str = PROGRAM) -> list[str]:
    """The torchrun line for one node: one process per device, a free port, no restarts, all output tagged by rank."""
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=0"),
        f"--nproc-per-node={cell.processes_per_node}",
        *("--tee=3", f"--log-dir={request.parent / 'ranks'}"),
        *("-m", program, str(request)),
    ]


def environment(cell: Cell, pulse: Path) -> dict[str, str]:
    """This process' environment with the threads set: torchrun would set them for several ranks but not for one."""
    threads = str(cell.execution.threads_per_device)
    own = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1", VARIABLE: str(pulse)}
    return os.environ | own
