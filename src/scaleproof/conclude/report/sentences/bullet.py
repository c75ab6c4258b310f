"""A statement of the answer to a campaign's question."""

from dataclasses import dataclass
from typing import Literal

from scaleproof.ground.records.claims import Claim

Topic = Literal[
    "reservation",
    "incomparable",
    "question",
    "fastest",
    "slower",
    "one-device",
    "scaling",
    "remark",
    "recommended",
    "comparison",
    "forecast",
    "repeats",
    "next",
]


@dataclass(frozen=True)
class Bullet:
    """One statement of the answer: what it is about, what it says, and what that rests on.

    `cells`: the rows to link to (slugs, or names of A/B comparisons). `claims`: the claims that its figures state.
    """

    topic: Topic
    label: str  # "Fastest"; empty where the text says it
    text: str
    basis: str | None = None  # "95 % CI 1.05-1.40, n=3", or that there is no interval
    cells: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def sentence(self) -> str:
        text = f"{self.label}: {self.text}" if self.label else self.text
        return f"{text} ({self.basis})" if self.basis else text
