"""From a grid of strings to a typed table: which column is what, whether rows or columns are the configurations."""

import re
from collections.abc import Iterator
from dataclasses import replace

from scaleproof.auditor.read import row_figures
from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import NOT_FIGURES, PRECISION, column_of, columns_of, devices_in, heading_remarks
from scaleproof.auditor.read.pivoted_tables import read_columns, read_configuration_columns
from scaleproof.auditor.read.printed_figures import (
    CLEARLY_ENGLISH,
    DEVICE,
    RESULTS,
    SHARES,
    figures_of,
    is_european,
    is_nothing,
    plain_text,
    unit_of,
)
from scaleproof.auditor.read.reported_tables import WORDS, Quantity, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.words import Description, describe, is_inference, names_in, only_device

# Headings of lists of kernels and operators, as nvprof, Nsight and torch.profiler print them.
HASH = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{10,64}")  # of a file or a commit: no name of a row
OF_KERNELS = re.compile(
    r"(?i)grid ?(?:size|[xyz])|grd[xyz]|blk[xyz]|regs?\*?|reg/trd|[sd]smem\*?|(?:stc|dym)smem|corr(?:elation)? ?id|"
    r"(?:src|dst)mem\w*|(?:num|#|no\.?)(?: of)? calls|invocations|self cpu.*|self cuda.*"
)
OF_CALLS = {"calls", "instances", "avg", "min", "max", "name"}


def is_profile(header: list[str]) -> bool:
    """Whether a table lists kernels or operators: grids and calls, no configurations."""
    words = {heading.strip().lower().partition(" (")[0] for heading in header}
    of_kernels = any(OF_KERNELS.fullmatch(word) for word in words) and not words & {"gpus", "speedup", "efficiency"}
    return of_kernels or len(words & OF_CALLS) >= 4


def read_table(grid: Grid, file: str) -> ReportedTable | None:
    """Return the table of a grid: its columns typed, a row for each configuration. None where it has no result."""
    table = typed_table(grid, file)
    return table if table is not None and table.kinds() & RESULTS else None


def typed_table(grid: Grid, file: str) -> ReportedTable | None:
    """Return the table of a grid, be it of results or of settings alone; None for a list of kernels."""
    if is_profile(grid.header):
        return None
    grid = _without_markup(grid)
    grid.header = _header_with_units(grid)
    columns = columns_of(grid.header, [cells for _, cells in grid.rows])
    _ignore_monitor_columns(columns, grid)

    table = ReportedTable(file, grid.line, grid.form, columns, [], grid.caption)
    table.heading, table.section = grid.section[-1] if grid.section else "", grid.section
    table.cut_off, table.grid = grid.cut_off, grid
    _read_grid(grid, table, file)
    if not table.kinds() & RESULTS and (typed := row_figures.columns_by_units(grid, columns)):
        table.columns, table.rows = typed, []
        table.checked = False  # no heading is understood: it is shown, and no check judges it
        _read_rows(grid, table, file)
    row_figures.mark_ratios_of_columns(table)
    _add_surroundings(grid, table)
    return table


def _without_markup(grid: Grid) -> Grid:
    """Return a copy of a grid, its texts without markup: "**8** GPUs" -> "8 GPUs"."""
    return replace(
        grid,
        header=list(map(plain_text, grid.header)),
        rows=[(line, list(map(plain_text, cells))) for line, cells in grid.rows],
        caption=plain_text(grid.caption),
        section=list(map(plain_text, grid.section)),
        above=plain_text(grid.above),
        before=list(map(plain_text, grid.before)),
    )


MONITOR_HEADING = re.compile(r"(?i)(?:cpu|ram|disk|net(?:work)?)(?:[ _](?:%|pct|percent|usage|util\w*))?")


def _ignore_monitor_columns(columns: list[TableColumn], grid: Grid) -> None:
    """Take the kind off a column `gpu` of utilisation, or of indices: 97, 98 or 0, 1, 2 count no devices."""
    is_of_monitor = any(MONITOR_HEADING.fullmatch(heading.strip()) for heading in grid.header)
    for k, column in enumerate(columns):
        if column.kind != "device":
            continue
        cells = [row[k] for _, row in grid.rows if k < len(row)]
        has_numbers = any(cell.strip().isdecimal() for cell in cells)
        if cells and (not row_figures.counts_devices(cells) or (has_numbers and is_of_monitor)):
            column.kind = None


def _read_grid(grid: Grid, table: ReportedTable, file: str) -> None:
    """Add the rows of a grid to its table: what a configuration is, a line, a column or a cell, is found first."""
    columns = table.columns
    if _is_on_its_side(grid, columns):
        read_columns(grid, table, file)
    elif settings := _settings_in_header(grid, columns):
        read_configuration_columns(grid, table, settings, file)
    else:
        _read_rows(grid, table, file)
    _correct_shares(table)
    table.rows = [row for row in table.rows if row.figures or row.remarks]


def _add_surroundings(grid: Grid, table: ReportedTable) -> None:
    """Add to a table what the text around it says: words, figures and remarks of all rows, and which are of inference.

    A word counts only where its kind is named once: "DDP and FSDP" says nothing of a row.
    """
    text = " . ".join([*grid.section[-1:], grid.caption])  # what it says holds for all rows
    around, names = describe(text), names_in(text)
    table.words = {kind: word for kind, word in around.words.items() if len(names.get(kind, ())) <= 1}
    if device := only_device(grid.above):
        table.words.setdefault("device", device)
    table.figures = _figures_of_description(around, grid.caption or table.heading)
    table.above = _figures_of_description(describe(grid.above), grid.above)
    epochs = {m[1] for m in EPOCHS.finditer(" . ".join((text, grid.above)))}
    if len(epochs) == 1:
        table.above.append(Quantity("epochs", float(*epochs), f"{min(epochs)} epochs", grid.above))

    texts_around = [grid.caption, grid.above, *reversed(grid.section), re.sub(r"[_./-]", " ", table.file)]
    remarks = heading_remarks(text) - {"reference"}
    for row in table.rows:
        headings = " ".join(dict.fromkeys(quantity.heading for quantity in row.figures))
        if is_inference([row.label, headings, *texts_around]):
            row.words["phase"] = "inference"
        row.remarks |= remarks


def _figures_of_description(description: Description, text: str) -> list[Quantity]:
    """Return the numbers that a text states as figures: "on 8 GPUs" -> devices, 8."""
    numbers = {kind: number for kind, number in description.numbers.items() if kind != "several device counts"}
    return [Quantity(kind, float(number), str(number), text) for kind, number in numbers.items()]


def _header_with_units(grid: Grid) -> list[str]:
    """Return the headings, with the units of a first row that has nothing but units: "time (ms)"."""
    if len(grid.rows) < 2:
        return grid.header
    _, first = grid.rows[0]
    units = {k: cell.strip("()[] ") for k, cell in enumerate(first) if not is_nothing(cell) and cell not in NO_UNIT}
    if not units or max(units) >= len(grid.header):
        return grid.header
    for k, unit in units.items():
        cells = [row[k] for _, row in grid.rows[1:] if k < len(row) and not is_nothing(row[k])]
        is_unit = not re.search(r"\d", unit) and unit_of(unit) is not None
        if not is_unit or column_of(grid.header[k]).unit is not None or not all(map(figures_of, cells)):
            return grid.header
    grid.rows = grid.rows[1:]
    return [f"{heading} ({units[k]})" if k in units else heading for k, heading in enumerate(grid.header)]


def _is_on_its_side(grid: Grid, columns: list[TableColumn]) -> bool:
    """Whether the first column has the names of quantities, and the others are configurations.

    A third of its cells must be known names; one if its heading is "metric", more than half if it is of something else.
    """
    if any(column.kind not in (None, "change", "speedup", *NOT_FIGURES) for column in columns[1:]):
        return False
    labels = [cells[0] for _, cells in grid.rows if cells]
    kinds = [column_of(label).kind for label in labels]
    understood = sum(kind is not None and kind not in NOT_FIGURES for kind in kinds)
    if columns[0].kind == "metric":
        return understood >= 1
    if columns[0].kind is None or not grid.header[0]:
        return understood >= 1 and understood * 3 >= len(labels)
    return understood * 2 > len(labels) and understood >= 2


EPOCHS = re.compile(r"(?i)(?<![\w.,–-])(\d{1,4})[ -]epochs?\b")
NO_UNIT = ("#", "(#)", "count", "n", "(n)")  # what stands for a unit above figures that have none
PRODUCT = re.compile(r"(\d{1,4}) ?[*x×] ?(\d{1,3})")
NODES_TIMES_DEVICES = re.compile(r"(?i)nodes? ?[*x×] ?[\w ]{0,20}?(?:gpus?|devices?|cards?)")


def _nodes_and_devices(heading: str, cell: str) -> dict[str, int]:
    """Return the counts of a cell below "Nodes x GPUs": "2x8" -> 2 nodes, 16 devices. {} for any other."""
    product = PRODUCT.fullmatch(cell.strip())  # first, because few cells are one
    if product is None or not NODES_TIMES_DEVICES.search(heading):
        return {}
    nodes, devices_per_node = int(product[1]), int(product[2])
    return {"nodes": nodes, "devices": nodes * devices_per_node}


def _settings_in_header(grid: Grid, columns: list[TableColumn]) -> dict[int, Description]:
    """Return column -> the configuration that its heading names ("8 GPUs"), and take the kind off these columns.

    {} unless there are two or more.
    """
    names = [cells[0] for _, cells in grid.rows if cells]
    batch_sizes = _batch_columns(grid.header, [grid.caption, grid.above, *grid.section[-1:]], names)
    settings: dict[int, Description] = {}
    for k, column in enumerate(columns[1:], start=1):  # the first one names the rows
        if k in batch_sizes:
            settings[k] = Description(numbers={"batch": batch_sizes[k]})
            column.kind = None
            column.words = {"run": f"batch {column.heading}"}
            continue
        description = _configuration_of(column, grid.header[0])
        cells = [row[k] for _, row in grid.rows if k < len(row)]
        filled = sum(not is_nothing(cell) for cell in cells)
        has_figures = 2 * sum(bool(figures_of(cell)) for cell in cells) >= max(1, filled)  # half of its cells, or more
        if description is not None and has_figures:
            settings[k] = description
            column.kind = None
            column.devices = description.numbers.get("devices")
            column.words = description.words or {"run": column.heading}
    return settings if len(settings) >= 2 else {}


BATCH_SIZES = re.compile(r"(?i)\bbatch[- ]?sizes?\b")
OF_DEVICES = re.compile(rf"(?i)\b(?:{DEVICE}|nodes?|number of \w+)\b")


def _batch_columns(header: list[str], texts: list[str], names: list[str]) -> dict[int, int]:
    """Return column -> its batch size: {1: 32, 2: 64} of "Batch size | 32 | 64"; {} where that is not certain."""
    numbers = [heading.strip() for heading in header[1:]]
    if len(numbers) < 2 or not all(re.fullmatch(r"[1-9]\d{0,4}", number) for number in numbers):
        return {}
    sizes = [int(number) for number in numbers]
    if sizes != sorted(set(sizes)):
        return {}
    about = " . ".join(texts)
    if BATCH_SIZES.fullmatch(header[0].strip()):
        # Above names it is about the columns; above numbers these are the batch sizes.
        is_about_columns = all(re.match(r"[A-Za-z]", name) for name in names)
    elif OF_DEVICES.search(about) and column_of(header[0]).kind != "devices":
        is_about_columns = False  # the numbers may be those of devices
    else:
        is_about_columns = BATCH_SIZES.search(about) is not None and not BATCH_SIZES.search(header[0])
    return dict(enumerate(sizes, start=1)) if is_about_columns else {}


def _configuration_of(column: TableColumn, first_heading: str) -> Description | None:
    """Return what the heading of a column says of its configuration. None where it is no configuration."""
    if column.kind not in (None, "device", "strategy", "run"):
        return None
    if len(PRECISION.findall(column.heading)) > 1:
        return None  # a ratio of one precision to another
    description = describe(column.heading)
    if devices_and_words := devices_in(column.heading):
        description.numbers["devices"], _ = devices_and_words
    else:
        description.numbers |= _nodes_and_devices(first_heading, column.heading)
    is_variant = re.search(r"(?i)\bbaseline\b|\bours?\b|\bnaive\b", column.heading)
    return description if description.numbers or description.words or is_variant else None


def _read_rows(grid: Grid, table: ReportedTable, file: str) -> None:
    """Add a row to the table for each line of the grid: a configuration with its figures and words."""
    europeans = _have_decimal_commas(grid, len(table.columns))
    notes = _distinguishing_notes(table.columns)
    is_of_program = grid.form in row_figures.FOR_PROGRAMS  # its columns that are not understood are no label
    for line, cells, words in _rows_with_words(grid, table.columns):
        row = ReportedRow(file, line, "")
        names = []
        for k, (column, cell) in enumerate(zip(table.columns, cells, strict=False)):
            row.texts[column.heading or f"column {k + 1}"] = cell
            if column.kind is not None and column.kind not in NOT_FIGURES:
                row_figures.take_figures(row, column, cell, european=europeans[k])
            elif not (is_of_program and column.kind in (None, "text")):
                names += [words[k]] if column.kind != "text" or k == 0 else []
                row_figures.take_words(row, column, words[k])
                counts = _nodes_and_devices(column.heading, cell)
                row.figures += [Quantity(kind, float(count), cell, column.heading) for kind, count in counts.items()]
        row.label = _label_of(names)
        row_figures.add_facts_of_label(row)
        table.rows += _split_by_notes(row, table.columns, notes)


def _rows_with_words(grid: Grid, columns: list[TableColumn]) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield line, cells and words of each row; the words of an empty cell are those above: it is one for several."""
    above: dict[int, str] = {}  # the last text in each column
    for line, cells in grid.rows:
        if sum(map(bool, cells)) < 2 and len(columns) > 2:
            continue  # a line between groups
        above |= {k: cell for k, cell in enumerate(cells) if cell}
        may_be_merged = [column.kind in WORDS and grid.form != "CSV" for column in columns]
        pairs = enumerate(zip(cells, may_be_merged, strict=False))
        yield line, cells, [above.get(k, "") if is_merged else cell for k, (cell, is_merged) in pairs]


def _label_of(names: list[str]) -> str:
    """Return the label of a row with these names: "12.5" is none, nor is a hash; "gpt2 124M" is one."""
    names = [name for name in names if name and not HASH.fullmatch(name)]
    return ", ".join(dict.fromkeys(n for n in names if not figures_of(n) or re.search(r"[A-Za-z]{2,}", n)))[:200]


def _distinguishing_notes(columns: list[TableColumn]) -> list[str]:
    """Return the notes that tell columns of one kind apart: "MFU (A100)", "MFU (H100)" -> ["A100", "H100"]."""
    by_kind: dict[tuple[object, ...], set[str]] = {}
    for column in columns:
        if column.kind and column.kind not in NOT_FIGURES:
            by_kind.setdefault((column.kind, column.statistic, column.per_device), set()).add(column.note)
    several = [notes for notes in by_kind.values() if len(notes) > 1]
    return sorted({note for notes in several for note in notes if note})


def _split_by_notes(row: ReportedRow, columns: list[TableColumn], notes: list[str]) -> list[ReportedRow]:
    """Split a row by the notes of its columns, "A100": a row for each, with its own and all shared figures.

    The row itself, alone, where it has no figure below a note.
    """
    noted = {column.heading: column for column in columns if column.note in notes}
    parts = []
    for note in notes:
        columns_of_note = {heading: column for heading, column in noted.items() if column.note == note}
        of_note = [figure for figure in row.figures if figure.heading in columns_of_note]
        if not of_note:
            continue
        column = next(iter(columns_of_note.values()))
        kinds = {figure.kind for figure in of_note}
        shared = [figure for figure in row.figures if figure.heading not in noted and figure.kind not in kinds]
        label, words = f"{row.label}, {note}".strip(", "), {**row.words, **column.words}
        part = ReportedRow(row.file, row.line, label, shared + of_note, words, row.texts)
        part.remarks = set(row.remarks)
        if column.devices is not None and part.figure("devices") is None:
            part.figures.append(Quantity("devices", float(column.devices), note, column.heading))
        parts.append(part)
    return parts or [row]


def _have_decimal_commas(grid: Grid, width: int) -> list[bool]:
    """Return for each of `width` columns whether its figures have decimal commas: "12,5"."""
    columns = [[cells[k] for _, cells in grid.rows[:500] if k < len(cells)] for k in range(width)]
    europeans = [is_european(cells) for cells in columns]
    if any(europeans) and not any(CLEARLY_ENGLISH.search(cell) for column in columns for cell in column):
        return [True] * width  # one table, one author
    return europeans


SCALING = re.compile(r"(?i)(?<!of )(?<!linear )(?<!ideal )\bscaling\b(?! (?:eff|perc))")
MOST_EFFICIENT = 1.5  # above which a figure is no efficiency


def _are_speedups(heading: str, quantities: list[Quantity]) -> bool:
    """Whether figures below "Weak scaling" are speed-ups, 1.00 and 3.39, and no efficiencies: some are well above 1."""
    values = [quantity.value for quantity in quantities]
    return bool(SCALING.search(heading)) and min(values) == 1 and MOST_EFFICIENT < max(values) < LEAST_PERCENT


LEAST_PERCENT = 20.0  # from which a column that has a 1, too, may be in percent


def _correct_shares(table: ReportedTable) -> None:
    """Divide shares by 100 that are in percent without saying so; "Scaling" of 1 and more becomes a speed-up."""
    columns: dict[tuple[str, str], list[Quantity]] = {}  # by kind and heading
    for kind in SHARES:
        for share in (share for row in table.rows for share in row.all_of(kind)):
            if "%" not in share.text and "%" not in share.heading:
                columns.setdefault((kind, share.heading), []).append(share)

    for (kind, heading), shares in columns.items():
        if kind == "efficiency" and _are_speedups(heading, shares):
            for share in shares:
                share.kind = "speedup"
            continue
        largest_share = 4.0 if kind == "efficiency" else 1.0  # an efficiency may be wrong, and above 1
        in_percent = max(share.value for share in shares) > largest_share
        if in_percent and "pct" not in heading.lower() and "percent" not in heading.lower():
            for share in shares:
                share.value /= 100
                share.resolution /= 100
                share.spread = None if share.spread is None else share.spread / 100
