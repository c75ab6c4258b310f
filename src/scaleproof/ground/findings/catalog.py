"""Every code with its page: what `scaleproof explain` prints and docs/findings.md holds.

The houses that check say which codes they have by entry points of the group `scaleproof.codes`; the ground imports
none of them.
"""

from functools import cache
from importlib.metadata import entry_points

from scaleproof.ground.findings.registry import Code

GROUP = "scaleproof.codes"
ANYBODYS = "auditor"  # the entry whose codes stand for anybody's results


@cache
def _codes_of_houses() -> dict[str, dict[str, Code]]:
    """Name of an entry point -> its codes, each with its page."""
    return {entry.name: entry.load() for entry in entry_points(group=GROUP)}


@cache
def pages() -> dict[str, Code]:
    """Code -> its page, of all houses; where two have one, that of anybody's results."""
    houses = _codes_of_houses()
    order = sorted(houses, key=lambda name: name == ANYBODYS)  # ANYBODYS last, so that its pages stand
    return {code: page for name in order for code, page in houses[name].items()}


def anybodys() -> list[str]:
    """Codes that may be found in anybody's results."""
    return sorted(_codes_of_houses()[ANYBODYS])


def own_only() -> list[str]:
    """Codes that only runs of this program can have: their checks need more than others write down."""
    return sorted(pages().keys() - set(anybodys()))
