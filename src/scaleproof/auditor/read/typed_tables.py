"""From a grid of strings to a typed table: which column is what, whether rows or columns are the configurations."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from scaleproof.auditor.read import printed_figures, reported_tables, row_figures
from scaleproof.auditor.read.devices_of_nodes import mark_devices_of_nodes
from scaleproof.auditor.read.ditto_marks import without_dittos
from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import LEADING_WORD, NOT_FIGURES, PRECISION, column_of, column_of_part
from scaleproof.auditor.read.pivoted_tables import join_lines_of_headings, read_columns, read_configuration_columns
from scaleproof.auditor.read.reported_tables import WORDS, Quantity, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.surroundings import columns_by_units, figures_in_prose
from scaleproof.auditor.read.words import Description, describe, devices_in, is_inference, names_in, only_device

HASH = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{10,64}")  # of a file or a commit: no name of a row
# Headings of lists of kernels and operators, as nvprof, Nsight and torch.profiler print them.
OF_KERNELS = re.compile(
    r"(?i)grid ?(?:size|[xyz])|grd[xyz]|blk[xyz]|regs?\*?|reg/trd|[sd]smem\*?|(?:stc|dym)smem|corr(?:elation)? ?id|"
    r"(?:src|dst)mem\w*|(?:num|#|no\.?)(?: of)? calls|invocations|self cpu.*|self cuda.*|usecs/call"
)


def is_profile(header: list[str]) -> bool:
    """Whether a table lists kernels or operators: grids and calls, no configurations."""
    words = {heading.strip().lower().partition(" (")[0] for heading in header}
    of_kernels = any(map(OF_KERNELS.fullmatch, words)) and not words & {"gpus", "speedup", "efficiency"}
    return of_kernels or len(words & {"calls", "instances", "avg", "min", "max", "name"}) >= 4


def read_table(grid: Grid, file: str) -> ReportedTable | None:
    """Return the typed table of a grid, a row for each configuration. None where no column is a result."""
    table = typed_table(grid, file)
    return None if table is None or table.kinds().isdisjoint(printed_figures.RESULTS) else table


def typed_table(grid: Grid, file: str) -> ReportedTable | None:
    """Return the table of a grid, be it of results or of settings alone. Returns None for a list of kernels."""
    if is_profile(grid.header):
        return None
    grid = _without_markup(grid)
    # Some headings are empty or of one name, or may go on in the next line.
    if len({*grid.header[1:]} - {""}) < len(grid.header) - 1 or grid.form == "LaTeX table":
        join_lines_of_headings(grid)
    grid.header = _header_with_units(grid)
    columns = columns_of(grid.header, [cells for _, cells in grid.rows])
    _ignore_monitor_columns(columns, grid)
    grid.rows = without_dittos(grid, columns) if len(grid.rows) > 3 else grid.rows  # of two names
    table = ReportedTable(
        file=file,
        line=grid.line,
        form=grid.form,
        columns=columns,
        rows=[],
        caption=grid.caption,
        heading=grid.section[-1] if grid.section else "",
        section=grid.section,
        cut_off=grid.cut_off,
        grid=grid,
    )
    _read_grid(grid, table, file)
    if not table.kinds() & printed_figures.RESULTS and (typed := columns_by_units(grid, columns)):
        table.columns, table.rows = typed, []
        table.checked = False  # no heading is understood: it is shown, and no check judges it
        _read_rows(grid, table, file)
    row_figures.mark_ratios_of_columns(table)
    _add_surroundings(grid, table)
    return table


def columns_of(header: list[str], rows: Sequence[Sequence[str]]) -> list[TableColumn]:
    """Return what the headings of one table mean. "DP" is a number of replicas above numbers, else a strategy."""
    columns = [replace(column_of(heading)) for heading in header]  # copies: column_of remembers its results
    for k, column in enumerate(columns):
        is_dp = column.heading.strip().lower() == "dp"
        if is_dp and all(row[k].strip("*` ").isdigit() for row in rows if k < len(row)):
            column.kind = "data_parallel"
        word, _, rest = column.heading.partition(" ")
        part = column_of_part(column.heading, rest, note=word)  # "EAGLE speed" beside "Baseline speed"
        if (column.kind is None or column.note) and (part.kind or "").endswith(("_per_s", "rate")):
            alike = [one for one in columns if LEADING_WORD.match(one.heading) and one.heading.endswith(f" {rest}")]
            columns[k] = column if alike in ([], [column]) else part
    return mark_devices_of_nodes(columns, rows) if any(column.kind == "nodes" for column in columns) else columns


def _without_markup(grid: Grid) -> Grid:
    """Return a copy of a grid, its texts without markup: "**8** GPUs" -> "8 GPUs"."""
    return replace(
        grid,
        header=list(map(printed_figures.plain_text, grid.header)),
        rows=[(line, list(map(printed_figures.plain_text, cells))) for line, cells in grid.rows],
        caption=printed_figures.plain_text(grid.caption),
        section=list(map(printed_figures.plain_text, grid.section)),
        above=printed_figures.plain_text(grid.above),
        before=list(map(printed_figures.plain_text, grid.before)),
    )


MONITOR_HEADING = re.compile(r"(?i)(?:cpu|ram|disk|net(?:work)?)(?:[ _](?:%|pct|percent|usage|util\w*))?")


def _ignore_monitor_columns(columns: list[TableColumn], grid: Grid) -> None:
    """Take the kind off a column `gpu` of utilisation (97, 98) or of indices (0, 1, 2), which count no devices.

    Likewise off "workers" from 0 on, which are of a data loader, and off a "precision" of 80.3, which is of answers.
    """
    is_of_monitor = any(MONITOR_HEADING.fullmatch(heading.strip()) for heading in grid.header)
    for k, column in enumerate(columns):
        cells = [row[k] for _, row in grid.rows if k < len(row)]
        is_of_loader = column.kind == "processes" and "0" in cells
        if is_of_loader or (column.kind == "precision" and any(re.fullmatch(r"\d+\.\d+", cell) for cell in cells)):
            column.kind = None
        if column.kind != "device":
            continue
        has_numbers_of_monitor = is_of_monitor and any(cell.strip().isdecimal() for cell in cells)
        if cells and (has_numbers_of_monitor or not row_figures.counts_devices(cells)):
            column.kind = None


def _read_grid(grid: Grid, table: ReportedTable, file: str) -> None:
    """Add the rows of a grid to its table, in which a configuration is a line, a column or a cell. Drops empty rows."""
    columns = table.columns
    if _is_on_its_side(grid, columns):
        read_columns(grid, table, file)
    elif settings := _take_settings_of_header(grid, columns):
        read_configuration_columns(grid, table, settings, file)
    else:
        _read_rows(grid, table, file)
    row_figures.drop_scores(table)
    row_figures.correct_shares(table)
    # Where a line is a second line of headings, its rows have nothing but what their headings say.
    table.rows = [row for row in table.rows if row.remarks or any(f.text != f.heading for f in row.figures)]


def _add_surroundings(grid: Grid, table: ReportedTable) -> None:
    """Add to a table the words, figures and remarks that the text around it says of all rows, and mark inference.

    A word counts only where its kind is named once, "DDP and FSDP" says nothing of a row, and where no row has another
    of its kind: that of a row without one is then not known.
    """
    text = " . ".join([*grid.section[-1:], grid.caption])
    description, names = describe(text), names_in(text)
    in_rows = {kind for row in table.rows for kind, word in row.words.items() if word != description.words.get(kind)}
    if any((row.devices or 1) > 1 for row in table.rows) and description.words.get("strategy") == "single":
        in_rows.add("strategy")
    certain = {kind for kind in description.words if len(names.get(kind, ())) <= 1 and kind not in in_rows}
    table.words = {kind: description.words[kind] for kind in certain}
    if device := only_device(grid.above):
        table.words.setdefault("device", device)

    table.figures = table.figures_of_all(description.numbers, grid.caption or table.heading)
    table.above = table.figures_of_all(describe(grid.above).numbers, grid.above)
    if re.search(r"\d", " ".join((text, grid.above, *grid.header))):  # few texts do
        table.above += figures_in_prose(f"{text} . {grid.above}", grid.header)

    last_sentence = re.split(r"(?<=[a-z)]\.) ", grid.above)[-1]
    name = re.sub(r"[_.-]", " ", table.file.rpartition("/")[2])
    texts_around = [grid.caption, last_sentence, *reversed(grid.section), name]
    remarks = row_figures.heading_remarks(text) - {"reference"}
    for row in table.rows:
        headings = " ".join(dict.fromkeys(quantity.heading for quantity in row.figures))
        if is_inference([row.label, headings, *texts_around, " ".join(row.texts)]):
            row.words["phase"] = "inference"
        row.remarks |= remarks


def _header_with_units(grid: Grid) -> list[str]:
    """Return the headings with the units of a first row that has nothing else, "time (ms)", and remove that row."""
    if len(grid.rows) < 2:
        return grid.header
    _, first_row = grid.rows[0]
    filled = {k: cell for k, cell in enumerate(first_row) if not printed_figures.is_nothing(cell)}
    units = {k: cell.strip("()[] ") for k, cell in filled.items() if cell not in NO_UNIT}
    are_below_headings = max(units, default=len(grid.header)) < len(grid.header)
    if not (are_below_headings and all(_is_unit_of_column(unit, k, grid) for k, unit in units.items())):
        return grid.header

    grid.rows = grid.rows[1:]
    return [f"{heading} ({units[k]})" if k in units else heading for k, heading in enumerate(grid.header)]


def _is_unit_of_column(text: str, k: int, grid: Grid) -> bool:
    """Whether a text in the first row is the unit of column `k`: its heading has none, and figures are below it."""
    if re.search(r"\d", text) or printed_figures.unit_of(text) is None or column_of(grid.header[k]).unit is not None:
        return False
    cells = [row[k] for _, row in grid.rows[1:] if k < len(row) and not printed_figures.is_nothing(row[k])]
    return all(map(printed_figures.figures_of, cells))


def _is_on_its_side(grid: Grid, columns: list[TableColumn]) -> bool:
    """Whether the first column has the names of quantities, and the others are configurations.

    A third of its cells must be known names. One is enough below the heading "metric"; more than half are needed below
    a heading of another meaning.
    """
    if any(column.kind not in (None, "change", "speedup", *NOT_FIGURES) for column in columns[1:]):
        return False  # the columns are quantities themselves
    names = [cells[0] for _, cells in grid.rows if cells]
    kinds = [column_of(name).kind for name in names]
    known_count = sum(kind is not None and kind not in NOT_FIGURES for kind in kinds)
    if columns[0].kind == "metric":
        return known_count >= 1
    if columns[0].kind is None or not grid.header[0]:
        return known_count >= 1 and known_count * 3 >= len(names)
    return known_count * 2 > len(names) and known_count >= 2


NO_UNIT = ("#", "(#)", "count", "n", "(n)")  # in place of a unit
PRODUCT = re.compile(r"(\d{1,4}) ?[*x×] ?(\d{1,3})")
NODES_TIMES_DEVICES = re.compile(r"(?i)nodes? ?[*x×] ?[\w ]{0,20}?(?:gpus?|devices?|cards?)")


def _nodes_and_devices(heading: str, cell: str) -> dict[str, int]:
    """Return the counts of a cell below "Nodes x GPUs": "2x8" -> 2 nodes, 16 devices. {} for any other."""
    product = PRODUCT.fullmatch(cell.strip())  # first, because few cells are one
    if product is None or not NODES_TIMES_DEVICES.search(heading):
        return {}
    nodes, devices_per_node = int(product[1]), int(product[2])
    return {"nodes": nodes, "devices": nodes * devices_per_node}


def _take_settings_of_header(grid: Grid, columns: list[TableColumn]) -> dict[int, Description]:
    """Return column -> the configuration that its heading names: {1: 2 devices, 2: 8 devices} of "2 GPUs | 8 GPUs".

    These columns lose their kind, because each row has figures of another kind: a single one, too, but {} is returned.
    """
    row_names = [cells[0] for _, cells in grid.rows if cells]
    batch_sizes = _batch_columns(grid.header, [grid.caption, grid.above, *grid.section[-1:]], row_names)
    settings: dict[int, Description] = {}
    for k, column in enumerate(columns[1:], start=1):  # the first column names the rows
        description = _configuration_of(column, grid.header[0])
        if k in batch_sizes:
            settings[k] = Description(numbers={"batch": batch_sizes[k]})
            column.words = {"run": f"batch {column.heading}"}
        elif description is not None and _has_figures([row[k] for _, row in grid.rows if k < len(row)]):
            settings[k] = description
            column.devices = description.numbers.get("devices")
            column.words = description.words or {"run": column.heading}

    for k in settings:
        columns[k].kind = None
    return settings if len(settings) >= 2 else {}


def _has_figures(cells: list[str]) -> bool:
    """Whether at least half of the cells of a column that are filled have figures."""
    filled_count = sum(not printed_figures.is_nothing(cell) for cell in cells)
    return 2 * sum(bool(printed_figures.figures_of(cell)) for cell in cells) >= max(1, filled_count)


QUANTITY = re.compile(
    r"(?i)\b(?:size|number of|percent(?:age)?|degree|peak)\b"
)  # "Model-parallel size" is no configuration
BATCH_SIZES = re.compile(r"(?i)\bbatch[- ]?sizes?\b")
OF_DEVICES = re.compile(rf"(?i)\b(?:{printed_figures.DEVICE}|nodes?|number of \w+)\b")


def _batch_columns(header: list[str], texts: list[str], names: list[str]) -> dict[int, int]:
    """Return column -> its batch size: {1: 32, 2: 64} of "Batch size | 32 | 64". {} where that is not certain."""
    numbers = [heading.strip() for heading in header[1:]]
    if len(numbers) < 2 or not all(re.fullmatch(r"[1-9]\d{0,4}", number) for number in numbers):
        return {}
    sizes = [int(number) for number in numbers]
    if sizes != sorted(set(sizes)):
        return {}

    text = " . ".join(texts)
    if BATCH_SIZES.fullmatch(header[0].strip()):
        # Above names "Batch size" is about the columns; numbers below it are batch sizes themselves.
        are_batch_sizes = all(re.match(r"[A-Za-z]", name) for name in names)
    elif OF_DEVICES.search(text) and column_of(header[0]).kind != "devices":
        are_batch_sizes = False  # the columns may be numbers of devices
    else:
        are_batch_sizes = BATCH_SIZES.search(text) is not None and not BATCH_SIZES.search(header[0])
    return dict(enumerate(sizes, start=1)) if are_batch_sizes else {}


def _configuration_of(column: TableColumn, first_heading: str) -> Description | None:
    """Return what the heading of a column says of its configuration: 8 devices by "8 GPUs". None if it names none."""
    is_of_two = len(PRECISION.findall(column.heading)) > 1  # a ratio of one precision to another
    if column.kind not in (None, "device", "strategy", "run") or is_of_two or QUANTITY.search(column.heading):
        return None
    described = describe(column.heading)
    description = replace(described, numbers=dict(described.numbers))  # it is added to below
    devices = devices_in(column.heading)
    if devices is not None:
        description.numbers["devices"] = devices
    else:
        description.numbers |= _nodes_and_devices(first_heading, column.heading)
    is_variant = re.search(r"(?i)\bbaseline\b|\bours?\b|\bnaive\b", column.heading)
    return description if description.numbers or description.words or is_variant else None


def _read_rows(grid: Grid, table: ReportedTable, file: str) -> None:
    """Add a row to the table for each line of the grid: a configuration with its figures and words."""
    have_decimal_commas = row_figures.have_decimal_commas(grid.rows[:500], len(table.columns))
    notes = _distinguishing_notes(table.columns)
    is_of_program = grid.form in row_figures.FOR_PROGRAMS  # its columns that are not understood are no label
    for line, cells, words in _rows_with_words(grid, table.columns):
        row = ReportedRow(file, line, "")
        names: list[str] = []
        for k, (column, cell) in enumerate(zip(table.columns, cells, strict=False)):
            row.texts[column.heading or f"column {k + 1}"] = cell
            if column.kind is not None and column.kind not in NOT_FIGURES:
                row_figures.take_figures(row, column, cell, european=have_decimal_commas[k])
                continue
            if is_of_program and column.kind in (None, "text"):
                continue
            if column.kind != "text" or k == 0:  # remarks are no names
                names.append(words[k])
            row_figures.take_words(row, column, words[k])
            for kind, count in _nodes_and_devices(column.heading, cell).items():
                row.figures.append(Quantity(kind, float(count), cell, column.heading))
        row_figures.prefer_columns(row, table.columns)
        row.label = _label_of(names)
        row_figures.add_facts_of_label(row)
        if _is_measured_in_part(row, table.columns):
            row.remarks -= reported_tables.NO_FIGURES
        table.rows += _split_by_notes(row, table.columns, notes)


PRINTED_IN = {name: kind.printed_in[:1] for name, kind in printed_figures.KINDS.items() if kind.printed_in}


def _is_measured_in_part(row: ReportedRow, columns: list[TableColumn]) -> bool:
    """Whether one column of times or rates has a figure, another has none: the training alone ran out of memory."""
    cells = ((PRINTED_IN[c.kind], row.texts.get(c.heading, "")) for c in columns if c.kind in PRINTED_IN)
    dimensions = {dimension for dimension, cell in cells if reported_tables.gave_no_figures(cell)}
    return bool(dimensions) and any(PRINTED_IN.get(figure.kind) in dimensions for figure in row.figures)


def _rows_with_words(grid: Grid, columns: list[TableColumn]) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield line, cells and words of each row. An empty cell of words, merged with the one above, has its words."""
    may_be_merged = [column.kind in WORDS and grid.form != "CSV" for column in columns]
    text_above: dict[int, str] = {}  # column -> its last text
    for line, cells in grid.rows:
        if sum(map(bool, cells)) < 2 and len(columns) > 2:
            continue  # a line between groups
        text_above |= {k: cell for k, cell in enumerate(cells) if cell}
        pairs = enumerate(zip(cells, may_be_merged, strict=False))
        yield line, cells, [text_above.get(k, "") if is_merged else cell for k, (cell, is_merged) in pairs]


def _label_of(names: list[str]) -> str:
    """Return the label of a row by its names, except hashes and figures: "12.5 s" is no name, "gpt2 124M" is one."""
    names = [name for name in names if re.search(r"\w", name) and not HASH.fullmatch(name)]
    return ", ".join(dict.fromkeys(name for name in names if not _is_figure(name)))[:200]


def _is_figure(name: str) -> bool:
    """Whether a text is a figure and no name: "12.5", "12,5", "388 ms". "80 GB" may be the name of a device."""
    figures = printed_figures.figures_of(name, printed_figures.is_european([name]))
    unit = figures[0].unit if figures else None
    has_word = re.search(r"[A-Za-z]{2,}", name) is not None
    is_of_item = re.fullmatch(r"[~≈]?[\d.,]+ ?[A-Za-zµ]+/\w+", name) is not None  # "5 ms/sample"
    return is_of_item or (bool(figures) and not (has_word and (unit is None or unit.dimension == "memory")))


def _distinguishing_notes(columns: list[TableColumn]) -> list[str]:
    """Return the notes that tell columns of one kind apart: "MFU (A100)", "MFU (H100)" -> ["A100", "H100"]."""
    by_kind: dict[tuple[object, ...], set[str]] = {}
    for column in columns:
        if column.kind and column.kind not in NOT_FIGURES:
            by_kind.setdefault((column.kind, column.statistic, column.per_device), set()).add(column.note)
    return sorted(set().union(*(notes for notes in by_kind.values() if len(notes) > 1)) - {""})


def _split_by_notes(row: ReportedRow, columns: list[TableColumn], notes: list[str]) -> list[ReportedRow]:
    """Return a row for each note of columns ("A100"), with the shared figures; the row whole if no note has one."""
    columns_with_note = [column for column in columns if column.note in notes]
    headings_with_note = {column.heading for column in columns_with_note}
    others = [figure for figure in row.figures if figure.heading not in headings_with_note]
    parts: list[ReportedRow] = []
    for note in notes:
        columns_of_note = [column for column in columns_with_note if column.note == note]
        own_figures = [figure for figure in row.figures if figure.heading in {c.heading for c in columns_of_note}]
        own_kinds = {figure.kind for figure in own_figures}
        if own_kinds & {"speedup", "efficiency"}:
            own_kinds |= printed_figures.RESULTS  # a shared rate does not say whose it is
        shared_figures = [figure for figure in others if figure.kind not in own_kinds]
        if own_figures:
            parts.append(_part_of_row(row, columns_of_note[0], shared_figures + own_figures))
    if not parts:
        return [row]
    parts[0].not_understood = row.not_understood  # once, not in each part
    return parts


def _part_of_row(row: ReportedRow, column: TableColumn, figures: list[Quantity]) -> ReportedRow:
    """Return a copy of a row with these figures, and what the note of a column says: "A100", 8 devices."""
    label = f"{row.label}, {column.note}".strip(", ")
    words = {**row.words, **column.words}
    part = replace(row, label=label, figures=figures, words=words, remarks=set(row.remarks), not_understood={})
    if column.devices is not None and part.figure("devices") is None:
        part.figures.append(Quantity("devices", float(column.devices), column.note, column.heading))
    return part
