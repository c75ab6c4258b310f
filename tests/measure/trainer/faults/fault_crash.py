"""A trainer that fails in ways: named by the environment variable FAULT."""

import os
import signal
import sys
import time
from pathlib import Path

from scaleproof.measure.trainer import __main__ as trainer

FAULT, RANK = os.environ["FAULT"], int(os.environ["RANK"])


def fail() -> None:
    """Fail as rank 1; the others wait for it, as they would in a collective."""
    while RANK != 1:
        time.sleep(60)
    if FAULT == "exception":
        raise ValueError("the fault of rank 1")
    if FAULT == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "memory":
        import torch

        torch.zeros(1 << 50)  # a petabyte and more
    if FAULT == "terminated":
        os.kill(os.getpid(), signal.SIGTERM)
    while FAULT == "hang":
        time.sleep(60)


if __name__ == "__main__":
    request = trainer.Request.read(Path(sys.argv[1]))
    try:
        fail()
    except BaseException as error:
        trainer.report_failure(error, Path(request.out))
        os._exit(1)
