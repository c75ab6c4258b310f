"""Looks and comparisons that share a chance of error: when repeats end (`repeats.resolve` of a campaign).

And the level of each comparison of a series without a known end.

Each look has a level of its own, by an alpha spending function (Lan and DeMets, Biometrika 70, 1983), so that the
intervals of all looks hold together, whatever rule ends the campaign: docs/statistics.md, "Repeat until it is decided".

LORD++ (Ramdas, Yang, Wainwright, Jordan: Online control of the false discovery rate with decaying memory, NeurIPS 2017)
gives each comparison a level that depends on which earlier ones were decided: of all differences that are claimed, at
most 5 % are false on average. A difference that is found earns back what further ones may spend. It asks that p-values
are valid whatever was decided before, as those of fresh runs are.
"""

import math
from collections.abc import Sequence

from scipy.special import stdtrit

from scaleproof.conclude.analysis.power import POWER
from scaleproof.conclude.analysis.ranking import largest_group
from scaleproof.conclude.analysis.run_tables import configuration_columns
from scaleproof.conclude.analysis.simultaneous import SPENDING_POWER
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.records.run import Run
from scaleproof.ground.records.scaling_report import LookTaken, ScalingReport, WhyEnded


def confidence_at(rule: RepeatUntil, repeats: int) -> float:
    """Return the level of the intervals at the look after `repeats` runs of each cell, or at the next look after them.

    A look ends a round of repeats: results decide whether another round follows. The level is 1 less what it spends of
    the chance of an error (`rule.chance`: 5 %).
    """
    looks = [0, *rule.looks()]  # the repeats made before each look; 0: the start
    last_look = looks[-1]
    this_look = next((look for look in looks[1:] if look >= repeats), last_look)  # beyond the last look its level holds
    look_before = looks[looks.index(this_look) - 1]
    spent_before = (look_before / last_look) ** SPENDING_POWER
    spent_after = (this_look / last_look) ** SPENDING_POWER
    return 1 - rule.chance * (spent_after - spent_before)


def shown_in_scatters(rule: RepeatUntil) -> float:
    """Return the difference of two cells that is shown 8 times in 10 (POWER) if all repeats are made.

    It is a multiple of the scatter (standard deviation) of a cell's runs; that an earlier look may show it is left out.
    """
    repeats = rule.at_most
    quantile_of_claim = stdtrit(repeats - 1, (1 + confidence_at(rule, repeats)) / 2)
    quantile_of_power = stdtrit(repeats - 1, POWER)
    return float(quantile_of_claim + quantile_of_power) * math.sqrt(2 / repeats)


def is_resolved(ratio: tuple[float, float] | None, resolve: float) -> bool:
    """Return whether a ratio's interval leaves out 1, or shows that the ratio is nearer to 1 than `resolve`.

    `ratio`: the bounds of the interval; None, an interval that could not be computed, resolves nothing.
    """
    if ratio is None:
        return False
    low, high = ratio
    differs = low > 1 or high < 1
    is_near = low > 1 / (1 + resolve) and high < 1 + resolve
    return bool(differs or is_near)


def take_look(report: ScalingReport, runs: Sequence[Run], rule: RepeatUntil) -> LookTaken:
    """Return whether the comparison is decided, whether repeats go on, and why they end. `report`: of all `runs`."""
    repeats = max((run.metrics.repeat for run in runs), default=0)
    spent_s = sum(run.metrics.total_wall_time_s or 0.0 for run in runs)
    spent_device_s = sum((run.metrics.total_wall_time_s or 0.0) * configuration_columns(run)["devices"] for run in runs)

    is_decided = _is_decided(report, rule.resolve)
    next_look = next((look for look in rule.looks() if look > repeats), None)
    growth = next_look / repeats if next_look and repeats else 1.0  # total time at the next look over the time so far
    why: WhyEnded | None = None
    if is_decided is None:
        why = "nothing-to-compare"
    elif is_decided:
        why = "decided"
    elif next_look is None:
        why = "at_most"
    elif rule.minutes is not None and spent_s * growth > 60 * rule.minutes:
        why = "minutes"
    elif rule.device_hours is not None and spent_device_s * growth > 3600 * rule.device_hours:
        why = "device_hours"

    return LookTaken(
        repeats=repeats,
        **rule.model_dump(exclude={"chance"}),
        looks=list(rule.looks()),
        confidence=confidence_at(rule, repeats),
        decided=bool(is_decided),
        goes_on=why is None,
        why=why,
        spent_minutes=spent_s / 60,
        spent_device_hours=spent_device_s / 3600,
    )


def _is_decided(report: ScalingReport, resolve: float) -> bool | None:
    """Return whether the comparison of the campaign is decided; None: there is nothing that repeats could decide.

    The comparison: the campaign's formal question; without one, the fastest cell of the largest size with all others
    and with one device; without several cells of one size, each series at its largest size with its smallest.
    """
    if report.question:
        status = report.question.status
        return None if status in ("incomparable", "unmeasured") else status != "undecided"

    if group := largest_group(report.ranking):
        fastest, *others = group.comparable
        ratios = [entry.relative_to_fastest for entry in others]
        # Over the best single device, where a comparable one was measured.
        of_fastest = [point.speedup_vs_best_single for point in report.points if point.cell == fastest.cell]
        ratios += filter(None, of_fastest)
    else:
        # The points of a series begin with the smallest size.
        largest_sizes = [series.points[-1] for series in report.series_of_sizes]
        ratios = [point.speedup for point in largest_sizes if point.speedup]

    if not ratios:
        return None
    return all(is_resolved(ratio.bounds if ratio else None, resolve) for ratio in ratios)


ALPHA = 0.05  # the chance of an error in the series
FIRST = ALPHA / 2  # the part of it that is spent where nothing was found yet
SCALE = 0.0722  # makes the parts add up to 1 (Javanmard, Montanari: Annals of Statistics 46, 2018)


def next_level(decided: Sequence[bool]) -> float:
    """Return the level of significance of the next comparison. `decided`: whether each earlier one made a claim."""
    place = len(decided) + 1
    places_of_claims = [earlier_place for earlier_place, is_claim in enumerate(decided, start=1) if is_claim]
    level = FIRST * _spendable_part(place)
    for claim_index, claim_place in enumerate(places_of_claims):
        earned = ALPHA - FIRST if claim_index == 0 else ALPHA  # the first earns less: FIRST was given in advance
        level += earned * _spendable_part(place - claim_place)
    return level


def _spendable_part(place: int) -> float:
    """Return the part of an earned level that the comparison at `place`, counted from when it was earned, may spend."""
    return SCALE * math.log(max(place, 2)) / (place * math.exp(math.sqrt(math.log(place))))
