"""A/B pairs in one allocation: both arms of a pair one after the other on the same devices, in random order."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Comparison
from scaleproof.ground.files import write_json
from scaleproof.ground.records.metrics import Failed, Timed
from scaleproof.ground.records.run import PAIRS
from scaleproof.measure.launch.shared_job import finished_run


class PairEntry(TypedDict):
    """A pair, by its number. In a null pair A runs twice. `a`, `b`: the folders of its finished runs."""

    pair: int
    null: bool
    first: Literal["a", "b"]  # the arm that runs first
    a: NotRequired[str]
    b: NotRequired[str]


class Pairs(TypedDict):
    """pairs.json: the pairs of a comparison, in the order of their runs."""

    comparison: str
    pairs: list[PairEntry]


def plan_pairs(comparison: Comparison) -> list[PairEntry]:
    """Return all pairs in the order in which they run, without folders.

    Null pairs are spread among the others, so that both see the same machine. The order
    depends on the comparison's name alone.
    """
    dice = random.Random(comparison.name)
    are_null = [False] * comparison.pairs + [True] * comparison.null_pairs
    dice.shuffle(are_null)
    # As many pairs start with A as with B (to within one): a machine that warms up favours neither.
    first_arms: dict[bool, list[Literal["a", "b"]]] = {}  # is_null -> the first arm of each such pair, in random order
    for is_null, count in ((False, comparison.pairs), (True, comparison.null_pairs)):
        first_arms[is_null] = ["b" if number % 2 else "a" for number in range(count)]
        dice.shuffle(first_arms[is_null])
    return [
        {"pair": number, "null": is_null, "first": first_arms[is_null].pop()}
        for number, is_null in enumerate(are_null, start=1)
    ]


def first_pair(comparison: Comparison) -> int:
    """Return the number of the first pair that is no null pair: its runs are witnessed."""
    return next(entry["pair"] for entry in plan_pairs(comparison) if not entry["null"])


def run_pairs(
    comparison: Comparison, a: Cell, b: Cell, out: Path, run: Callable[[Cell, int, Path], Timed | Failed]
) -> list[PairEntry]:
    """Run all pairs, and write and return the entries of `out`/pairs.json: pairs (`plan_pairs`) with their folders.

    `a`, `b`: the cells of the arms A and B. `run(cell, repeat, folder)` makes one run. A pair that an interrupted
    attempt has finished is kept if cell and code are the same.
    """
    entries = plan_pairs(comparison)
    for entry in entries:
        cells = {"a": a, "b": a if entry["null"] else b}
        folders = {arm: out / f"pair{entry['pair']}" / arm for arm in cells}
        finished = [finished_run(folders[arm], cells[arm]) for arm in cells]
        if not all(metrics and metrics.status == "ok" for metrics in finished):  # a pair is made as a whole
            order = ("a", "b") if entry["first"] == "a" else ("b", "a")
            for arm in order:
                run(cells[arm], entry["pair"], folders[arm])
        entry |= {"a": str(folders["a"]), "b": str(folders["b"])}
        note = " (A against A)" if entry["null"] else ""
        print(f"pair {entry['pair']} of {len(entries)}{note}: done", flush=True)
    write_json(out / PAIRS, Pairs(comparison=comparison.name, pairs=entries))
    return entries
