"""Pairs of nodes of a network whose slow nodes and links are known."""

import math
from collections.abc import Collection
from itertools import combinations

import numpy as np

from scaleproof.conclude.forecast.collective import PairRow

BANDWIDTH = 10e9  # bytes per second of a sound pair
NBYTES = 2**26
LAUNCHES = 3
BETWEEN_LAUNCHES = 0.03  # relative standard deviation


def node_pairs(
    random: np.random.Generator,
    n: int,
    spread: float,
    slow: Collection[int | tuple[int, int]] = (),
    factor: float = 0.5,
) -> list[PairRow]:
    """All pairs of `n` nodes, which differ by `spread`; those in `slow`, nodes or pairs, are at `factor`."""
    rows = []
    for pair in combinations(range(n), 2):
        is_slow = pair in slow or pair[0] in slow or pair[1] in slow
        speed = BANDWIDTH * (factor if is_slow else 1) * math.exp(spread * random.standard_normal())
        launches = speed * np.exp(BETWEEN_LAUNCHES * random.standard_normal(LAUNCHES))
        middle, best = float(np.median(launches)), float(launches.max())
        rows.append(PairRow(f"n{pair[0]}", f"n{pair[1]}", NBYTES, NBYTES / middle, middle, best))
    return rows
