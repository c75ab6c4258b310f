"""Means and totals that a table prints, as rows or columns of it, and shares that do not add up."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, geometric_mean, harmonic_mean, median

from scaleproof.auditor.checks.columns import FigureColumn, FigureTable, figure_tables
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, AuditContext
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.auditor.read.surroundings import last_repeats
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag

SUMMARY = re.compile(
    r"(?i)(?:overall |grand |arithmetic |geometric |geo\. ?|harmonic )?"
    r"(?:(?P<mean>avg\.?|average|mean|median|geomean|平均)|(?P<total>total|sum|总计|合计))"
    r"(?: (?:of|over|across) .{1,30}| ?\([^)]{1,30}\)|"
    r" (?:time|throughput|speed|rate|latency|speed-?up|memory|cost|(?:step|epoch) time)(?: ?\([^)]{1,30}\))?| ?± ?\w+)?"
)
# Kinds of which a total is no less than the sum of its parts.
ADDED_UP = ("cost", "energy_j", "device_time_s", "tokens", "samples", "parameters")
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
        """(lowest, highest) value that the printed figure may have been."""
        figures = self.column.figures
        return float(figures.low[self.row]), float(figures.high[self.row])

    @property
    def values(self) -> list[float]:
        return [float(part.figures.middle[self.row]) for part in self.parts]

    @property
    def has_figures(self) -> bool:
        """Whether it and all its parts are above 0; a total may have parts of 0, too."""
        least_is_fine = all(value > 0 or (self.is_total and value == 0) for value in self.values)
        return self.stated[0] > 0 and least_is_fine

    def is_near(self, value: float, relative: float = ROUNDING_TOLERANCE) -> bool:
        """Whether the printed figure may have been `value`, give or take a relative difference."""
        low, high = self.stated
        return low * (1 - relative) <= value <= high * (1 + relative)

    @property
    def right(self) -> float:
        """The total, or the arithmetic mean."""
        return sum(self.values) if self.is_total else fmean(self.values)

    @property
    def is_impossible(self) -> bool:
        """Whether it is below or above what any mean or total of these parts, of its size at all, can be."""
        low, high = self.stated
        if not 1 / SAME_SIZE_FACTOR < (low + high) / 2 / self.right < SAME_SIZE_FACTOR:
            return False  # it is of something else
        lows = [float(part.figures.low[self.row]) for part in self.parts]
        highs = [float(part.figures.high[self.row]) for part in self.parts]
        if self.is_total:
            least = sum(lows) if self.column.kind in ADDED_UP else max(lows)
            return high < least * (1 - ROUNDING_TOLERANCE)
        return high < min(lows) * (1 - ROUNDING_TOLERANCE) or low > max(highs) * (1 + ROUNDING_TOLERANCE)

    @property
    def is_total_or_mean(self) -> bool:
        """Whether it is what it is called: the total, or a mean of any kind."""
        means = [self.right] if self.is_total else [mean(self.values) for mean in KINDS_OF_MEAN]
        return any(self.is_near(value, MEAN_TOLERANCE) for value in means)

    @property
    def is_mean_of_most(self) -> bool:
        """Whether it is the mean without the first value (a warm-up), the smallest, the largest or both."""
        in_order = sorted(self.values)
        reduced = (self.values[1:], in_order[1:], in_order[:-1], in_order[1:-1])
        return any(self.is_near(fmean(values)) for values in reduced if values)


def summaries_follow(context: AuditContext) -> Iterator[Flag]:
    """Flag wrong means and totals of the rows above or the columns before them, and shares that do not add up."""
    for table in context.all_tables:
        if table.cut_off:
            continue  # its totals are of rows that were not read
        is_read = table in context.evidence.tables
        for figures in figure_tables(table):
            if is_read and not figures.on_side:
                yield from _shares_not_adding_up(figures)
            for k, column in enumerate(figures.columns):
                yield from _wrong_summaries(figures, k, column, is_read)


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
    """Return the figure of a cell as it is printed; NaN where it has none or several."""
    figures = figures_of(text)
    return figures[0].value if len(figures) == 1 else math.nan


def _wrong_summaries(figures: FigureTable, k: int, column: FigureColumn, is_read: bool) -> Iterator[Flag]:
    """Flag wrong figures of the k-th column, where it is one of means or totals of the columns beside it.

    Of a table on its side that is a row. `is_read`: whether its headings are understood; else other figures must show
    that it is a summary. Example: means 4 and 9 of 2, 4, 6 and of 3, 5, 7.
    """
    match = SUMMARY.fullmatch(column.heading.strip(" *_:"))
    if match is None:
        return
    is_total = match["total"] is not None
    parts = _parts_of_summary(figures, k, is_total)
    repeats = 0 if is_total else last_repeats([part.heading for part in parts])
    parts = parts[-repeats:]  # of the repeats alone, where the last columns are some; [-0:] are all
    if len(parts) < FEWEST_PARTS:
        return
    of_rows = (Summary(i, name, column, parts, is_total) for i, name in enumerate(figures.names))
    summaries = [summary for summary in of_rows if summary.has_figures and _can_be_summed_up(summary, figures)]
    right = sum(summary.is_near(summary.right) for summary in summaries)
    needed = (1 if figures.on_side and len(parts) > FEWEST_PARTS else ROWS_PER_ODD_ROW) * (len(summaries) - right)
    if not is_read and right < max(needed, 1):
        return
    rows_show_it = right > 0 and len(parts) + right > FEWEST_PARTS + 1  # two rows of two parts, or one of three
    for summary in summaries:
        headings_show_it = repeats > 0 and not summary.is_mean_of_most  # "run 1", "run 2", mean
        is_no_summary = (rows_show_it or headings_show_it) and not summary.is_total_or_mean
        if is_no_summary or (summary.is_impossible and (right or figures.on_side)):
            yield _wrong_summary(figures, summary, corrected=bool(right) or not summary.is_total)


def _parts_of_summary(figures: FigureTable, k: int, is_total: bool) -> list[FigureColumn]:
    """Return the columns whose mean or total the k-th column has: those before it, of a total perhaps those behind."""
    before = _columns_beside(figures.columns, k, figures.on_side, -1)
    if len(before) >= FEWEST_PARTS or not is_total:
        return before
    return _columns_beside(figures.columns, k, figures.on_side, 1)


def _columns_beside(columns: list[FigureColumn], k: int, on_side: bool, step: int) -> list[FigureColumn]:
    """Return the columns right before the k-th (`step` -1) or behind it (1): [A, B] of A, B, total.

    Another summary ends them and, in an upright table, another unit. [] where columns between were not read.
    """
    parts: list[FigureColumn] = []
    last = columns[k]
    for column in reversed(columns[:k]) if step < 0 else columns[k + 1 :]:  # the nearest first
        ends = {(part.kind or "")[-6:] for part in (column, *parts[:1])}  # "time_s": the times of phases are added up
        has_same_unit = on_side or len(ends - {""}) <= 1  # "Total" alone is of what is before it
        if SUMMARY.fullmatch(column.heading.strip(" *_:")) or not has_same_unit:
            break
        if column.position != last.position + step or (on_side and column.line != last.line + step):
            return []
        parts.append(column)
        last = column
    return parts[::step]


def _can_be_summed_up(summary: Summary, figures: FigureTable) -> bool:
    """Whether figures of this kind are ever added up, or averaged: there is no total of rates, no mean of devices."""
    # Of a table on its side the rows are the columns of the file, whose names say what the figures are.
    kind = column_of(summary.name if figures.on_side else summary.column.heading).kind or ""
    if summary.is_total and "%" in summary.column.texts[summary.row]:
        # Savings, changes and what is complete have no total; shares have one, 100 %.
        return summary.is_near(1.0) and max(summary.values) < 1
    return not kind.endswith(NEVER_SUMMED if summary.is_total else NEVER_AVERAGED)


def _wrong_summary(figures: FigureTable, summary: Summary, corrected: bool) -> Flag:
    """Flag "4.5 is given as the mean of 2, 4, 6". `corrected`: whether it is known which mean or total is meant."""
    row, column = summary.row, summary.column
    listed = ", ".join(part.texts[row] for part in summary.parts[:LISTED_PARTS])
    more = ", ..." if len(summary.parts) > LISTED_PARTS else ""
    description = f"{'the total' if summary.is_total else 'the mean'} of {listed}{more}"
    # Of a table on its side the column is a row of the file.
    name, heading = (column.heading, summary.name) if figures.on_side else (summary.name, column.heading)
    place = column.place if figures.on_side else figures.places[row]
    printed = figures_of(column.texts[row])[0].value
    right = printed * summary.right / float(column.figures.middle[row])  # in the unit that is printed
    correction = Correction(value=float(f"{right:.5g}"), unit="", derivation=description)
    evidence = f"{name}: {heading} {column.texts[row]} is given as {description}"
    return Flag(evidence, [place], corrected=correction if corrected else None)
