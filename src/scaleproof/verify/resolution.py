"""What further repeats would show, `resolve` of scaling_report.json, computed again."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from scaleproof.verify import intervals
from scaleproof.verify.contents import REPORT, schema_of
from scaleproof.verify.intervals import PairNoise
from scaleproof.verify.raw import Difference, check_values, close
from scaleproof.verify.raw_cells import RawAnswer

ROUND_CONFIDENCE = 1 - 0.05 * (1 - 1.25**-3)  # of a look after further repeats (docs/statistics.md)
EVEN_DRAWS = (5, 3)  # schema from which on simulated differences have no more than today's error
MOST_REPEATS = 1000  # of an advice
MOST_TIMES = 5  # of an advice: its further repeats over those that there are


def check_resolve(
    stated: Mapping[str, Any] | None, where: str, noise: PairNoise | None, answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where further repeats of a ratio show other differences than `stated`.

    `noise`: the noise of the ratio; None where no advice on further repeats is due.
    """
    if stated and noise:
        yield from check_resolution(stated, where, noise.n, partial(intervals.detectable_by_pair, noise), answer)
    elif stated or noise:  # it needs three runs of each cell
        problem = "cannot be recomputed from the raw files" if stated else "is missing"
        yield Difference(REPORT, f"{where}, resolve", problem)


def check_resolution(
    stated: Mapping[str, Any], where: str, n: int, shown_by: Callable[[int, float], float], answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where `stated` gives other differences than `n` repeats, and further repeats, show.

    `shown_by(n, level)`: the log ratio that n repeats show in intervals of that level.
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

    `error`: the relative error of what `shown_by` returns.
    """
    fewer = [look for look in looks if repeats is None or look < repeats]
    if fewer and (1 + error) * shown_by(fewer[-1], ROUND_CONFIDENCE) < effect:
        return False
    if repeats is None:
        return True
    return repeats in looks and (1 - error) * shown_by(repeats, ROUND_CONFIDENCE) <= effect


def _check_detectable(where: str, stated: float, log_ratio: float, error: float) -> Iterator[Difference]:
    """Yield a difference where the stated effect is not `log_ratio`, which is known up to the relative `error`."""
    if not close(math.log1p(stated), log_ratio, error):
        yield from check_values(REPORT, where, stated, math.expm1(log_ratio))


def _planned_effect(report: Mapping[str, Any]) -> float | None:
    """Return the difference that repeats are planned for: where repeats end, else the margin of the advice."""
    if report.get("repeats"):
        return float(report["repeats"]["resolve"])
    advice = [ranking["recommendation"] for ranking in report["ranking"] if ranking["recommendation"]]
    return advice[0].get("margin") if advice else None


def _repeats_after_looks(n: int) -> list[int]:
    """Return after how many repeats results are looked at, from `n` on: each time a quarter more, to MOST_REPEATS."""
    looks: list[int] = []
    repeats = math.ceil(1.25 * n)
    while repeats <= MOST_REPEATS:
        looks.append(repeats)
        repeats = math.ceil(1.25 * repeats)
    return looks
