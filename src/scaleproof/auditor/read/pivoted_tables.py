"""Tables whose columns are the configurations: one for each number of devices, each strategy, or each run."""

import re

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of, devices_heading, heading_remarks, kind_with_unit
from scaleproof.auditor.read.printed_figures import figures_of, is_european, is_nothing, remarks_of
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.row_figures import Place, describe_label, take_figures, take_words
from scaleproof.auditor.read.surroundings import unit_in_prose, unit_in_section
from scaleproof.auditor.read.units import RESULTS
from scaleproof.auditor.read.words import Description, described

# Columns are configurations


def read_columns(grid: Grid, table: ReportedTable, place: Place) -> None:
    """Add the columns of a grid to `table`, each as a row: the first cell of a line says what its figures are."""
    names = {n: cells[0] for n, (_, cells) in enumerate(grid.rows) if cells}
    quantities = {n: column_of(name) for n, name in names.items()}
    unknown = [names[n] for n, quantity in quantities.items() if quantity.kind is None]
    heads = table.columns
    table.columns = [heads[0], *quantities.values()]
    for k, heading in enumerate(grid.header[1:], start=1):
        if heads[k].kind in ("change", "speedup", "text", "status", "metric") and not _is_value(heading):
            continue
        label = heading if not _is_value(heading) else (table.heading or table.caption)
        row = ReportedRow(place.file, grid.line, label)
        row.remarks |= heading_remarks(heading)
        for n, (line, cells) in enumerate(grid.rows):
            column = quantities.get(n)
            if column is None or k >= len(cells):
                continue
            row.texts[cells[0]] = cells[k]
            if column.kind in NOT_FIGURES:
                take_words(row, column, cells[k])
            elif column.kind is not None:
                if not row.figures:
                    row.line = line
                take_figures(row, column, cells[k], is_european([cells[k]]), place)
        counted = devices_heading(heading)
        if counted and row.figure("devices") is None:
            count, _ = counted
            row.figures.append(Quantity("devices", float(count), heading, heading))
        describe_label(row)
        table.rows.append(row)
    for name in unknown:
        for row in table.rows:
            if not is_nothing(row.texts.get(name, "")):
                row.not_understood[name] = row.texts.get(name, "")


_VALUES = ("value", "values", "result", "results", "measured", "number", "actual", "measurement", "achieved", "")


def _is_value(heading: str) -> bool:
    """Whether a heading says that figures stand below it, and not of which configuration."""
    return heading.strip().lower() in _VALUES


RATIOS = ("speedup", "efficiency", "change")

# One column for each number of devices, or for each strategy


def read_settings(grid: Grid, table: ReportedTable, settings: dict[int, Description], place: Place) -> None:
    """Add each cell below a configuration to `table` as a row of its own. `settings` are the columns that are
    configurations, with what their headings say; the other columns hold for all of them.
    """
    hint = _hinted_kind(grid) or _kind_by_direction(grid, table, settings)
    most = max((setting.numbers.get("devices", 0) for setting in settings.values()), default=0)
    distinct = {setting.numbers.get("devices") for setting in settings.values()}
    two_sizes = len(distinct) == 2 and None not in distinct
    for line, cells in grid.rows:
        if not cells:
            continue
        own = column_of(cells[0])
        shared = _shared_row(line, cells, table.columns, settings, place)
        for k, description in settings.items():
            cell = cells[k] if k < len(cells) else ""
            heading = table.columns[k].heading
            row = ReportedRow(place.file, line, f"{cells[0]}, {heading}", [], dict(shared.words), dict(shared.texts))
            row.texts[heading] = cell
            row.figures = [q for q in shared.figures if not _of_another(q, description)]
            row.remarks |= shared.remarks
            for word, value in {**description.words, **table.columns[k].words}.items():
                if word != "run" or "run" not in row.words:
                    row.words[word] = value
            for kind, count in description.numbers.items():
                if kind != "several device counts":
                    row.figures = [q for q in row.figures if q.kind != kind]
                    row.figures.append(Quantity(kind, float(count), heading, heading))
            meaning = _column_for(own, hint, cell, heading)
            if meaning is not None:
                take_figures(row, meaning, cell, False, place)
            elif not is_nothing(cell):
                row.remarks |= remarks_of(cell)
                row.not_understood[heading] = cell
            describe_label(row)
            if two_sizes and description.numbers.get("devices") == most:  # ratios are those of the larger number
                for column, ratio in zip(table.columns, cells, strict=False):
                    if column.kind in RATIOS:
                        take_figures(row, column, ratio, False, place)
            table.rows.append(row)


def _shared_row(
    line: int, cells: list[str], columns: list[TableColumn], settings: dict[int, Description], place: Place
) -> ReportedRow:
    """Return what the columns that are no configurations say of all of them: words, and figures but for ratios."""
    shared = ReportedRow(place.file, line, "")
    for k, (column, cell) in enumerate(zip(columns, cells, strict=False)):
        if k in settings:
            continue
        shared.texts[column.heading] = cell
        if column.kind is None or column.kind in NOT_FIGURES:
            take_words(shared, column, cell)
        elif column.kind not in RATIOS:
            take_figures(shared, column, cell, False, place)
    return shared


def _of_another(quantity: Quantity, setting: Description) -> bool:
    """Whether the heading of a figure names another precision or strategy than the column of the row does."""
    words = described(quantity.heading).words
    return any(key in setting.words and words[key] != setting.words[key] for key in words)


CHANGES = 1.3  # times by which rates and times change with the devices, and accuracies and losses do not


def _kind_by_direction(grid: Grid, table: ReportedTable, settings: dict[int, Description]) -> TableColumn | None:
    """Return what figures without any unit are, beside a column of speed-ups or efficiencies: rates where they rise
    with the devices, times where they fall; None where they do neither in all rows, or columns differ in more than
    devices.
    """
    sizes = {k: s.numbers.get("devices") for k, s in settings.items() if set(s.numbers) == {"devices"} and not s.words}
    if len(sizes) < len(settings) or not any(c.kind in ("speedup", "efficiency") for c in table.columns):
        return None
    order = sorted(sizes, key=lambda k: sizes[k] or 0)
    rises: set[bool | None] = set()
    for _, cells in grid.rows:
        first, last = (figures_of(cells[k]) if k < len(cells) else [] for k in (order[0], order[-1]))
        if first and last and first[0].value > 0:
            ratio = last[0].value / first[0].value
            rises.add(None if 1 / CHANGES < ratio < CHANGES else ratio > 1)
    if len(rises) != 1 or None in rises:
        return None
    return TableColumn("", "rate") if True in rises else TableColumn("", "time_s")


WORK_PER_SECOND = re.compile(r"(?i)\b(samples|images|tokens|sequences) (?:\w+ ){0,2}per sec(?:ond)?\b")


def _hinted_kind(grid: Grid) -> TableColumn | None:
    """Return what the figures of a table are, by its first heading ("Throughput (img/s)"), caption or section."""
    stated = unit_in_prose(grid.above) or unit_in_section(grid.before)
    for text in (grid.header[0], grid.caption, *reversed(grid.section[-1:])):
        column = column_of(text)
        if column.kind == "rate" and column.unit is None and stated and (stated.kind or "").endswith("_per_s"):
            return stated  # "Performance", in the unit of the paragraph below
        if column.kind in RESULTS:
            return column
        for part in re.split(r" (?:vs\.?|by|for|on|across|of|per|with) |[:,–—-]", text):
            column = column_of(part)
            if column.kind in RESULTS:
                return column
        if m := WORK_PER_SECOND.search(text):
            return column_of(f"{m[1]}/s")
        if re.search(r"(?i)speed-?ups?\b|scalab|relative to (?:a |the )?(?:single|one|1|baseline)", text):
            return TableColumn(text, "speedup")
        if re.search(r"(?i)accurac", text):
            return TableColumn(text, "accuracy")
    return stated


def _column_for(own: TableColumn, hint: TableColumn | None, cell: str, heading: str) -> TableColumn | None:
    """Return what a cell states, by the name of its row (`own`), by its unit, or by that of its table (`hint`)."""
    if (
        own.kind is not None
        and own.kind not in NOT_FIGURES
        and own.kind in RESULTS | {"loss", "val_loss", "accuracy", "perplexity"}
    ):
        return own
    figures = figures_of(cell)
    unit = figures[0].unit if figures else None
    if unit is not None:
        kinds = {"time": "time_s", "rate": "rate", "memory": "memory_bytes", "flops": "flops_per_s", "times": "speedup"}
        if hint is not None and hint.kind and kind_with_unit(hint.kind, unit):
            return TableColumn(heading, hint.kind, hint.scale, hint.unit, hint.statistic, hint.per_device, hint.item)
        kind = f"{unit.of}_time_s" if unit.of else kinds.get(unit.dimension)
        return TableColumn(heading, kind) if kind else None
    return _kind_by_unit_of(heading) or hint


UNIT_BEHIND = re.compile(r"[(\[]([^()\[\]]+)[)\]]$")


def _kind_by_unit_of(heading: str) -> TableColumn | None:
    """The quantity of a column such as "8 GPUs (images/s)"."""
    unit = UNIT_BEHIND.search(heading)
    columns = [column_of(f"{name} ({unit[1]})") for name in ("throughput", "time")] if unit else []
    return next((column for column in columns if column.kind in ("time_s", *RESULTS) and column.unit), None)
