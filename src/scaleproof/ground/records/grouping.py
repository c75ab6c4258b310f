"""Things, and runs above all, by what they have in common, or all have."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from scaleproof.ground.records.run import Run, TimedRun

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
AnyRun = TypeVar("AnyRun", bound="Run")


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return {value of `key`: the items that have it}, values and items in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def all_known(values: Iterable[Item | None]) -> list[Item]:
    """Return the values if all of them are known; [] where one is None."""
    known: list[Item] = []
    for value in values:
        if value is None:
            return []
        known.append(value)
    return known


def runs_by_cell(runs: Iterable[AnyRun]) -> dict[str, list[AnyRun]]:
    return group_by(runs, lambda run: run.metrics.cell)


def start_epoch_s(run: "TimedRun") -> float:
    return datetime.fromisoformat(run.metrics.timestamp_utc.replace("Z", "+00:00")).timestamp()


def sessions_of(cells: Mapping[str, Sequence["TimedRun"]]) -> list[list[str]]:
    """Return the names of cells that were measured in turns, together, the first session first."""
    spans = {
        cell: [(start, start + run.metrics.total_wall_time_s) for run in runs for start in [start_epoch_s(run)]]
        for cell, runs in cells.items()
    }
    return spans_in_turns(spans)


def spans_in_turns(spans: Mapping[str, Sequence[tuple[float, float]]]) -> list[list[str]]:
    """Return the names of cells that took turns, together, the first session first. `spans`: of each run of a cell.

    A session is over where all runs of its cells have ended before another cell makes its first.
    """
    sessions: list[list[str]] = []
    end = float("-inf")
    for cell in sorted(spans, key=lambda cell: min(spans[cell])):
        if min(spans[cell])[0] >= end:
            sessions.append([])
        sessions[-1].append(cell)
        end = max(end, *(run_end for _, run_end in spans[cell]))
    return sessions
