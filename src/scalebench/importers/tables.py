"""From a grid of strings to a typed table: which column is what, whether rows or columns are the configurations."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from scalebench.importers.cells import (
    CLEARLY_ENGLISH,
    Figure,
    figures_of,
    is_european,
    is_nothing,
    plain_text,
    remarks_of,
)
from scalebench.importers.grids import Grid
from scalebench.importers.headings import NOT_FIGURES, column_of, devices_heading, heading_remarks, kind_with_unit
from scalebench.importers.reported_tables import (
    WORDS,
    Quantity,
    ReportedRow,
    ReportedTable,
    TableColumn,
)
from scalebench.importers.units import Unit
from scalebench.importers.words import Description, described

# A table with none of these is not one of results.
RESULTS = {
    "step_time_s", "epoch_time_s", "total_time_s", "time_s", "tokens_per_s", "samples_per_s", "steps_per_s", "rate", "speedup", "efficiency",
    "mfu", "hfu", "flops_per_s", "memory_bytes", "memory_share", "communication_time_s", "compute_time_s", "communication_share", "utilization",
    "latency_s", "change", "bandwidth_bytes_per_s",
}  # fmt: skip
SHARES = ("efficiency", "mfu", "hfu", "accuracy", "utilization", "communication_share", "memory_share")
WHOLE = (
    "devices",
    "nodes",
    "devices_per_node",
    "processes",
    "zero_stage",
    "repeats",
    "tensor_parallel",
    "pipeline_parallel",
)
NEED_UNIT = {
    "step_time_s", "epoch_time_s", "total_time_s", "time_s", "communication_time_s", "compute_time_s", "data_time_s", "latency_s",
    "memory_bytes", "flops_per_s", "bandwidth_bytes_per_s", "energy_j", "rate",
}  # fmt: skip
DATA = ("CSV", "JSON", "spreadsheet")  # forms for programs: their cells of text are no labels


@dataclass(slots=True)
class Place:
    """Where a table stands: everything that its own cells do not say."""

    file: str
    default_unit: Callable[[str], float | None] = lambda kind: None  # of a kind without a unit, in the base unit


def read_table(grid: Grid, place: Place) -> ReportedTable | None:
    """The table of a grid; None where nothing in it is understood as a result."""
    header = [plain_text(cell) for cell in grid.header]
    grid = Grid(grid.form, grid.line, header, [(n, [plain_text(c) for c in cells]) for n, cells in grid.rows],
                plain_text(grid.caption), [plain_text(s) for s in grid.section], grid.cut_off)  # fmt: skip
    columns = [column_of(h) for h in header]
    table = ReportedTable(
        place.file,
        grid.line,
        grid.form,
        columns,
        [],
        grid.caption,
        grid.section[-1] if grid.section else "",
        grid.section,
    )
    table.cut_off = grid.cut_off
    if _is_on_its_side(grid, columns):
        _read_columns(grid, table, place)
    elif settings := _settings_in_header(grid, columns):
        _read_settings(grid, table, settings, place)
    else:
        _read_rows(grid, table, place)
    _correct_shares(table)
    table.rows = [row for row in table.rows if row.figures or row.remarks]
    if not table.kinds() & RESULTS:
        return None
    around = described(" . ".join([*grid.section[-1:], grid.caption]))
    table.words = around.words
    table.figures = [
        Quantity(k, float(v), str(v), grid.caption or table.heading)
        for k, v in around.numbers.items()
        if k != "several device counts"
    ]
    hypothetical = heading_remarks(" . ".join([*grid.section[-1:], grid.caption])) - {"reference"}
    for row in table.rows:
        row.remarks |= hypothetical
    return table


def _is_on_its_side(grid: Grid, columns: list[TableColumn]) -> bool:
    """Whether the first column has the names of quantities, and the others are configurations."""
    if any(
        c.kind not in (None, "metric", "change", "speedup", "text", "status", "run", *NOT_FIGURES) for c in columns[1:]
    ):
        return False
    labels = [cells[0] for _, cells in grid.rows if cells]
    kinds = [column_of(label).kind for label in labels]
    understood = sum(kind is not None and kind not in NOT_FIGURES for kind in kinds)
    if columns[0].kind in ("metric", None) or not grid.header[0]:
        return understood >= 1 and (understood * 3 >= len(labels) or columns[0].kind == "metric")
    return understood * 2 > len(labels) and understood >= 2


def _settings_in_header(grid: Grid, columns: list[TableColumn]) -> dict[int, Description]:
    """Columns that are one number of devices or one strategy each, with figures below them; {} unless there are two."""
    settings: dict[int, Description] = {}
    for k, column in enumerate(columns):
        if (column.kind is not None and column.kind not in ("device", "strategy", "run")) or k == 0:
            continue
        counted = devices_heading(column.heading)
        said = described(column.heading)
        if counted:
            said.numbers["devices"] = counted[0]
        if (
            not said.numbers
            and not said.words
            and not re.search(r"(?i)\bbaseline\b|\bours?\b|\bnaive\b", column.heading)
        ):
            continue
        cells = [cells[k] for _, cells in grid.rows if k < len(cells)]
        if sum(bool(figures_of(c)) for c in cells) * 2 >= max(1, sum(not is_nothing(c) for c in cells)):
            settings[k] = said
            column.kind = None
            column.devices = said.numbers.get("devices")
            column.words = said.words or {"run": column.heading}
    return settings if len(settings) >= 2 else {}


# Rows are configurations


def _read_rows(grid: Grid, table: ReportedTable, place: Place) -> None:
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
                if value and (column.kind != "text" or k == 0):
                    labels.append(value)
                _take_words(row, column, value)
            else:
                _take_figures(row, column, cell, europeans[k], place)
        row.label = ", ".join(
            dict.fromkeys(label for label in labels if not figures_of(label) or column_kindless(label))
        )[:200]
        _describe(row)
        table.rows += _split(row, table.columns, notes) if notes else [row]


def _notes(columns: list[TableColumn]) -> list[str]:
    """Notes that tell columns of one kind apart: "MFU (A100)" and "MFU (H100)" are of two configurations. [] where none are needed."""
    by_kind: dict[tuple[object, ...], set[str]] = {}
    for column in columns:
        if column.kind and column.kind not in NOT_FIGURES:
            by_kind.setdefault((column.kind, column.statistic, column.per_device), set()).add(column.note)
    several = [notes for notes in by_kind.values() if len(notes) > 1]
    return sorted({note for notes in several for note in notes if note})


def _split(row: ReportedRow, columns: list[TableColumn], notes: list[str]) -> list[ReportedRow]:
    """A row for each configuration that headings name: with the figures that they share, and their own."""
    noted = {c.heading: c for c in columns if c.note in notes}
    parts = []
    for note in notes:
        own = [q for q in row.figures if q.heading in noted and noted[q.heading].note == note]
        if not own:
            continue
        said = next(c for c in noted.values() if c.note == note)
        shared = [q for q in row.figures if q.heading not in noted and not any(q.kind == o.kind for o in own)]
        part = ReportedRow(
            row.file, row.line, f"{row.label}, {note}".strip(", "), shared + own, {**row.words, **said.words}, row.texts
        )
        part.remarks = set(row.remarks)
        if said.devices is not None and part.figure("devices") is None:
            part.figures.append(Quantity("devices", float(said.devices), note, said.heading))
        parts.append(part)
    return parts or [row]


def column_kindless(label: str) -> bool:
    """Whether a cell is more than a bare figure."""
    return bool(re.search(r"[A-Za-z]{2,}", label))


def _locales(grid: Grid, width: int) -> list[bool]:
    columns = [[cells[k] for _, cells in grid.rows[:500] if k < len(cells)] for k in range(width)]
    europeans = [is_european(c) for c in columns]
    if any(europeans) and not any(CLEARLY_ENGLISH.search(cell) for column in columns for cell in column):
        return [True] * width  # one table, one author
    return europeans


def _take_words(row: ReportedRow, column: TableColumn, cell: str) -> None:
    """A cell of words: what it says of the configuration, and of itself."""
    if not cell or is_nothing(cell):
        return
    if column.kind == "device" and re.fullmatch(r"\d{1,5}", cell):
        row.figures.append(Quantity("devices", float(cell), cell, column.heading))
        return
    row.remarks |= remarks_of(cell) if column.kind != "text" or len(cell) < 60 else set()
    if column.kind == "text":
        return
    said = described(cell)
    for word, value in said.words.items():
        row.words.setdefault(word, value)
    _add_numbers(row, said, cell, column.heading)
    if column.kind in WORDS:
        normal = said.words.get(column.kind) if column.kind in ("strategy", "precision", "device") else None
        if column.kind != "run" or "run" not in row.words:
            row.words[column.kind] = normal or cell[:100]
    elif column.kind is None and not said.words and not said.numbers:
        figures = figures_of(cell)
        if figures and figures[0].unit is not None and figures[0].unit.dimension != "percent":
            row.not_understood[column.heading] = cell


def _add_numbers(row: ReportedRow, said: Description, cell: str, heading: str) -> None:
    for kind, value in said.numbers.items():
        if kind != "several device counts" and row.figure(kind) is None:
            row.figures.append(Quantity(kind, float(value), cell[:60], heading))


def _take_figures(row: ReportedRow, column: TableColumn, cell: str, european: bool, place: Place) -> None:
    """The figures of a cell in a column of figures."""
    if not cell:
        return
    remarks = remarks_of(cell)
    if remarks & {"out of memory", "failed", "not run"}:
        row.remarks |= remarks
        return
    assert column.kind is not None
    figures = figures_of(cell, european)
    if not figures:
        said = described(cell)
        if column.kind in ("devices", "nodes", "processes", "batch", "micro_batch", "global_batch") and said.numbers:
            _add_numbers(row, said, cell, column.heading)
        elif not is_nothing(cell):
            row.not_understood[column.heading] = cell
            stripped = re.sub(r"\(.*?\)", "", cell).strip()
            if remarks and stripped != cell and (figures := figures_of(stripped, european)):
                del row.not_understood[column.heading]
        if not figures:
            return
    row.remarks |= remarks
    quantity = quantity_of(figures[0], column, cell, place)
    if quantity is None:
        row.not_understood[column.heading] = cell
        return
    quantity.remark = next(iter(sorted(heading_remarks(column.heading))), None)
    row.figures.append(quantity)
    for extra in figures[1:]:
        if extra.unit and extra.unit.dimension == "times" and column.kind != "speedup" and quantity.kind != "speedup":
            row.figures.append(Quantity("speedup", extra.value, cell, column.heading, extra.resolution))


def quantity_of(figure: Figure, column: TableColumn, cell: str, place: Place) -> Quantity | None:
    """A figure in the base unit of its column; None where its unit and the column contradict each other."""
    kind, unit = column.kind, figure.unit
    assert kind is not None
    scale, stated = column.scale, column.unit is not None
    item, per_device = column.item, column.per_device
    if unit is not None:
        changed = _unit_in_cell(kind, unit, figure)
        if changed is None:
            return None
        kind, scale = changed
        stated, item = True, unit.item or item
        per_device = unit.per_device if unit.per_device is not None else per_device
    elif not stated and kind in NEED_UNIT:
        default = place.default_unit(kind)
        scale, stated = (default, True) if default else (1.0, False)
    value = figure.value * scale
    if value < 0 and kind not in ("change", "loss", "val_loss", "learning_rate"):
        return None  # -1 and -100 % stand for "not known", and a difference has another kind
    if kind in WHOLE and (value != int(value) or value < 0):
        return None
    bound = figure.bound if figure.bound in ("<", ">", "~") else None
    return Quantity(
        kind,
        -value if kind == "change" and figure.faster in ("lower", "less", "slower") and value > 0 else value,
        cell[:80],
        column.heading,
        figure.resolution * scale,
        None if figure.spread is None else figure.spread * scale,
        column.statistic,
        per_device,
        item,
        bound,  # type: ignore[arg-type]  # narrowed by the line above, which mypy does not follow
        unit_stated=stated or kind not in NEED_UNIT,
    )


def _unit_in_cell(kind: str, unit: Unit, figure: Figure) -> tuple[str, float] | None:
    """Kind and scale of a figure whose cell has a unit."""
    if kind == "parameters" and unit.dimension == "time" and unit.scale == 60.0:
        return kind, 1e6  # "124m"
    if kind == "parameters" and unit.dimension == "memory":
        return kind, 1e9  # "7b"
    if (
        kind in ("devices", "nodes", "processes", "batch", "seq_len", "steps", "epochs", "repeats", "micro_batch")
        and unit.dimension == "times"
    ):
        return kind, 1.0
    if kind in ("batch", "global_batch", "micro_batch") and unit.per_device:
        return "micro_batch", 1.0
    if kind in ("loss", "val_loss", "perplexity", "devices", "nodes"):
        return None
    if unit.dimension == "percent" and kind in ("speedup", "change"):
        return "change", 0.01
    changed = kind_with_unit(kind, unit)
    return None if changed is None else (changed, unit.scale)


def _describe(row: ReportedRow) -> None:
    """What the label says where no column does."""
    said = described(row.label)
    for word, value in said.words.items():
        row.words.setdefault(word, value)
    _add_numbers(row, said, row.label, "label")


# Columns are configurations


def _read_columns(grid: Grid, table: ReportedTable, place: Place) -> None:
    kinds = {n: column_of(cells[0]) for n, (_, cells) in enumerate(grid.rows) if cells}
    unknown = [grid.rows[n][1][0] for n, c in kinds.items() if c.kind is None]
    heads = table.columns
    table.columns = [heads[0], *kinds.values()]
    for k, heading in enumerate(grid.header[1:], start=1):
        if heads[k].kind in ("change", "speedup", "text", "status", "metric") and not _is_value(heading):
            continue
        label = heading if not _is_value(heading) else (table.heading or table.caption)
        row = ReportedRow(place.file, grid.line, label)
        row.remarks |= heading_remarks(heading)
        for n, (line, cells) in enumerate(grid.rows):
            column = kinds.get(n)
            if column is None or k >= len(cells):
                continue
            row.texts[cells[0]] = cells[k]
            if column.kind in NOT_FIGURES:
                _take_words(row, column, cells[k])
            elif column.kind is not None:
                if not row.figures:
                    row.line = line
                _take_figures(row, column, cells[k], is_european([cells[k]]), place)
        counted = devices_heading(heading)
        if counted and row.figure("devices") is None:
            row.figures.append(Quantity("devices", float(counted[0]), heading, heading))
        _describe(row)
        table.rows.append(row)
    for name in unknown:
        for row in table.rows:
            if not is_nothing(row.texts.get(name, "")):
                row.not_understood[name] = row.texts.get(name, "")


def _is_value(heading: str) -> bool:
    return heading.strip().lower() in (
        "value",
        "values",
        "result",
        "results",
        "measured",
        "number",
        "actual",
        "measurement",
        "achieved",
        "",
    )


# One column for each number of devices, or for each strategy


def _read_settings(grid: Grid, table: ReportedTable, settings: dict[int, Description], place: Place) -> None:
    hint = _hinted_kind(grid)
    most = max((s.numbers.get("devices", 0) for s in settings.values()), default=0)
    distinct = {s.numbers.get("devices") for s in settings.values()}
    for line, cells in grid.rows:
        own = column_of(cells[0]) if cells else TableColumn("")
        shared = ReportedRow(place.file, line, "")
        for k, (column, cell) in enumerate(zip(table.columns, cells, strict=False)):
            if k not in settings:
                shared.texts[column.heading] = cell
                if column.kind is None or column.kind in NOT_FIGURES:
                    _take_words(shared, column, cell)
                elif column.kind not in ("speedup", "efficiency", "change"):
                    _take_figures(shared, column, cell, False, place)
        for k, said in settings.items():
            cell = cells[k] if k < len(cells) else ""
            row = ReportedRow(
                place.file, line, f"{cells[0]}, {table.columns[k].heading}", [], dict(shared.words), dict(shared.texts)
            )
            row.texts[table.columns[k].heading] = cell
            row.figures = list(shared.figures)
            row.remarks |= shared.remarks
            for word, value in {**said.words, **table.columns[k].words}.items():
                if word != "run" or "run" not in row.words:
                    row.words[word] = value
            for kind, count in said.numbers.items():
                if kind != "several device counts":
                    row.figures = [q for q in row.figures if q.kind != kind]
                    row.figures.append(Quantity(kind, float(count), table.columns[k].heading, table.columns[k].heading))
            meant = _column_for(own, hint, cell, table.columns[k].heading)
            if meant is not None:
                _take_figures(row, meant, cell, False, place)
            elif not is_nothing(cell):
                row.remarks |= remarks_of(cell)
                row.not_understood[table.columns[k].heading] = cell
            _describe(row)
            if len(distinct) == 2 and said.numbers.get("devices") == most:
                for j, ratio in enumerate(table.columns):
                    if ratio.kind in ("speedup", "efficiency", "change") and j < len(cells):
                        _take_figures(row, ratio, cells[j], False, place)
            table.rows.append(row)


def _hinted_kind(grid: Grid) -> TableColumn | None:
    """What the figures of a table are, by its first heading ("Throughput (img/s)"), its caption, or its section."""
    for text in (grid.header[0], grid.caption, *reversed(grid.section[-1:])):
        column = column_of(text)
        if column.kind in RESULTS:
            return column
        for part in re.split(r" (?:vs\.?|by|for|on|across|of|per|with) |[:,–—-]", text):
            column = column_of(part)
            if column.kind in RESULTS:
                return column
        if re.search(r"(?i)speed-?ups?\b|scalab|relative to (?:a |the )?(?:single|one|1|baseline)", text):
            return TableColumn(text, "speedup")
        if re.search(r"(?i)accurac", text):
            return TableColumn(text, "accuracy")
    return None


def _column_for(own: TableColumn, hint: TableColumn | None, cell: str, heading: str) -> TableColumn | None:
    """The quantity of a cell by the name of its row, by its unit, or by what the table is about."""
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
    return hint


def _correct_shares(table: ReportedTable) -> None:
    """Efficiency 87.5, accuracy 91.2: a share whose column has no "%" is in percent where its figures say so."""
    for kind in SHARES:
        plain = [q for row in table.rows for q in row.all_of(kind) if "%" not in q.text and "%" not in q.heading]
        by_heading: dict[str, list[Quantity]] = {}
        for quantity in plain:
            by_heading.setdefault(quantity.heading, []).append(quantity)
        for heading, quantities in by_heading.items():
            in_percent = max(q.value for q in quantities) > (4.0 if kind == "efficiency" else 1.0)
            if in_percent and "pct" not in heading.lower() and "percent" not in heading.lower():
                for quantity in quantities:
                    quantity.value /= 100
                    quantity.resolution /= 100
                    quantity.spread = None if quantity.spread is None else quantity.spread / 100
