"""Pairs of nodes of a network whose slow nodes and links are known."""

import math
from collections.abc import Collection
from itertools import combinations

import numpy as np

from scaleproof.ground.findings.forecast_report import NodePair

BANDWIDTH = 10e9  # bytes per second of a sound pair
NBYTES = 2**26
LAUNCHES = 3
BETWEEN_LAUNCHES = 0.03  # relative standard deviation


def node_pair(first: int, second: int, seconds: float, speed: float, best: float) -> NodePair:
    """The row of two nodes, with its bus bandwidths: of `seconds`, and of the fastest launch."""
    names = {"first": f"n{first}", "second": f"n{second}"}
    return NodePair(**names, nbytes=NBYTES, seconds=seconds, bus_bytes_per_s=speed, best_bus_bytes_per_s=best)


def node_pairs(
    random: np.random.Generator,
    n: int,
    spread: float,
    slow: Collection[int | tuple[int, int]] = (),
    factor: float = 0.5,
) -> list[NodePair]:
    """All pairs of `n` nodes, which differ by `spread`; those in `slow`, nodes or pairs, are at `factor`."""
    rows = []
    for pair in combinations(range(n), 2):
        is_slow = pair in slow or pair[0] in slow or pair[1] in slow
        speed = BANDWIDTH * (factor if is_slow else 1) * math.exp(spread * random.standard_normal())
        launches = speed * np.exp(BETWEEN_LAUNCHES * random.standard_normal(LAUNCHES))
        middle, best = float(np.median(launches)), float(launches.max())
        rows.append(node_pair(pair[0], pair[1], NBYTES / middle, middle, best))
    return rows
