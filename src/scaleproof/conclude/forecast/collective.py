"""Groups of ranks and comparable bandwidths of their collectives; pairs of nodes, and which of them are slow.

Source: nccl-tests `doc/PERFORMANCE.md` (bus-bandwidth factors).
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from scaleproof.ground.findings.forecast_report import NodePair, nodes_of_pairs

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
        return self.nodes * self.devices_per_node

    @property
    def level(self) -> Level:
        """The slowest kind of link that the group crosses."""
        return "network" if self.nodes > 1 else "node"

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices_per_node}"


def bus_factor(collective: Collective, size: int) -> float:
    """Return the bytes that each link carries per byte of the message, in a ring of `size` ranks (as of nccl-tests).

    The message of a gather or scatter is the complete one: after gathering, or before scattering.
    """
    if size < 2:
        return 0.0
    if collective == "broadcast":
        return 1.0
    # Passes of the message through the ring.
    rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
    return rounds[collective] * (size - 1) / size


def bus_bandwidth(collective: Collective, size: int, nbytes: float, seconds: float) -> float:
    """Return the bytes per second of each link: comparable with the figure of the link, whatever the group's size."""
    return bus_factor(collective, size) * nbytes / seconds


FEWEST_NODES = 4  # with fewer, a slow pair cannot be told from a slow node, nor either from a wrong median
SLOW = 0.70  # of the median node: a faster pair is not worth an accusation
DEVIATIONS = 6.0  # robust standard deviations below the median, with very many pairs
FEW_PAIRS = 4.0  # a spread of few pairs may be too small by chance: 10 deviations of 6 pairs, 7 of 28
TO_SIGMA = 1.4826  # median absolute deviation of normal values to their standard deviation
EXCLUDE = "exclude.txt"


def tournament_rounds(n: int) -> list[list[tuple[int, int]]]:
    """Return all pairs of `n` nodes as a round-robin tournament: in a round no node is in two pairs (circle method).

    There are n - 1 rounds of n / 2 pairs; with an odd number of nodes n rounds, in each of which one node rests.
    """
    players: list[int | None] = list(range(n))
    if n % 2:
        players.append(None)  # the node that is paired with it rests
    others = players[1:]
    rounds = []
    for turn in range(len(others)):
        # The first node stays in place, the others move on by one place a round.
        circle = [players[0], *others[turn:], *others[:turn]]
        # First with last, second with last but one, and so on.
        opposites = zip(circle[: len(circle) // 2], reversed(circle), strict=False)
        rounds.append(sorted((min(a, b), max(a, b)) for a, b in opposites if a is not None and b is not None))
    return rounds


@dataclass(frozen=True)
class PairVerdict:
    """What the pairs say. Bus bandwidths are in bytes per second.

    `median`: the median of the nodes, each by the median of its pairs. `bound`: a pair below it is slow; None for too
    few nodes to accuse one. `slow_nodes`: all of their pairs are slow. `slow_links`: pairs without a slow node that are
    the only slow pair of both nodes. `unexplained`: all other slow pairs.
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
    nodes = nodes_of_pairs(rows)
    log_speeds = {(row.first, row.second): math.log(row.bus_bytes_per_s) for row in rows}
    speeds_of = {node: [speed for pair, speed in log_speeds.items() if node in pair] for node in nodes}
    log_medians = {node: statistics.median(speeds) for node, speeds in speeds_of.items()}
    log_median = statistics.median(log_medians.values())
    if len(nodes) < FEWEST_NODES:
        return PairVerdict(math.exp(log_median), None)

    deviations = [speed - min(log_medians[a], log_medians[b]) for (a, b), speed in log_speeds.items()]
    centre = statistics.median(deviations)
    sigma = TO_SIGMA * statistics.median(abs(deviation - centre) for deviation in deviations)
    # More for few pairs, whose spread may be too small by chance.
    sigmas_below = DEVIATIONS * (1 + FEW_PAIRS / len(rows))
    # A slow pair is below both marks, so below the lower one.
    bound = math.exp(min(log_median + math.log(SLOW), log_median - sigmas_below * sigma))

    slow_pairs = [row for row in rows if row.best_bus_bytes_per_s < bound]
    # A slow node: all of its pairs are slow.
    slow_nodes = tuple(node for node in nodes if _count_pairs_with(node, slow_pairs) == len(nodes) - 1)
    other_pairs = [row for row in slow_pairs if {row.first, row.second}.isdisjoint(slow_nodes)]
    slow_count = {node: _count_pairs_with(node, other_pairs) for node in nodes}
    # A slow link: the only slow pair of both nodes.
    slow_links = [row for row in other_pairs if slow_count[row.first] == slow_count[row.second] == 1]
    return PairVerdict(
        median=math.exp(log_median),
        bound=bound,
        slow_nodes=slow_nodes,
        slow_links=tuple(slow_links),
        unexplained=tuple(row for row in other_pairs if row not in slow_links),
    )


def _count_pairs_with(node: str, pairs: Iterable[NodePair]) -> int:
    return sum(node in (row.first, row.second) for row in pairs)


def exclusion_list(verdict: PairVerdict) -> str:
    """Return the slow nodes in a line, as options that exclude nodes take it; an empty line without slow nodes.

    A slow link is not in the line: which of its two ends to leave out is a choice.
    """
    return ",".join(verdict.slow_nodes) + "\n"
