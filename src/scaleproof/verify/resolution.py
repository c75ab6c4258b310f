"""What further repeats would show, `resolve` of scaling_report.json, computed again."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from scaleproof.verify import intervals
from scaleproof.verify.contents import REPORT, schema_of
from scaleproof.verify.intervals import PairNoise
from scaleproof.verify.raw import Difference, check_values, close
from scaleproof.verify.raw_cells import RawAnswer

ROUND_CONFIDENCE = 1 - 0.05 * (1 - 1.25**-3)  # of a look after further repeats (docs/statistics.md)
EVEN_DRAWS = (5, 3)  # schema from which on simulated differences have no more than today's error
MOST_REPEATS, MOST_TIMES = 1000, 5  # advice names no more repeats than this, and no more times those that there are


def check_resolve(
    stated: Mapping[str, Any] | None, where: str, noise: PairNoise | None, answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where further repeats of a ratio show other differences than `stated`. `noise`: None if none are due."""
    if stated and noise:
        yield from check_resolution(stated, where, noise.n, partial(intervals.detectable_by_pair, noise), answer)
    elif stated or noise:  # it needs three runs of each cell
        problem = "cannot be recomputed from the raw files" if stated else "is missing"
        yield Difference(REPORT, f"{where}, resolve", problem)


def check_resolution(
    stated: Mapping[str, Any], where: str, n: int, shown_by: Callable[[int, float], float], answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where `stated` gives other differences than those that `n` repeats and further ones show.

    `shown_by(n, level)`: the log ratio that n repeats show in intervals of that level.
    """
    where = f"{where}, resolve"
    looks = _repeats_after_looks(n)
    in_reach = max((repeats for repeats in looks if repeats <= MOST_TIMES * n), default=n)
    expected: dict[str, Any] = {"n": n, "further": {"repeats": in_reach}}
    planned = _planned_effect(answer.report)
    if planned and where != "question, resolve":  # a question has an effect of its own
        expected["effect"] = planned
    yield from check_values(REPORT, where, stated, expected)
    now = shown_by(n, answer.confidence)
    later = shown_by(in_reach, ROUND_CONFIDENCE) if in_reach > n else now
    error = intervals.ERROR if schema_of(answer.report) >= EVEN_DRAWS else intervals.EARLIER_ERROR
    for name, section, log_ratio in (("", stated, now), ("further, ", stated["further"], later)):
        if not close(math.log1p(section["detectable"]), log_ratio, error):
            place = f"{where}, {name}detectable"
            yield from check_values(REPORT, place, section["detectable"], math.expm1(log_ratio))
    enough = stated["repeats"]  # None: more than MOST_REPEATS
    effect = math.log1p(stated["effect"])
    fewer = max((repeats for repeats in looks if repeats < (enough or math.inf)), default=None)
    fewer_suffice = fewer and (1 + error) * shown_by(fewer, ROUND_CONFIDENCE) < effect
    too_few = enough and (1 - error) * shown_by(enough, ROUND_CONFIDENCE) > effect
    if fewer_suffice or too_few or (enough and enough not in looks):
        yield Difference(REPORT, f"{where}, repeats", f"{enough} repeats are not those that show the effect")


def _planned_effect(report: Mapping[str, Any]) -> float | None:
    """Return the difference that repeats are planned for: the one at which they end, else the margin of the advice."""
    if report.get("repeats"):
        return float(report["repeats"]["resolve"])
    advice = next((ranking["recommendation"] for ranking in report["ranking"] if ranking["recommendation"]), None)
    return advice and advice.get("margin")


def _repeats_after_looks(n: int) -> list[int]:
    """Return after how many repeats results are looked at, from `n` on: each time a quarter more, to MOST_REPEATS."""
    looks: list[int] = []
    while (n := math.ceil(1.25 * n)) <= MOST_REPEATS:
        looks.append(n)
    return looks
