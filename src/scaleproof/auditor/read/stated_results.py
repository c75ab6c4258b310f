"""Results that a text states with all that they are made of: "2x (9 s → 4 s)", "4 x 8 = 32"."""

import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain

from scaleproof.auditor.read.printed_figures import BOLD, NUMBER, Unit, figures_of, number, plain_text, unit_of
from scaleproof.auditor.read.reported import StatedResult
from scaleproof.auditor.read.reported_tables import ABOUT, PrintedInterval, resolution_of

# Dimensions of quantities that change. Shares are left out: "50 % to 94 %" may be points or per cent.
SPEEDS = frozenset({"time", "rate", "flops"})
COMPARED = SPEEDS | {"memory", "bandwidth", "power", "energy", "cost"}
PLAIN = frozenset({""})  # of numbers without a unit
BETWEEN_ENDS = re.compile("→|->|=>| to |vs|versus|against")  # of a change
# "494 s (8.2 min)": one time in two units, the larger one in brackets.
_SAME_TIME = re.compile(
    rf"(?<![\w.,–-])(?P<a>{NUMBER} ?(?:s|sec|seconds|min|minutes|h|hours)) \((?:[~≈] ?|about )?"
    rf"(?P<b>{NUMBER} ?(?:min|mins|minutes|h|hr|hrs|hours|days))\)"
)
MARK_OF_RESULT = re.compile(rf"{BETWEEN_ENDS.pattern}|[=≈]|\d ?[a-z]+ \(")
_POSITIVE = NUMBER.removeprefix("[-+−]?")
_UNIT = r"(?: ?(?:[kKMBT] ?)?(?:[A-Za-zµ]+|%)(?:/(?!tok(?:en)?\b)[A-Za-z]+){0,2})?"
_PER_TOKEN = r"(?:/tok(?:en)?\b)?"  # of a time
_ARROW = "(?:→|->|=>)"
_BETWEEN = rf" ?(?:{_ARROW}|to|vs\.?|versus|against) ?"
_ENDS = rf"(?<![\w.,=–-])(?P<a>\$?{NUMBER}{_UNIT}){_PER_TOKEN}{_BETWEEN}(?P<b>[~≈]?\$?{NUMBER}{_UNIT}){_PER_TOKEN}"
_ABOUT = r"(?P<about>~|≈|about |around |roughly |nearly |almost |approximately )?"
_WAY = (
    r"(?P<way>faster|slower|less|more|fewer|higher|lower|smaller|larger|reduction|improvement|increase|decrease|gain|"
    r"drop|speed-?up|savings?)"
)
_MARK = "(?P<mark>%|percent|x|×|-?fold)"
_FIGURE = rf"(?<![\d.,–-]){_ABOUT}[+−-]?(?P<n>{NUMBER}) ?{_MARK}(?![\w-])"
_END_OF_CHANGE = r"(?=[.,;)]|$| on | at )"
_DECIMALS = r"\d+\.\d+"
_CHANGES = [
    re.compile(pattern)
    for pattern in (
        rf"{_ENDS} ?\((?:an? |or )?{_FIGURE}(?: {_WAY})?(?=[),;]| vs )",
        rf"{_FIGURE}(?: [^().,;]{{0,40}})? \((?:from )?{_ENDS}\)",
        rf"\bby {_FIGURE} from {_ENDS}(?=[ .,;)]|$)",
        rf"{_FIGURE}(?: \w+)?(?: {_WAY})?: [Ff]rom {_ENDS}(?=[ .,;)]|$)",
        rf"\bfrom {_ENDS}(?: by|,? an?) {_FIGURE}(?: {_WAY})?(?=[.,;)]|$)",
        rf"{_ENDS}(?: per (?:GPU|device|rank))?, (?:an? )?(?P<n>{_POSITIVE}) ?(?P<mark>%) (?P<way>savings?|reduction|"
        r"less|smaller)(?: (?:memory|time|energy|power))?(?=[.,;)]|$| vs )",
        rf"{_ENDS} ?\([+−-](?P<n>{_POSITIVE}) ?(?P<mark>pp|GB|GiB|MB|MiB|ms|s|tok/s|tokens/s)\)",
        rf"(?<![\d.,–-])(?P<n>{_POSITIVE}) (?P<mark>percentage points|pp) \((?:from )?{_ENDS}\)",
    )
]
# A text states sizes before an effect of theirs, too: "from 300 to 600 GB/s, 1.4x faster".
_CHANGES_OF_SPEED = [re.compile(rf"{_ENDS}, (?:an? )?{_FIGURE}(?: {_WAY})?{_END_OF_CHANGE}")]
_OF_SPEED = re.compile("faster|slower|speed-?up")
_DOWNWARDS = re.compile("less|fewer|lower|smaller|reduction|decrease|drop|savings?")
# Of numbers without a unit, which may be settings, the change must be one of the numbers themselves.
_CHANGES_OF_NUMBERS = [
    re.compile(pattern)
    for pattern in (
        rf"(?<![\w.,–-])(?P<a>{NUMBER}) ?{_ARROW} ?(?P<b>[~≈]?{NUMBER}) "
        rf"\({_FIGURE} (?:reduction|fewer|smaller|compression)(?=[),])",
        rf"(?<![\w.,–-])(?P<a>{_DECIMALS}) (?:vs\.?|{_ARROW}) (?P<b>{_DECIMALS}), [+−-](?P<n>{_POSITIVE})(?P<mark>%)\)",
        rf"(?<![\w.,–-])(?P<a>{_DECIMALS}) ?{_ARROW} ?(?P<b>{_DECIMALS}) \([+−-](?P<n>{_POSITIVE})(?P<mark>%)\)",
        # "seq=256 → seq=4096 (16x sequence)", but not "(1.8x throughput)"
        rf"\b(?P<key>[A-Za-z]{{3,}})[a-z_ -]* ?= ?(?P<a>\d+) ?{_ARROW} ?(?P=key)[a-z_ -]* ?= ?(?P<b>\d+) "
        rf"\((?P<n>{_POSITIVE}) ?(?P<mark>[x×]) (?P=key)[a-z]*[,)]",
    )
]
# A setting whose change has an effect of another size: "batch 1024 → 512 (1.4x smaller)".
CHANGES = {COMPARED: _CHANGES, SPEEDS: _CHANGES_OF_SPEED, PLAIN: _CHANGES_OF_NUMBERS}  # dimensions -> patterns
_SETTING_BEFORE = re.compile(
    r"(?i)(?:batch|seq\w*|length|context|hidden|width|dim\w*|rank|layers?|heads?|steps|epochs|gpus|size|window|score|"
    r"accuracy|loss)\W*$"
)
_BOUND = re.compile(r"(?i)(?:up to|over|than|at least|at most|above|below|under|[<>≤≥]) ?$")
_CHAIN_BEFORE = re.compile(rf"{_ARROW} ?[~≈]?$")  # "36.5→40.7→51.4 ms (+41%)" is of the first and the last
LONGEST_LINE = 2000  # characters


def stated_results(lines: Iterable[tuple[int, str]], file: str) -> Iterator[StatedResult]:
    """Yield what lines with a MARK_OF_RESULT state: "2x (9 s → 4 s)", "4 nodes x 8 GPUs = 32"."""
    for line, raw in lines:
        if BETWEEN_ENDS.search(raw):
            yield from _changes(f"{file}:{line}", plain_text(raw[:LONGEST_LINE]))
        yield from _same_figures(f"{file}:{line}", plain_text(raw[:LONGEST_LINE]))
        if "=" in raw or "≈" in raw:
            text = _MARKS.sub("", raw[:LONGEST_LINE]).replace("\\times", "×").replace("\\%", "%")
            text = _ROMAN.sub(r"\1", text)
            yield from _equations(f"{file}:{line}", text)


def _same_figures(source: str, text: str) -> Iterator[StatedResult]:
    """Yield times that are stated in two units: "494 s (8.2 min)"."""
    for m in _SAME_TIME.finditer(text):
        times = [figure for group in (m["a"], m["b"]) for figure in figures_of(group)[:1]]
        if len(times) < 2:
            continue
        scales = [time.unit.scale if time.unit else 1.0 for time in times]
        time, same_time = (
            _around(time.value, time.resolution) * scale for time, scale in zip(times, scales, strict=True)
        )
        # A time below 1 of the larger unit is left out: "40 s (1 min)" may be a mean and its maximum.
        if time.middle > scales[1]:
            yield StatedResult(source, m[0], same_time, (time,), "the two are not one time")


def _changes(source: str, text: str) -> Iterator[StatedResult]:
    """Yield the changes of a line that stand beside both their ends: "2x (9 s → 4 s)"."""
    read: set[int] = set()  # where the changes begin that were read: several patterns may fit one
    for dimensions, patterns in CHANGES.items():
        for m in chain.from_iterable(pattern.finditer(text) for pattern in patterns):
            start = m.start("n")
            if start not in read and not _BOUND.search(text[:start]) and not _CHAIN_BEFORE.search(text[: m.start("a")]):
                changes = list(_change_of(m, source, dimensions))
                read |= {start} if changes else set()
                yield from changes


def _change_of(m: re.Match[str], source: str, dimensions: frozenset[str]) -> Iterator[StatedResult]:
    """Yield the change that a match of CHANGES states, if its ends are figures of one of the `dimensions`."""
    way, mark = m.groupdict().get("way") or "", m["mark"]
    are_points = mark in ("pp", "percentage points")
    possible = frozenset({"percent", ""}) if are_points else dimensions  # of percentages
    if _OF_SPEED.match(way):
        possible &= SPEEDS | PLAIN
    ends = _ends_of_change(m["a"], m["b"], possible)
    is_of_setting = dimensions is PLAIN and _SETTING_BEFORE.search(m.string[: m.start()])
    if ends is None or is_of_setting:
        return

    unit = unit_of(mark.removeprefix("percentage ")) or Unit("times", 1.0)  # "-fold"
    is_difference = unit.dimension not in ("percent", "times")
    is_less = unit.dimension == "percent" and _DOWNWARDS.match(way) is not None
    readings = (_gap(*ends),) if is_difference else _possible_changes(*ends, is_less=is_less)
    if are_points and "%" not in m["a"]:  # "22 points (78 → 56)"; ends up to 1 may be shares
        readings = (_gap(*ends) * 0.01, *(readings if max(end.high for end in ends) <= 1 else ()))
    if dimensions is PLAIN and unit.dimension == "percent":
        readings += (_gap(*ends) * 0.01, _gap(*ends))  # of shares: "71.2 → 75.3 (+4.1%)", "0.71 → 0.75 (+4%)"

    stated = _result(m["n"], bool(m.groupdict().get("about")), resolution_of(m["n"])) * unit.scale
    unit_of_values = unit.scale if is_difference else 1.0
    values = ", ".join(f"{reading.middle / unit_of_values:.3g}" for reading in readings if reading.low > 0)
    yield StatedResult(source, m[0].strip(), stated, readings, f"between the two it is {values}")


_ROMAN = re.compile(r"(?:\\ )?\\mathrm\{(\w+)\}")  # LaTeX's: "8.72\ \mathrm{GiB}"
_MARKS = re.compile(BOLD + r"|`|^\s*(?:[-*+>]|\d+\.) ")  # of bold figures, and of the item of a list
# A number with its unit, "$2/GPU-hour"; "x" is no unit here.
_TERM = rf"\$?{_POSITIVE}(?: ?%|(?:/| ?(?![x×](?![a-z])))[A-Za-zµ][A-Za-zµ/.-]*(?: (?!x )[A-Za-z][A-Za-z/-]*){{0,2}})?"
# Right behind a word, "=" names a setting: "32x32 with padding=4".
_EQUATION = re.compile(
    rf"(?<![\w.,])(?P<terms>{_TERM}(?:(?: ?[×*·x] ?| [/÷] ){_TERM})+|{_TERM}(?: \+ {_TERM})+)"
    rf" *(?:(?<![A-Za-z])=|(?P<about>≈)) *(?P<around>[~≈]|about )?"
    rf" ?\$?(?P<n>{_POSITIVE})(?P<unit>[\\$ ]{{0,3}}%| ?[A-Za-zµ×][A-Za-zµ/×]*)?"  # "29$%"
)
# An operator at either side: the terms are a part of a longer product or sum.
_OPERATOR_BEFORE = re.compile(r"(?:[\d)[\]}^²³*×·÷/+−–<>→-]|\b[xX])\s*[~≈]?$|\w=$")
_OPERATOR_BEHIND = re.compile(r"[(\[]|\s*(?:[\d*×·⋅/÷+−–^=-]|x\b)")
_INITIALS = re.compile(r"\d[C-FHIJLN-SUX-Z]\b")  # of a name: "32L × 4096H = 6.89B"
_SHAPE = re.compile(r"\d+[×x]\d+(?: [a-z]+)?")  # "a 64×16 block": no product
_FACTOR_BEFORE = re.compile(r"\d[kKMB]? [a-z]+ (?:at|of|with) $")  # "50K chunks at 769 dims × 4 bytes"
_LIST = re.compile(r"[\d.]+ ?([A-Za-z]+)(?: / [\d.]+ ?\1\b){2,} ?[x×*]")  # three models: "1.5B / 7B / 8B × 4 = 12"
LEAST_TERM = 10.0  # of a sum: smaller numbers may be names
# Words of an equation -> factors between the units that its result may have, beside powers of 1,000.
_UNIT_FACTORS = (
    ("", (1.0,)),
    (r"(?:\b|\d)(?:m?s|sec\w*|min\w*|h|hrs?|hours?|days?)\b|/h|/day", (60, 1 / 60, 24, 1 / 24, 3.6, 1 / 3.6)),
    # "64 × 65 = 16,640 B" leaves out the 4 bytes of each figure.
    (r"[kmgt]?i?b\b|byte|bit|\b\d+ ?k\b", (8, 1 / 8, 2, 4, *(1024.0**k / 1000.0**k for k in range(-4, 5)))),
    ("%", (0.1, 10)),
)


def _equations(source: str, text: str) -> Iterator[StatedResult]:
    """Yield products, quotients and sums that are written out: "3 GPUs x 8 GB = 24 GB"."""
    for m in _EQUATION.finditer(text):
        unit = _unit_of_result(m)
        if _is_part_of_longer(m) or _is_no_equation(m):
            continue
        parts = re.split(rf"({_TERM})", m["terms"])
        terms = parts[1::2]
        if not _has_unit_of_terms(unit, terms, m["n"]):
            continue

        value = _sum_of(terms) if "+" in m["terms"] else _product_of(parts)
        stated = _result(m["n"], bool(m["about"] or m["around"]), resolution_of(m["n"]) / 2)
        if value is not None and value.low > 0 and stated.low > 0:
            right = f"it is {value.middle:.4g}, in any unit"
            yield StatedResult(source, m[0].strip(), stated, _in_any_unit(value, m), right)


def _unit_of_result(m: re.Match[str]) -> str:
    return (m["unit"] or "").strip("\\$ ")


def _is_part_of_longer(m: re.Match[str]) -> bool:
    """Whether the terms of an equation are a part of a longer product or sum."""
    before = m.string[: m.start()]
    goes_before = _OPERATOR_BEFORE.search(before) or _FACTOR_BEFORE.search(before)
    return bool(goes_before or _OPERATOR_BEHIND.match(m.string, m.end()))


def _is_no_equation(m: re.Match[str]) -> bool:
    """Whether it is a ratio of rates ("8 GPUs / 1 GPU = 7.2x"), a shape, a name ("32L") or a list."""
    if _unit_of_result(m) in ("x", "×") or _SHAPE.fullmatch(m["terms"]):
        return True
    # "scenarios 2·4·5·6·7 = 1": no product of whole numbers is less than one of them.
    numbers = re.findall(_TERM, m["terms"])
    is_of_names = "·" in m["terms"] and all(map(str.isdecimal, numbers))
    if is_of_names and float(m["n"].replace(",", "")) < max(map(int, numbers)):
        return True
    return bool(_INITIALS.search(m["terms"]) or _LIST.match(m["terms"]))


def _in_any_unit(value: PrintedInterval, m: re.Match[str]) -> tuple[PrintedInterval, ...]:
    """Return the value of an equation in all units of its kind, or as it is where all its figures have one unit."""
    unit = (m["unit"] or "").strip().lower()
    values = [value]
    is_quotient = re.search("[/÷]", m["terms"]) is not None
    if is_quotient and "/" in unit:  # "277 / 256 = 0.92 tok/fwd": the label in front is turned round
        values.append(PrintedInterval(1 / value.high, 1 / value.low))
    if is_quotient and not re.search("[A-Za-z%.]", m[0]):  # "6250 / 3072 = 3": rounded up
        return (PrintedInterval(math.floor(value.low), math.ceil(value.high)),)
    units_of_terms = re.findall(r"[A-Za-zµ/]{2,}", m["terms"].lower())
    if not re.search("[+%]", m["terms"]) and units_of_terms == [unit]:  # "3 x 8 GB = 24 GB"
        return (value,)
    possible = [factors for words, factors in _UNIT_FACTORS if re.search(words, m[0], re.I)]
    factors = [factor * 1000.0**k for factor in chain(*possible) for k in range(-8, 9)]
    return tuple(value * factor for value in values for factor in factors)


def _sum_of(terms: list[str]) -> PrintedInterval | None:
    """Return what a sum of terms may be. None unless it is of one quantity: "1 h + 30 min", "phases 1 + 2"."""
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
    """Whether the unit of a result is that of a term, or no unit. Else a term may be a name: "2 x 4090 = 48 GB".

    A result of three digits and more may count something: "28 x 7 = 196 layers". "8 x 7B" is no product: mixtures of
    experts are called so.
    """
    are_counts = all(term.replace(",", "").isdecimal() for term in terms) and len(re.sub(r"\D", "", result)) > 2
    if re.fullmatch("[kKMBTG]?", unit) or (are_counts and unit_of(unit) is None):
        is_mixture = len(terms) == 2 and any(re.fullmatch(rf"{_POSITIVE}B", term) for term in terms)  # "8 x 7B"
        return not is_mixture
    dimensions = {figure.unit.dimension for term in terms for figure in figures_of(term) if figure.unit}
    dimensions_of_result = {figure.unit.dimension for figure in figures_of(f"1 {unit}") if figure.unit}
    counted_item = unit.lower() if unit_of(unit) else unit.lower().partition("/")[0]  # "120 examples/method"
    return bool(dimensions & dimensions_of_result) or any(counted_item in term.lower() for term in terms)


def _term(text: str) -> PrintedInterval:
    """Return what the number of a term may have been: 3 of "3 GPUs", but 2.45 to 2.55 of "2.5 s" or of a rate."""
    m = re.search(_POSITIVE, text)
    printed = m[0] if m else "0"
    units = [figure.unit.dimension for figure in figures_of(text) if figure.unit]
    is_measured = "." in printed or "time" in units or "rate" in units
    return _around(number(printed) or 0.0, resolution_of(printed) / 2 if is_measured else 0.0)


def _result(digits: str, is_rough: bool, width: float) -> PrintedInterval:
    """Return what a printed result may have been, give or take `width`, or ABOUT where it `is_rough`."""
    value = number(digits) or 0.0
    return _around(value, max(width, ABOUT * value if is_rough else 0.0))


def _ends_of_change(
    before: str, after: str, dimensions: frozenset[str]
) -> tuple[PrintedInterval, PrintedInterval] | None:
    """Return both ends of a change in one unit: "9" and "4 s" are 9 s and 4 s.

    Returns None unless they are figures above 0 of one quantity with one of `dimensions`; "" is that of plain numbers.
    """
    ends = [figure for text in (before, after) for figure in figures_of(text)[:1]]  # the first figure of each
    units = [end.unit for end in ends if end.unit]
    own_dimensions = {unit.dimension for unit in units} or {""}
    if len(ends) != 2 or len(own_dimensions) != 1 or not own_dimensions <= dimensions:
        return None
    # An end without a unit has the unit of the other.
    scales = [unit.scale if (unit := end.unit or (units[-1] if units else None)) else 1.0 for end in ends]
    widths = [max(end.resolution, ABOUT * end.value if end.bound == "~" else 0.0) for end in ends]
    first, last = (_around(end.value, width) * scale for end, width, scale in zip(ends, widths, scales, strict=True))
    return (first, last) if first.low > 0 and last.low > 0 else None


def _possible_changes(first: PrintedInterval, last: PrintedInterval, *, is_less: bool) -> tuple[PrintedInterval, ...]:
    """Return what a change from 8 s to 4 s may mean: 0.5 or 2 times, 50 % less, 100 % more.

    `is_less`: it is in percent and a text calls it "less"; then only the readings as less are returned.
    """
    ratios = (last / first, first / last)
    less = [PrintedInterval(1 - ratio.high, 1 - ratio.low) for ratio in ratios]
    more = [PrintedInterval(ratio.low - 1, ratio.high - 1) for ratio in ratios]
    return tuple(less) if is_less else (*ratios, *more, *less)


def _gap(first: PrintedInterval, last: PrintedInterval) -> PrintedInterval:
    """Return how far two figures are from each other: 4.1 to 4.3 of 24.1 and 28.3."""
    width = (first.high - first.low + last.high - last.low) / 2
    gap = abs(first.middle - last.middle)
    return PrintedInterval(max(gap - width, 0.0), gap + width)


def _around(value: float, width: float) -> PrintedInterval:
    """Return the interval from `width` below a value to `width` above it."""
    return PrintedInterval(value - width, value + width)
