"""The unit of a table that only the sentences above it state: "All numbers are images/sec.", "step time in ms".

It is taken only where it is certain: one unit, in one paragraph that speaks of one quantity.
"""

import re

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.reported_tables import TableColumn
from scaleproof.auditor.read.units import DEVICE

_RATE = re.compile(
    r"(?i)(?<![\d.]) ?\b(tokens?|samples?|images?|imgs?|sequences?|examples?|steps?|iterations?) ?(?:/|per) ?"
    rf"(s|sec|second)\b(?: ?(?:/|per) ?({DEVICE})\b)?"
)
# "samples per GPU per second"
_RATE_OF_ONE = re.compile(
    rf"(?i)\b(tokens?|samples?|images?|imgs?|sequences?|examples?) ?(?:/|per) ?{DEVICE} ?(?:/|per) ?(?:s|sec|second)\b"
)
_TIME = re.compile(
    r"(?i)\b(step|iteration|epoch|training|total|run) ?times?\b[^.;]{0,40}?"
    r"(?:\bin |[(\[])(milliseconds|ms|seconds|secs?|s|minutes|min|hours)\b"
)
# It is about the table, and not about a figure of the sentence.
_ABOUT = re.compile(
    r"(?i)\b(?:all|numbers|figures|values|results?|entries|cells|measured|reported|given|units?|throughput|"
    r"speeds?|rates?|performance|times?|table|below|following)\b"
)
_SEVERAL = re.compile(r"(?i)\b(?:memory|[GM]i?B|accurac\w+|loss|latency|speed-?ups?|efficien\w+|MFU|T?FLOPS?\S*)(?!\w)")
_VALUE = re.compile(r"\d[\d.,]*[kKM]? ?$")
_BATCH_SIZES = re.compile(r"(?i)\bbatch[- ]?sizes?\b")
_OF_DEVICES = re.compile(rf"(?i)\b(?:{DEVICE}|nodes?|number of \w+)\b")


def unit_in_prose(text: str) -> TableColumn | None:
    """Return the quantity and unit that a paragraph states for the table below it; None where it is not certain."""
    text = _RATE_OF_ONE.sub(r"\1/s/GPU", text)
    if not text or _SEVERAL.search(text) or not _ABOUT.search(text):
        return None
    rates = list(_RATE.finditer(text))
    times = list(_TIME.finditer(text))
    if len(rates) + len(times) != 1:
        return None
    m = (rates or times)[0]
    if rates:
        if _VALUE.search(text[: m.start(1)]):
            return None  # "reaches 350 images/s": a result
        column = column_of(f"throughput ({m[1]}/s{'/GPU' if m[3] else ''})")
    else:
        column = column_of(f"{m[1]} time ({m[2]})")
    return column if column.kind is not None and column.unit is not None else None


def unit_in_section(paragraphs: list[str]) -> TableColumn | None:
    """Return the unit that one paragraph of a table's section states; None where others speak of quantities, too."""
    stating = [text for text in paragraphs if _RATE.search(_RATE_OF_ONE.sub(r"\1/s/GPU", text)) or _TIME.search(text)]
    if len(stating) != 1 or any(_SEVERAL.search(text) for text in paragraphs):
        return None
    return unit_in_prose(stating[0])


def batch_columns(header: list[str], texts: list[str], names: list[str]) -> dict[int, int]:
    """Return the batch size of each column, where the headings behind the first are bare numbers that are batch sizes,
    as the first heading says, above `names`, or a text about the table; {} where that is not certain.
    """
    numbers = [heading.strip() for heading in header[1:]]
    if len(numbers) < 2 or not all(re.fullmatch(r"[1-9]\d{0,4}", number) for number in numbers):
        return {}
    about = " . ".join(texts)
    sizes = [int(number) for number in numbers]
    in_order = dict(enumerate(sizes, start=1)) if sizes == sorted(set(sizes)) else {}
    if _BATCH_SIZES.fullmatch(header[0].strip()):
        # Above names it is about the columns; above numbers these are the batch sizes.
        return in_order if all(re.match(r"[A-Za-z]", name) for name in names) else {}
    rows_are_devices = column_of(header[0]).kind == "devices"
    if not _BATCH_SIZES.search(about) or _BATCH_SIZES.search(header[0]):
        return {}
    if _OF_DEVICES.search(about) and not rows_are_devices:
        return {}
    return in_order
