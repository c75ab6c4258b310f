"""A demand: texts and figures that an element of the page must have; and finding elements by name."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaleproof.verify.html_tree import Element, plain
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference

FILE = "report.html"


@dataclass(frozen=True)
class Demand:
    """What an element of the page must have: texts, word by word, and figures, rounded as they stand there.

    `alone`: whether it must have nothing else. A text or figure that is None is unknown, and so not demanded.
    """

    where: str
    element: Element | None
    texts: Sequence[str | None] = ()
    figures: Sequence[float | None] = ()
    alone: bool = False

    def missing(self) -> Iterator[Difference]:
        """Yield the first text or figure that is missing, and a text that is one too many."""
        if self.element is None:
            yield Difference(FILE, self.where, "is not there")
            return
        text = plain(self.element.text)
        lacking = [f'"{plain(part)[:80]}"' for part in self.texts if part is not None and plain(part) not in text]
        printed = numbers(text)
        figures = [figure for figure in self.figures if figure is not None]
        lacking += [f"{figure:.4g}" for figure in figures if not any(stands_for(number, figure) for number in printed)]
        if lacking:
            yield Difference(FILE, self.where, f"does not have {lacking[0]}")
        known = sorted((plain(part) for part in self.texts if part), key=len, reverse=True)
        if self.alone and re.sub("|".join(map(re.escape, known)), "", text).strip("; "):
            yield Difference(FILE, self.where, f'is "{text[:80]}", and not {known[0][:80]} alone')


def facts_by_name(page: Element) -> dict[str, Element]:
    """Return name -> the fact beside it, of all lists of terms and tables of facts on the page."""
    facts: dict[str, Element] = {}
    for listed in page.all("dl"):
        parts = [part for part in listed.children if isinstance(part, Element)]
        facts |= {a.text: b for a, b in pairwise(parts) if (a.tag, b.tag) == ("dt", "dd")}
    for table in page.all("table", kind="facts"):
        for row in table.all("tr"):
            facts |= {name.text: fact for name, fact in zip(row.all("th"), row.all("td"), strict=False)}
    return facts


def element_of(page: Element, tag: str, identity: str, inside: str = "") -> Element | None:
    """Return the element of an id, or the first one `inside` it; None where it is not there."""
    element = next(page.all(tag, id=identity), None)
    return next(element.all(inside), None) if element and inside else element
