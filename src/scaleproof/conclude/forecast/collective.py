"""Groups of ranks, and what makes bandwidths of their collectives comparable.

Source: nccl-tests `doc/PERFORMANCE.md` (bus-bandwidth factors).
"""

from dataclasses import dataclass
from typing import Literal, get_args

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


def factor(collective: Collective, size: int) -> float:
    """Bytes that each link carries per byte of the message, in a ring of `size` ranks (nccl-tests' busbw factor).

    The message of a gather or scatter is the whole of it: what is there after gathering, or before scattering.
    """
    if size < 2:
        return 0.0
    if collective == "all_reduce":
        return 2 * (size - 1) / size
    return 1.0 if collective == "broadcast" else (size - 1) / size


def bus_bandwidth(collective: Collective, size: int, nbytes: float, seconds: float) -> float:
    """Bytes per second of each link: comparable with the figure of the link, whatever the group's size."""
    return factor(collective, size) * nbytes / seconds
