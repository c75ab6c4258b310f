"""What a table as a whole says, or the text around it: its unit, whether its figures scatter, what its ratios are of.

A unit that only sentences state ("All numbers are images/sec.") is taken only where it is certain: one unit, in one
paragraph that speaks of one quantity.
"""

import re
from itertools import permutations

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable, TableColumn
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


_WORDS = (
    r"std(?:ev|err|dev)?|st\.? ?dev|std\.? (?:dev\w*|err\w*)|standard (?:deviations?|errors?)|s\.?d\.?|s\.?e\.?m\.?|σ|"
    r"sigma|variances?|var|cv|rsd|coefficient of variation|iqr|inter-?quartile(?: range)?|quartiles?|mad|"
    r"ci ?\d*|\d+ ?%? ?ci|confidence(?: interval)?|credible interval|error bars?|jitter|spread|dispersion"
)
# A heading or the name of a row: "Std. Dev", "step_time_std_ms", "95% CI", "p95 (ms)", "tokens_per_s_low", "runs".
NAMED = re.compile(
    rf"(?i)±|\+/-|(?:^|[^a-z])(?:{_WORDS}|p ?\d\d?(?:\.\d+)?|\d+th|percentiles?|min(?:imum)?|low(?:er)?|upper|range|"
    r"repeats|repetitions|replicates|trials|seeds|n_?runs|num_?runs|(?:number|no\.?) of (?:runs|trials|seeds))"
    r"(?:$|[^a-z])"
)
# A cell: "100 ± 3", "8,859 [7,217, 10,874]", "1.51 (1.05-2.10)", "12 (σ 0.3)".
SCATTERED = re.compile(r"±|\+/-|\\pm|\d ?[(\[]\s*[-\d.,]+\s*(?:,|;|–|-|to|\.\.)\s*[-\d.,]+\s*%?\s*[)\]]")
# What stands around a table: "averaged over 5 runs", "n = 10", "mean of three seeds".
AROUND = re.compile(
    rf"(?i)±|\b(?:{_WORDS})\b|\bn ?= ?\d|(?:\d+|two|three|four|five|six|ten|several|multiple) "
    r"(?:\w+ )?(?:runs|repeats|repetitions|replicates|trials|seeds|measurements)\b"
)
ORDINAL = re.compile(
    r"(?i)(?:run|rep|repeat|repetition|replicate|trial|seed|attempt)s?(?:[ _](?:id|idx|no|number|nr))?"
)
REPEATED = re.compile(r"(?i)\b(?:rep(?:eat)?|run|seed|trial)[ _-]?(\d+)\b")  # "ddp-n1x2/rep1"


def states_spread(grid: Grid) -> bool:
    """Whether a heading, the name of a row, a cell or the text around states a spread or a number of repeats; or
    each repeat has a row of its own.
    """
    row_names = [row[0] for _, row in grid.rows if row]
    if any(NAMED.search(name) for name in (*grid.header, *row_names)):
        return True
    if any(SCATTERED.search(cell) for _, row in grid.rows for cell in row):
        return True
    if any(AROUND.search(text) for text in (grid.caption, grid.above, *grid.before)):
        return True
    repeats = [m for name in row_names if (m := REPEATED.search(name))]
    if len({m[0] for m in repeats}) < len(repeats) and len({m[1] for m in repeats}) > 1:
        return True
    return any(_are_repeats(grid, k) for k, heading in enumerate(grid.header) if ORDINAL.fullmatch(heading.strip()))


def _are_repeats(grid: Grid, k: int) -> bool:
    """Whether the figures of column `k` count the rows of one configuration: 1, 2, 3, 1, 2, 3."""
    ordinals = [row[k].strip() for _, row in grid.rows if k < len(row)]
    return len(set(ordinals)) > 1 and all(re.fullmatch(r"\D{0,6}\d{1,6}", ordinal) for ordinal in ordinals)


MOST_COLUMNS = 12
MOST_ROWS = 200
SPEED = re.compile(r"(?i)[(\[,_ ](?:ms|s|secs?|seconds?|mins?|minutes?|h|hours?|\w+/s(?:ec)?|\w+/second)[)\]]?$")
SPEED_KINDS = ("time_s", "latency_s", "_per_s", "rate")
ROUNDING = 0.02  # relative difference that rounding of the columns explains


def mark_ratios_of_columns(table: ReportedTable) -> None:
    """Note on each speed-up, where all of a column are the ratio of the same two columns, which these are."""
    by_heading: dict[str, list[tuple[ReportedRow, Quantity]]] = {}
    for row in table.rows[:MOST_ROWS]:
        for quantity in row.all_of("speedup"):
            by_heading.setdefault(quantity.heading, []).append((row, quantity))
    for stated in by_heading.values():
        if any(abs(q.value - 1) > ROUNDING for _, q in stated):
            over = _two_columns(_columns_of_speeds(table), stated)
            for _, quantity in stated:
                quantity.over = quantity.over or over


def _columns_of_speeds(table: ReportedTable) -> dict[str, bool | None]:
    """Return the columns of times and rates (by their unit where their kind is not known) -> whether of one device."""
    columns = {}
    for column in table.columns:
        speed = column.kind.endswith(SPEED_KINDS) if column.kind else SPEED.search(column.heading)
        if speed:
            columns[column.heading] = column.per_device
    return dict(list(columns.items())[:MOST_COLUMNS])


def _two_columns(columns: dict[str, bool | None], stated: list[tuple[ReportedRow, Quantity]]) -> str:
    """Return "A / B" where each figure is A's cell over B's; "" where no two columns have figures with these ratios.

    One row proves nothing: some two of many figures have any ratio. The rate of all over that of one is no speed-up.
    """
    if len(stated) < 2 or len({q.value for _, q in stated}) < 2:
        return ""
    for above, below in permutations(columns, 2):
        if columns[above] != columns[below]:
            continue
        pairs = [(_value(row.texts.get(above, "")), _value(row.texts.get(below, ""))) for row, _ in stated]
        if all(
            a is not None and b and abs(a / b - q.value) <= max(q.resolution, ROUNDING * q.value)
            for (a, b), (_, q) in zip(pairs, stated, strict=True)
        ):
            return f"{above} / {below}"
    return ""


def _value(cell: str) -> float | None:
    figures = figures_of(cell)
    return figures[0].value if figures else None


WORK = re.compile(
    r"(?i)(?<![\d.,])(\d[\d,]{2,})[ -](?:training |input )?(?:tokens|samples|images|sequences|examples)\b(?!/| ?per)"
)
BATCH_AND_LENGTH = re.compile(
    r"(?i)\bb(?:atch(?: size)?)?\W{1,3}(\d+)\W{1,4}(?:x |by )?(?:t|s|seq\w*|sequence(?: length)?)\W{1,3}(\d+)"
)
DATA_SETS = {"cifar10": 50_000, "cifar100": 50_000, "imagenet": 1_281_167, "mnist": 60_000, "agnews": 120_000}


def works_of(table: ReportedTable) -> set[float]:
    """What a step or an epoch may be, as the text around a table says: a data set, samples, a batch with its length."""
    around = [table.caption, *table.section, *table.words.values(), *(table.grid.before if table.grid else ())]
    text = " ".join(around)
    named = re.sub("[- ]", "", text.lower())
    works = {float(size) for name, size in DATA_SETS.items() if name in named}
    works |= {float(m[1].replace(",", "")) for m in WORK.finditer(text)}
    works |= {float(m[1]) * float(m[2]) for m in BATCH_AND_LENGTH.finditer(text)}
    return works
