"""Groups of ranks, what makes bandwidths of their collectives comparable; pairs of nodes: when they are measured, and
which links and nodes are slow.

Source: nccl-tests `doc/PERFORMANCE.md` (bus-bandwidth factors).
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from scaleproof.ground.findings.forecast_report import NodePair

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
COLLECTIVES: tuple[Collective, ...] = get_args(Collective)
Level = Literal["node", "network"]


@dataclass(frozen=True, order=True)
class Group:
    """`nodes` x `devices_per_node` ranks."""

    nodes: int
    devices_per_node: int

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.nodes * self.devices_per_node

    @property
    def level(self) -> Level:
        """The slowest kind of link that the group crosses."""
        return "network" if self.nodes > 1 else "node"

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices_per_node}"


def bus_factor(collective: Collective, size: int) -> float:
    """Return the bytes that each link carries per byte of the message, in a ring of `size` ranks (as of nccl-tests).

    The message of a gather or scatter is the whole of it: what is there after gathering, or before scattering.
    """
    if size < 2:
        return 0.0
    rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    return 1.0 if collective == "broadcast" else rounds[collective] * (size - 1) / size


def bus_bandwidth(collective: Collective, size: int, nbytes: float, seconds: float) -> float:
    """Return the bytes per second of each link: comparable with the figure of the link, whatever the group's size."""
    return bus_factor(collective, size) * nbytes / seconds


FEWEST_NODES = 4  # with fewer, a slow pair cannot be told from a slow node, nor either from a wrong median
SLOW = 0.70  # of the median node: what is faster is not worth an accusation
DEVIATIONS = 6.0  # robust standard deviations below the median, of very many pairs
FEW_PAIRS = 4.0  # a spread of few pairs may be too small by chance: 10 deviations of 6 pairs, 7 of 28
TO_SIGMA = 1.4826  # median absolute deviation of normal values to their standard deviation
EXCLUDE = "exclude.txt"


def tournament_rounds(n: int) -> list[list[tuple[int, int]]]:
    """Return all pairs of `n` nodes as a round-robin tournament: in a round no node is in two pairs (circle method).

    n - 1 rounds of n / 2 pairs; with an odd number of nodes n rounds, in each of which one node rests.
    """
    places: list[int | None] = list(range(n))
    if n % 2:
        places.append(None)  # whoever is paired with it rests
    schedule = []
    for turn in range(len(places) - 1):
        # The first node stays in place, the others move on by one place a round.
        others = places[1:]
        circle = [places[0], *others[turn:], *others[:turn]]
        opposite = zip(circle[: len(circle) // 2], reversed(circle), strict=False)
        schedule.append(sorted((min(a, b), max(a, b)) for a, b in opposite if a is not None and b is not None))
    return schedule


@dataclass(frozen=True)
class PairVerdict:
    """What the pairs say. Bus bandwidths in bytes per second.

    `median`: of the nodes' medians over their pairs. `bound`: a pair below it is slow; None where there are too few
    nodes to accuse any. `slow_nodes`: all their pairs are slow. `slow_links`: the only slow pair of both nodes, pairs
    with a slow node aside. `unexplained`: all other slow pairs.
    """

    median: float
    bound: float | None
    slow_nodes: tuple[str, ...] = ()
    slow_links: tuple[NodePair, ...] = ()
    unexplained: tuple[NodePair, ...] = ()


def judge_node_pairs(rows: Sequence[NodePair]) -> PairVerdict:
    """Return which nodes and links are slow: below 70 % of the median node, and far below by the spread of the pairs.

    A pair is slow if even its fastest launch is. The spread is the median absolute deviation of the pairs from the
    slower one of their nodes, so that neither a slow node nor a slow link widens it.
    """
    nodes = sorted({node for row in rows for node in (row.first, row.second)})
    speeds = {(row.first, row.second): math.log(row.bus_bytes_per_s) for row in rows}  # logarithms, as all that follow
    of_node = {node: statistics.median(speed for pair, speed in speeds.items() if node in pair) for node in nodes}
    middle = statistics.median(of_node.values())
    if len(nodes) < FEWEST_NODES:
        return PairVerdict(math.exp(middle), None)
    away = [speed - min(of_node[a], of_node[b]) for (a, b), speed in speeds.items()]
    centre = statistics.median(away)
    sigma = TO_SIGMA * statistics.median(abs(value - centre) for value in away)
    deviations = DEVIATIONS * (1 + FEW_PAIRS / len(rows))
    # A slow pair is below both marks, so below the lower one.
    bound = math.exp(min(middle + math.log(SLOW), middle - deviations * sigma))
    slow = [row for row in rows if row.best_bus_bytes_per_s < bound]
    slow_nodes = tuple(node for node in nodes if _count_pairs_with(node, slow) == len(nodes) - 1)
    rest = [row for row in slow if {row.first, row.second}.isdisjoint(slow_nodes)]
    links = [row for row in rest if _count_pairs_with(row.first, rest) == _count_pairs_with(row.second, rest) == 1]
    return PairVerdict(
        median=math.exp(middle),
        bound=bound,
        slow_nodes=slow_nodes,
        slow_links=tuple(links),
        unexplained=tuple(row for row in rest if row not in links),
    )


def _count_pairs_with(node: str, slow: Iterable[NodePair]) -> int:
    """Return how many of the `slow` pairs have the node in them."""
    return sum(node in (row.first, row.second) for row in slow)


def exclusion_list(verdict: PairVerdict) -> str:
    """Return the slow nodes in a line, as options that exclude nodes take it; an empty line where none is slow.

    A slow link is not in it: which of its two ends to leave out is a choice.
    """
    return ",".join(verdict.slow_nodes) + "\n"
