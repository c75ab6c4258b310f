"""How far a rank is: one number in a small file that the launcher of its node maps into memory as well.

A store takes a tenth of a microsecond and no system call, so that it may stand in the timed loop.
"""

import os

import numpy as np

VARIABLE = "SCALEPROOF_HEARTBEAT"  # the file's path
PHASES = 3  # marks per step: samples taken, gradients computed, weights updated


def heartbeat(local_rank: int) -> np.ndarray:
    """The rank's mark, int64 of shape (1,): PHASES x steps done + phases done of the next one."""
    path = os.environ.get(VARIABLE)
    if not path:  # started by hand: nobody looks
        return np.zeros(1, dtype=np.int64)
    return np.memmap(path, dtype=np.int64, mode="r+")[local_rank : local_rank + 1]
