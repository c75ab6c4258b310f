"""Devices whose memory is known: pieces of an allocator, a bend, formulas that are wrong by factors."""

import math
from dataclasses import dataclass

import numpy as np

from scaleproof.conclude.forecast.frontier import FrontierResult, Trial, search_largest, sizes_to_try

SIZES = sizes_to_try(3000)


@dataclass(frozen=True)
class Device:
    """A device with `limit` bytes. `at_rest`: what a run can tell of `base`; `start`: where a search begins."""

    limit: float
    base: float
    slope: float
    bent: float
    turn: float
    piece: float
    at_rest: float
    start: int

    def used(self, size: int) -> float:
        """True peak bytes at a micro-batch, in whole pieces of the allocator."""
        line = self.base + self.slope * size + self.bent * size * (size - self.turn)
        return math.ceil(line / self.piece) * self.piece

    def largest(self) -> int | None:
        """The largest micro-batch that fits, of those that are tried."""
        return max((size for size in SIZES if self.used(size) <= self.limit), default=None)

    def search(self, random: np.random.Generator, noise: float) -> FrontierResult:
        """What `search` finds where peaks differ between runs by `noise` (standard deviation, relative)."""

        def run(size: int) -> Trial:
            peak = self.used(size) * (1 + noise * random.standard_normal())
            return Trial(size, peak if peak <= self.limit else None, base=min(self.at_rest, 0.98 * peak))

        return search_largest(run, self.limit, SIZES, self.start)


def random_device(random: np.random.Generator, bend: float) -> Device:
    """0.3 to 100 GB, of which the state takes 2 to 90 %, and 1 to 2,000 samples fit. `bend`: of the line at its end."""
    limit, turn = 10 ** random.uniform(8.5, 11), 10 ** random.uniform(0.1, 3.3)
    base = limit * random.uniform(0.02, 0.9)
    slope = (limit - base) / turn
    piece = limit * random.choice([1e-9, 1e-3, 5e-3])
    formula, at_rest = base * random.uniform(0.3, 1.0), base * random.uniform(0.9, 1.05)
    start = int((limit - formula) / (slope * random.lognormal(0, 0.5)) / 4)
    return Device(limit, base, slope, bend * random.uniform() * slope / turn, turn, piece, at_rest, start)
