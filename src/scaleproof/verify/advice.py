"""The advice of a campaign, computed again: the cell of a size, and what further repeats would show.

Advice on a size is its simplest cell that surely loses little, or why there is none; on repeats, `resolve` of
scaling_report.json.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from scaleproof.ground.campaign.strategies import simplicity
from scaleproof.verify import intervals
from scaleproof.verify.contents import REPORT, points_of, schema_of
from scaleproof.verify.intervals import CellFamily, PairNoise
from scaleproof.verify.raw import Difference, check_values, close
from scaleproof.verify.raw_cells import RawAnswer
from scaleproof.verify.recompute import comparable

# Codes: a cell with one is not recommended.
DISTURBING = {"run-stands-out", "runs-far-apart", "device-throttled", "cores-shared"}
# They change from round to round, which disturbs no ratio of cells whose repeats match.
DISTURBING_ROUNDS = {"two-clock-states", "drift-over-repeats", "repeats-correlated"}
ROUND_CONFIDENCE = 1 - 0.05 * (1 - 1.25**-3)  # of a look after further repeats (docs/statistics.md)
EVEN_DRAWS = (5, 3)  # schema from which on simulated differences have no more than today's error
MOST_REPEATS = 1000  # of an advice
MOST_TIMES = 5  # of an advice: its further repeats over those that there are


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

    disturbing = DISTURBING if family.method == "tukey-blocks" else DISTURBING | DISTURBING_ROUNDS  # repeats match
    advice["disturbed"] = [name for name in names if disturbing & set(answer.codes.get(name, ()))]
    points = {point["cell"]: point for _, point in points_of(answer.report)}
    cells_worth_it = [name for name in names if _beats_one_device(family, points.get(name))]
    candidates = [name for name in cells_worth_it if name not in advice["disturbed"]]
    # The reason where no candidate is near enough.
    advice["why"] = "disturbed" if len(candidates) < len(cells_worth_it) else "none-beats-one-device"
    effort_of = {name: simplicity(answer.cells[name].strategy) for name in candidates}
    return advice | _simplest_near_fastest(family, names, effort_of, margin)


def _simplest_near_fastest(
    family: CellFamily, names: Sequence[str], effort_of: Mapping[str, tuple[int, bool]], margin: float
) -> dict[str, str | float | None]:
    """Choose the simplest candidate that surely loses at most `margin` of the fastest cell's rate.

    `names`: all cells. `effort_of`: candidate -> the effort of its strategy; less is simpler. Returns fields of the
    advice: "why" is None with a chosen cell, "undecided" with a cell that may be near enough. Returns {} without one.
    """
    needed_ratio = 1 - margin
    worst_ratios: dict[str, float] = {}
    near_cells: list[str] = []
    chosen = None
    for name in sorted(effort_of, key=effort_of.__getitem__):
        others = [other for other in names if other != name]
        worst_ratios[name] = family.worst(name, others)
        best_ratio = min(family.bounds(name, other)[1] for other in others)  # at best, to the fastest of the others
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
    if point is None or point["devices"] < 2:
        return True
    best = point["best_single"]
    if best in (None, point["cell"]):
        return True
    low, _ = family.bounds(point["cell"], best) if best in family.cells else (0.0, 0.0)  # no interval: not shown
    return low > 1


def check_repeats_of_ratio(
    stated: Mapping[str, Any] | None, where: str, noise: PairNoise | None, answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where `stated`, the `resolve` of a ratio in the report, is not what further repeats would show.

    `noise`: the noise of the ratio; None where no advice on further repeats is due.
    """
    if stated and noise:
        yield from check_further_repeats(stated, where, noise.n, partial(intervals.detectable_by_pair, noise), answer)
    elif stated or noise:  # one without the other; advice needs three runs of each cell
        problem = "cannot be recomputed from the raw files" if stated else "is missing"
        yield Difference(REPORT, f"{where}, resolve", problem)


def check_further_repeats(
    stated: Mapping[str, Any], where: str, n: int, shown_by: Callable[[int, float], float], answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where `stated`, a `resolve` of the report, is not what `n` repeats, and further repeats, would show.

    `shown_by(n, level)`: the smallest log ratio that n repeats show in intervals of that level.
    """
    where = f"{where}, resolve"
    looks = _repeats_after_looks(n)
    further_repeats = max((repeats for repeats in looks if repeats <= MOST_TIMES * n), default=n)
    expected: dict[str, Any] = {"n": n, "further": {"repeats": further_repeats}}
    planned_effect = _planned_effect(answer.report)
    if planned_effect and where != "question, resolve":  # a question has an effect of its own
        expected["effect"] = planned_effect
    yield from check_values(REPORT, where, stated, expected)

    log_ratio = shown_by(n, answer.confidence)
    further_log_ratio = shown_by(further_repeats, ROUND_CONFIDENCE) if further_repeats > n else log_ratio
    error = intervals.ERROR if schema_of(answer.report) >= EVEN_DRAWS else intervals.EARLIER_ERROR
    further_detectable = stated["further"]["detectable"]
    yield from _check_detectable(f"{where}, detectable", stated["detectable"], log_ratio, error)
    yield from _check_detectable(f"{where}, further, detectable", further_detectable, further_log_ratio, error)

    repeats = stated["repeats"]
    if not _are_fewest_for(repeats, looks, math.log1p(stated["effect"]), error, shown_by):
        yield Difference(REPORT, f"{where}, repeats", f"{repeats} repeats are not those that show the effect")


def _are_fewest_for(
    repeats: int | None, looks: Sequence[int], effect: float, error: float, shown_by: Callable[[int, float], float]
) -> bool:
    """Return whether `repeats` are the first of `looks` that show a log ratio of `effect`; None: more than all looks.

    `error`: the relative error of what `shown_by` returns; `repeats` that are right within it are accepted.
    """
    fewer = [look for look in looks if repeats is None or look < repeats]
    if fewer and (1 + error) * shown_by(fewer[-1], ROUND_CONFIDENCE) < effect:  # an earlier look shows it surely
        return False
    if repeats is None:
        return True
    return repeats in looks and (1 - error) * shown_by(repeats, ROUND_CONFIDENCE) <= effect


def _check_detectable(where: str, stated: float, log_ratio: float, error: float) -> Iterator[Difference]:
    """Yield a difference where the stated effect is not `log_ratio`, which is known up to the relative `error`."""
    if not close(math.log1p(stated), log_ratio, error):
        yield from check_values(REPORT, where, stated, math.expm1(log_ratio))


def _planned_effect(report: Mapping[str, Any]) -> float | None:
    """Return the difference that repeats are to show: that of the rule by which they end, else the advice's margin."""
    if report.get("repeats"):
        return float(report["repeats"]["resolve"])
    advice = [ranking["recommendation"] for ranking in report["ranking"] if ranking["recommendation"]]
    return advice[0].get("margin") if advice else None


def _repeats_after_looks(n: int) -> list[int]:
    """Return the numbers of repeats, above `n`, at which results are looked at, each a quarter more: 5, 7, 9, ..."""
    looks: list[int] = []
    repeats = math.ceil(1.25 * n)
    while repeats <= MOST_REPEATS:
        looks.append(repeats)
        repeats = math.ceil(1.25 * repeats)
    return looks
