"""From the text of a cell to typed figures and words of a row."""

import re
from dataclasses import replace
from itertools import permutations

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import heading_remarks, kind_with_unit
from scaleproof.auditor.read.printed_figures import (
    ITEMS,
    KINDS,
    KINDS_OF_UNITS,
    NO_FIGURES,
    OTHER_KINDS,
    PrintedFigure,
    Unit,
    figures_of,
    is_nothing,
    remarks_of,
)
from scaleproof.auditor.read.reported_tables import WORDS, Quantity, Remark, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.surroundings import by_own_unit
from scaleproof.auditor.read.words import Description, describe

VERDICT_HEADING = re.compile(
    r"(?i)\b(?:status|result|outcome|verdict|pass(?:ed)?|met|assessment|rating|evaluation|check|grade)\b"
)
ESTIMATED = re.compile(r"(?i)estimat|simulated|placeholder|theoretical")
FOR_PROGRAMS = ("CSV", "JSON", "spreadsheet")  # forms of tables whose cells of text are no labels


def counts_devices(cells: list[str]) -> bool:
    """Whether a column `gpu` may say which devices ran: it has names, or counts as machines have them.

    These are up to 8, multiples of 4 up to 32, then of 8. False for indices (0, 1, 2) and percentages of use (97).
    """
    numbers = {cell.strip() for cell in cells if not is_nothing(cell) and cell.strip()[:1].isdigit()}
    if not all(re.fullmatch(r"\d{1,5}(?:\.0)?", number) for number in numbers):
        return not any(re.fullmatch(r"\d+(?:\.\d+)? ?%?", number) for number in numbers)  # "4x A100", not "97.5 %"
    counts = {int(float(number)) for number in numbers}
    return all(count > 0 and (count <= 8 or count % (4 if count <= 32 else 8) == 0) for count in counts)


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
    if column.kind in WORDS and (column.kind != "run" or "run" not in row.words):
        has_usual_names = column.kind in ("strategy", "precision", "device")
        usual_name = description.words.get(column.kind) if has_usual_names else None  # "a100-sxm4" -> "A100"
        row.words[column.kind] = usual_name or cell[:100]
    if column.kind is None and not description.words and not description.numbers:
        # A cell with a figure and its unit that nobody understood is listed as such.
        figures = figures_of(cell)
        if figures and figures[0].unit is not None and figures[0].unit.dimension != "percent":
            row.not_understood[column.heading] = cell


def _remarks_of_words(column: TableColumn, cell: str) -> set[Remark]:
    """Return the remarks of a cell of words."""
    if column.kind == "text" and len(cell) >= 60:
        return set()  # it is of anything
    is_verdict = column.kind in ("status", "text") or VERDICT_HEADING.search(column.heading)
    # "Expected" in a column of verdicts is about a measured figure.
    is_measured = is_verdict and not ESTIMATED.search(cell)
    return remarks_of(cell) - ({"estimated", "theoretical"} if is_measured else set())


def add_numbers(row: ReportedRow, description: Description, cell: str, heading: str) -> None:
    """Add the numbers of a description of `cell` to a row that does not have them yet."""
    for kind, value in description.numbers.items():
        if kind != "several device counts" and row.figure(kind) is None:
            row.figures.append(Quantity(kind, float(value), cell[:60], heading))


def take_figures(row: ReportedRow, column: TableColumn, cell: str, *, european: bool = False) -> None:
    """Add the figures of a cell in a column of figures to its row. `european`: the comma is the decimal one."""
    if not cell:
        return
    remarks = remarks_of(cell)
    if remarks & NO_FIGURES:  # "out of memory"
        row.remarks |= remarks
        return

    assert column.kind is not None
    figures = figures_of(cell, european)
    if not figures and column.kind in COUNTS_IN_WORDS and (description := describe(cell)).numbers:
        row.words |= description.words  # "4xA100"; beside it a cluster's name is no device
        add_numbers(row, description, cell, column.heading)
        return
    if not figures and is_nothing(cell):
        return
    if not figures and remarks:  # "120 (projected)"
        figures = figures_of(re.sub(r"\(.*?\)", "", cell).strip(), european)
    if figures:
        row.remarks |= remarks
    quantity = quantity_of(figures[0], column, cell) if figures else None
    if quantity is None:
        row.not_understood[column.heading] = cell
        return
    quantity.remark = next(iter(sorted(heading_remarks(column.heading))), None)
    row.figures.append(quantity)
    for extra in figures[1:]:  # "390 (3.9x)"
        if extra.unit and extra.unit.dimension == "times" and column.kind != "speedup" and quantity.kind != "speedup":
            row.figures.append(Quantity("speedup", extra.value, cell, column.heading, extra.resolution))


def quantity_of(figure: PrintedFigure, column: TableColumn, cell: str) -> Quantity | None:
    """Return a figure in the base unit of its column: 0.25 of "250 ms"; None where it cannot be one of that column.

    It cannot if its unit contradicts the kind, if it is negative, or if it is a count and no whole number.
    """
    kind, unit = column.kind, figure.unit
    assert kind is not None
    if figure.word in ITEMS and figure.unit is None:
        if KINDS[kind].printed_in:
            return None  # "100 steps" are no time
        if figure.word == "tokens" and kind in ("batch", "micro_batch", "global_batch"):
            kind = "global_batch_tokens"
    scale, has_unit = column.scale, column.unit is not None
    item, per_device = column.item, column.per_device
    if unit is not None:  # that of the cell counts more than that of the heading
        changed = _unit_in_cell(kind, unit)
        if changed is None:
            return None
        kind, scale = changed
        has_unit, item = True, unit.item or item
        per_device = unit.per_device if unit.per_device is not None else per_device
    elif not has_unit and KINDS[kind].needs_unit:
        scale = 1.0

    value = figure.value * scale
    if not _is_possible(value, kind):
        return None
    if kind == "change" and figure.word in ("lower", "less", "slower") and value > 0:
        value = -value

    bound = figure.bound if figure.bound in ("<", ">", "~") else None
    return Quantity(
        kind,
        value,
        cell[:80],
        column.heading,
        figure.resolution * scale,
        None if figure.spread is None else figure.spread * scale,
        column.statistic,
        per_device,
        item,
        bound,  # type: ignore[arg-type]  # narrowed by the line above, which mypy does not follow
        over=column.over,
        unit_stated=has_unit or not KINDS[kind].needs_unit,
    )


def _is_possible(value: float, kind: str) -> bool:
    """Whether a figure of that kind may have the value; -1 and -100 % stand for "not known"."""
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


def _unit_in_cell(kind: str, unit: Unit) -> tuple[str, float] | None:
    """Return kind and scale of a figure whose cell has a unit. None where unit and kind contradict each other."""
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
    """Add to a row the words and numbers that its label has and no column states."""
    description = describe(BASELINE_NAMED.sub(" ", row.label))
    for word, value in description.words.items():
        row.words.setdefault(word, value)
    add_numbers(row, description, row.label, "label")


COUNTS_IN_WORDS = ("devices", "nodes", "processes", "batch", "micro_batch", "global_batch")
FOR_PEOPLE = ("Markdown table", "LaTeX table", "HTML table")  # programs print tables of operators and queues, too


def columns_by_units(grid: Grid, columns: list[TableColumn]) -> list[TableColumn]:
    """Return the columns of a table without a known heading, typed by the unit of all cells, of heading or of title.

    Cells "12 ms", "9 ms" below "ResNet" make a time with the note "ResNet". [] where fewer than two cells have one.
    """
    if grid.form not in FOR_PEOPLE:
        return []
    title = grid.caption or "".join(grid.section[-1:])
    typed = columns[:1]  # it names the rows
    cells_with_units = 0
    for k, column in enumerate(columns[1:], start=1):
        cells = [figures_of(row[k]) for _, row in grid.rows if k < len(row) and not is_nothing(row[k])]
        dimensions = {figures[0].unit.dimension if figures and figures[0].unit else "" for figures in cells}
        kind = KINDS_OF_UNITS.get(dimensions.pop()) if len(dimensions) == 1 else None
        if column.kind is None and kind is not None:
            cells_with_units += len(cells)
            column = TableColumn(column.heading, kind, note=column.heading)
        elif column.kind is None and all(cells) and (by_heading := by_own_unit(column, title)).kind is not None:
            cells_with_units += len(cells)
            column = replace(by_heading, note=column.heading)
        typed.append(column)
    return typed if cells_with_units >= 2 else []


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
