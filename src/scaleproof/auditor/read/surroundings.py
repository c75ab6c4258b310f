"""What a table as a whole or the text around it says: its unit, its repeats, the work of a step.

A unit that only sentences state ("All numbers are images/sec.") is taken only where it is certain: one unit, in one
paragraph that speaks of one quantity.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import (
    DEVICE,
    KINDS_OF_UNITS,
    NAMED_DEVICE,
    figures_of,
    is_nothing,
    unit_of,
)
from scaleproof.auditor.read.reported_tables import Quantity, ReportedTable, TableColumn

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
# Words of a paragraph that is about the table, and not about a figure of its own.
_ABOUT_THE_TABLE = re.compile(
    r"(?i)\b(?:all|numbers|figures|values|results?|entries|cells|measured|reported|given|units?|throughput|"
    r"speeds?|rates?|performance|times?|table|below|following)\b"
)
_OTHER_QUANTITY = re.compile(
    r"(?i)\b(?:memory|[GM]i?B|accurac\w+|loss|latency|speed-?ups?|efficien\w+|MFU|T?FLOPS?\S*)(?!\w)"
)
_ENDS_IN_NUMBER = re.compile(r"\d[\d.,]*[kKM]? ?$")


def unit_in_prose(text: str) -> TableColumn | None:
    """Return the quantity that a paragraph states for the table below: "All numbers are in images/sec.". Else None."""
    text = _RATE_PER_DEVICE.sub(r"\1/s/GPU", text)
    if not text or _OTHER_QUANTITY.search(text) or not _ABOUT_THE_TABLE.search(text):
        return None
    rates = list(_RATE.finditer(text))
    times = list(_TIME.finditer(text))
    if len(rates) + len(times) != 1:
        return None

    if rates:
        (m,) = rates
        if _ENDS_IN_NUMBER.search(text[: m.start(1)]):
            return None  # "reaches 350 images/s": a result
        item, _, device = m.groups()
        column = column_of(f"throughput ({item}/s/GPU)" if device else f"throughput ({item}/s)")
    else:
        (m,) = times
        activity, unit = m.groups()
        column = column_of(f"{activity} time ({unit})")
    return column if column.kind is not None and column.unit is not None else None


def unit_in_section(paragraphs: list[str]) -> TableColumn | None:
    """Return the unit that one paragraph of a table's section states. None where others speak of quantities, too."""
    texts = [_RATE_PER_DEVICE.sub(r"\1/s/GPU", text) for text in paragraphs]
    texts_with_unit = [text for text in texts if _RATE.search(text) or _TIME.search(text)]
    if len(texts_with_unit) != 1 or any(_OTHER_QUANTITY.search(text) for text in paragraphs):
        return None
    return unit_in_prose(texts_with_unit[0])


# Headings that count repeats: "Run 1 (s)", "seed 0", "3".
NUMBERED = re.compile(
    r"(?i)(?:run|trial|seed|rep(?:eat|etition)?|attempt|round|fold|test|epoch|rank|worker)?[ _#.-]*(\d{1,3})"
    r"(?: ?\(.*\))?"
)


def last_repeats(headings: list[str]) -> int:
    """Return how many of the last headings count repeats of a measurement: 2 of "GPUs", "Run 1", "Run 2"."""
    matches = [NUMBERED.fullmatch(heading.strip(" *_:")) for heading in headings]
    numbers = [int(m[1]) if m else -1 for m in matches]
    fewest = 3 if headings and headings[-1][:1].isdigit() else 2  # "1" and "2" alone may count anything
    for first, number in enumerate(numbers):
        count = len(numbers) - first
        if number >= 0 and numbers[first:] == list(range(number, number + count)):
            return count if count >= fewest else 0
    return 0


_EPOCHS = re.compile(r"(?i)(?<![\w.,–-])(?P<n>\d{1,4})[ -]epochs?\b")
_PRICE = re.compile(
    rf"(?i)(?<![\d.,–-])[$€£] ?(?P<n>\d+(?:\.\d+)?) ?(?:/|per|an?) ?(?:{DEVICE}|{NAMED_DEVICE})[ /-]?(?:per )?"
    r"(?:h|hr|hour)\b"
)


def figures_in_prose(prose: str, headings: Sequence[str]) -> list[Quantity]:
    """Return what the text around a table says of all rows, if it says it once: epochs, the price of a device hour."""
    figures = []
    for kind, scale, pattern, text in (
        ("epochs", 1.0, _EPOCHS, prose),
        ("price_per_s", 1 / 3600, _PRICE, " . ".join((prose, *headings))),
    ):
        matches = {m["n"]: m for m in pattern.finditer(text)}
        if len(matches) == 1:
            ((printed, m),) = matches.items()
            of_one = True if kind == "price_per_s" else None
            figures.append(Quantity(kind, float(printed) * scale, m[0], prose, per_device=of_one))
    return figures


AMOUNT_OF_WORK = re.compile(
    r"(?i)(?<![\d.,])(\d[\d,]{2,})[ -](?:training |input )?(?:tokens|samples|images|sequences|examples)\b(?!/| ?per)"
)
BATCH_AND_LENGTH = re.compile(
    r"(?i)\bb(?:atch(?: size)?)?\W{1,3}(\d+)\W{1,4}(?:x |by )?(?:t|s|seq\w*|sequence(?: length)?)\W{1,3}(\d+)"
)
SIZES_OF_DATA_SETS = {"cifar10": 50_000, "cifar100": 50_000, "imagenet": 1_281_167, "mnist": 60_000, "agnews": 120_000}


def works_of(table: ReportedTable) -> set[float]:
    """Return the samples or tokens of a step or an epoch that the text around a table says: "50,000 images"."""
    paragraphs = table.grid.before if table.grid else ()
    text = " ".join([table.caption, *table.section, *table.words.values(), *paragraphs])
    text_without_spaces = re.sub("[- ]", "", text.lower())
    works = {float(size) for name, size in SIZES_OF_DATA_SETS.items() if name in text_without_spaces}
    works |= {float(m[1].replace(",", "")) for m in AMOUNT_OF_WORK.finditer(text)}
    works |= {float(m[1]) * float(m[2]) for m in BATCH_AND_LENGTH.finditer(text)}
    return works


UNIT_AT_END = re.compile(r"[(\[]([^()\[\]]{1,20})[)\]]\s*$")
MAGNITUDES = ("M", "B", "G", "T", "K")  # "Parameters (M)": millions, not minutes


def by_own_unit(column: TableColumn, title: str = "") -> TableColumn:
    """Return a column typed by the unit that ends its heading, or the title: "Foo (ms)" is a time. Else as it is."""
    match = UNIT_AT_END.search(column.heading) or UNIT_AT_END.search(title)
    unit = unit_of(match[1]) if match and match[1] not in (*MAGNITUDES, "Min") else None  # "Min": a minimum
    if unit is None or unit.dimension not in KINDS_OF_UNITS:
        return column
    kind = KINDS_OF_UNITS[unit.dimension]
    return TableColumn(column.heading, kind, unit.scale, unit.dimension, per_device=unit.per_device, item=unit.item)


WORD_OF_TIME = re.compile(
    r"(?i)time(?!step)|speed|laten|infer|epoch|forward|backward|durat|overhead|wait|ttft|fill|total|[cg]pu|temp[os]|zeit|时"
)
OF_DEVICE = re.compile(r"(?i)\bpeak\b")  # "Marketed Peak BF16 Compute"
FOR_PEOPLE = ("Markdown table", "LaTeX table", "HTML table")  # programs print tables of operators and queues, too


def columns_by_units(grid: Grid, columns: list[TableColumn]) -> list[TableColumn]:
    """Return the columns typed by units of their cells, "12 ms" below "ResNet". [] where fewer than two have one."""
    if grid.form not in FOR_PEOPLE:
        return []
    title = grid.caption or "".join(grid.section[-1:])
    typed_columns = columns[:1]  # the first column names the rows
    cells_with_units = 0
    for k, column in enumerate(columns[1:], start=1):
        cells = [row[k] for _, row in grid.rows if k < len(row) and not is_nothing(row[k])]
        typed = column if column.kind is not None else _column_by_units(column, cells, title)
        if typed is not column:
            cells_with_units += len(cells)
        typed_columns.append(typed)
    of_times = [k for k, column in enumerate(typed_columns) if column.kind == "time_s" and columns[k].kind is None]
    texts = [title, *(columns[k].heading for k in of_times), *(row[0] for _, row in grid.rows if row)]
    is_of_times = 1 < len(of_times) == len(columns) - 1
    if not is_of_times and not any(map(WORD_OF_TIME.search, texts)):
        for k in of_times:
            typed_columns[k] = columns[k]  # "960 h" below "Hours of Speech", "10 ms" below "Attack"
    return typed_columns if cells_with_units >= 2 else []


def _column_by_units(column: TableColumn, cells: list[str], title: str) -> TableColumn:
    """Return a column typed by the unit of all its cells, of its heading or of the table's title, else as it is."""
    figures_by_cell = [figures_of(cell) for cell in cells]
    units = [figures[0].unit if figures else None for figures in figures_by_cell]
    dimensions = {unit.dimension if unit is not None else "" for unit in units}
    kind = KINDS_OF_UNITS.get(dimensions.pop()) if len(dimensions) == 1 else None
    if kind == "flops_per_s" and OF_DEVICE.search(column.heading):
        return column
    if kind is not None:
        return TableColumn(column.heading, kind, note=column.heading)

    if all(figures_by_cell):
        by_heading = by_own_unit(column, title)
        if by_heading.kind is not None:
            return replace(by_heading, note=column.heading)
    return column
