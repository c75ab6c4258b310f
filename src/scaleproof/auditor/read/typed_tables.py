"""From a grid of strings to a typed table: which column is what, whether rows or columns are the configurations."""

import re

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import (
    NOT_FIGURES,
    PRECISION,
    column_of,
    columns_of,
    devices_heading,
    heading_remarks,
)
from scaleproof.auditor.read.pivoted_tables import read_columns, read_settings
from scaleproof.auditor.read.printed_figures import CLEARLY_ENGLISH, figures_of, is_european, is_nothing, plain_text
from scaleproof.auditor.read.reported_tables import WORDS, Quantity, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.row_figures import (
    DATA,
    Place,
    columns_by_units,
    counts_devices,
    describe_label,
    take_figures,
    take_words,
)
from scaleproof.auditor.read.surroundings import batch_columns, mark_ratios_of_columns, states_spread
from scaleproof.auditor.read.units import RESULTS, SHARES, unit_of
from scaleproof.auditor.read.words import Description, described, is_inference, names_in, only_device

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


def read_table(grid: Grid, place: Place) -> ReportedTable | None:
    """Return the table of a grid; None where nothing in it is understood as a result."""
    if is_profile(grid.header):
        return None
    grid = _without_markup(grid)
    grid.header = _header_with_units(grid)
    columns = columns_of(grid.header, [cells for _, cells in grid.rows])
    _without_utilization(columns, grid)
    table = ReportedTable(
        place.file,
        grid.line,
        grid.form,
        columns,
        rows=[],
        caption=grid.caption,
        heading=grid.section[-1] if grid.section else "",
        section=grid.section,
    )
    table.cut_off, table.grid = grid.cut_off, grid
    _read_grid(grid, table, place)
    if not table.kinds() & RESULTS and (typed := columns_by_units(grid, columns)):
        table.columns, table.rows = typed, []
        table.checked = False
        _read_rows(grid, table, place)
    if not table.kinds() & RESULTS:
        return None
    mark_ratios_of_columns(table)
    table.states_spread = states_spread(grid)
    _add_surroundings(grid, table)
    return table


def _without_markup(grid: Grid) -> Grid:
    """Return a copy of a grid, its texts without the markup of Markdown, HTML and LaTeX."""
    return Grid(
        grid.form,
        grid.line,
        [plain_text(cell) for cell in grid.header],
        [(line, [plain_text(cell) for cell in cells]) for line, cells in grid.rows],
        plain_text(grid.caption),
        [plain_text(heading) for heading in grid.section],
        grid.cut_off,
        plain_text(grid.above),
        [plain_text(paragraph) for paragraph in grid.before],
    )


BESIDE_UTILIZATION = re.compile(r"(?i)(?:cpu|ram|disk|net(?:work)?)(?:[ _](?:%|pct|percent|usage|util\w*))?")


def _without_utilization(columns: list[TableColumn], grid: Grid) -> None:
    """Take the kind off a column `gpu` of utilisation, or of indices: neither a number nor a name of devices."""
    monitored = any(BESIDE_UTILIZATION.fullmatch(heading.strip()) for heading in grid.header)
    for k, column in enumerate(columns):
        cells = [row[k] for _, row in grid.rows if k < len(row)] if column.kind == "device" else []
        bare = any(cell.strip().isdecimal() for cell in cells)
        if cells and (not counts_devices(cells) or (bare and monitored)):
            column.kind = None


def _read_grid(grid: Grid, table: ReportedTable, place: Place) -> None:
    """Add the rows of a grid to its table, by whether rows, columns, or cells below headings are the configurations."""
    columns = table.columns
    if _is_on_its_side(grid, columns):
        read_columns(grid, table, place)
    elif settings := _settings_in_header(grid, columns):
        read_settings(grid, table, settings, place)
    else:
        _read_rows(grid, table, place)
    _correct_shares(table)
    table.rows = [row for row in table.rows if row.figures or row.remarks]


def _add_surroundings(grid: Grid, table: ReportedTable) -> None:
    """Add to a table what its section and caption say of all rows."""
    text = " . ".join([*grid.section[-1:], grid.caption])
    around, names = described(text), names_in(text)
    table.words = {kind: word for kind, word in around.words.items() if len(names.get(kind, ())) <= 1}
    if device := only_device(grid.above):
        table.words.setdefault("device", device)
    table.figures = _numbers(around, grid.caption or table.heading)
    table.above = _numbers(described(grid.above), grid.above)
    around_it = [grid.caption, grid.above, *reversed(grid.section), re.sub(r"[_./-]", " ", table.file)]
    for row in table.rows:
        headings = " ".join(dict.fromkeys(quantity.heading for quantity in row.figures))
        if is_inference([row.label, headings, *around_it]):
            row.words["phase"] = "inference"
    hypothetical = heading_remarks(" . ".join([*grid.section[-1:], grid.caption])) - {"reference"}
    for row in table.rows:
        row.remarks |= hypothetical


def _numbers(description: Description, text: str) -> list[Quantity]:
    """The numbers that a text states, as figures."""
    counted = {kind: number for kind, number in description.numbers.items() if kind != "several device counts"}
    return [Quantity(kind, float(number), str(number), text) for kind, number in counted.items()]


def _header_with_units(grid: Grid) -> list[str]:
    """Return the headings, with their units where those stand in a row of their own, which is taken off the rows."""
    if len(grid.rows) < 2:
        return grid.header
    _, below = grid.rows[0]
    named = {k: cell.strip("()[] ") for k, cell in enumerate(below) if not is_nothing(cell) and cell not in COUNTED}
    if not named or max(named) >= len(grid.header):
        return grid.header
    for k, cell in named.items():
        cells = [row[k] for _, row in grid.rows[1:] if k < len(row) and not is_nothing(row[k])]
        unit = None if re.search(r"\d", cell) else unit_of(cell)
        if unit is None or column_of(grid.header[k]).unit is not None or not all(figures_of(c) for c in cells):
            return grid.header
    grid.rows = grid.rows[1:]
    return [f"{heading} ({named[k]})" if k in named else heading for k, heading in enumerate(grid.header)]


def _is_on_its_side(grid: Grid, columns: list[TableColumn]) -> bool:
    """Whether the first column has the names of quantities, and the others are configurations."""
    possible = (None, "metric", "change", "speedup", "text", "status", "run", *NOT_FIGURES)
    if any(column.kind not in possible for column in columns[1:]):
        return False
    labels = [cells[0] for _, cells in grid.rows if cells]
    kinds = [column_of(label).kind for label in labels]
    understood = sum(kind is not None and kind not in NOT_FIGURES for kind in kinds)
    if columns[0].kind in ("metric", None) or not grid.header[0]:
        return understood >= 1 and (understood * 3 >= len(labels) or columns[0].kind == "metric")
    return understood * 2 > len(labels) and understood >= 2


COUNTED = ("#", "(#)", "count", "n", "(n)")  # what stands for a unit above figures that have none
PRODUCT = re.compile(r"(\d{1,4}) ?[*x×] ?(\d{1,3})")
NODES_TIMES_DEVICES = re.compile(r"(?i)nodes? ?[*x×] ?[\w ]{0,20}?(?:gpus?|devices?|cards?)")


def _nodes_and_devices(heading: str, cell: str) -> dict[str, int]:
    """What "2x8" says below or beside "Nodes x GPUs": {} of any other cell or heading."""
    product = PRODUCT.fullmatch(cell.strip())  # first, because few cells are one
    if product is None or not NODES_TIMES_DEVICES.search(heading):
        return {}
    nodes, each = int(product[1]), int(product[2])
    return {"nodes": nodes, "devices": nodes * each}


def _settings_in_header(grid: Grid, columns: list[TableColumn]) -> dict[int, Description]:
    """Return the columns that are one number of devices or one strategy each, with figures below them, and what
    their headings say; {} unless there are two.
    """
    names = [cells[0] for _, cells in grid.rows if cells]
    sizes = batch_columns(grid.header, [grid.caption, grid.above, *grid.section[-1:]], names)
    settings: dict[int, Description] = {}
    for k, column in enumerate(columns):
        if k in sizes:
            settings[k] = Description(numbers={"batch": sizes[k]})
            column.kind = None
            column.words = {"run": f"batch {column.heading}"}
            continue
        if (column.kind is not None and column.kind not in ("device", "strategy", "run")) or k == 0:
            continue
        if len(PRECISION.findall(column.heading)) > 1:
            continue  # a ratio of one precision to another
        counted = devices_heading(column.heading)
        description = described(column.heading)
        if counted:
            count, _ = counted
            description.numbers["devices"] = count
        else:
            description.numbers |= _nodes_and_devices(grid.header[0], column.heading)
        is_variant = re.search(r"(?i)\bbaseline\b|\bours?\b|\bnaive\b", column.heading)
        if not (description.numbers or description.words or is_variant):
            continue
        cells = [row[k] for _, row in grid.rows if k < len(row)]
        filled = sum(not is_nothing(cell) for cell in cells)
        if 2 * sum(bool(figures_of(cell)) for cell in cells) >= max(1, filled):
            settings[k] = description
            column.kind = None
            column.devices = description.numbers.get("devices")
            column.words = description.words or {"run": column.heading}
    return settings if len(settings) >= 2 else {}


# Rows are configurations


def _read_rows(grid: Grid, table: ReportedTable, place: Place) -> None:
    """Add a row to the table for each line of the grid: a configuration with its figures and words."""
    europeans = _locales(grid, len(table.columns))
    notes = _notes(table.columns)
    carried: dict[int, str] = {}
    for line, cells in grid.rows:
        if len([c for c in cells if c]) < 2 and len(table.columns) > 2:
            continue  # a line between groups
        row = ReportedRow(place.file, line, "")
        labels = []
        for k, (column, cell) in enumerate(zip(table.columns, cells, strict=False)):
            row.texts[column.heading or f"column {k + 1}"] = cell
            if column.kind in NOT_FIGURES or column.kind is None:
                value = cell
                if not cell and column.kind in WORDS and grid.form != "CSV":
                    value = carried.get(k, "")  # one cell for several rows
                elif cell:
                    carried[k] = cell
                if grid.form in DATA and column.kind in (None, "text"):
                    continue  # a column that is not understood; in a table for people it may be the label
                if value and (column.kind != "text" or k == 0) and not HASH.fullmatch(value):
                    labels.append(value)
                take_words(row, column, value)
                for kind, count in _nodes_and_devices(column.heading, cell).items():
                    row.figures.append(Quantity(kind, float(count), cell, column.heading))
            else:
                take_figures(row, column, cell, europeans[k], place)
        worded = dict.fromkeys(label for label in labels if not figures_of(label) or re.search(r"[A-Za-z]{2,}", label))
        row.label = ", ".join(worded)[:200]
        describe_label(row)
        if notes:
            table.rows += _split(row, table.columns, notes)
        else:
            table.rows.append(row)


def _notes(columns: list[TableColumn]) -> list[str]:
    """Return the notes that tell columns of one kind apart, like "MFU (A100)" and "MFU (H100)"; [] where none
    need to.
    """
    by_kind: dict[tuple[object, ...], set[str]] = {}
    for column in columns:
        if column.kind and column.kind not in NOT_FIGURES:
            by_kind.setdefault((column.kind, column.statistic, column.per_device), set()).add(column.note)
    several = [notes for notes in by_kind.values() if len(notes) > 1]
    return sorted({note for notes in several for note in notes if note})


def _split(row: ReportedRow, columns: list[TableColumn], notes: list[str]) -> list[ReportedRow]:
    """Return a row for each configuration that notes of headings name: with shared figures, and its own."""
    noted = {c.heading: c for c in columns if c.note in notes}
    parts = []
    for note in notes:
        own = [q for q in row.figures if q.heading in noted and noted[q.heading].note == note]
        if not own:
            continue
        description = next(c for c in noted.values() if c.note == note)
        shared = [q for q in row.figures if q.heading not in noted and not any(q.kind == o.kind for o in own)]
        part = ReportedRow(
            row.file,
            row.line,
            f"{row.label}, {note}".strip(", "),
            shared + own,
            {**row.words, **description.words},
            row.texts,
        )
        part.remarks = set(row.remarks)
        if description.devices is not None and part.figure("devices") is None:
            part.figures.append(Quantity("devices", float(description.devices), note, description.heading))
        parts.append(part)
    return parts or [row]


def _locales(grid: Grid, width: int) -> list[bool]:
    """Return for each of `width` columns whether its figures have decimal commas."""
    columns = [[cells[k] for _, cells in grid.rows[:500] if k < len(cells)] for k in range(width)]
    europeans = [is_european(c) for c in columns]
    if any(europeans) and not any(CLEARLY_ENGLISH.search(cell) for column in columns for cell in column):
        return [True] * width  # one table, one author
    return europeans


SCALING = re.compile(r"(?i)(?<!of )(?<!linear )(?<!ideal )\bscaling\b(?! (?:eff|perc))")
MOST_EFFICIENT = 1.5  # above which a figure is no efficiency


def _are_speedups(heading: str, quantities: list[Quantity]) -> bool:
    """Whether "Weak scaling" is 1.00, 3.39: speed-ups over the row that is 1, and no efficiencies."""
    values = [quantity.value for quantity in quantities]
    return bool(SCALING.search(heading)) and min(values) == 1 and MOST_EFFICIENT < max(values) < LEAST_PERCENT


LEAST_PERCENT = 20.0  # from which a column that has a 1, too, may be in percent


def _correct_shares(table: ReportedTable) -> None:
    """Divide shares by 100 whose column has no "%", where its figures say that they are in percent: efficiency
    87.5. "Scaling" of 1 and more becomes a speed-up.
    """
    for kind in SHARES:
        plain = [q for row in table.rows for q in row.all_of(kind) if "%" not in q.text and "%" not in q.heading]
        by_heading: dict[str, list[Quantity]] = {}
        for quantity in plain:
            by_heading.setdefault(quantity.heading, []).append(quantity)
        for heading, quantities in by_heading.items():
            if kind == "efficiency" and _are_speedups(heading, quantities):
                for quantity in quantities:
                    quantity.kind = "speedup"
                continue
            largest_share = 4.0 if kind == "efficiency" else 1.0  # an efficiency may be wrong, and above 1
            in_percent = max(quantity.value for quantity in quantities) > largest_share
            if in_percent and "pct" not in heading.lower() and "percent" not in heading.lower():
                for quantity in quantities:
                    quantity.value /= 100
                    quantity.resolution /= 100
                    quantity.spread = None if quantity.spread is None else quantity.spread / 100
