"""Changes that a text states beside both their ends: "27x (from 4.8 to 132.5 tokens/s)", "35 ms → 9 ms (74 % less)"."""

import re
from collections.abc import Iterable, Iterator

from scaleproof.auditor.read.printed_figures import NUMBER, PrintedFigure, figures_of, number, plain_text
from scaleproof.auditor.read.reported import StatedChange
from scaleproof.auditor.read.reported_tables import ABOUT, PrintedInterval, resolution_of

# Dimensions of what changes. Shares are left out: "50 % to 94 %" may be points or per cent.
COMPARED = {"time", "rate", "memory", "flops", "bandwidth", "power", "energy", "cost"}
_ARROWS = ("→", "->", "=>", " to ", "vs", "versus")
_UNIT = r"(?: ?(?:[kKMBT] ?)?(?:[A-Za-zµ]+|%)(?:/[A-Za-z]+){0,2})?"
_ENDS = rf"(?<![\w.,–-])(?P<a>\$?{NUMBER}{_UNIT}) ?(?:→|->|=>|to|vs\.?|versus) ?(?P<b>\$?{NUMBER}{_UNIT})"
_ABOUT = r"(?P<about>~|≈|about |around |roughly |nearly |almost |approximately )?"
_WAY = r"(?:faster|slower|less|more|higher|lower|reduction|improvement|increase|decrease|gain|drop|speed-?up|savings?)"
_FIGURE = rf"(?<![\d.,–-]){_ABOUT}[+−-]?(?P<n>{NUMBER}) ?(?P<mark>%|percent|x|×|-?fold)(?![\w-])"
_CHANGES = [
    re.compile(pattern)
    for pattern in (
        rf"{_ENDS} ?\((?:an? |or )?{_FIGURE}(?: {_WAY})?(?=[),;])",
        rf"{_FIGURE}(?: {_WAY})? \((?:from )?{_ENDS}\)",
        rf"\bby {_FIGURE} from {_ENDS}(?=[ .,;)]|$)",
        rf"\bfrom {_ENDS}(?: by|,? an?) {_FIGURE}(?: {_WAY})?(?=[.,;)]|$)",
    )
]
_BOUND = re.compile(r"(?i)(?:up to|over|than|at least|at most|above|below|under|[<>≤≥]) ?$")
LONGEST = 2000  # characters of a line


def stated_changes(lines: Iterable[tuple[int, str]], file: str) -> Iterator[StatedChange]:
    """Yield the changes that each line states."""
    for line, raw in lines:
        text = plain_text(raw[:LONGEST]) if any(arrow in raw for arrow in _ARROWS) else ""
        for m in (m for pattern in _CHANGES for m in pattern.finditer(text)):
            readings = _readings(figures_of(m["a"]), figures_of(m["b"]))
            if readings and not _BOUND.search(text[: m.start("n")]):
                value = number(m["n"]) or 0.0
                stated = _around(value, max(resolution_of(m["n"]), ABOUT * value if m["about"] else 0.0))
                scale = 1.0 if m["mark"] in ("x", "×") or m["mark"].endswith("fold") else 0.01
                yield StatedChange(f"{file}:{line}", m[0].strip(), stated * scale, readings)


def _readings(before: list[PrintedFigure], after: list[PrintedFigure]) -> tuple[PrintedInterval, ...]:
    """What a change may be between two cells; () where these are no two measurements of one quantity."""
    ends = [*before, *after]
    units = [end.unit for end in ends if end.unit]
    if len(before) != 1 or len(after) != 1 or len({unit.dimension for unit in units} & COMPARED) != 1:
        return ()
    first, last = (_around(end.value, end.resolution) * (end.unit or units[-1]).scale for end in ends)
    if not (first.low > 0 and last.low > 0) or len({unit.dimension for unit in units}) > 1:
        return ()
    ratios = (last / first, first / last)
    more = [PrintedInterval(ratio.low - 1, ratio.high - 1) for ratio in ratios]
    less = [PrintedInterval(1 - ratio.high, 1 - ratio.low) for ratio in ratios]
    return (*ratios, *more, *less)


def _around(value: float, width: float) -> PrintedInterval:
    return PrintedInterval(value - width, value + width)
