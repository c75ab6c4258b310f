"""Results that a text states with all that they are made of: "2x (9 s → 4 s)", "4 x 8 = 32"."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from scaleproof.auditor.read.printed_figures import NUMBER, PrintedFigure, figures_of, number, plain_text, unit_of
from scaleproof.auditor.read.reported import StatedResult
from scaleproof.auditor.read.reported_tables import ABOUT, PrintedInterval, resolution_of

# Dimensions of what changes. Shares are left out: "50 % to 94 %" may be points or per cent.
COMPARED = {"time", "rate", "memory", "flops", "bandwidth", "power", "energy", "cost"}
BETWEEN_ENDS = re.compile("→|->|=>| to |vs|versus|against")  # of a change
# "494 s (8.2 min)": the larger unit is that of the same time.
_SAME_TIME = re.compile(
    rf"(?<![\w.,–-])(?P<a>{NUMBER} ?(?:s|sec|seconds|min|minutes|h|hours)) \((?:[~≈] ?|about )?"
    rf"(?P<b>{NUMBER} ?(?:min|mins|minutes|h|hr|hrs|hours|days))\)"
)
MARK_OF_RESULT = re.compile(rf"{BETWEEN_ENDS.pattern}|[=≈]|\d ?[a-z]+ \(")
_UNIT = r"(?: ?(?:[kKMBT] ?)?(?:[A-Za-zµ]+|%)(?:/[A-Za-z]+){0,2})?"
_ENDS = rf"(?<![\w.,–-])(?P<a>\$?{NUMBER}{_UNIT}) ?(?:→|->|=>|to|vs\.?|versus|against) ?(?P<b>\$?{NUMBER}{_UNIT})"
_ABOUT = r"(?P<about>~|≈|about |around |roughly |nearly |almost |approximately )?"
_WAY = r"(?:faster|slower|less|more|higher|lower|reduction|improvement|increase|decrease|gain|drop|speed-?up|savings?)"
_FIGURE = rf"(?<![\d.,–-]){_ABOUT}[+−-]?(?P<n>{NUMBER}) ?(?P<mark>%|percent|x|×|-?fold)(?![\w-])"
_CHANGES = [
    re.compile(pattern)
    for pattern in (
        rf"{_ENDS} ?\((?:an? |or )?{_FIGURE}(?: {_WAY})?(?=[),;])",
        rf"{_FIGURE}(?: [^().,;]{{0,40}})? \((?:from )?{_ENDS}\)",
        rf"\bby {_FIGURE} from {_ENDS}(?=[ .,;)]|$)",
        rf"{_FIGURE}(?: \w+)?(?: {_WAY})?: [Ff]rom {_ENDS}(?=[ .,;)]|$)",
        rf"\bfrom {_ENDS}(?: by|,? an?) {_FIGURE}(?: {_WAY})?(?=[.,;)]|$)",
    )
]
_BOUND = re.compile(r"(?i)(?:up to|over|than|at least|at most|above|below|under|[<>≤≥]) ?$")
LONGEST_LINE = 2000  # characters


def stated_results(lines: Iterable[tuple[int, str]], file: str) -> Iterator[StatedResult]:
    """Yield what lines with a MARK_OF_RESULT state: "2x (9 s → 4 s)", "4 nodes x 8 GPUs = 32"."""
    for line, raw in lines:
        if BETWEEN_ENDS.search(raw):
            yield from _changes(f"{file}:{line}", plain_text(raw[:LONGEST_LINE]))
        yield from _same_figures(f"{file}:{line}", plain_text(raw[:LONGEST_LINE]))
        if "=" in raw or "≈" in raw:
            text = _MARKS.sub("", raw[:LONGEST_LINE]).replace("\\times", "×").replace("\\%", "%")
            yield from _equations(f"{file}:{line}", text)


def _same_figures(source: str, text: str) -> Iterator[StatedResult]:
    """Yield times that are stated in two units: "494 s (8.2 min)"."""
    for m in _SAME_TIME.finditer(text):
        times = figures_of(m["a"])[:1] + figures_of(m["b"])[:1]
        time, same = (_around(time.value, time.resolution) * (time.unit.scale if time.unit else 1.0) for time in times)
        if time.middle > (times[1].unit.scale if times[1].unit else 1.0):  # less may be a mean and its maximum
            yield StatedResult(source, m[0], same, (time,), "the two are not one time")


def _changes(source: str, text: str) -> Iterator[StatedResult]:
    """Yield the changes of a line that stand beside both their ends."""
    for m in (m for pattern in _CHANGES for m in pattern.finditer(text)):
        readings = _possible_changes(figures_of(m["a"]), figures_of(m["b"]))
        if readings and not _BOUND.search(text[: m.start("n")]):
            scale = 1.0 if m["mark"] in ("x", "×") or m["mark"].endswith("fold") else 0.01
            values = ", ".join(f"{reading.middle:.3g}" for reading in readings if reading.low > 0)
            right = f"between the two it is {values}"
            stated = _result(m["n"], bool(m["about"]), resolution_of(m["n"])) * scale
            yield StatedResult(source, m[0].strip(), stated, readings, right)


_MARKS = re.compile(r"\*\*|`|^\s*(?:[-*+>]|\d+\.) ")  # of bold figures, and of the item of a list
_POSITIVE = NUMBER.removeprefix("[-+−]?")
# A number with its unit, "$2/GPU-hour"; "x" is no unit here.
_TERM = rf"\$?{_POSITIVE}(?: ?%|(?:/| ?(?![x×](?![a-z])))[A-Za-zµ][A-Za-zµ/.-]*(?: (?!x )[A-Za-z][A-Za-z/-]*){{0,2}})?"
_EQUATION = re.compile(
    rf"(?<![\w.,])(?P<terms>{_TERM}(?:(?: ?[×*·x] ?| [/÷] ){_TERM})+|{_TERM}(?: \+ {_TERM})+) *(?:=|(?P<about>≈)) *"
    rf"(?P<around>[~≈]|about )? ?\$?(?P<n>{_POSITIVE})(?P<unit> ?%| ?[A-Za-zµ×][A-Za-zµ/×]*)?"
)
_OPERATOR_BEFORE = re.compile(r"(?:[\d)[\]}^²³*×·÷/+−–<>-]|\b[xX])\s*[~≈]?$")  # then the terms are a part of something
_OPERATOR_BEHIND = re.compile(r"[(\[]|\s*(?:[\d*×·⋅/÷+−–^=-]|x\b)")
LEAST_TERM = 10.0  # of a sum: smaller numbers may be names
# Words of an equation -> what its result may be off by, beside powers of 1,000: another unit.
_UNIT_FACTORS = (
    ("", (1.0,)),
    (r"(?:\b|\d)(?:m?s|sec\w*|min\w*|h|hrs?|hours?|days?)\b|/h|/day", (60, 1 / 60, 24, 1 / 24, 3.6, 1 / 3.6)),
    (r"[kmgt]?i?b\b|byte|bit|\b\d+ ?k\b", (8, 1 / 8, *(1024.0**k / 1000.0**k for k in range(-4, 5)))),
    ("%", (0.1, 10)),
)


def _equations(source: str, text: str) -> Iterator[StatedResult]:
    """Yield products, quotients and sums that are written out: "3 GPUs x 8 GB = 24 GB"; what "x" counts is none."""
    for m in _EQUATION.finditer(text):
        is_part = _OPERATOR_BEFORE.search(text[: m.start()]) or _OPERATOR_BEHIND.match(text, m.end())
        if is_part or (m["unit"] or "").strip() in ("x", "×"):
            continue  # "8 GPUs / 1 GPU = 7.2x" is no quotient of these
        parts = re.split(rf"({_TERM})", m["terms"])
        if not _has_unit_of_terms((m["unit"] or "").strip(), parts[1::2], m["n"]):
            continue
        value = _sum_of(parts[1::2]) if "+" in m["terms"] else _product_of(parts)
        stated = _result(m["n"], bool(m["about"] or m["around"]), resolution_of(m["n"]) / 2)
        if value is not None and value.low > 0 and stated.low > 0:
            middle = (value.low * value.high) ** 0.5
            yield StatedResult(source, m[0].strip(), stated, _in_any_unit(value, m), f"it is {middle:.4g}, in any unit")


def _in_any_unit(value: PrintedInterval, m: re.Match[str]) -> tuple[PrintedInterval, ...]:
    """Return what an equation gives in units of its kind; as it is where the only unit of its terms is its result's."""
    unit, units = (m["unit"] or "").strip().lower(), re.findall(r"[A-Za-zµ/]{2,}", m["terms"].lower())
    if "+" not in m["terms"] and units == [unit]:
        return (value,)
    possible = [factors for words, factors in _UNIT_FACTORS if re.search(words, m[0], re.I)]
    return tuple(value * factor * 1000.0**k for factor in chain(*possible) for k in range(-8, 9))


def _sum_of(terms: list[str]) -> PrintedInterval | None:
    """Return what a sum of terms may be; None for no sum of one quantity: "1 h + 30 min", "phases 1 + 2"."""
    units = {re.sub(r"[\d.,$]", "", term).strip().lower() for term in terms} - {""}
    values = [_term(term) for term in terms]
    if len(units) > 1 or any(value.middle < LEAST_TERM for value in values):
        return None
    return PrintedInterval(sum(value.low for value in values), sum(value.high for value in values))


def _product_of(parts: list[str]) -> PrintedInterval:
    """Return what a product may be, cut at its terms: ["", "3 GPUs", " x ", "8 GB", ""]."""
    value = _term(parts[1])
    for sign, term in zip(parts[2::2], parts[3::2], strict=False):
        value = value / _term(term) if sign.strip() in ("/", "÷") else value * _term(term)
    return value


def _has_unit_of_terms(unit: str, terms: list[str], result: str) -> bool:
    """Whether the unit of a result is that of a term, or is no unit; else a number may be a name: "2 x 4090 = 48 GB".

    Of three digits and more it may count something: "28 x 7 = 196 layers". Nor is "8 x 7B" a product: so mixtures of
    experts are called.
    """
    are_counts = all(term.replace(",", "").isdecimal() for term in terms) and len(re.sub(r"\D", "", result)) > 2
    if re.fullmatch("[kKMBTG]?", unit) or (are_counts and unit_of(unit) is None):
        return len(terms) != 2 or not any(re.fullmatch(rf"{_POSITIVE}B", term) for term in terms)
    dimensions = {figure.unit.dimension for term in terms for figure in figures_of(term) if figure.unit}
    in_result = {figure.unit.dimension for figure in figures_of(f"1 {unit}") if figure.unit}
    counted = unit.lower() if unit_of(unit) else unit.lower().partition("/")[0]  # "120 examples/method"
    return bool(dimensions & in_result) or any(counted in term.lower() for term in terms)


def _term(text: str) -> PrintedInterval:
    """Return what the number of a term may have been; a whole one without a unit is exact."""
    digits = re.search(_POSITIVE, text)
    printed = digits[0] if digits else "0"
    units = [figure.unit.dimension for figure in figures_of(text) if figure.unit]
    is_measured = "." in printed or "time" in units or "rate" in units
    return _around(number(printed) or 0.0, resolution_of(printed) / 2 if is_measured else 0.0)


def _result(digits: str, is_rough: bool, width: float) -> PrintedInterval:
    """Return what a printed result may have been, give or take `width`; "~" allows for ABOUT."""
    value = number(digits) or 0.0
    return _around(value, max(width, ABOUT * value if is_rough else 0.0))


def _possible_changes(before: list[PrintedFigure], after: list[PrintedFigure]) -> tuple[PrintedInterval, ...]:
    """Return what a change between two figures may mean: 8 s and 4 s are 0.5 or 2 times, 50 % less, 100 % more.

    () where they are no figures of one quantity, both above 0.
    """
    ends = [*before, *after]
    units = [end.unit for end in ends if end.unit]
    dimensions = {unit.dimension for unit in units}
    if len(before) != 1 or len(after) != 1 or len(dimensions) != 1 or not dimensions <= COMPARED:
        return ()
    first, last = (_around(end.value, end.resolution) * (end.unit or units[-1]).scale for end in ends)  # "9 → 4 s"
    if not (first.low > 0 and last.low > 0):
        return ()
    ratios = (last / first, first / last)
    more = [PrintedInterval(ratio.low - 1, ratio.high - 1) for ratio in ratios]
    less = [PrintedInterval(1 - ratio.high, 1 - ratio.low) for ratio in ratios]
    return (*ratios, *more, *less)


def _around(value: float, width: float) -> PrintedInterval:
    """Return the interval from `width` below a value to `width` above it."""
    return PrintedInterval(value - width, value + width)
