"""The columns of a published table as arrays of intervals, whatever their headings mean."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scaleproof.auditor.read import printed_figures
from scaleproof.auditor.read.headings import DIFFERENCE
from scaleproof.auditor.read.reported_tables import ABOUT, WORDS, ReportedTable, TableColumn
from scaleproof.auditor.read.surroundings import by_own_unit
from scaleproof.auditor.read.typed_tables import columns_of

MOST_COLUMNS = 24
MOST_ROWS = 300
KINDS_OF_RATIOS = {"times": "speedup", "percent": "change"}
MODEL_SIZE = re.compile(r"(?i)(?:model )?(?:size|params?|parameters)")
UNKNOWN_UNIT = re.compile(rf"([~≈]?{printed_figures.NUMBER}) ?([A-Za-zµ]+ ?/ ?[A-Za-z]+|[QRqr][Pp][Ss])")
_DIMENSIONS = {
    "T": "time latency_s step_time_s epoch_time_s total_time_s time_s device_time_s communication_time_s "
    "compute_time_s data_time_s",
    "I/T": "rate tokens_per_s samples_per_s",
    "I": "tokens samples batch micro_batch global_batch global_batch_tokens",
    "F/T": "flops flops_per_s",
    "B": "memory memory_bytes",
    "B/T": "bandwidth bandwidth_bytes_per_s",
    "J/T": "power power_w",
    "J": "energy energy_j",
    "$/T": "price price_per_s",
    "$": "cost",
    "$/I": "cost_per_token",
    "/T": "steps_per_s",
    "": "devices nodes devices_per_node processes steps epochs accumulation seq_len percent mfu hfu utilization "
    "communication_share memory_share speedup efficiency",
}
# Kind of a figure, or dimension of a unit -> T(ime), I(tems), F(LOP), B(ytes), J(oules), $.
DIMENSIONS = {name: dimension for dimension, names in _DIMENSIONS.items() for name in names.split()}
IN_BRACKETS = ", in brackets"  # end of the heading of a column of such figures
LETTERS = "TFBJ$"  # how many items one request, step or epoch has is any number
UNIT_IN_BRACKETS = re.compile(r".*[(\[]([^()\[\]]{2,}|s|h|%)[)\]]")
DEVICE_HOURS = re.compile(r"(?i)\b(?:node|core|cpu)s?[- ]?hours?\b")
QUOTIENT = re.compile(
    rf"(?i)(?:^|[(\[ ])([a-zµ{printed_figures.MONEY}]+) ?(?:/|per) ?\d*[kmb]? ?([a-z]+)[)\]]?$"
)  # "$ per 1M tokens"
ITEM_NAMES = {name for names in printed_figures.ITEMS.values() for name in names}
FIGURES_SHARE = 0.5  # share of the filled cells of a column that must be figures

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """Intervals in which rounded figures may have been, row by row. Both arrays: (rows,), NaN without a figure."""

    low: Floats
    high: Floats

    def __mul__(self, other: "Figures") -> "Figures":
        with np.errstate(invalid="ignore"):  # 0 times infinity is no number
            return Figures(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: "Figures") -> "Figures":
        with np.errstate(divide="ignore", invalid="ignore"):
            return Figures(self.low / other.high, self.high / other.low)

    def over(self, other: "Figures") -> "Figures":
        """Divide two printed figures that were both rounded, or both cut off: 4.1 / 3.3 is 1.21 to 1.28.

        That is narrower than `/`, for which one may have been rounded up and the other cut off.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.middle / other.middle
            digit, digit_of_other = ((figures.high - figures.low) / 2 for figures in (self, other))
            # `digit`: one unit of the last digit. A rounded figure was up to half of it more or less, a cut off figure
            # up to one of it more.
            most_rounded = (self.middle + digit / 2) / (other.middle - digit_of_other / 2)
            most_cut_off = np.maximum((self.middle + digit) / other.middle, ratio * (1 + digit_of_other / other.middle))
            factor = np.maximum(most_rounded, most_cut_off) / ratio
            return Figures(ratio / factor, ratio * factor)

    def __getitem__(self, rows: Rows) -> "Figures":
        return Figures(self.low[rows], self.high[rows])

    def scaled(self, factor: float, offset: float = 0.0) -> "Figures":
        """Return factor x figures + offset; a negative factor exchanges the ends of the intervals."""
        ends = (self.low * factor + offset, self.high * factor + offset)
        return Figures(*ends) if factor > 0 else Figures(ends[1], ends[0])

    @cached_property
    def middle(self) -> Floats:
        return (self.low + self.high) / 2

    @cached_property
    def width(self) -> Floats:
        """Width of the intervals, relative to their middles."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self.high - self.low) / np.abs(self.middle)

    def distance(self, other: "Figures") -> Floats:
        """Return the gap between two intervals, relative to the smaller middle. Returns 0 where they overlap."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = np.maximum(self.low - other.high, other.low - self.high)
            return np.maximum(gap, 0.0) / np.minimum(np.abs(self.middle), np.abs(other.middle))


@dataclass(frozen=True, eq=False)  # two columns of one heading are two
class FigureColumn:
    """A column of figures in base units: what its heading means, its figures and its cells as printed.

    `position`: its index in the table; `line`, `place`: where its heading stands in the file.
    """

    meaning: TableColumn
    figures: Figures
    texts: list[str]
    position: int
    line: int
    place: str

    @property
    def heading(self) -> str:
        return self.meaning.heading

    @property
    def kind(self) -> str | None:
        return self.meaning.kind

    @cached_property
    def digits(self) -> Floats:
        """What one unit of the last printed digit of each figure is worth."""
        return (self.figures.high - self.figures.low) / 2

    @cached_property
    def as_printed(self) -> Floats:
        """The figures in the unit that they are printed in."""
        figures = map(printed_figures.figures_of, self.texts)
        return np.array([of_cell[0].value if of_cell else math.nan for of_cell in figures])

    @cached_property
    def has_decimals(self) -> bool:
        return any(re.search(r"\d\.\d", text) for text in self.texts)

    @property
    def is_model_size(self) -> bool:
        return self.kind == "parameters" or MODEL_SIZE.fullmatch(self.heading.strip()) is not None

    @cached_property
    def has_units(self) -> bool:
        """Whether its heading or one of its cells has a unit."""
        of_cells = (figure.unit for text in self.texts for figure in printed_figures.figures_of(text)[:1])
        return self.meaning.unit is not None or any(of_cells)

    def unit_of_cell(self, row: int) -> float:
        """Return what 1 in a cell is worth in the base unit: 0.001 in "12 ms"; by the heading if the cell has none."""
        figures = printed_figures.figures_of(self.texts[row])
        return figures[0].unit.scale if figures and figures[0].unit else self.meaning.scale

    @property
    def is_in_brackets(self) -> bool:
        """Whether its figures stand in brackets behind those of another column, in the same cells."""
        return self.heading.endswith(IN_BRACKETS)

    @cached_property
    def is_difference(self) -> bool:
        return DIFFERENCE.search(self.heading) is not None

    @cached_property
    def is_in_percent(self) -> bool:
        is_of_heading = "%" in self.heading or self.meaning.unit == "percent"
        return is_of_heading or any("%" in text or text.endswith("pp") for text in self.texts)


@dataclass(frozen=True)
class FigureTable:
    """The columns of figures of a table, and its other columns by heading (`words`).

    `names`, `places`: how findings name each row and its place. `is_transposed`: whether rows and columns were
    exchanged, so that a column is a row of the file. `devices`: the devices of each row; None unless all rows state it.
    """

    columns: list[FigureColumn]
    words: dict[str, list[str]]
    names: list[str]
    places: list[str]
    is_transposed: bool
    devices: Figures | None = None

    def has_unread_figures_before(self, column: FigureColumn) -> bool:
        """Whether the column left of this one has a decimal in all cells, but was not read: "49.9 s/it with AMP"."""
        read = {column.position for column in self.columns}
        others = [k for k in range(len(read) + len(self.words)) if k not in read]  # positions of `words`, in order
        texts = dict(zip(others, self.words.values(), strict=False)).get(column.position - 1, [""])
        return all(re.search(r"\d\.\d", text) for text in texts)

    @property
    def model_sizes(self) -> list[list[str]]:
        """The columns that say how large a model is, as printed."""
        return [column.texts for column in self.columns if column.is_model_size]


def groups_of(figures: FigureTable, fewest: int) -> Iterator[list[int]]:
    """Yield indices of all rows, then of each group of `fewest` or more with one word or size of model: [0, 2]."""
    all_rows = list(range(len(figures.places)))
    yield all_rows
    for texts in (*figures.words.values(), *figures.model_sizes):
        groups = {text: [i for i in all_rows if texts[i] == text] for text in dict.fromkeys(texts)}
        yield from (rows for rows in groups.values() if fewest <= len(rows) < len(all_rows))


def figure_tables(table: ReportedTable) -> Iterator[FigureTable]:
    """Yield a table as columns of figures, then transposed: its rows as columns, if it has few rows.

    Either is left out if it has no column of figures beside another column.
    """
    grid = table.grid
    if grid is None:
        return
    width = len(grid.header)
    rows = grid.rows[:MOST_ROWS]
    cells = [[*row[:width], *[""] * (width - len(row))] for _, row in rows]  # short rows are filled up
    reported_rows = {(row.line, tuple(row.texts.values())): row for row in table.rows}  # (line, cells) -> row
    # (line, its understood row, which knows its place); None instead of a row for headings between groups of rows.
    reported = [(line, reported_rows.get((line, tuple(texts)))) for line, texts in rows]
    rows_at = [(line, row.place if row else f"{table.file}:{line}") for line, row in reported]
    header_at = (grid.line, table.name)

    upright = _figure_table(grid.header[:MOST_COLUMNS], [header_at] * width, cells, rows_at)
    if upright is not None:
        devices = np.array([(row.devices if row else None) or math.nan for _, row in reported])
        yield replace(upright, devices=None if np.isnan(devices).any() else Figures(devices, devices))

    if width > 1 and 0 < len(cells) <= MOST_COLUMNS:
        # Names of rows become the headings; the first columns, which they are made of, are left out.
        names = [_row_name(row, line) for row, (line, _) in zip(cells, rows_at, strict=True)]
        if not any(map(str.isalpha, "".join(names))):
            return  # "8" names no quantity
        has_blocks = width > 2 and any(re.fullmatch("[A-Za-z]{3,}", row[1]) and row[0].isdecimal() for row in cells)
        used = 1 + has_blocks  # "4, mean" of | 4 | mean | 29.1 |
        turned = [[heading, *(row[k] for row in cells)] for k, heading in enumerate(grid.header)][used:]
        headings_at = [header_at, *rows_at]
        turned_table = _figure_table(["", *names], headings_at, turned, [header_at] * len(turned), transposed=True)
        if turned_table is not None:
            yield turned_table


Place = tuple[int, str]  # a line of the file, and how findings name it


def _figure_table(
    header: list[str], headings_at: list[Place], cells: list[list[str]], rows_at: list[Place], transposed: bool = False
) -> FigureTable | None:
    """Return a table whose columns are sorted into columns of figures ("GPUs": 1, 4) and columns of words.

    Returns None unless a column of figures stands beside another column. `headings_at`, `rows_at`: where each heading
    and each row of `cells` stands in the file.
    """
    columns, words = [], {}
    in_brackets: list[FigureColumn] = []
    for k, (heading, column) in enumerate(zip(header, columns_of(header, cells), strict=True)):
        texts = [row[k] for row in cells]
        bare = _without_unknown_unit(texts)
        meaning = meaning_of(column, bare)
        figures = _figures(bare, meaning.scale)
        filled = sum(not printed_figures.is_nothing(text) for text in texts)
        if np.isfinite(figures.low).sum() > FIGURES_SHARE * max(filled, 1):
            columns.append(FigureColumn(meaning, figures, texts, k, *headings_at[k]))
            in_brackets += _column_in_brackets(columns[-1])
        else:
            words[heading or f"column {k}"] = texts

    columns += in_brackets
    if not columns or len(columns) + len(words) < 2:
        return None
    names = [_row_name(row, line) for row, (line, _) in zip(cells, rows_at, strict=True)]
    return FigureTable(columns, words, names, [place for _, place in rows_at], is_transposed=transposed)


def _without_unknown_unit(texts: list[str]) -> list[str]:
    """Return cells without their unit where it is the same in all and is no known one: "12 req/s" -> "12"."""
    with_unit = [UNKNOWN_UNIT.fullmatch(text) for text in texts if not printed_figures.is_nothing(text)]
    if not all(with_unit) or len({m[2] for m in with_unit if m}) != 1 or any(map(printed_figures.figures_of, texts)):
        return texts
    return [m[1] if (m := UNKNOWN_UNIT.fullmatch(text)) else text for text in texts]


def _column_in_brackets(column: FigureColumn) -> list[FigureColumn]:
    """Return a list of one column, of the figures in brackets: 1.5, 1.9 times for "61.8 (1.50x)", "27.4 (1.90x)".

    [] where fewer than two cells have a figure in brackets, or the units of these differ or are unknown.
    """
    of_cells = [printed_figures.figures_of(text) for text in column.texts]  # a second figure is one in brackets
    in_brackets = [figures[1] if len(figures) > 1 else None for figures in of_cells]
    units = {figure.unit for figure in in_brackets if figure is not None}
    texts = [figure.text if figure else "" for figure in in_brackets]
    unit = units.pop() if len(units) == 1 and sum(map(bool, texts)) > 1 else None
    kind = (printed_figures.KINDS_OF_UNITS | KINDS_OF_RATIOS).get(unit.dimension) if unit else None
    if unit is None or kind is None:
        return []
    meaning = TableColumn(column.heading + IN_BRACKETS, kind, unit.scale, unit.dimension, item=unit.item)
    place = (column.position, column.line, column.place)
    return [FigureColumn(meaning, _figures(texts, unit.scale), texts, *place)]


def meaning_of(meaning: TableColumn, texts: list[str]) -> TableColumn:
    """Return the meaning of a column with its kind, by its heading and the units of its cells; kind None if unknown.

    The first of: the kind that the unit of the cells turns the heading's kind into, the kind of the heading, of the
    unit in the heading ("Foo (ms)"), of the unit of the cells.
    """
    first_figures = [figures[0] for text in texts if (figures := printed_figures.figures_of(text))]
    units = {figure.unit.dimension if figure.unit else "" for figure in first_figures}
    unit_of_cells = next(iter(units)) if len(units) == 1 else ""
    if kind := printed_figures.OTHER_KINDS.get((meaning.kind or "", unit_of_cells)):
        return replace(meaning, kind=kind)
    units_of_kind = printed_figures.KINDS.get(meaning.kind or "", printed_figures.PLAIN).printed_in
    if unit_of_cells == "times" and "times" not in units_of_kind:
        return replace(meaning, kind=None)  # "Relative cost": 1.14x
    if meaning.kind in WORDS and unit_of_cells:
        meaning = replace(meaning, kind=None)  # "Our platform": $15,552
    if meaning.kind in (None, "step", "epoch", *WORDS):
        meaning = by_own_unit(meaning)
    return replace(meaning, kind=meaning.kind or printed_figures.KINDS_OF_UNITS.get(unit_of_cells))


def _row_name(cells: list[str], line: int) -> str:
    """Return what a row is called: its first cells up to one with a letter, "4, DDP" of | 4 | DDP | 390 |."""
    first = next((k for k, cell in enumerate(cells[:4]) if re.search(r"[A-Za-z]", cell)), 0)
    return ", ".join(cell for cell in cells[: first + 1] if cell)[:60] or f"line {line}"


def _figures(texts: list[str], scale_of_heading: float) -> Figures:
    """Read the figures of cells in the base unit, give or take one unit of the last digit: "4.8" is 4.7 to 4.9.

    NaN for cells without a figure, and for bounds such as "< 5"; "~ 5" is wider by ABOUT.
    """
    european = printed_figures.is_european(texts)
    of_cells = [printed_figures.figures_of(text, european)[:1] for text in texts]
    units = {figure.unit for figures in of_cells for figure in figures if figure.unit is not None}
    # "30.4 ms" above 39.0 and 47.3: all are of its unit.
    only_unit = units.pop() if len(units) == 1 and scale_of_heading == 1 else None
    scale = only_unit.scale if only_unit and only_unit.dimension not in KINDS_OF_RATIOS else scale_of_heading
    low, high = np.full(len(texts), np.nan), np.full(len(texts), np.nan)
    for i, figures in enumerate(of_cells):
        if figures and figures[0].bound in (None, "~"):
            value, unit = figures[0].value, figures[0].unit
            width = max(figures[0].resolution, ABOUT * abs(value) if figures[0].bound else 0.0)
            factor = unit.scale if unit is not None else scale
            low[i], high[i] = (value - width) * factor, (value + width) * factor
    return Figures(low, high)


def dimension_of(column: FigureColumn) -> list[float]:
    """Return the exponents of LETTERS, the base units, in the unit of a column: [1, 0, -1, 0, 0] of s/B, time per byte.

    Items are no base unit: tokens/s is [-1, 0, 0, 0, 0]. All are NaN where the unit is unknown.
    """
    dimension = _dimension_text(column)
    if dimension is None:
        return [np.nan] * len(LETTERS)
    above, _, below = dimension.partition("/")
    return [float((letter in above) - (letter in below)) for letter in LETTERS]


def _dimension_text(column: FigureColumn) -> str | None:
    """Return the unit of a column in LETTERS, as "T" of hours or "I/T" of tokens/s. "" is a plain number, None unknown.

    What is known of the column counts before the words of its heading.
    """
    if column.is_in_percent:
        return ""
    if column.kind is not None:
        return DIMENSIONS.get(column.kind)
    if DEVICE_HOURS.search(column.heading):
        return "T"
    # The unit in brackets, "ms" of "Foo (ms)"; without brackets the whole heading may be one: "tokens/s".
    unit = printed_figures.unit_of(UNIT_IN_BRACKETS.sub(r"\1", column.heading))
    if unit is not None and unit.dimension in DIMENSIONS:
        return DIMENSIONS[unit.dimension]

    quotient = QUOTIENT.search(column.heading)  # "joules per token": a unit per item
    if quotient is None or quotient[2].lower() not in ITEM_NAMES:
        return None
    unit_per_item = printed_figures.unit_of(quotient[1])
    if unit_per_item is None or unit_per_item.dimension not in DIMENSIONS:
        return None
    return f"{DIMENSIONS[unit_per_item.dimension]}/I"
