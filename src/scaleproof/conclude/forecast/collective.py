"""Times of collectives: factors, a table per group from a sweep, interpolation in size, extrapolation in group size.

Sources: nccl-tests `doc/PERFORMANCE.md` (bus-bandwidth factors); Thakur, Rabenseifner and Gropp 2005 (ring steps).
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from scaleproof.ground.number_format import integer

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
COLLECTIVES: tuple[Collective, ...] = get_args(Collective)
OUTSIDE = 2.0  # a table answers for sizes up to this factor beyond its smallest and largest one
LARGEST_STEP = 4  # a table answers for groups up to this many times its own


@dataclass(frozen=True, order=True)
class Group:
    """`nodes` x `devices_per_node` ranks."""

    nodes: int
    devices_per_node: int

    @property
    def size(self) -> int:
        return self.nodes * self.devices_per_node

    @property
    def level(self) -> Literal["node", "network"]:
        """The slowest kind of link that the group crosses."""
        return "network" if self.nodes > 1 else "node"

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices_per_node}"


class Unsupported(Exception):
    """No time can be given. `reason` says why, `measure` which measurement would lift it."""

    def __init__(self, code: str, reason: str, measure: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.measure = measure


def factor(collective: Collective, size: int) -> float:
    """Bytes that each link carries per byte of the message, in a ring of `size` ranks (nccl-tests' busbw factor).

    The message of a gather or scatter is the whole of it: what is there after gathering, or before scattering.
    """
    if size < 2:
        return 0.0
    if collective == "all_reduce":
        return 2 * (size - 1) / size
    return 1.0 if collective == "broadcast" else (size - 1) / size


def hops(collective: Collective, size: int) -> int:
    """Latencies, one after the other, of a ring of `size` ranks."""
    return (2 if collective == "all_reduce" else 1) * max(size - 1, 0)


def bus_bandwidth(collective: Collective, size: int, nbytes: float, seconds: float) -> float:
    """Bytes per second of each link: comparable with the figure of the link, whatever the group's size."""
    return factor(collective, size) * nbytes / seconds


def non_decreasing(values: Sequence[float]) -> list[float]:
    """The nearest non-decreasing series in least squares: pool adjacent violators (Barlow et al. 1972)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            before, number = blocks.pop()
            mean, count = (mean * count + before * number) / (count + number), count + number
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]


@dataclass(frozen=True)
class CollectiveTimes:
    """Times of one collective in one group. `sizes` in bytes, ascending; `seconds` as measured."""

    collective: Collective
    group: Group
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @cached_property
    def _log_sizes(self) -> list[float]:
        return [math.log(size) for size in self.sizes]

    @cached_property
    def _log_seconds(self) -> list[float]:
        return non_decreasing([math.log(seconds) for seconds in self.seconds])

    def at(self, nbytes: float) -> float:
        """Seconds of a message: linear in (log size, log time) between measured sizes.

        Below the smallest size its time, above the largest its bandwidth; raises Unsupported beyond twice either.
        """
        if nbytes <= 0 or self.group.size < 2:
            return 0.0
        first, last = self.sizes[0], self.sizes[-1]
        if not first / OUTSIDE <= nbytes <= last * OUTSIDE:
            raise Unsupported(
                "message-outside-sweep",
                f"{self.collective} of {integer(nbytes)} bytes in {self.group}: the sweep has "
                f"{integer(first)} to {integer(last)} bytes",
                f"sweep {self.collective} in {self.group} at {integer(nbytes)} bytes",
            )
        if nbytes >= last:
            return math.exp(self._log_seconds[-1]) * nbytes / last
        place = math.log(nbytes)
        right = bisect.bisect_right(self._log_sizes, place)
        if right == 0:
            return math.exp(self._log_seconds[0])
        left = right - 1
        part = (place - self._log_sizes[left]) / (self._log_sizes[right] - self._log_sizes[left])
        return math.exp(self._log_seconds[left] * (1 - part) + self._log_seconds[right] * part)

    def latency(self) -> float:
        """Seconds of the smallest message beyond what its bytes take at the bandwidth of the largest one."""
        carried = math.exp(self._log_seconds[-1]) * self.sizes[0] / self.sizes[-1]
        return max(0.0, math.exp(self._log_seconds[0]) - carried)

    def scaled_to(self, group: Group, nbytes: float) -> float:
        """Seconds in a larger group of the same level: latency grows with the hops, the rest with the ring's factor."""
        seconds = self.at(nbytes)
        own = self.group.size
        other = group.size
        latency = min(self.latency(), seconds)
        longer = hops(self.collective, other) / hops(self.collective, own)
        more = factor(self.collective, other) / factor(self.collective, own)
        return latency * longer + (seconds - latency) * more


@dataclass(frozen=True)
class Network:
    """All tables of a machine. `rails`: whether every device of a node has a network card of its own."""

    tables: tuple[CollectiveTimes, ...]
    rails: bool = False

    def table(self, collective: Collective, group: Group) -> CollectiveTimes | None:
        return next((t for t in self.tables if (t.collective, t.group) == (collective, group)), None)

    def below(self, size: int) -> "Network | None":
        """Without the tables of groups of `size` or more ranks; None where no table is left."""
        tables = tuple(t for t in self.tables if t.group.size < size)
        return Network(tables, self.rails) if tables else None

    def seconds(self, collective: Collective, nbytes: float, group: Group) -> float:
        """Seconds of one call: from the group's own table; else of two levels; else from a smaller group.

        Raises Unsupported where a level was never swept, the group is too large, or the size is outside of the sweep.
        """
        if group.size < 2 or nbytes <= 0:
            return 0.0
        own = self.table(collective, group)
        if own is not None:
            return own.at(nbytes)
        if group.nodes > 1 and group.devices_per_node > 1:
            return self._two_levels(collective, nbytes, group)
        smaller = self._nearest(collective, group)
        return smaller.scaled_to(group, nbytes)

    def _nearest(self, collective: Collective, group: Group) -> CollectiveTimes:
        """The table of the largest group on the same level that is not larger than `group`."""
        across = group.nodes > 1
        same = [
            t
            for t in self.tables
            if t.collective == collective
            and t.group.level == group.level
            and (t.group.devices_per_node == group.devices_per_node if across else True)
            and 2 <= t.group.size <= group.size
        ]
        if not same:
            raise Unsupported(
                "link-never-swept",
                f"{collective} was never swept {'between nodes' if across else 'inside a node'}",
                f"sweep {collective} in {group}",
            )
        largest = max(same, key=lambda t: t.group.size)
        if group.size > LARGEST_STEP * largest.group.size:
            raise Unsupported(
                "group-too-large",
                f"{group} has {group.size} ranks, more than {LARGEST_STEP} times the {largest.group.size} "
                "of the largest swept group",
                f"sweep {collective} in {group}",
            )
        return largest

    def _two_levels(self, collective: Collective, nbytes: float, group: Group) -> float:
        """Inside the nodes and between them, one after the other.

        With a card for each device the nodes exchange a share per rail at the same time; a shared card takes all of it.
        """
        inside, between = Group(1, group.devices_per_node), Group(group.nodes, 1)
        share = nbytes / group.devices_per_node if self.rails else nbytes
        parts: list[tuple[Collective, float, Group]] = [(collective, share, between), (collective, nbytes, inside)]
        if collective == "all_reduce":
            parts = [("reduce_scatter", nbytes, inside), ("all_reduce", share, between), ("all_gather", nbytes, inside)]
        return sum(self.seconds(name, size, where) for name, size, where in parts)
