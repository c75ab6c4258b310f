"""A trainer whose last rank is stopped by SIGSTOP inside the window, and goes on a second later."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from scaleproof.measure.trainer.__main__ import main
from scaleproof.measure.trainer.batches import Batches

right = Batches.take


def take(self, step, micro):
    if step == 16 and os.environ.get("RANK", "0") == os.environ.get("FAULT_RANK", "0"):
        subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    return right(self, step, micro)


Batches.take = take

if __name__ == "__main__":
    main(Path(sys.argv[1]))
