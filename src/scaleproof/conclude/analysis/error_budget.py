"""One error budget for a series of comparisons without a known end, such as those of a program that tries changes.

Two hundred comparisons of equal programs at 5 % each find ten differences that are not there. LORD++ (Ramdas, Yang,
Wainwright, Jordan: Online control of the false discovery rate with decaying memory, NeurIPS 2017) gives each comparison
a level that depends on which earlier ones were decided: of all differences that are claimed, at most 5 % are false on
average, and where nothing differs, any is claimed with a chance of 5 % at most. A difference that is found earns back
what further ones may spend. It asks that p-values are valid whatever was decided before, as those of fresh runs are.
"""

import math
from collections.abc import Sequence

ALPHA = 0.05  # of the series
FIRST = ALPHA / 2  # spent where nothing was found yet
SCALE = 0.0722  # makes the parts add up to 1 (Javanmard, Montanari: Annals of Statistics 46, 2018)


def next_level(decided: Sequence[bool]) -> float:
    """The level of significance of the next comparison. `decided`: whether each earlier one claimed a difference."""
    place = len(decided) + 1
    places_of_claims = [earlier for earlier, claimed in enumerate(decided, start=1) if claimed]
    level = FIRST * _part(place)
    for claim, earlier in enumerate(places_of_claims):
        earned = ALPHA - FIRST if claim == 0 else ALPHA  # FIRST was spent in advance
        level += earned * _part(place - earlier)
    return level


def _part(place: int) -> float:
    """The part of a budget that the comparison number `place` after it was earned may spend."""
    return SCALE * math.log(max(place, 2)) / (place * math.exp(math.sqrt(math.log(place))))
