"""The launcher's look at how far its ranks are: progress for people, and which rank is stuck."""

import os
import tempfile
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from scaleproof.measure.trainer.heartbeat import PHASES


class Heartbeat:
    """Marks of the ranks of this node. On node-local storage: mapped files do not travel over network file systems."""

    def __init__(self, ranks: int, steps: int, warmup_steps: int = 0) -> None:
        """Make a file for the marks of `ranks` ranks. `steps`: of the run, `warmup_steps` of them before its window.

        A rank's mark counts phases, PHASES in each step: it moves within steps too.
        """
        self.ends = (warmup_steps, steps)
        self.seen: dict[int, float] = {}  # step -> when it was first seen that all ranks had ended as many
        descriptor, name = tempfile.mkstemp(prefix="scaleproof-heartbeat-")
        os.close(descriptor)
        self.path = Path(name)
        self.marks = np.memmap(self.path, dtype=np.int64, mode="w+", shape=(ranks,))
        self.last, self.moved = self.marks.copy(), time.monotonic()
        self.looked, self.longest_s = self.moved, 0.0  # the last look, and the longest time between two of them
        self.bar = tqdm(total=steps, unit="step", disable=None)  # on a terminal only

    def look(self) -> None:
        """Note whether anything has moved since the last look."""
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.looked)
        self.looked = now
        if (self.marks != self.last).any():
            self.last, self.moved = self.marks.copy(), now
            self.bar.update(self.steps - self.bar.n)
            for end in self.ends:
                if self.steps >= end:
                    self.seen.setdefault(end, self.moved)

    @property
    def steps(self) -> int:
        """Steps that all ranks have ended."""
        return int(self.last.min()) // PHASES

    @property
    def window_s(self) -> float | None:
        """Seconds between the looks that first saw the end of the warm-up and of the last step; None without both."""
        warmup, last = self.ends
        if warmup not in self.seen or last not in self.seen:
            return None
        return self.seen[last] - self.seen[warmup]

    @property
    def still(self) -> float:
        """Seconds since any rank moved."""
        return time.monotonic() - self.moved

    def behind(self) -> int | None:
        """The local rank that is behind all others; None where several are behind, or there is one rank alone."""
        lowest = np.flatnonzero(self.last == self.last.min())
        return int(lowest[0]) if len(lowest) == 1 and len(self.last) > 1 else None

    def close(self) -> None:
        """End the progress bar and remove the file."""
        self.bar.close()
        self.path.unlink(missing_ok=True)
