"""The columns of a published table as arrays of intervals, whatever their headings mean; means and totals of them."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, geometric_mean, harmonic_mean, median

import numpy as np
import numpy.typing as npt

from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, AuditContext
from scaleproof.auditor.read.headings import column_of, columns_of
from scaleproof.auditor.read.printed_figures import figures_of, is_european, is_nothing
from scaleproof.auditor.read.reported_tables import ABOUT, ReportedTable, TableColumn
from scaleproof.auditor.read.row_figures import by_own_unit
from scaleproof.auditor.read.surroundings import last_repeats
from scaleproof.auditor.read.units import KINDS_OF_UNITS, OTHER_KINDS
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag

MOST_COLUMNS = 24
MOST_ROWS = 300
KINDS_OF_RATIOS = {"times": "speedup", "percent": "change"}
MODEL_SIZE = re.compile(r"(?i)(?:model )?(?:size|params?|parameters)")
FIGURES_SHARE = 0.5  # share of the filled cells of a column that must be figures

Rows = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """What printed figures may have been, row by row. Both arrays: (rows,), NaN where a row has no figure."""

    low: Floats
    high: Floats

    def __mul__(self, other: "Figures") -> "Figures":
        return Figures(self.low * other.low, self.high * other.high)

    def __truediv__(self, other: "Figures") -> "Figures":
        with np.errstate(divide="ignore", invalid="ignore"):
            return Figures(self.low / other.high, self.high / other.low)

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(self.low + other.low, self.high + other.high)

    def __getitem__(self, rows: Rows) -> "Figures":
        return Figures(self.low[rows], self.high[rows])

    def scaled(self, factor: float, offset: float = 0.0) -> "Figures":
        """factor x figures + offset; a negative factor turns the intervals round."""
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
        """By how much, relative to their size, the nearest values of two intervals differ; 0 where they overlap."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = np.maximum(self.low - other.high, other.low - self.high)
            return np.maximum(gap, 0.0) / np.minimum(np.abs(self.middle), np.abs(other.middle))


@dataclass(frozen=True)
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

    @property
    def has_decimals(self) -> bool:
        return any(re.search(r"\d\.\d", text) for text in self.texts)

    @property
    def is_model_size(self) -> bool:
        return self.kind == "parameters" or MODEL_SIZE.fullmatch(self.heading.strip()) is not None

    def unit_of_cell(self, row: int) -> float:
        """What 1 of a cell is worth in the base unit: 0.001 of "12 ms"."""
        figures = figures_of(self.texts[row])
        return figures[0].unit.scale if figures and figures[0].unit else self.meaning.scale

    @property
    def is_in_percent(self) -> bool:
        return "%" in self.heading or any("%" in text for text in self.texts)


@dataclass(frozen=True)
class FigureTable:
    """Columns of figures, the other columns by heading (`words`), and what the rows are called.

    `names` and `places` are those of the rows, as findings name them. `on_side`: whether its columns are the
    rows of the table in the file. `devices`: of the rows, where all state a number ("8x V100"); else None.
    """

    columns: list[FigureColumn]
    words: dict[str, list[str]]
    names: list[str]
    places: list[str]
    on_side: bool
    devices: Figures | None = None

    @property
    def model_sizes(self) -> list[list[str]]:
        """The columns that say how large a model is, as printed."""
        return [column.texts for column in self.columns if column.is_model_size]


def groups_of(figures: FigureTable, fewest: int) -> Iterator[list[int]]:
    """All rows, and the groups of `fewest` and more that have one word, or one size of the model, in common."""
    all_rows = list(range(len(figures.places)))
    yield all_rows
    for texts in (*figures.words.values(), *figures.model_sizes):
        groups = {text: [i for i in all_rows if texts[i] == text] for text in dict.fromkeys(texts)}
        yield from (rows for rows in groups.values() if fewest <= len(rows) < len(all_rows))


def figure_tables(table: ReportedTable) -> Iterator[FigureTable]:
    """The columns of figures of a table, and of the same table on its side; neither with fewer than two.

    Example: | GPUs | 1 | 4 | above | time (s) | 90 | 24 | -> columns "1" and "4"; on its side "" (1, 4) and "time (s)".
    """
    grid = table.grid
    if grid is None:
        return
    width = len(grid.header)
    rows = grid.rows[:MOST_ROWS]
    cells = [[*row[:width], *[""] * (width - len(row))] for _, row in rows]
    reported_rows = {(row.line, tuple(row.texts.values())): row for row in table.rows}
    reported = [(line, reported_rows.get((line, tuple(texts)))) for line, texts in rows]  # None: between two groups
    rows_at = [(line, row.place if row else f"{table.file}:{line}") for line, row in reported]
    header_at = (grid.line, table.name)

    upright = _figure_table(grid.header[:MOST_COLUMNS], [header_at] * width, cells, rows_at)
    if upright is not None:
        counts = np.array([(row.devices if row else None) or math.nan for _, row in reported])
        yield replace(upright, devices=None if np.isnan(counts).any() else Figures(counts, counts))

    if width > 1 and 0 < len(cells) <= MOST_COLUMNS:
        headings = [_row_name(row, line) for row, (line, _) in zip(cells, rows_at, strict=True)]
        turned = [[heading, *(row[k] for row in cells)] for k, heading in enumerate(grid.header)][1:]
        on_side = _figure_table(["", *headings], [header_at, *rows_at], turned, [header_at] * (width - 1), on_side=True)
        if on_side is not None:
            yield on_side


Place = tuple[int, str]  # a line of the file, and how findings name it


def _figure_table(
    header: list[str], headings_at: list[Place], cells: list[list[str]], rows_at: list[Place], on_side: bool = False
) -> FigureTable | None:
    """The columns of a grid of cells: "GPUs" 1, 4 and "time" 90, 24; None where fewer than two have figures."""
    columns, words, in_brackets = [], {}, []
    for k, (heading, column) in enumerate(zip(header, columns_of(header, cells), strict=True)):
        texts = [row[k] for row in cells]
        meaning = meaning_of(column, texts)
        figures = _figures(texts, meaning.scale)
        filled = sum(not is_nothing(text) for text in texts)
        if np.isfinite(figures.low).sum() > FIGURES_SHARE * max(filled, 1):
            columns.append(FigureColumn(meaning, figures, texts, k, *headings_at[k]))
            in_brackets += _column_in_brackets(columns[-1])
        else:
            words[heading or f"column {k}"] = texts
    columns += in_brackets
    if len(columns) < 2:
        return None
    names = [_row_name(row, line) for row, (line, _) in zip(cells, rows_at, strict=True)]
    return FigureTable(columns, words, names, [place for _, place in rows_at], on_side)


def _column_in_brackets(column: FigureColumn) -> list[FigureColumn]:
    """The column that figures in brackets form: 1.5, 1.9 times of "61.8 (1.50x)", "27.4 (1.90x)". [] without two."""
    seconds = [figures[1] if len(figures := figures_of(text)) > 1 else None for text in column.texts]
    units = {second.unit for second in seconds if second is not None}
    texts = [second.text if second else "" for second in seconds]
    unit = units.pop() if len(units) == 1 and sum(map(bool, texts)) > 1 else None
    kind = (KINDS_OF_UNITS | KINDS_OF_RATIOS).get(unit.dimension) if unit else None
    if unit is None or kind is None:
        return []
    meaning = TableColumn(f"{column.heading}, in brackets", kind, unit.scale, unit.dimension, item=unit.item)
    figures = _figures(texts, unit.scale)
    return [FigureColumn(meaning, figures, texts, column.position, column.line, column.place)]


def meaning_of(meaning: TableColumn, texts: list[str]) -> TableColumn:
    """What a column is by the `meaning` of its heading, unless all units of its cells contradict that.

    Where the heading is not understood, or means a setting, by its own unit: "Foo (ms)" is a time.
    """
    units = {figures[0].unit.dimension if figures[0].unit else "" for text in texts if (figures := figures_of(text))}
    unit_of_cells = next(iter(units)) if len(units) == 1 else ""
    if kind := OTHER_KINDS.get((meaning.kind or "", unit_of_cells)):
        return replace(meaning, kind=kind)
    return by_own_unit(meaning) if meaning.kind in (None, "step", "epoch", "run", "strategy") else meaning


def _row_name(cells: list[str], line: int) -> str:
    """What a row is called: its first cells up to one with a letter; "4, DDP" of | 4 | DDP | 390 |."""
    first = next((k for k, cell in enumerate(cells[:4]) if re.search(r"[A-Za-z]", cell)), 0)
    return ", ".join(cell for cell in cells[: first + 1] if cell)[:60] or f"line {line}"


def _figures(texts: list[str], scale_of_heading: float) -> Figures:
    """The figures of cells in the base unit, give or take one unit of the last digit: 4.7 to 4.9 of "4.8"."""
    european = is_european(texts)
    low, high = np.full(len(texts), np.nan), np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        figures = figures_of(text, european)
        if figures and figures[0].bound in (None, "~"):
            value, unit = figures[0].value, figures[0].unit
            width = max(figures[0].resolution, ABOUT * abs(value) if figures[0].bound else 0.0)
            factor = unit.scale if unit is not None else scale_of_heading
            low[i], high[i] = (value - width) * factor, (value + width) * factor
    return Figures(low, high)


SUMMARY = re.compile(
    r"(?i)(?:overall |grand |arithmetic |geometric |geo\. ?|harmonic )?"
    r"(?:(?P<mean>avg\.?|average|mean|median|geomean|平均)|(?P<total>total|sum|总计|合计))"
    r"(?: (?:of|over|across) .{1,30}| ?\([^)]{1,30}\)|"
    r" (?:time|throughput|speed|rate|latency|speed-?up|memory|cost|(?:step|epoch) time)(?: ?\([^)]{1,30}\))?| ?± ?\w+)?"
)
ADDED_UP = ("cost", "energy_j", "device_time_s")  # kinds of which a total is no less than the sum of its parts
SAME_SIZE_FACTOR = 3.0  # beyond which a figure is of something else
ROUNDING_TOLERANCE = 0.005  # relative difference of a mean or total that is right
MEAN_TOLERANCE = 0.02  # relative difference from every mean that shows that it is none
FEWEST_PARTS = 2  # of a mean or total
FEWEST_SHARES = 3  # of a sum of shares, and rows of them
ALL_PERCENT = 100.0
LISTED_PARTS = 6  # that a sentence lists
# Ends of kinds of figures.
NEVER_SUMMED = (
    *("_per_s", "rate", "mfu", "hfu", "utilization", "speedup", "efficiency"),
    *("accuracy", "loss", "perplexity"),
)
NEVER_AVERAGED = ("devices", "nodes", "batch", "steps", "epochs", "step", "epoch", "seq_len", "samples", "tokens")
KINDS_OF_MEAN: tuple[Callable[[list[float]], float], ...] = (fmean, median, geometric_mean, harmonic_mean)


@dataclass(frozen=True)
class Summary:
    """One figure of `column` that is called the mean or the total of those of `parts`, in the same row."""

    row: int
    name: str
    column: FigureColumn
    parts: list[FigureColumn]
    is_total: bool

    @property
    def stated(self) -> tuple[float, float]:
        """The lowest and the highest value that it may be."""
        figures = self.column.figures
        return float(figures.low[self.row]), float(figures.high[self.row])

    @property
    def values(self) -> list[float]:
        return [float(part.figures.middle[self.row]) for part in self.parts]

    def is_near(self, value: float, relative: float = ROUNDING_TOLERANCE) -> bool:
        low, high = self.stated
        return low * (1 - relative) <= value <= high * (1 + relative)

    @property
    def right(self) -> float:
        return sum(self.values) if self.is_total else fmean(self.values)

    @property
    def is_impossible(self) -> bool:
        """Whether no mean and no total of these parts can be as small or as large."""
        low, high = self.stated
        if not 1 / SAME_SIZE_FACTOR < (low + high) / 2 / self.right < SAME_SIZE_FACTOR:
            return False
        lows = [float(part.figures.low[self.row]) for part in self.parts]
        highs = [float(part.figures.high[self.row]) for part in self.parts]
        if self.is_total:
            least = sum(lows) if self.column.kind in ADDED_UP else max(lows)
            return high < least * (1 - ROUNDING_TOLERANCE)
        return high < min(lows) * (1 - ROUNDING_TOLERANCE) or low > max(highs) * (1 + ROUNDING_TOLERANCE)

    @property
    def is_total_or_mean(self) -> bool:
        """Whether it is the total, or a mean of any kind."""
        means = [self.right] if self.is_total else [mean(self.values) for mean in KINDS_OF_MEAN]
        return any(self.is_near(value, MEAN_TOLERANCE) for value in means)

    @property
    def is_mean_of_most(self) -> bool:
        """Whether it is the mean without the first, as of a warm-up, or without the extremes."""
        in_order = sorted(self.values)
        most = (self.values[1:], in_order[1:], in_order[:-1], in_order[1:-1])
        return any(self.is_near(fmean(values)) for values in most if values)


def summaries_follow(context: AuditContext) -> Iterator[Flag]:
    """Flag wrong means and totals of the rows above or the columns before them, and shares that do not add up."""
    for table in context.evidence.tables:
        if table.cut_off:
            continue  # its totals are of rows that were not read
        for figures in figure_tables(table):
            if not figures.on_side:
                yield from _shares_not_adding_up(figures)
            for k, column in enumerate(figures.columns):
                yield from _wrong_summaries(figures, k, column)


def _shares_not_adding_up(figures: FigureTable) -> Iterator[Flag]:
    """Flag rows whose shares do not add up to 100 %, where those of most rows do: 60 + 30 + 20 %."""
    in_percent = (column for column in figures.columns if column.is_in_percent)
    shares = [column for column in in_percent if column.kind not in ("speedup", "efficiency", "change")]
    sums = [sum(_figure_of(column.texts[i]) for column in shares) for i in range(len(figures.places))]
    right = sum(abs(total - ALL_PERCENT) <= len(shares) / 2 for total in sums)
    if len(shares) < FEWEST_SHARES or len(sums) < FEWEST_SHARES or right < ROWS_PER_ODD_ROW * (len(sums) - right):
        return
    for i, total in enumerate(sums):
        if abs(total - ALL_PERCENT) > MEAN_TOLERANCE * ALL_PERCENT + len(shares) / 2:
            parts = " + ".join(column.texts[i] for column in shares)
            yield Flag(f"{figures.names[i]}: {parts} is {total:.4g} %, in all other rows 100 %", [figures.places[i]])


def _figure_of(text: str) -> float:
    """The one figure of a cell as it is printed; NaN where there is none."""
    figures = figures_of(text)
    return figures[0].value if len(figures) == 1 else math.nan


def _wrong_summaries(figures: FigureTable, k: int, column: FigureColumn) -> Iterator[Flag]:
    """Flag wrong figures of a column of means or totals (on its side, a row): of 2, 4, 6 and 3, 5, 7 means 4 and 9."""
    match = SUMMARY.fullmatch(column.heading.strip(" *_:"))
    if match is None:
        return
    parts, is_total = _parts_of_summary(figures.columns, k, figures.on_side, -1), match["total"] is not None
    if is_total and len(parts) < FEWEST_PARTS:
        parts = _parts_of_summary(figures.columns, k, figures.on_side, 1)
    repeats = 0 if is_total else last_repeats([part.heading for part in parts])
    parts = parts[-repeats:]
    summaries = [
        Summary(i, name, column, parts, is_total)
        for i, name in enumerate(figures.names)
        if len(parts) >= FEWEST_PARTS
        and column.figures.low[i] > 0
        and all((middle := float(part.figures.middle[i])) > 0 or (is_total and middle == 0) for part in parts)
    ]
    summaries = [summary for summary in summaries if _can_be_summed_up(summary, figures)]
    right = sum(summary.is_near(summary.right) for summary in summaries)
    for summary in summaries:
        is_shown = right and len(parts) + right > FEWEST_PARTS + 1  # what the others are
        is_shown = is_shown or (repeats > 0 and not summary.is_mean_of_most)
        if (summary.is_impossible and (right or figures.on_side)) or (is_shown and not summary.is_total_or_mean):
            yield _wrong_summary(figures, summary, corrected=bool(right) or not summary.is_total)


def _parts_of_summary(columns: list[FigureColumn], k: int, on_side: bool, step: int) -> list[FigureColumn]:
    """The columns right before the k-th (`step` -1), or behind it (1), up to another summary: A, B of A, B, total.

    Of an upright table those of one unit.
    """
    parts: list[FigureColumn] = []
    last = columns[k]
    for column in columns[k + step :: step] if k + step >= 0 else []:
        ends = {(part.kind or "")[-6:] for part in (column, *parts[:1])}  # "time_s": the times of phases are added up
        has_same_unit = on_side or len(ends - {""}) <= 1  # "Total" alone is of what is before it
        if SUMMARY.fullmatch(column.heading.strip(" *_:")) or not has_same_unit:
            break
        if column.position != last.position + step or (on_side and column.line != last.line + step):
            return []  # there are rows between that were not read
        parts.append(column)
        last = column
    return parts[::step]


def _can_be_summed_up(summary: Summary, figures: FigureTable) -> bool:
    """Whether figures of this kind are added up, or averaged: no total of rates, no mean of devices."""
    kind = column_of(summary.name if figures.on_side else summary.column.heading).kind or ""
    if summary.is_total and "%" in summary.column.texts[summary.row] and not summary.is_near(1.0):
        return False  # savings and changes have no total
    return not kind.endswith(NEVER_SUMMED if summary.is_total else NEVER_AVERAGED)


def _wrong_summary(figures: FigureTable, summary: Summary, corrected: bool) -> Flag:
    """Flag "4.5 is given as the mean of 2, 4, 6". `corrected`: whether it is known which mean or total is meant."""
    row, column = summary.row, summary.column
    listed = ", ".join(part.texts[row] for part in summary.parts[:LISTED_PARTS])
    more = ", ..." if len(summary.parts) > LISTED_PARTS else ""
    what = f"{'the total' if summary.is_total else 'the mean'} of {listed}{more}"
    name, heading = (column.heading, summary.name) if figures.on_side else (summary.name, column.heading)
    place = column.place if figures.on_side else figures.places[row]
    right = figures_of(column.texts[row])[0].value * summary.right / float(column.figures.middle[row])
    correction = Correction(value=float(f"{right:.5g}"), unit="", derivation=what)
    evidence = f"{name}: {heading} {column.texts[row]} is given as {what}"
    return Flag(evidence, [place], corrected=correction if corrected else None)
