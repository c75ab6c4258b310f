"""Things, and runs above all, by what they have in common, or all have."""

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from scaleproof.ground.records.run import Run

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
AnyRun = TypeVar("AnyRun", bound="Run")


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return {value of `key`: the items that have it}, values and items in the order in which they come."""
    return lists_by_key((key(item), item) for item in items)


def lists_by_key(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return {key: the items that come with it}, keys and items in the order in which they come."""
    lists: dict[Key, list[Item]] = {}
    for key, item in pairs:
        lists.setdefault(key, []).append(item)
    return lists


def all_known(values: Iterable[Item | None]) -> list[Item]:
    """Return the values if all of them are known; [] where one is None."""
    every = list(values)
    return [] if None in every else [value for value in every if value is not None]


def runs_by_cell(runs: Iterable[AnyRun]) -> dict[str, list[AnyRun]]:
    """Return the runs of each cell, cells in the order in which they come."""
    return group_by(runs, lambda run: run.metrics.cell)
