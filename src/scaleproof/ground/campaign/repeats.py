"""How often each cell runs: a number, or as often as its comparison needs."""

import math
from collections.abc import Iterator, Sequence
from itertools import takewhile

from pydantic import Field, model_validator

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.campaign.question import Percent
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import integer

GROWTH = 1.25  # of the number of repeats from one look to the next: few looks, and few repeats too many


class RepeatUntil(Section, json_schema_extra={"examples": [{"resolve": "3 %", "at_most": 12}]}):
    """Repeat until the comparison that the campaign asks for is decided, in rounds, or until the budget is spent."""

    resolve: Percent = Field(
        description="A difference that matters, e.g. 3 %: repeats go on until cells are told apart or are shown to "
        "differ by less.",
        json_schema_extra={"unit": "part of the tokens/s"},
    )
    at_least: int = key(3, "Repeats before the first look at the results.", "runs", ge=3, le=10_000)
    at_most: int = key(12, "Repeats after which the campaign ends, decided or not.", "runs", ge=1, le=10_000)
    minutes: float | None = key(
        None, "No further round begins if the runs would then take longer than this in all.", "minutes", gt=0
    )
    device_hours: float | None = key(
        None, "No further round begins if the runs would then take more than this in all.", "device hours", gt=0
    )

    chance: float = key(
        0.05,
        "The chance that a difference is claimed which is not there, over all looks. Smaller in a series of "
        "comparisons that shares one error budget (`scaleproof ab --series`).",
        "none",
        gt=0,
        le=0.05,
    )

    @model_validator(mode="after")
    def _check_bounds(self) -> "RepeatUntil":
        """Check that the rule can end: at_least < at_most, and a difference above 0. Raises ValueError."""
        if self.resolve == 0:
            raise ValueError("resolve: 0 % is never resolved; give the difference that matters, e.g. 3 %")
        if self.at_least >= self.at_most:
            advice = f"for a fixed number write repeats: {self.at_most}"
            raise ValueError(f"at_least {self.at_least} must be less than at_most {self.at_most}; {advice}")
        return self

    def looks(self) -> Sequence[int]:
        """Return the numbers of repeats after which results are looked at: 3, 4, 5, 7, 9, 12, if `at_most` is 12."""
        return [*takewhile(lambda repeats: repeats < self.at_most, repeats_at_looks(self.at_least)), self.at_most]


def repeats_at_looks(first: int) -> Iterator[int]:
    """Yield the number of repeats at each look, without end: from 3 on 3, 4, 5, 7, 9, 12, 15, 19, 24, ..."""
    repeats = first
    while True:
        yield repeats
        repeats = math.ceil(GROWTH * repeats)


def repeats_text(repeats: int | RepeatUntil) -> str:
    """Return `3 repeats`, or `3 to 12 repeats` where results decide."""
    if isinstance(repeats, RepeatUntil):
        return f"{integer(repeats.at_least)} to {plural(repeats.at_most, 'repeat')}"
    return plural(repeats, "repeat")
