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
def _load_codes(house: str) -> dict[str, Code]:
    """Return {code: its page} of the package (`house`) that declares the entry point of this name."""
    (entry,) = entry_points(group=GROUP, name=house)
    codes: dict[str, Code] = entry.load()
    return codes


@cache
def pages_by_code() -> dict[str, Code]:
    """Return code -> its page, of all packages; of two pages of a code, the one for anybody's results."""
    # ANYBODYS last, so that its pages replace those of other houses for the same code.
    houses = sorted(entry_points(group=GROUP).names, key=lambda name: (name == ANYBODYS, name))
    return {code: page for house in houses for code, page in _load_codes(house).items()}


def meaning_of(code: str) -> str:
    """Return what a code means.

    Returns "" where no house has a page for it. Checks of own runs are imported only for codes that nobody else can
    have, as that takes time.
    """
    page = _load_codes(ANYBODYS).get(code) or pages_by_code().get(code)
    return page.what if page else ""


def anybodys_codes() -> list[str]:
    """Return the codes that may be found in anybody's results."""
    return sorted(_load_codes(ANYBODYS))


def own_only_codes() -> list[str]:
    """Return the codes that only runs of this program can have: their checks need more than others write down."""
    return sorted(pages_by_code().keys() - set(anybodys_codes()))
