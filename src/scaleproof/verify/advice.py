"""The advice on a size, computed again: its simplest cell that surely loses little, or why there is none."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scaleproof.ground.campaign.strategies import simplicity
from scaleproof.verify.contents import points_of
from scaleproof.verify.intervals import CellFamily
from scaleproof.verify.raw_cells import RawAnswer
from scaleproof.verify.recompute import comparable

DISTURBING = {"run-stands-out", "device-throttled", "cores-shared"}  # codes; a cell with one is not recommended
# They change from round to round, which disturbs no ratio of cells whose repeats match.
DISTURBING_ROUNDS = {"two-clock-states", "drift-over-repeats", "repeats-correlated"}


def expected_advice(answer: RawAnswer, family: CellFamily | None, ranking: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the advice on a size: its simplest cell that is shown to lose little, or why there is none."""
    names = comparable(ranking)
    if len(names) < 2:  # nothing to choose from
        return None
    margin = (ranking["recommendation"] or {}).get("margin", math.nan)  # the share of the best rate that it may lose
    advice: dict[str, Any] = dict.fromkeys(("cell", "candidate", "worst", "simpler"))
    advice |= {"why": "too-few-repeats", "fastest": names[0], "margin": margin, "disturbed": []}
    if family is None:
        return advice

    disturbing = DISTURBING if family.method == "tukey-blocks" else DISTURBING | DISTURBING_ROUNDS
    advice["disturbed"] = [name for name in names if disturbing & set(answer.codes.get(name, ()))]
    points = {point["cell"]: point for _, point in points_of(answer.report)}
    cells_worth_it = [name for name in names if _beats_one_device(family, points.get(name))]
    candidates = [name for name in cells_worth_it if name not in advice["disturbed"]]
    advice["why"] = "disturbed" if len(candidates) < len(cells_worth_it) else "none-beats-one-device"
    effort_of = {name: simplicity(answer.cells[name].strategy) for name in candidates}
    return advice | _simplest_near_fastest(family, names, effort_of, margin)


def _simplest_near_fastest(
    family: CellFamily, names: Sequence[str], effort_of: Mapping[str, tuple[int, bool]], margin: float
) -> dict[str, str | float | None]:
    """Choose the simplest candidate that surely loses at most `margin` of the fastest cell's rate.

    `names`: all cells. `effort_of`: candidate -> the effort of its strategy; less is simpler. In what is returned "why"
    is None for a chosen cell, and "undecided" for one that may be near enough; without either it is {}.
    """
    needed_ratio = 1 - margin
    worst_ratios: dict[str, float] = {}
    near_cells: list[str] = []
    chosen = None
    for name in sorted(effort_of, key=effort_of.__getitem__):
        others = [other for other in names if other != name]
        worst_ratios[name] = family.worst(name, others)
        best_ratio = min(family.bounds(name, other)[1] for other in others)
        if best_ratio >= needed_ratio:
            near_cells.append(name)
        if chosen is None and worst_ratios[name] >= needed_ratio:
            chosen = name

    if chosen:
        simpler = next((name for name in near_cells if effort_of[name] < effort_of[chosen]), None)
        return {"why": None, "cell": chosen, "worst": 1 - worst_ratios[chosen], "simpler": simpler}
    if near_cells:
        return {"why": "undecided", "candidate": near_cells[0], "worst": 1 - worst_ratios[near_cells[0]]}
    return {}


def _beats_one_device(family: CellFamily, point: Mapping[str, Any] | None) -> bool:
    """Return whether the cell of a point beats the best single device; True where there is no such device."""
    if point is None or point["devices"] < 2:
        return True
    best = point["best_single"]
    if best in (None, point["cell"]):
        return True
    low, _ = family.bounds(point["cell"], best) if best in family.cells else (0.0, 0.0)
    return low > 1
