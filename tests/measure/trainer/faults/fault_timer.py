"""A trainer whose step timer restarts only every tenth step, as one published benchmark's did."""

import sys
from pathlib import Path

import numpy as np

from scaleproof.measure.trainer import timed_loop
from scaleproof.measure.trainer.__main__ import main

right = timed_loop.StepTimer.stop


def stop(self):
    steps, wall = right(self)
    since = [sum(steps[i - i % 10 : i + 1]) for i in range(len(steps))]
    return np.array(since), wall


timed_loop.StepTimer.stop = stop

if __name__ == "__main__":
    main(Path(sys.argv[1]))
