"""Sizes that a text states with all that they are made of: totals of lists, models and tensors in bytes, shares."""

import math
import re
from collections.abc import Iterator

from scaleproof.auditor.read.grids import Line
from scaleproof.auditor.read.printed_figures import MEMORIES, NUMBER, PREFIXES, number
from scaleproof.auditor.read.reported import StatedResult
from scaleproof.auditor.read.reported_tables import ABOUT, PrintedInterval, exact, resolution_of

SCALES = {name: scale for scale, names in MEMORIES.items() for name in names} | PREFIXES
DECIMAL = 2.0**30 / 1e9  # "GB" is read as GiB, and may be less
SIZE_OF_MODEL = PrintedInterval(0.85, 1.35)  # over parameters x bytes: a "7B" has 6.7 to 8.5e9 parameters
BESIDE = 8  # letters beside a tensor, which may say that there are several
LONGEST_LINE = 2000  # letters
NEAR = 5  # lines between shares of one whole

_POSITIVE = NUMBER.removeprefix("[-+−]?")
_SIZE = (
    rf"(?P<about>[~≈] ?)?(?<![\w.])(?:(?P<low>{_POSITIVE}) ?[-–] ?)?(?P<n>{_POSITIVE}) ?"
    r"(?P<unit>[KMGTkmgt]i?[Bb])\b(?!/)"
)
_SIZE_OR_COUNT = _SIZE.replace("[Bb])", "[Bb]|[MB](?: ?param\\w*)?)")  # "124M parameters"
HAS_SIZE = re.compile(r"\d ?(?:[KMGTkmgt]i?[Bb]|[MB])\b")
_TYPE = r"(?:fp|bf|float|bfloat|int)-?(?:64|32|16|8|4)\b"
_ITEM = re.compile(r"(?P<indent>\s*)(?:[-*+•├└│─#]+ )?(?P<label>[^:]{2,60}):(?P<value>.*)")
_MARKUP = re.compile(r"\*\*|\\(?=[~*_])")
_BRACKETS = re.compile(r"\([^()]*\)")
_RULE = re.compile(r"\W{3,}")
_TOTAL = re.compile(
    r"(?i)(?:grand |estimated )?(?:total|总计|合计)(?: (?:estimated|v?ram|memory|usage|size|footprint|required|needed|"
    r"per (?:gpu|rank|device)|param\w*|model)){0,3} *"
)
# What is in a list beside a total, and no part of it.
_NO_PART = re.compile(
    r"(?i)total|\bused\b|free|avail|peak|limit|capacity|budget|before|after|\bwith|max|min|sav(?:ed|ing)|"
    r"reserved|allocated|baseline|average|mean|recommended|speed|rate|bandwidth|trainable|frozen"
)
_MULTIPLE = re.compile(r"(?i)\b(?:per|each|across|cluster|all|[x×*] ?\d+|\d+ ?[x×*])(?!\w)")
_MODEL = re.compile(
    rf"(?i)(?<![\w.×])(?P<b>\d+(?:\.\d+)?)B\b[^()|;,:]{{0,30}}\({_SIZE},? (?:in |at |@ |as )?(?P<type>{_TYPE})\)"
)
_TENSOR = re.compile(
    rf"(?i)\[(?P<shape>\d+(?:, ?\d+){{1,5}})\][` ]*(?P<type>{_TYPE})?[)` ]*(?:[=≈:|]|is|takes) *{_SIZE}"
    rf"(?: (?:in |at )?(?P<later_type>{_TYPE}))?"
)
_SEVERAL = re.compile(r"(?i)\b(?:[qkv]{1,3}|both|each|tensors|caches|buffers|copies|per)\b|[x×*] ?\d|\d ?[x×*]")
_SHARE = re.compile(rf"{_SIZE}[*` ]*\((?P<percent>\d+(?:\.\d+)?) ?% of (?P<whole>[A-Za-z ]{{2,30}})\)")


def stated_sizes(lines: list[Line], file: str) -> Iterator[StatedResult]:
    """Yield the sizes of a text that its own figures make: "8B (16 GB in FP32)", "Total: 84 GB" below 14, 14, 56 GB."""
    yield from _totals(lines, file)
    shares: dict[str, tuple[int, PrintedInterval, str]] = {}  # what they are of -> the last: line, whole, as printed
    for line, raw in lines:
        if not HAS_SIZE.search(raw):
            continue
        source, text = f"{file}:{line}", _MARKUP.sub("", raw[:LONGEST_LINE])
        for m in _MODEL.finditer(text):
            weights = float(m["b"]) * 1e9 * _bytes_of(m["type"])
            right = f"{m['b']}e9 parameters in {m['type']} are {weights / 1e9:.3g} GB"
            yield StatedResult(source, m[0], _size(m), (_in_bytes(SIZE_OF_MODEL * weights),), right)
        for m in _TENSOR.finditer(text):
            if stated_type := (m["type"] or m["later_type"]):
                size = math.prod(map(int, m["shape"].split(","))) * _bytes_of(stated_type)
                right = f"so many elements in {stated_type} are {size / 1e6:.4g} MB"
                around = text[max(0, m.start() - BESIDE) : m.start()] + " " + text[m.end() :][:BESIDE]
                if not _SEVERAL.search(around):
                    yield StatedResult(source, m[0], _size(m), (_in_bytes(exact(size)),), right)
        for m in _SHARE.finditer(text):
            percent = float(m["percent"])
            width = resolution_of(m["percent"]) / 2
            whole = _size(m) / (PrintedInterval(percent - width, percent + width) * 0.01)
            last_line, last_whole, printed = shares.get(m["whole"], (line, whole, ""))
            if line - last_line <= NEAR:
                yield StatedResult(source, m[0], whole, (last_whole,), f"“{printed}” is of another {m['whole']}")
            shares[m["whole"]] = (line, whole, m[0])


def _bytes_of(name: str) -> float:
    """Return the bytes of a type: 2 of "BF16"."""
    return float(re.sub(r"\D", "", name)) / 8


def _in_bytes(size: PrintedInterval) -> PrintedInterval:
    """Return a size with what it may be where its unit is one of 1,000: 14 to 15.03 of 14e9 bytes."""
    return PrintedInterval(size.low, size.high * DECIMAL)


def _size(m: re.Match[str]) -> PrintedInterval:
    """Return the size of a match of _SIZE in bytes, or as a number of parameters."""
    high = number(m["n"]) or 0.0
    low = number(m["low"]) or high if m["low"] else high
    width = max(resolution_of(m["n"]) / 2, ABOUT * high if m["about"] else 0.0)
    return PrintedInterval(max(low - width, 0.0), high + width) * _scale(m)


def _scale(m: re.Match[str]) -> float:
    """Return what 1 of the size of a match is worth."""
    return SCALES[m["unit"].lower().partition("param")[0].strip()]


def _totals(lines: list[Line], file: str) -> Iterator[StatedResult]:
    """Yield totals below lists of their parts, one a line, in one unit: 100 MB, 5 MB and 50 MB, "Total: 200 MB"."""
    parts: list[tuple[tuple[int, bool], PrintedInterval]] = []  # ((indent, whether it is one of several), size)
    has_others = is_below_gap = False  # lines without a size, or before an empty line
    for line, raw in lines:
        text = _MARKUP.sub("", raw).replace("`", "")
        item = _ITEM.fullmatch(text)
        if not text.strip() or (_RULE.fullmatch(text.strip()) and "```" not in raw):
            is_below_gap |= not text.strip()
            continue
        size = _size_in(item["value"]) if item else None
        is_total = item is not None and _TOTAL.fullmatch(item["label"])
        if not is_total and (is_below_gap or item is None or not item["value"].strip()):
            parts, has_others = [], False
        is_below_gap = False
        if item is None or not item["value"].strip():
            continue
        result = _BRACKETS.sub("", item["value"]).rpartition("=")[2]
        form = (len(item["indent"]), bool(_MULTIPLE.search(f"{item['label']} {result}")))
        if is_total:
            indents, are_several = map(set, zip(*(form for form, _ in parts), strict=True)) if parts else (set(), set())
            have_one_form = len(indents) == 1 and are_several == {form[1]}
            if size and len(parts) > 1 and have_one_form:
                low, high = (sum(ends) for ends in zip(*((part.low, part.high) for _, part in parts), strict=True))
                right = f"the {len(parts)} parts above it add up to {(low + high) / 2 / _scale(size):.4g}"
                whole = PrintedInterval(low, math.inf if has_others else high)
                yield StatedResult(f"{file}:{line}", text.strip(), _size(size), (whole,), right)
            parts, has_others = [], False
        elif _NO_PART.search(item["label"]):
            parts.append(((-1, False), exact(0.0)))
        elif size:
            parts.append((form, _size(size)))
        else:
            has_others = True


def _size_in(value: str) -> re.Match[str] | None:
    """Return the match of the one size of a text, behind its last "=". None where it has none or further numbers."""
    text = _BRACKETS.sub("", value).rpartition("=")[2]
    m = re.search(_SIZE_OR_COUNT, text)
    has_more = m and re.search(r"(?<![A-Za-z\d.])\d", text[: m.start()] + " " + text[m.end() :])
    return None if has_more else m
