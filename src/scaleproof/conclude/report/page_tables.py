"""Tables of the page: each figure with its way back to the files that it was computed from; its terms explained."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pandas as pd

from scaleproof.conclude.report.page_facts import PageInputs
from scaleproof.conclude.report.read_results import row_dicts
from scaleproof.conclude.report.tables.cells import cell_texts, scaling_rows, split_constant
from scaleproof.conclude.report.tables.scaling import HEADINGS, series_texts
from scaleproof.ground.columns import CELLS_TABLE, COLUMNS, CONFIGURED, MAIN, SERIES_FIGURES
from scaleproof.ground.number_format import estimate, fixed, is_useless, number, significant, span_text
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingReport
from scaleproof.ground.records.traces_report import CellTrace
from scaleproof.ground.words import LEARNT, MEASURED, NAME_PARTS, PAIRS, PART, TRACED

FILES_ONLY = ("kind", "perplexity", "startup_s")  # columns that the page does not have


@dataclass(frozen=True)
class PageColumn:
    """A column. `key`: the quantity, for its definition. `first`: visible before the reader asks for all columns."""

    key: str
    label: str
    numeric: bool
    first: bool = True

    @property
    def definition(self) -> str:
        return COLUMNS[self.key].definition


@dataclass(frozen=True)
class PageFigure:
    """One entry of a table.

    `id`: what `scaleproof why` takes; "" for words. `order`: by what the column can be sorted. `tip`: the unrounded
    value, n, interval. `undecided`: the interval of a ratio contains 1.
    """

    text: str
    id: str = ""
    order: float | None = None
    tip: str = ""
    source: str = ""
    undecided: bool = False


@dataclass(frozen=True)
class PageRow:
    """A cell, the codes of its findings, and the figures of the other columns."""

    cell: str
    findings: list[str]
    figures: list[PageFigure]


@dataclass(frozen=True)
class PageTable:
    """A table. `columns`: all after cell and findings. `constant`: (heading, value) of left-out columns."""

    name: str
    columns: list[PageColumn]
    rows: list[PageRow]
    constant: list[tuple[str, str]]

    @property
    def hidden(self) -> int:
        return sum(not column.first for column in self.columns)

    def shared_codes(self, severities: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Return the codes that all rows have, alike severe; [] for a single row. `severities`: cell -> its codes'."""
        if len(self.rows) < 2:
            return []
        codes_of_rows = [set(severities.get(row.cell, {}).items()) for row in self.rows]
        return [code for code, _ in sorted(set.intersection(*codes_of_rows))]


def cells_view(cells: pd.DataFrame, report: ScalingReport) -> PageTable:
    """Return the table of all cells, the main figures first."""
    rows_of_cells = scaling_rows(cells, report)
    texts_of_cells, constants = split_constant(cell_texts(rows_of_cells))
    columns = []
    for key in dict.fromkeys((*MAIN, *CELLS_TABLE)):
        column = COLUMNS[key]
        if key not in ("findings", *FILES_ONLY) and column.heading in texts_of_cells.columns:
            columns.append(PageColumn(key, column.heading, numeric=not column.is_text, first=key in MAIN))
    rows = []
    for row, texts in zip(row_dicts(rows_of_cells), texts_of_cells.to_dict("records"), strict=True):
        figures = [_cell_entry(row, column.key, texts[column.label]) for column in columns]
        rows.append(PageRow(row["cell"], row["findings"].split(), figures))
    return PageTable("cells", columns, rows, constants)


def _cell_entry(row: dict[str, Any], key: str, text: str) -> PageFigure:
    """Return one entry of the table of cells: the figure of `row` in column `key`, printed as `text`.

    A figure that was measured has an id, by which `scaleproof why` explains it, and a tip. `row`: of `scaling_rows`.
    """
    column = COLUMNS[key]
    value = row.get(key)
    is_number = isinstance(value, float | int)
    is_measured = not column.is_text and key not in CONFIGURED and key != "n"
    # Words and settings have neither id nor tip; settings that are numbers can be sorted.
    if value is None or not is_number or not is_measured or text == "–":
        order = float(value) if value is not None and is_number and not isinstance(value, bool) else None
        return PageFigure(text, order=order)

    low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
    is_compared_with_one = column.group == "ratio" and key != "scaling_efficiency"
    has_interval_around_one = low is not None and high is not None and bool(low <= 1 <= high)
    return PageFigure(
        text=text,
        id=f"cells/{row['cell']}/{key}",
        order=value,
        tip=interval_tip(value, low, high, row.get(f"{key}_n") or row["n"], column.factor),
        source=row["cell"],
        undecided=is_compared_with_one and has_interval_around_one,
    )


def interval_tip(value: float, low: float | None, high: float | None, n: float, factor: float = 1) -> str:
    """Return a figure with seven digits, its interval, and n: "1.620724 (1.197642-2.193264), n=3".

    `factor`: from the unit of the file to the unit of the table, 1000 for seconds in ms.
    """
    text, n_text = significant(value * factor, 7), f"n={fixed(n, 0)}"
    if low is None or high is None:
        return f"{text}, {n_text}"
    if is_useless(low, high, n):
        return f"{text}, {n_text}: interval too wide to print"
    return f"{text} ({span_text(significant(low * factor, 7), significant(high * factor, 7))}), {n_text}"


def series_view(report: ScalingReport, kind: str) -> PageTable:
    """Return the table of scaling of a `kind`, strong or weak: one row per size of a series."""
    texts_of_points = series_texts(report, kind)
    # Heading -> key of the quantity in COLUMNS.
    keys = {label: HEADINGS[label] for label in texts_of_points.columns if label not in ("series", "findings")}
    columns = []
    for key in keys.values():
        column = COLUMNS[key]
        is_first = key != "karp_flatt"  # hidden until the reader asks for all columns
        columns.append(PageColumn(key, column.series_heading, numeric=not column.is_text, first=is_first))
    points = [point for series in report.series if series.kind == kind for point in series.points]
    rows = []
    for point, texts in zip(points, texts_of_points.to_dict("records"), strict=True):
        figures = [_series_entry(point, key, texts[label]) for label, key in keys.items()]
        rows.append(PageRow(point.cell, list(dict.fromkeys(point.findings)), figures))
    return PageTable(kind, columns, rows, [])


def _series_entry(point: ScalingPoint, quantity: str, text: str) -> PageFigure:
    """Return one entry of a table of scaling, in the column `quantity`, printed as `text`."""
    figure = point.figure(quantity) if quantity in SERIES_FIGURES else None
    if not figure:
        return PageFigure(text, order=float(text) if text.isdigit() else None)
    return series_figure(point, quantity, figure, text)


def series_figure(point: ScalingPoint, quantity: str, value: Estimated, text: str = "") -> PageFigure:
    """Return the `quantity` of a point of a series as an entry of a table, printed as `text`, by default as a ratio."""
    name = COLUMNS[quantity].figure or quantity  # as `scaleproof why` calls it
    return PageFigure(
        text=text or estimate(value),
        id=f"cells/{point.cell}/{name}",
        order=value.value,
        tip=interval_tip(value.value, value.low, value.high, value.n),
        source=point.cell,
        undecided=quantity.startswith("speedup") and value.spans(),  # of speed-ups alone 1 means no difference
    )


Terms = list[tuple[str, str]]


def terms_of_page(inputs: PageInputs) -> Terms:
    """Return (word, definition) of the words that the page uses, the parts of its cells' names first."""
    names = list(inputs.cells["cell"])
    for comparison in inputs.comparisons:
        names += [comparison.a, comparison.b]
    definitions = {"cell": _term_of_cell(names)} | MEASURED
    if inputs.comparisons:
        definitions |= PAIRS
    if inputs.traces or inputs.waterfall:
        definitions |= TRACED
    if inputs.cells["validation_loss"].notna().any():
        definitions |= LEARNT
    return list(definitions.items())


def defined_columns(tables: Iterable[PageTable]) -> Terms:
    """Return (label, definition) of the columns of `tables` that have a definition, each label once."""
    columns = chain.from_iterable(table.columns for table in tables)
    return list({column.label: column.definition for column in columns if column.definition}.items())


def _term_of_cell(names: list[str]) -> str:
    """Return what a cell is, with the parts that these `names` of cells have: "n1x2 (nodes x devices per node)"."""
    examples: dict[str, str] = {}  # prefix -> the first part with it, such as n1x2
    for name in names:
        for part in name.split("-"):
            match = PART.fullmatch(part)
            if match and match[1] in NAME_PARTS:
                examples.setdefault(match[1], part)
    parts = [f"{examples[prefix]} ({text})" for prefix, text in NAME_PARTS.items() if prefix in examples]
    return f"One configuration of the campaign, named after the keys that differ: {', '.join(['strategy', *parts])}."


# Column -> entry of traces.json, milliseconds per step and rank.
TRACE_PARTS = {
    "step": "wall_ms",
    "computing": "compute_ms",
    "exposed communication": "exposed_ms",
    "exposed waiting": "exposed_wait_ms",
    "idle": "idle_ms",
    "all communication": "communication_ms",
    "all waiting": "wait_ms",
}


def trace_row(trace: CellTrace) -> dict[str, str]:
    """Return the row of a trace: heading -> text; "unknown" for a figure that it does not support."""
    row = {"cell": trace.cell, "traced with": trace.tool or "unknown", "steps": str(trace.steps or "unknown")}
    for name, field in TRACE_PARTS.items():
        ms = getattr(trace, field)
        row[f"{name} (ms)"] = "unknown" if ms is None else number(ms)
    row["traced / untraced"] = estimate(trace.overhead) if trace.overhead else "unknown"
    row["file"] = trace.file
    return row
