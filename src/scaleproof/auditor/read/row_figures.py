"""From the text of a cell to typed figures and words of a row."""

import re
from collections.abc import Set
from dataclasses import replace
from itertools import permutations

from scaleproof.auditor.read import reported_tables
from scaleproof.auditor.read.headings import NOT_FIGURES, kind_with_unit
from scaleproof.auditor.read.printed_figures import (
    CLEARLY_ENGLISH,
    ITEMS,
    KINDS,
    OTHER_KINDS,
    RESULTS,
    SHARES,
    PrintedFigure,
    Unit,
    figures_of,
    is_european,
    is_nothing,
)
from scaleproof.auditor.read.reported_tables import WORDS, Quantity, Remark, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.words import Description, describe

VERDICT_HEADING = re.compile(
    r"(?i)\b(?:status|result|outcome|verdict|pass(?:ed)?|met|assessment|rating|evaluation|check|grade)\b"
)
ESTIMATED = re.compile(r"(?i)estimat|simulated|placeholder|theoretical")
LONG_TEXT = 60  # characters
CLOCK_SECONDS = 1e9  # a time of day since 1970, and no duration
# No strategy, model or device: what sums up other rows, or the size of a file.
NO_NAME = re.compile(r"(?i)average|avg\.?|mean|median|total|sum|overall|std|[\d.,]+ ?[kmgt]i?b(?:ytes)?")
KINDS_WITH_USUAL_NAMES = ("strategy", "precision", "device")
FOR_PROGRAMS = ("CSV", "JSON", "spreadsheet")  # forms of tables whose cells of text are no labels


def counts_devices(cells: list[str]) -> bool:
    """Whether the cells of a column `gpu` are names or sizes of machines (2, 8, 64), not indices or shares (97)."""
    numbers = {cell.strip() for cell in cells if not is_nothing(cell) and cell.strip()[:1].isdigit()}
    if not all(re.fullmatch(r"\d{1,5}(?:\.0)?", number) for number in numbers):
        return not any(re.fullmatch(r"\d+(?:\.\d+)? ?%?", number) for number in numbers)  # names, no "97.5 %"
    return all(_is_size_of_machines(int(float(number))) for number in numbers)


def _is_size_of_machines(count: int) -> bool:
    """Whether one machine or several equal ones may have so many devices: 6, 12 or 64, but not 10."""
    if count <= 8:
        return count > 0
    return count % (4 if count <= 32 else 8) == 0


def take_words(row: ReportedRow, column: TableColumn, cell: str) -> None:
    """Add what a cell of words says of the configuration to its row: "FSDP, bf16" -> strategy and precision."""
    if not cell or is_nothing(cell):
        return
    if column.kind == "device" and re.fullmatch(r"\d{1,5}", cell):  # "4" below "GPU" is how many
        row.figures.append(Quantity("devices", float(cell), cell, column.heading))
        return
    row.remarks |= _remarks_of_words(column, cell)
    if column.kind == "text":
        return

    description = describe(cell)
    for word, value in description.words.items():
        row.words.setdefault(word, value)
    add_numbers(row, description, cell, column.heading)

    if column.kind is None:
        _note_unknown_figure(row, column, cell, description)
    elif column.kind in WORDS:
        _set_word(row, column.kind, cell, description)


def _remarks_of_words(column: TableColumn, cell: str) -> Set[Remark]:
    """Return the remarks of a cell of words: {"failed"} of "crashed after 10 steps"."""
    if column.kind == "text" and len(cell) >= LONG_TEXT:
        return frozenset()  # a long text may be about anything
    remarks = reported_tables.remarks_of(cell)
    if column.kind is None and not VERDICT_HEADING.search(column.heading):
        return remarks - reported_tables.NO_FIGURES  # "OOM" of a column that may be another configuration
    is_verdict = column.kind in ("status", "text") or VERDICT_HEADING.search(column.heading)
    # "Expected" in a column of verdicts is about a measured figure.
    is_measured = is_verdict and not ESTIMATED.search(cell)
    return remarks - ({"estimated", "theoretical"} if is_measured else set())


def _set_word(row: ReportedRow, kind: str, cell: str, description: Description) -> None:
    """Set a word of a row: the usual name ("A100" of "a100-sxm4"), else the cell. A run keeps its first name."""
    if (kind == "run" and "run" in row.words) or NO_NAME.fullmatch(cell):
        return
    usual_name = description.words.get(kind) if kind in KINDS_WITH_USUAL_NAMES else None
    row.words[kind] = usual_name or cell[:100]


def _note_unknown_figure(row: ReportedRow, column: TableColumn, cell: str, description: Description) -> None:
    """Note a cell that has a figure with a unit, "12 ms", in a column that is not understood."""
    if description.words or description.numbers:
        return
    figures = figures_of(cell)
    unit = figures[0].unit if figures else None
    if unit is not None and unit.dimension != "percent":
        row.not_understood[column.heading] = cell


def add_numbers(row: ReportedRow, description: Description, cell: str, heading: str) -> None:
    """Add the numbers of a description of `cell` to a row that does not have them yet."""
    for kind, value in description.numbers.items():
        if row.figure(kind) is None:
            row.figures.append(Quantity(kind, float(value), cell[:60], heading))


def prefer_columns(row: ReportedRow, columns: list[TableColumn]) -> None:
    """Drop numbers in the names of a row of which it has a column: the 8 devices of "run 8 GPUs" beside GPUs, 4."""
    of_names = [column.heading for column in columns if column.kind is None or column.kind in NOT_FIGURES]
    stated = {figure.kind for figure in row.figures if figure.heading not in of_names}
    row.figures = [figure for figure in row.figures if figure.heading not in of_names or figure.kind not in stated]


def take_figures(row: ReportedRow, column: TableColumn, cell: str, *, european: bool = False) -> None:
    """Add the figures of a cell, "390 (3.9x)", in a column of figures to its row. `european`: with decimal commas."""
    if not cell:
        return
    remarks = reported_tables.remarks_of(cell)
    if remarks & reported_tables.NO_FIGURES:  # "out of memory"
        row.remarks |= remarks
        return

    figures = figures_of(cell, european)
    if not figures and column.kind in COUNTS_IN_WORDS:
        description = describe(cell)
        if description.numbers:
            row.words |= description.words  # "4xA100"; beside it a cluster's name is no device
            add_numbers(row, description, cell, column.heading)
            return
    if not figures and is_nothing(cell):
        return
    if not figures and remarks:  # "120 (projected)"
        figures = figures_of(re.sub(r"\(.*?\)", "", cell).strip(), european)
    if not figures:
        row.not_understood[column.heading] = cell
        return
    row.remarks |= remarks
    _add_figures(row, column, cell, figures)


def heading_remarks(heading: str) -> frozenset[Remark]:
    """Return what a heading says of its figures: "Expected speedup", "Throughput (projected)"."""
    return reported_tables.remarks_of(heading) - reported_tables.NO_FIGURES


def _add_figures(row: ReportedRow, column: TableColumn, cell: str, figures: list[PrintedFigure]) -> None:
    """Add the first figure of a cell to its row, in the unit of the column, and a speed-up beside it: "390 (3.9x)"."""
    quantity = quantity_of(figures[0], column, cell)
    if quantity is None:
        row.not_understood[column.heading] = cell
        return
    quantity.remark = min(heading_remarks(column.heading), default=None)  # any one of them, always the same
    row.figures.append(quantity)
    if "speedup" in (column.kind, quantity.kind):
        return
    for extra in figures[1:]:
        if extra.unit is not None and extra.unit.dimension == "times":
            row.figures.append(Quantity("speedup", extra.value, cell, column.heading, extra.resolution))


def have_decimal_commas(rows: list[tuple[int, list[str]]], width: int) -> list[bool]:
    """Return for each of `width` columns whether its figures have decimal commas: "12,5"."""
    columns = [[cells[k] for _, cells in rows if k < len(cells)] for k in range(width)]
    are_european = [is_european(cells) for cells in columns]
    is_english = any(CLEARLY_ENGLISH.search(cell) for column in columns for cell in column)
    if any(are_european) and not is_english:
        return [True] * width  # one author writes all columns alike
    return are_european


def quantity_of(figure: PrintedFigure, column: TableColumn, cell: str) -> Quantity | None:
    """Return a figure in the base unit of its column: 0.25 of "250 ms".

    Returns None where the unit contradicts the column, and for a value that its kind cannot have: a negative time, half
    a device.
    """
    in_cell = _column_in_cell(column, figure)
    if in_cell is None or in_cell.kind is None:
        return None
    value = figure.value * in_cell.scale
    if not _is_possible(value, in_cell.kind):
        return None
    if in_cell.kind == "change" and figure.word in ("lower", "less", "slower") and value > 0:
        value = -value

    return Quantity(
        kind=in_cell.kind,
        value=value,
        text=cell[:80],
        heading=column.heading,
        resolution=figure.resolution * in_cell.scale,
        spread=None if figure.spread is None else figure.spread * in_cell.scale,
        statistic=column.statistic,
        per_device=in_cell.per_device,
        item=in_cell.item,
        bound=figure.bound,
        over=column.over,
        unit_stated=in_cell.unit is not None or not KINDS[in_cell.kind].needs_unit,
    )


def _column_in_cell(column: TableColumn, figure: PrintedFigure) -> TableColumn | None:
    """Return the column as a cell changes it: "12 ms" below "Time (s)". None where the two contradict each other."""
    kind, scale = column.kind, column.scale
    unit = figure.unit
    assert kind is not None
    if unit is not None:  # the unit of the cell counts more than that of the heading
        changed = _kind_and_scale_in_cell(kind, unit)
        if changed is None:
            return None
        kind, scale = changed
        per_device = column.per_device if unit.per_device is None else unit.per_device
        item = unit.item or column.item
        return replace(column, kind=kind, scale=scale, unit=unit.dimension, item=item, per_device=per_device)

    if figure.word in ITEMS and KINDS[kind].printed_in:
        return None  # "100 steps" are no time
    if figure.word == "tokens" and kind in ("batch", "micro_batch", "global_batch"):
        kind = "global_batch_tokens"
    if column.unit is None and KINDS[kind].needs_unit:  # no unit is stated: the figure stays as printed
        scale = 1.0
    return column if (kind, scale) == (column.kind, column.scale) else replace(column, kind=kind, scale=scale)


def _is_possible(value: float, kind: str) -> bool:
    """Whether a figure of that kind may have the value; -1 and -100 % stand for "not known"."""
    if kind.endswith("time_s") and value >= CLOCK_SECONDS:
        return False
    may_be_negative = kind in ("change", "loss", "val_loss", "learning_rate")
    return (value >= 0 or may_be_negative) and not (KINDS[kind].is_whole and value != int(value))


COUNTS = ("devices", "nodes", "processes", "batch", "seq_len", "steps", "epochs", "repeats", "micro_batch")
# (Kind, dimension of the unit in its cell) -> kind and scale of the figure.
MEANINGS_IN_CELLS = {
    ("parameters", "memory"): ("parameters", 1e9),  # "7b" are billions, not bytes
    ("price_per_s", "cost"): ("price_per_s", 1 / 3600),  # "$2.49" below "$/hr"
    **dict.fromkeys((("speedup", "percent"), ("change", "percent")), ("change", 0.01)),
    **{(kind, "times"): (kind, 1.0) for kind in COUNTS},  # "8x"
}


def _kind_and_scale_in_cell(kind: str, unit: Unit) -> tuple[str, float] | None:
    """Return kind and scale of a figure by its unit, ("time_s", 0.001) of a time in ms. None where they contradict."""
    if kind == "parameters" and unit.dimension == "time" and unit.scale == 60.0:
        return kind, 1e6  # "124m" are millions, not minutes
    if meaning := MEANINGS_IN_CELLS.get((kind, unit.dimension)):
        return meaning
    if other := OTHER_KINDS.get((kind, unit.dimension)):
        return other, unit.scale
    if kind in ("batch", "global_batch", "micro_batch") and unit.per_device:
        return "micro_batch", 1.0
    if kind in ("loss", "val_loss", "perplexity", "devices", "nodes"):
        return None
    changed = kind_with_unit(kind, unit)
    return None if changed is None else (changed, unit.scale)


BASELINE_NAMED = re.compile(r"(?i)\b(?:vs\.?|versus|over|relative to|compared (?:to|with)|than)\s[^,;]*")


def add_facts_of_label(row: ReportedRow) -> None:
    """Add to a row the words and numbers that its label has and no column states: 4 devices of "DDP, 4 GPUs"."""
    description = describe(BASELINE_NAMED.sub(" ", row.label))
    for word, value in description.words.items():
        row.words.setdefault(word, value)
    add_numbers(row, description, row.label, "label")


COUNTS_IN_WORDS = ("devices", "nodes", "processes", "batch", "micro_batch", "global_batch")
MOST_COLUMNS = 12  # that are divided by each other
MOST_ROWS = 200
SPEED_HEADING = re.compile(
    r"(?i)[(\[,_ ](?:ms|s|secs?|seconds?|mins?|minutes?|h|hours?|\w+/s(?:ec)?|\w+/second)[)\]]?$"
)
SPEED_KINDS = ("time_s", "latency_s", "_per_s", "rate")
ROUNDING = 0.02  # relative difference that rounding of the columns explains


def mark_ratios_of_columns(table: ReportedTable) -> None:
    """Note on speed-ups that they are the ratio of two columns in every row: "FP16 / FP32"."""
    by_heading: dict[str, list[tuple[ReportedRow, Quantity]]] = {}
    for row in table.rows[:MOST_ROWS]:
        for speedup in row.all_of("speedup"):
            by_heading.setdefault(speedup.heading, []).append((row, speedup))

    for speedups in by_heading.values():
        columns = _ratio_of_columns(_columns_of_speeds(table), speedups)
        if columns is None:
            continue
        above, below = columns
        is_rate = (above.kind or below.kind or "").endswith(SPEED_KINDS[:2])
        faster, slower = (below, above) if is_rate else (above, below)
        for row, speedup in speedups:
            speedup.over = speedup.over or f"{above.heading} / {below.heading}"
            headings = {figure.heading for figure in row.figures}
            if slower.heading in headings and faster.heading not in headings:
                row.figures.remove(speedup)  # it is of the other row


def _columns_of_speeds(table: ReportedTable) -> list[TableColumn]:
    """Return the columns of times and rates. A column without a kind counts by its unit."""
    speeds = [
        column
        for column in table.columns
        if (column.kind.endswith(SPEED_KINDS) if column.kind else SPEED_HEADING.search(column.heading))
    ]
    return speeds[:MOST_COLUMNS]


def _ratio_of_columns(
    columns: list[TableColumn], speedups: list[tuple[ReportedRow, Quantity]]
) -> tuple[TableColumn, TableColumn] | None:
    """Return columns A, B where each of two speed-ups or more is the cell of A over that of B. None without any."""
    values = {speedup.value for _, speedup in speedups}
    if len(values) < 2 or max(abs(value - 1) for value in values) <= ROUNDING:  # 1 fits any two columns
        return None
    for above, below in permutations(columns, 2):
        if above.per_device != below.per_device:
            continue  # one column is per device, the other is not
        cells = ((row.texts.get(above.heading, ""), row.texts.get(below.heading, "")) for row, _ in speedups)
        if all(_is_ratio(speedup, *pair) for (_, speedup), pair in zip(speedups, cells, strict=True)):
            return above, below
    return None


def _is_ratio(speedup: Quantity, above: str, below: str) -> bool:
    """Whether a speed-up is the figure of one cell over that of another: 2.0 of "100 ms" and "50 ms"."""
    dividends, divisors = figures_of(above), figures_of(below)
    if not dividends or not divisors or not divisors[0].value:
        return False
    difference = abs(dividends[0].value / divisors[0].value - speedup.value)
    return difference <= max(speedup.resolution, ROUNDING * speedup.value)


SCALING_EFFICIENCY = re.compile(r"(?i)scal|parallel|linear|ideal|%|eff$")


def drop_scores(table: ReportedTable) -> None:
    """Take the kind off an "efficiency" in a table that says nothing of devices, speed-ups, rates or times: a score."""
    if table.kinds() & {"devices", "processes", "nodes", "speedup", *RESULTS} - {"efficiency"}:
        return
    for column in table.columns:
        if column.kind == "efficiency" and not SCALING_EFFICIENCY.search(column.heading):
            column.kind = None
    known = {column.heading for column in table.columns if column.kind}
    for row in table.rows:
        row.figures = [f for f in row.figures if f.kind != "efficiency" or f.heading in known]


SCALING = re.compile(r"(?i)(?<!of )(?<!linear )(?<!ideal )\bscaling\b(?! (?:eff|perc))")
LARGEST_EFFICIENCY = 1.5  # a larger figure below "Scaling" is a speed-up
LEAST_PERCENT = 20.0  # from here on a column that has a 1, too, may be in percent
LARGEST_SHARE = 1.0
LARGEST_WRONG_EFFICIENCY = 4.0  # an efficiency may be wrong, and above 1


def correct_shares(table: ReportedTable) -> None:
    """Divide shares by 100 that are in percent without saying so. "Scaling" of 1 and more becomes a speed-up."""
    for (kind, heading), shares in _shares_without_sign(table).items():
        if kind == "efficiency" and _are_speedups(heading, shares):
            for share in shares:
                share.kind = "speedup"
        elif _are_in_percent(kind, heading, shares):
            for share in shares:
                share.value /= 100
                share.resolution /= 100
                share.spread = None if share.spread is None else share.spread / 100


def _shares_without_sign(table: ReportedTable) -> dict[tuple[str, str], list[Quantity]]:
    """Return (kind, heading) -> the shares that have no "%"."""
    columns: dict[tuple[str, str], list[Quantity]] = {}
    for kind in SHARES:
        shares = [share for row in table.rows for share in row.all_of(kind)]
        for share in shares:
            if "%" not in share.text and "%" not in share.heading:
                columns.setdefault((kind, share.heading), []).append(share)
    return columns


def _are_speedups(heading: str, shares: list[Quantity]) -> bool:
    """Whether figures below "Weak scaling" are speed-ups, 1.00 and 3.39, and no efficiencies: some are well above 1."""
    values = [share.value for share in shares]
    has_range_of_speedups = min(values) == 1 and LARGEST_EFFICIENCY < max(values) < LEAST_PERCENT
    return has_range_of_speedups and SCALING.search(heading) is not None


def _are_in_percent(kind: str, heading: str, shares: list[Quantity]) -> bool:
    """Whether shares are larger than a share can be, and their heading does not say "percent"."""
    if "pct" in heading.lower() or "percent" in heading.lower():
        return False
    largest = LARGEST_WRONG_EFFICIENCY if kind == "efficiency" else LARGEST_SHARE
    return max(share.value for share in shares) > largest
