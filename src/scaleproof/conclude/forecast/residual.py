"""What the model misses at the largest measured size, and how it grows with devices.

Inside a node it is carried as communication that grows with the ring's factor, across nodes with the logarithm of
nodes. (On published series the multiplicative correction is 3 to 6 % off where these are within 1 %: docs/forecast.md.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaleproof.conclude.forecast.collective import Group, Unsupported, factor
from scaleproof.conclude.forecast.interval import doublings
from scaleproof.ground.number_format import significant

SUPER_LINEAR = 0.10  # a series whose time per step falls by more than this from one size to the next is of two settings


@dataclass(frozen=True)
class Point:
    """Seconds of a step in `group`, and what the model has for it without a residual; None: there is no model."""

    group: Group
    seconds: float
    modelled: float | None = None

    @property
    def residual(self) -> float:
        return self.seconds - (self.modelled or 0.0)


def ring(group: Group) -> float:
    return factor("all_reduce", group.size)


def log_nodes(group: Group) -> float:
    return math.log2(group.nodes) if group.nodes > 1 else 0.0


def carried(points: Sequence[Point], group: Group) -> tuple[float, float]:
    """Seconds to add in `group`, and the difference that the other law would make.

    With two or more sizes on a network: base + growth x log2(nodes) through the two largest ones. Else the largest
    measured size alone, by the ring's factor. A negative residual is carried unchanged: it is a misfit of computing.
    """
    measured = sorted(points, key=lambda p: p.group.size)
    if not measured:
        return 0.0, 0.0
    last = measured[-1]
    if group.size == last.group.size or (last.modelled is None and len(measured) < 2):
        return last.residual, 0.0
    if group.nodes == 1 or last.group.size < 2 or len(measured) < 2:
        own = ring(last.group)
        if last.residual <= 0 or not own:
            return last.residual, 0.0
        seconds = last.residual * ring(group) / own
        if group.nodes == 1:
            return seconds, 0.0
        nodes = log_nodes(last.group)
        other = last.residual * log_nodes(group) / nodes if nodes else seconds
        return (other, abs(other - seconds)) if nodes else (seconds, 0.0)
    before = measured[-2]
    by_nodes = _line(before, last, group, log_nodes)
    by_ring = _line(before, last, group, lambda g: 1 - 1 / g.nodes)
    return by_nodes, abs(by_nodes - by_ring)


def _line(before: Point, last: Point, group: Group, law: Callable[[Group], float]) -> float:
    """Through two measured residuals, linear in `law`."""
    step = law(last.group) - law(before.group)
    growth = (last.residual - before.residual) / step if step else 0.0
    return last.residual + growth * (law(group) - law(last.group))


def check_series(points: Sequence[Point]) -> None:
    """Raises Unsupported where the same work per device becomes much shorter with more devices."""
    measured = sorted(points, key=lambda p: p.group.size)
    for before, after in pairwise(measured):
        less, more = before.residual, after.residual
        if less - more > SUPER_LINEAR * before.seconds:
            raise Unsupported(
                "super-linear",
                f"a step takes {significant(after.seconds, 4)} s on {after.group} where {before.group} lets expect "
                f"{significant(after.seconds - more + less, 4)} s "
                "or more: the settings differ, or a cache or memory limit is crossed",
                f"run {before.group} again with the settings of {after.group}",
            )


def held_out_residual(points: Sequence[Point]) -> float | None:
    """log(measured / predicted) per doubling of the largest size, predicted from the smaller ones.

    None below 2 sizes.
    """
    measured = sorted(points, key=lambda p: p.group.size)
    if len(measured) < 2:
        return None
    *smaller, largest = measured
    predicted = largest.seconds - largest.residual + carried(smaller, largest.group)[0]
    if predicted <= 0:
        return None
    return math.log(largest.seconds / predicted) / doublings(largest.group.size, smaller[-1].group.size)
