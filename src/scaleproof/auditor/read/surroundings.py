"""What a table says as a whole, or the text around it: its unit, what its ratios are of.

A unit that only sentences state ("All numbers are images/sec.") is taken only where it is certain: one unit, in one
paragraph that speaks of one quantity.
"""

import re
from itertools import permutations

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.units import DEVICE, KINDS_OF_UNITS, unit_of

_RATE = re.compile(
    r"(?i)(?<![\d.]) ?\b(tokens?|samples?|images?|imgs?|sequences?|examples?|steps?|iterations?) ?(?:/|per) ?"
    rf"(s|sec|second)\b(?: ?(?:/|per) ?({DEVICE})\b)?"
)
# "samples per GPU per second"
_RATE_PER_DEVICE = re.compile(
    rf"(?i)\b(tokens?|samples?|images?|imgs?|sequences?|examples?) ?(?:/|per) ?{DEVICE} ?(?:/|per) ?(?:s|sec|second)\b"
)
_TIME = re.compile(
    r"(?i)\b(step|iteration|epoch|training|total|run) ?times?\b[^.;]{0,40}?"
    r"(?:\bin |[(\[])(milliseconds|ms|seconds|secs?|s|minutes|min|hours)\b"
)
# It is about the table, and not about a figure of the sentence.
_ABOUT_THE_TABLE = re.compile(
    r"(?i)\b(?:all|numbers|figures|values|results?|entries|cells|measured|reported|given|units?|throughput|"
    r"speeds?|rates?|performance|times?|table|below|following)\b"
)
_OTHER_QUANTITY = re.compile(
    r"(?i)\b(?:memory|[GM]i?B|accurac\w+|loss|latency|speed-?ups?|efficien\w+|MFU|T?FLOPS?\S*)(?!\w)"
)
_ENDS_IN_NUMBER = re.compile(r"\d[\d.,]*[kKM]? ?$")
_BATCH_SIZES = re.compile(r"(?i)\bbatch[- ]?sizes?\b")
_OF_DEVICES = re.compile(rf"(?i)\b(?:{DEVICE}|nodes?|number of \w+)\b")


def unit_in_prose(text: str) -> TableColumn | None:
    """Return the quantity that a paragraph states for the table below: "All numbers are in images/sec.". Else None."""
    text = _RATE_PER_DEVICE.sub(r"\1/s/GPU", text)
    if not text or _OTHER_QUANTITY.search(text) or not _ABOUT_THE_TABLE.search(text):
        return None
    rates = list(_RATE.finditer(text))
    times = list(_TIME.finditer(text))
    if len(rates) + len(times) != 1:
        return None
    (m,) = rates or times
    if rates and _ENDS_IN_NUMBER.search(text[: m.start(1)]):
        return None  # "reaches 350 images/s": a result
    # Of _RATE item, second and device, of _TIME what is timed and the unit.
    per_device = "/GPU" if rates and m[3] else ""
    column = column_of(f"throughput ({m[1]}/s{per_device})" if rates else f"{m[1]} time ({m[2]})")
    return column if column.kind is not None and column.unit is not None else None


def unit_in_section(paragraphs: list[str]) -> TableColumn | None:
    """Return the unit that one paragraph of a table's section states. None where others speak of quantities, too."""
    texts = [_RATE_PER_DEVICE.sub(r"\1/s/GPU", text) for text in paragraphs]
    stating = [text for text in texts if _RATE.search(text) or _TIME.search(text)]
    if len(stating) != 1 or any(_OTHER_QUANTITY.search(text) for text in paragraphs):
        return None
    return unit_in_prose(stating[0])


def batch_columns(header: list[str], texts: list[str], names: list[str]) -> dict[int, int]:
    """Return column -> its batch size: {1: 32, 2: 64} of "Batch size | 32 | 64"; {} where that is not certain.

    `texts`: those around the table; `names`: its first cells.
    """
    numbers = [heading.strip() for heading in header[1:]]
    if len(numbers) < 2 or not all(re.fullmatch(r"[1-9]\d{0,4}", number) for number in numbers):
        return {}
    sizes = [int(number) for number in numbers]
    if sizes != sorted(set(sizes)):
        return {}
    about = " . ".join(texts)
    if _BATCH_SIZES.fullmatch(header[0].strip()):
        # Above names it is about the columns; above numbers these are the batch sizes.
        is_about_columns = all(re.match(r"[A-Za-z]", name) for name in names)
    elif _OF_DEVICES.search(about) and column_of(header[0]).kind != "devices":
        is_about_columns = False  # the numbers may be those of devices
    else:
        is_about_columns = _BATCH_SIZES.search(about) is not None and not _BATCH_SIZES.search(header[0])
    return dict(enumerate(sizes, start=1)) if is_about_columns else {}


# What counts repeats: "Run 1 (s)", "seed 0", "3".
NUMBERED = re.compile(
    r"(?i)(?:run|trial|seed|rep(?:eat|etition)?|attempt|round|fold|test|epoch|rank|worker)?[ _#.-]*(\d{1,3})"
    r"(?: ?\(.*\))?"
)


def last_repeats(headings: list[str]) -> int:
    """Return how many of the last headings count repeats of a measurement: 2 of "GPUs", "Run 1", "Run 2"; or 0."""
    matches = [NUMBERED.fullmatch(heading.strip(" *_:")) for heading in headings]
    numbers = [int(m[1]) if m else -1 for m in matches]
    fewest = 3 if headings and headings[-1][:1].isdigit() else 2  # "1" and "2" alone may count anything
    for first, number in enumerate(numbers):
        count = len(numbers) - first
        if number >= 0 and numbers[first:] == list(range(number, number + count)):
            return count if count >= fewest else 0
    return 0


MOST_COLUMNS = 12  # that are divided by each other
MOST_ROWS = 200
SPEED_HEADING = re.compile(
    r"(?i)[(\[,_ ](?:ms|s|secs?|seconds?|mins?|minutes?|h|hours?|\w+/s(?:ec)?|\w+/second)[)\]]?$"
)
SPEED_KINDS = ("time_s", "latency_s", "_per_s", "rate")
ROUNDING = 0.02  # relative difference that rounding of the columns explains


def mark_ratios_of_columns(table: ReportedTable) -> None:
    """Note on speed-ups which two columns they are the ratio of, where that is so in every row: "FP16 / FP32"."""
    by_heading: dict[str, list[tuple[ReportedRow, Quantity]]] = {}
    for row in table.rows[:MOST_ROWS]:
        for speedup in row.all_of("speedup"):
            by_heading.setdefault(speedup.heading, []).append((row, speedup))
    for speedups in by_heading.values():
        if any(abs(speedup.value - 1) > ROUNDING for _, speedup in speedups):
            over = _ratio_of_columns(_columns_of_speeds(table), speedups)
            for _, speedup in speedups:
                speedup.over = speedup.over or over


def _columns_of_speeds(table: ReportedTable) -> dict[str, bool | None]:
    """Return the headings of times and rates, with whether each is per device; by its unit where a kind is unknown."""
    columns = {}
    for column in table.columns:
        is_speed = column.kind.endswith(SPEED_KINDS) if column.kind else SPEED_HEADING.search(column.heading)
        if is_speed:
            columns[column.heading] = column.per_device
    return dict(list(columns.items())[:MOST_COLUMNS])


def _ratio_of_columns(columns: dict[str, bool | None], speedups: list[tuple[ReportedRow, Quantity]]) -> str:
    """Return "A / B" where each of two speed-ups or more is the cell of column A over that of B; else ""."""
    if len(speedups) < 2 or len({speedup.value for _, speedup in speedups}) < 2:
        return ""
    for above, below in permutations(columns, 2):
        if columns[above] != columns[below]:
            continue  # one is per device, the other is not
        if all(_is_ratio(speedup, row.texts.get(above, ""), row.texts.get(below, "")) for row, speedup in speedups):
            return f"{above} / {below}"
    return ""


def _is_ratio(speedup: Quantity, above: str, below: str) -> bool:
    """Whether a speed-up is the figure of one cell over that of another: 2.0 of "100 ms" and "50 ms"."""
    dividends, divisors = figures_of(above), figures_of(below)
    if not dividends or not divisors or not divisors[0].value:
        return False
    difference = abs(dividends[0].value / divisors[0].value - speedup.value)
    return difference <= max(speedup.resolution, ROUNDING * speedup.value)


AMOUNT_OF_WORK = re.compile(
    r"(?i)(?<![\d.,])(\d[\d,]{2,})[ -](?:training |input )?(?:tokens|samples|images|sequences|examples)\b(?!/| ?per)"
)
BATCH_AND_LENGTH = re.compile(
    r"(?i)\bb(?:atch(?: size)?)?\W{1,3}(\d+)\W{1,4}(?:x |by )?(?:t|s|seq\w*|sequence(?: length)?)\W{1,3}(\d+)"
)
SIZES_OF_DATA_SETS = {"cifar10": 50_000, "cifar100": 50_000, "imagenet": 1_281_167, "mnist": 60_000, "agnews": 120_000}


def works_of(table: ReportedTable) -> set[float]:
    """Return how many samples or tokens a step or an epoch may have by the text around a table: "50,000 images".

    Names of known data sets, and a batch beside a length, say it, too.
    """
    around = [table.caption, *table.section, *table.words.values(), *(table.grid.before if table.grid else ())]
    text = " ".join(around)
    named = re.sub("[- ]", "", text.lower())
    works = {float(size) for name, size in SIZES_OF_DATA_SETS.items() if name in named}
    works |= {float(m[1].replace(",", "")) for m in AMOUNT_OF_WORK.finditer(text)}
    works |= {float(m[1]) * float(m[2]) for m in BATCH_AND_LENGTH.finditer(text)}
    return works


LARGE_NUMBER = re.compile(r"(?<![\w.,])(\d[\d,]*\d(?:\.\d+)?)(?![\d,]*\d|[xX×]|-bit)")


def numbers_around(table: ReportedTable) -> set[float]:
    """Return the numbers of two digits and more of a caption and of headings: 312 of "A100 (peak 312 TFLOP/s)"."""
    texts = [table.caption, *table.section[-1:], *(column.heading for column in table.columns)]
    numbers = (float(m[1].replace(",", "")) for text in texts for m in LARGE_NUMBER.finditer(text))
    return {number for number in numbers if number > 0}


UNIT_AT_END = re.compile(r"[(\[]([^()\[\]]{1,20})[)\]]\s*$")
MAGNITUDES = ("M", "B", "G", "T", "K")  # "Parameters (M)": millions, not minutes


def by_own_unit(column: TableColumn, title: str = "") -> TableColumn:
    """Return a column typed by the unit that ends its heading, or the title: "Foo (ms)" is a time. Else as it is."""
    match = UNIT_AT_END.search(column.heading) or UNIT_AT_END.search(title)
    unit = unit_of(match[1]) if match and match[1] not in MAGNITUDES else None
    if unit is None or unit.dimension not in KINDS_OF_UNITS:
        return column
    kind = KINDS_OF_UNITS[unit.dimension]
    return TableColumn(column.heading, kind, unit.scale, unit.dimension, per_device=unit.per_device, item=unit.item)
