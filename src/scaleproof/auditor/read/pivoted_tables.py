"""Tables whose columns are the configurations: one for each number of devices, each strategy, or each run."""

import re
from dataclasses import replace
from itertools import zip_longest

from scaleproof.auditor.read import printed_figures
from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import DIFFERENCE, NOT_FIGURES, column_of, kind_with_unit, statistic_alone
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable, TableColumn, remarks_of
from scaleproof.auditor.read.row_figures import add_facts_of_label, heading_remarks, take_figures, take_words
from scaleproof.auditor.read.surroundings import unit_in_prose, unit_in_section
from scaleproof.auditor.read.words import Description, describe, devices_in

VALUE_HEADING = re.compile(r"(?:values?|results?|measured|number|actual|measurement|achieved|)")


def join_lines_of_headings(grid: Grid) -> None:
    """Join headings of two or three lines, of which more are understood: "1 GPU", "" over "tokens/s", "memory".

    An upper one holds for the empty ones on its right.
    """
    candidates = [grid.header]
    filled = grid.header[:1]
    for heading in grid.header[1:]:
        filled.append(heading or (filled[-1] if len(filled) > 1 else ""))
    statistics = [0]  # "90%", "99%", "Avg" of each line
    for _, cells in grid.rows[:2]:
        are_statistics = [statistic_alone(cell.lower().rstrip(" %")) is not None for cell in cells]
        if any(re.search(r"\d", cell) for cell, is_one in zip(cells, are_statistics, strict=True) if not is_one):
            break
        statistics.append(sum(are_statistics))
        filled = [f"{upper} {cell}".strip() for upper, cell in zip_longest(filled, cells, fillvalue="")]
        candidates.append(filled)
    columns = [[column_of(heading) for heading in header] for header in candidates]
    # "Time (s)" twice above "ours", "theirs" is half a heading.
    names = [len(set(header)) if grid.form == "LaTeX table" else 0 for header in candidates]
    understood = [
        (count, sum(c.kind is not None for c in row), sum(c.unit is not None for c in row), statistic_count)
        for count, row, statistic_count in zip(names, columns, statistics, strict=True)
    ]
    best = understood.index(max(understood))
    grid.header, grid.rows = candidates[best], grid.rows[best:]


def read_columns(grid: Grid, table: ReportedTable, file: str) -> None:
    """Add the columns of a grid to `table`, each as a row. The first cell of a line says what its figures are.

    Example: headings "", "DDP", "ZeRO-2" over a line "tokens/s", 900, 700 give two rows, of DDP and of ZeRO-2.
    """
    lines = [(line, cells, column_of(cells[0])) for line, cells in grid.rows if cells]
    unknown_names = [cells[0] for _, cells, meaning in lines if meaning.kind is None]
    columns = table.columns  # one for each column of the grid
    table.columns = [columns[0], *(meaning for *_, meaning in lines)]  # the lines are the columns now
    for k, heading in enumerate(grid.header[1:], start=1):
        is_value = VALUE_HEADING.fullmatch(heading.strip().lower()) is not None  # "Value" names no configuration
        is_compared = columns[k].kind in ("change", "speedup", "text", "status", "metric") or DIFFERENCE.search(heading)
        is_spread = statistic_alone(heading.lower().strip("+/-± ")) in ("std", "min", "max")
        if (is_compared or is_spread) and not is_value:
            continue  # the column compares the other ones, remarks on them, or says how they vary
        label = (table.heading or table.caption) if is_value else heading
        row = ReportedRow(file, grid.line, label, remarks=set(heading_remarks(heading)))
        unit = printed_figures.unit_of(m[1]) if (m := UNIT_IN_BRACKETS.search(heading)) else None
        for line, cells, meaning in lines:
            kind = meaning.kind or ""
            if k < len(cells) and unit and kind in printed_figures.RESULTS and not kind_with_unit(kind, unit):
                row.not_understood[cells[0]] = cells[k]  # "(%)" above a time
            elif k < len(cells):
                _take_cell(row, line, cells[0], cells[k], meaning)

        devices = devices_in(heading)
        if row.figure("devices") is None and devices is not None:
            row.figures.append(Quantity("devices", float(devices), heading, heading))
        add_facts_of_label(row)
        for name in unknown_names:
            if not printed_figures.is_nothing(row.texts.get(name, "")):
                row.not_understood[name] = row.texts[name]
        table.rows.append(row)


def _take_cell(row: ReportedRow, line: int, name: str, cell: str, meaning: TableColumn) -> None:
    """Add what a cell says to its row, by the meaning of its line, which is called `name`."""
    row.texts[name] = cell
    if meaning.kind in NOT_FIGURES:
        take_words(row, meaning, cell)
    elif meaning.kind is not None:
        if not row.figures:
            row.line = line  # of its first figure
        figures_before = len(row.figures)
        take_figures(row, meaning, cell, european=printed_figures.is_european([cell]))
        for figure in row.figures[figures_before:]:
            figure.line = line


RATIOS = ("speedup", "efficiency", "change")


def read_configuration_columns(grid: Grid, table: ReportedTable, settings: dict[int, Description], file: str) -> None:
    """Add each cell below the heading of a configuration ("1 GPU", "8 GPUs") to `table` as a row.

    `settings`: the index of each such column, and what its heading says. Other cells hold for all rows of a line.
    """
    meaning_of_table = _hinted_kind(grid) or _kind_by_direction(grid, table, settings)
    size_of_ratios = _larger_size(settings)  # a column of speed-ups beside two sizes is of the larger one
    for line, cells in grid.rows:
        if not cells:
            continue
        meaning_of_row = column_of(cells[0])
        shared = _shared_row(line, cells, table.columns, settings, file)
        ratios = [(column, cell) for column, cell in zip(table.columns, cells, strict=False) if column.kind in RATIOS]
        for k, setting in settings.items():
            column = table.columns[k]
            cell = cells[k] if k < len(cells) else ""
            row = _row_of_setting(shared, f"{cells[0]}, {column.heading}", column, setting)
            row.texts[column.heading] = cell

            meaning = _meaning_of_cell(meaning_of_row, meaning_of_table, cell, column.heading)
            if meaning is not None:
                take_figures(row, meaning, cell)
            elif not printed_figures.is_nothing(cell):
                row.remarks |= remarks_of(cell)
                row.not_understood[column.heading] = cell
            add_facts_of_label(row)

            if size_of_ratios is not None and setting.numbers["devices"] == size_of_ratios:
                for ratio, cell_of_ratio in ratios:
                    take_figures(row, ratio, cell_of_ratio)
            table.rows.append(row)


def _larger_size(settings: dict[int, Description]) -> int | None:
    """Return the larger of two numbers of devices: 8 of "1 GPU", "8 GPUs". None unless there are exactly two."""
    sizes = {setting.numbers.get("devices") for setting in settings.values()}
    known_sizes = [size for size in sizes if size is not None]
    return max(known_sizes) if len(known_sizes) == len(sizes) == 2 else None


def _row_of_setting(shared: ReportedRow, label: str, column: TableColumn, setting: Description) -> ReportedRow:
    """Return a copy of the shared row with what the heading of its configuration says: "8 GPUs" -> devices, 8."""
    row = ReportedRow(shared.file, shared.line, label, [], dict(shared.words), dict(shared.texts))
    row.remarks |= shared.remarks
    for word, value in (setting.words | column.words).items():
        if word != "run" or "run" not in row.words:  # a run keeps its first name
            row.words[word] = value

    shared_figures = [figure for figure in shared.figures if not _is_of_another(figure, setting)]
    row.figures = [figure for figure in shared_figures if figure.kind not in setting.numbers]
    for kind, number in setting.numbers.items():
        row.figures.append(Quantity(kind, float(number), column.heading, column.heading))
    return row


def _shared_row(
    line: int, cells: list[str], columns: list[TableColumn], settings: dict[int, Description], file: str
) -> ReportedRow:
    """Return what the columns beside the configurations say of all of them: words, and figures except ratios."""
    shared = ReportedRow(file, line, "")
    for k, (column, cell) in enumerate(zip(columns, cells, strict=False)):
        if k in settings:
            continue
        shared.texts[column.heading] = cell
        if column.kind is None or column.kind in NOT_FIGURES:
            take_words(shared, column, cell)
        elif column.kind not in RATIOS:
            take_figures(shared, column, cell)
    return shared


def _is_of_another(quantity: Quantity, setting: Description) -> bool:
    """Whether the heading of a figure names another precision or strategy than the column of the row does."""
    words = describe(quantity.heading).words
    return any(key in setting.words and words[key] != setting.words[key] for key in words)


LEAST_CHANGE = 1.3  # ratio by which rates and times change with the devices, and accuracies and losses do not


def _kind_by_direction(grid: Grid, table: ReportedTable, settings: dict[int, Description]) -> TableColumn | None:
    """Return what figures without a unit are in a table with speed-ups or efficiencies: rates or times.

    Rates rise with the devices in all rows, times fall: 100, 190, 370 are rates. The result is None where the figures
    do neither, and where the columns differ in more than devices.
    """
    if any(set(setting.numbers) != {"devices"} or setting.words for setting in settings.values()):
        return None
    if not any(column.kind in ("speedup", "efficiency") for column in table.columns):
        return None

    smallest, *_, largest = sorted(settings, key=lambda k: settings[k].numbers["devices"])
    ratios = []
    for _, cells in grid.rows:
        if max(smallest, largest) >= len(cells):
            continue
        of_smallest, of_largest = map(printed_figures.figures_of, (cells[smallest], cells[largest]))
        if of_smallest and of_largest and of_smallest[0].value > 0:
            ratios.append(of_largest[0].value / of_smallest[0].value)

    if ratios and min(ratios) >= LEAST_CHANGE:
        return TableColumn("", "rate")
    return TableColumn("", "time_s") if ratios and max(ratios) <= 1 / LEAST_CHANGE else None


WORK_PER_SECOND = re.compile(r"(?i)\b(samples|images|tokens|sequences) (?:\w+ ){0,2}per sec(?:ond)?\b")


def _hinted_kind(grid: Grid) -> TableColumn | None:
    """Return what the figures of a table are by its first heading, caption, section or paragraph above. Else None."""
    in_prose = unit_in_prose(grid.above) or unit_in_section(grid.before)
    for text in (grid.header[0], grid.caption, *grid.section[-1:]):
        column = column_of(text)
        if column.kind == "rate" and column.unit is None and in_prose and (in_prose.kind or "").endswith("_per_s"):
            return in_prose  # "Performance", in the unit of the paragraph
        parts = re.split(r" (?:vs\.?|by|for|on|across|of|per|with) |[:,–—-]", text)  # "Throughput by model"
        results = [part for part in (column, *map(column_of, parts)) if part.kind in printed_figures.RESULTS]
        if results:
            return results[0]
        if m := WORK_PER_SECOND.search(text):
            return column_of(f"{m[1]}/s")
        if re.search(r"(?i)speed-?ups?\b|scalab|relative to (?:a |the )?(?:single|one|1|baseline)", text):
            return TableColumn(text, "speedup")
        if re.search(r"(?i)accurac", text):
            return TableColumn(text, "accuracy")
    return in_prose


OF_SIZE = re.compile(r"(?i)\bpeak\b|memory|vram|cache|\bsize\b|compress")  # "0.27x" below it is no speed-up


def _meaning_of_cell(
    meaning_of_row: TableColumn, meaning_of_table: TableColumn | None, cell: str, heading: str
) -> TableColumn | None:
    """Return what a cell states, by the name of its row, else by its unit, its heading or its table. Else None."""
    if meaning_of_row.kind in printed_figures.RESULTS | {"loss", "val_loss", "accuracy", "perplexity"}:
        return meaning_of_row
    figures = printed_figures.figures_of(cell)
    unit = figures[0].unit if figures else None
    if unit is None:
        return _quantity_of_heading(heading) or meaning_of_table

    # "0.9 s" in a table of step times is a step time. A unit that does not go with the table speaks for itself.
    meaning = meaning_of_table
    if meaning is not None and meaning.kind and kind_with_unit(meaning.kind, unit):
        return replace(meaning, heading=heading, devices=None, over="", words={}, note="")
    kinds = printed_figures.KINDS_OF_UNITS | ({} if OF_SIZE.search(heading) else {"times": "speedup"})
    kind = f"{unit.of}_time_s" if unit.of else kinds.get(unit.dimension)
    return TableColumn(heading, kind) if kind else None


UNIT_IN_BRACKETS = re.compile(r"[(\[]([^()\[\]]+)[)\]]$")


def _quantity_of_heading(heading: str) -> TableColumn | None:
    """Return the quantity of a column by the unit in its heading: "8 GPUs (images/s)" is a rate. Else None."""
    if m := UNIT_IN_BRACKETS.search(heading):
        for name in ("throughput", "time"):
            column = column_of(f"{name} ({m[1]})")
            if column.kind in ("time_s", *printed_figures.RESULTS) and column.unit:
                return column
    return None
