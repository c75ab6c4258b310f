"""The columns of a published table as arrays of intervals, whatever their headings mean; means and totals of them."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, geometric_mean, harmonic_mean, median

import numpy as np
import numpy.typing as npt

from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.read.headings import column_of, columns_of
from scaleproof.auditor.read.printed_figures import figures_of, is_european, is_nothing
from scaleproof.auditor.read.reported_tables import ABOUT, ReportedTable, TableColumn
from scaleproof.auditor.read.units import KINDS_OF_UNITS, OTHER_KINDS, unit_of
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag

MOST_COLUMNS = 24
MOST_ROWS = 300
MODEL_SIZE = re.compile(r"(?i)(?:model )?(?:size|params?|parameters)")
FEWEST_FILLED = 0.5  # share of the cells of a column that must be figures

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

    def larger_of(self, other: "Figures") -> "Figures":
        """Row by row the one whose middle is larger."""
        is_own = self.middle >= other.middle
        return Figures(np.where(is_own, self.low, other.low), np.where(is_own, self.high, other.high))

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
    def is_in_percent(self) -> bool:
        return "%" in self.heading or any("%" in text for text in self.texts)


@dataclass(frozen=True)
class FigureTable:
    """Columns of figures, the other columns, and what the rows are called.

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
        return [c.texts for c in self.columns if c.kind == "parameters" or MODEL_SIZE.fullmatch(c.heading.strip())]


def groups_of(figures: FigureTable, fewest: int) -> Iterator[list[int]]:
    """All rows, and those that have one word, or one size of the model, in common, if they are so many."""
    everything = list(range(len(figures.places)))
    yield everything
    for texts in (*figures.words.values(), *figures.model_sizes):
        groups = {text: [i for i in everything if texts[i] == text] for text in dict.fromkeys(texts)}
        yield from (rows for rows in groups.values() if fewest <= len(rows) < len(everything))


def figure_tables(table: ReportedTable) -> Iterator[FigureTable]:
    """The columns of figures of a table, and of the same table on its side; none where there are fewer than two."""
    grid = table.grid
    if grid is None:
        return
    width = len(grid.header)
    rows = grid.rows[:MOST_ROWS]
    cells = [[*row[:width], *[""] * (width - len(row))] for _, row in rows]
    known = {(row.line, tuple(row.texts.values())): row for row in table.rows}
    reported = [(line, known.get((line, tuple(texts)))) for line, texts in rows]  # no row of a line between groups
    at = [(line, row.place if row else f"{table.file}:{line}") for line, row in reported]
    counts = [(row.devices if row else None) or math.nan for _, row in reported]
    devices = Figures(np.array(counts), np.array(counts))
    head = (grid.line, table.name)
    upright = _table(grid.header[:MOST_COLUMNS], [head] * width, cells, at)
    if upright is not None:
        yield replace(upright, devices=None if np.isnan(devices.low).any() else devices)
    if width > 1 and 0 < len(cells) <= MOST_COLUMNS:
        headings = [_name(row, line) for row, (line, _) in zip(cells, at, strict=True)]
        turned = [[heading, *(row[k] for row in cells)] for k, heading in enumerate(grid.header)]
        on_side = _table(["", *headings], [head, *at], turned[1:], [head] * (width - 1), on_side=True)
        if on_side is not None:
            yield on_side


Place = tuple[int, str]  # a line of the file, and how findings name it


def _table(
    header: list[str], headings_at: list[Place], cells: list[list[str]], rows_at: list[Place], on_side: bool = False
) -> FigureTable | None:
    """The columns of a grid of cells; None where fewer than two have figures. `headings_at`, `rows_at`: where headings
    and rows stand in the file.
    """
    columns, words = [], {}
    for k, (heading, column) in enumerate(zip(header, columns_of(header, cells), strict=True)):
        texts = [row[k] for row in cells]
        meaning = meaning_of(column, texts)
        figures = _figures(texts, meaning.scale)
        filled = sum(not is_nothing(text) for text in texts)
        if np.isfinite(figures.low).sum() > FEWEST_FILLED * max(filled, 1):
            columns.append(FigureColumn(meaning, figures, texts, k, *headings_at[k]))
        else:
            words[heading or f"column {k}"] = texts
    if len(columns) < 2:
        return None
    names = [_name(row, line) for row, (line, _) in zip(cells, rows_at, strict=True)]
    return FigureTable(columns, words, names, [place for _, place in rows_at], on_side)


UNIT = re.compile(r"[(\[]([^()\[\]]{1,20})[)\]]\s*$")


def meaning_of(meaning: TableColumn, texts: list[str]) -> TableColumn:
    """What a heading means; of one that is not understood, or that means a setting though it has a unit, the unit; of
    one that all units in its cells, `texts`, contradict, what they say.
    """
    heading = meaning.heading
    units = {figures[0].unit.dimension if figures[0].unit else "" for text in texts if (figures := figures_of(text))}
    if other := OTHER_KINDS.get((meaning.kind or "", next(iter(units)) if len(units) == 1 else "")):
        return replace(meaning, kind=other)
    match = UNIT.search(heading)
    unit = unit_of(match[1]) if match and meaning.kind in (None, "step", "epoch", "run", "strategy") else None
    if unit is None or unit.dimension not in KINDS_OF_UNITS:
        return meaning
    kind = KINDS_OF_UNITS[unit.dimension]
    return TableColumn(heading, kind, unit.scale, unit.dimension, per_device=unit.per_device, item=unit.item)


def _name(cells: list[str], line: int) -> str:
    """What a row is called: its first cells up to one with a letter."""
    first = next((k for k, cell in enumerate(cells[:4]) if re.search(r"[A-Za-z]", cell)), 0)
    return ", ".join(cell for cell in cells[: first + 1] if cell)[:60] or f"line {line}"


def _figures(texts: list[str], scale: float) -> Figures:
    """The figures of cells in the base unit, one unit of their last digit either way. `scale`: of the heading."""
    european = is_european(texts)
    low, high = np.full(len(texts), np.nan), np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        figures = figures_of(text, european)
        if len(figures) == 1 and figures[0].bound in (None, "~"):
            value, unit = figures[0].value, figures[0].unit
            width = max(figures[0].resolution, ABOUT * abs(value) if figures[0].bound else 0.0)
            factor = unit.scale if unit is not None else scale
            low[i], high[i] = (value - width) * factor, (value + width) * factor
    return Figures(low, high)


SUMMARY = re.compile(
    r"(?i)(?:overall |grand |arithmetic )?"
    r"(?:(?P<mean>avg\.?|average|mean|median|geomean|平均)|(?P<total>total|sum|总计|合计))"
    r"(?: (?:of|over|across) .{1,30}| ?\([^)]{1,30}\)| (?:time|throughput|speed|rate|latency)(?: ?\([^)]{1,30}\))?)?"
)
NEAR = 3.0  # factor beyond which a figure is of something else
ROUNDING = 0.005
APART = 0.02  # from every mean that there is
FEWEST = 2
FEWEST_SHARES = 3
WHOLE = 100.0  # %
FIRST = 6  # of the figures that a sentence lists
NEVER_SUMMED = (
    *("_per_s", "rate", "mfu", "hfu", "utilization"),
    *("speedup", "efficiency", "accuracy", "loss", "perplexity"),
)
NEVER_AVERAGED = ("devices", "nodes", "batch", "steps", "epochs", "step", "epoch", "seq_len", "samples", "tokens")
MEANS: tuple[Callable[[list[float]], float], ...] = (fmean, median, geometric_mean, harmonic_mean)


@dataclass(frozen=True)
class Summary:
    """One figure that sums up others. `stated`: lowest and highest value that it may be."""

    row: int
    name: str
    column: FigureColumn
    parts: list[FigureColumn]
    is_total: bool

    @property
    def stated(self) -> tuple[float, float]:
        figures = self.column.figures
        return float(figures.low[self.row]), float(figures.high[self.row])

    @property
    def values(self) -> list[float]:
        return [float(part.figures.middle[self.row]) for part in self.parts]

    def is_near(self, value: float, relative: float = ROUNDING) -> bool:
        low, high = self.stated
        return low * (1 - relative) <= value <= high * (1 + relative)

    @property
    def right(self) -> float:
        return sum(self.values) if self.is_total else fmean(self.values)

    @property
    def is_impossible(self) -> bool:
        """Whether no mean and no total of these parts can be as small or as large."""
        low, high = self.stated
        if not 1 / NEAR < (low + high) / 2 / self.right < NEAR:
            return False
        lows = [float(part.figures.low[self.row]) for part in self.parts]
        highs = [float(part.figures.high[self.row]) for part in self.parts]
        if self.is_total:
            return high < max(lows) * (1 - ROUNDING)
        return high < min(lows) * (1 - ROUNDING) or low > max(highs) * (1 + ROUNDING)

    @property
    def is_any(self) -> bool:
        """Whether it is the total, or a mean of any kind."""
        means = [self.right] if self.is_total else [mean(self.values) for mean in MEANS]
        return any(self.is_near(value, APART) for value in means)


def summaries_follow(context: AuditContext) -> Iterator[Flag]:
    """What is called mean, average or total is the mean or the total of the rows above it, or the columns before it."""
    for table in context.evidence.tables:
        for figures in figure_tables(table) if not table.cut_off else ():
            yield from () if figures.on_side else _shares(figures)
            for k, column in enumerate(figures.columns):
                yield from _of_column(figures, k, column)


def _shares(figures: FigureTable) -> Iterator[Flag]:
    """The rows whose shares of a whole do not sum up to 100 %, where those of most rows do."""
    shares = [c for c in figures.columns if c.is_in_percent and c.kind not in ("speedup", "efficiency", "change")]
    sums = [sum(_printed(c.texts[i]) for c in shares) for i in range(len(figures.places))]
    whole = [abs(total - WHOLE) <= len(shares) / 2 for total in sums]
    if len(shares) < FEWEST_SHARES or len(sums) < FEWEST_SHARES or sum(whole) < 2 * (len(whole) - sum(whole)):
        return
    for i, total in enumerate(sums):
        if abs(total - WHOLE) > APART * WHOLE + len(shares) / 2:
            parts = " + ".join(c.texts[i] for c in shares)
            yield Flag(f"{figures.names[i]}: {parts} is {total:.4g} %, in all other rows 100 %", [figures.places[i]])


def _printed(text: str) -> float:
    """The one figure of a cell as it is printed; NaN where there is none."""
    figures = figures_of(text)
    return figures[0].value if len(figures) == 1 else math.nan


def _of_column(figures: FigureTable, k: int, column: FigureColumn) -> Iterator[Flag]:
    """The wrong figures of a column of means or totals; in a table on its side that is a row."""
    match = SUMMARY.fullmatch(column.heading.strip(" *_:"))
    if match is None:
        return
    parts = _parts(figures, k)
    summaries = [
        Summary(i, name, column, parts, match["total"] is not None)
        for i, name in enumerate(figures.names)
        if len(parts) >= FEWEST and all(part.figures.low[i] > 0 for part in (*parts, column))
    ]
    summaries = [one for one in summaries if _can_be(one, figures)]
    exemplary = sum(one.is_near(one.right) for one in summaries)
    for one in summaries:
        wrong = not one.is_any and exemplary and len(one.parts) + exemplary > FEWEST + 1
        if (one.is_impossible and (exemplary or figures.on_side)) or wrong:
            yield _flag(figures, one, corrected=bool(exemplary) or not one.is_total)


def _parts(figures: FigureTable, k: int) -> list[FigureColumn]:
    """The columns right before the k-th, up to the summary before it; of an upright table those of one unit."""
    parts: list[FigureColumn] = []
    after = figures.columns[k]
    for column in reversed(figures.columns[:k]):
        ends = [(one.kind or "")[-6:] for one in (column, *parts[:1])]  # "time_s": the times of phases are added up
        same = figures.on_side or len({*ends} - {""}) <= 1  # "Total" alone is of what is before it
        if SUMMARY.fullmatch(column.heading.strip(" *_:")) or not same:
            break
        if column.position != after.position - 1 or (figures.on_side and column.line != after.line - 1):
            return []  # there are rows between that were not read
        parts.insert(0, column)
        after = column
    return parts


def _can_be(summary: Summary, figures: FigureTable) -> bool:
    """Whether figures of this kind are added up, or averaged."""
    heading = summary.name if figures.on_side else summary.column.heading
    kind = column_of(heading).kind or ""
    return not kind.endswith(NEVER_SUMMED if summary.is_total else NEVER_AVERAGED)


def _flag(figures: FigureTable, one: Summary, corrected: bool) -> Flag:
    """The finding on one figure. `corrected`: whether it is known which mean or total is meant."""
    what = "the total" if one.is_total else "the mean"
    parts = ", ".join(part.texts[one.row] for part in one.parts[:FIRST])
    more = ", ..." if len(one.parts) > FIRST else ""
    name, heading = (one.column.heading, one.name) if figures.on_side else (one.name, one.column.heading)
    text, place = one.column.texts[one.row], one.column.place if figures.on_side else figures.places[one.row]
    printed = figures_of(text)[0].value * one.right / float(one.column.figures.middle[one.row])
    correction = Correction(value=float(f"{printed:.5g}"), unit="", derivation=f"{what} of {parts}{more}")
    return Flag(
        f"{name}: {heading} {text} is given as {what} of {parts}{more}",
        [place],
        corrected=correction if corrected else None,
    )
