"""Rows and columns that sum up others: a mean lies between its parts, a total is no less than its largest part."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add
from statistics import fmean, geometric_mean, harmonic_mean, median

import numpy as np

from scaleproof.auditor.checks.columns import FigureColumn, FigureTable, figure_tables
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.identities import TOTALS_DISAGREE
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag

SUMMARY = re.compile(
    r"(?i)(?:overall |grand |arithmetic )?"
    r"(?:(?P<mean>avg\.?|average|mean|median|geomean|平均)|(?P<total>total|sum|总计|合计))"
    r"(?: (?:of|over|across) .{1,30}| ?\([^)]{1,30}\)| (?:time|throughput|speed|rate|latency)(?: ?\([^)]{1,30}\))?)?"
)
NEAR = 3.0  # factor beyond which a figure is of something else
ROUNDING = 0.005
APART = 0.02  # from every mean that there is
PRECISE = 0.01  # relative width of figures whose sum nothing else is by chance
FEWEST = 2
FEWEST_SHARES = 3
WHOLE = 100.0  # %
FIRST = 6  # of the figures that a sentence lists
NEVER_SUMMED = (
    "_per_s",
    "rate",
    "mfu",
    "hfu",
    "utilization",
    "speedup",
    "efficiency",
    "accuracy",
    "loss",
    "perplexity",
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


@of_evidence.check(TOTALS_DISAGREE)
def summaries_follow(context: AuditContext) -> Iterator[Flag]:
    """What is called mean, average or total is the mean or the total of the rows above it, or the columns before it."""
    for table in context.evidence.tables:
        for figures in figure_tables(table) if not table.cut_off else ():
            yield from () if figures.on_side else (*_shares(figures), *_sums(figures))
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


def _sums(figures: FigureTable) -> Iterator[Flag]:
    """The one row in which a column is not the sum of columns side by side that it is, to the digit, in all others."""
    columns = [column for column in figures.columns if not column.is_in_percent]
    rows = len(figures.places)
    for total, first, last in product(columns, range(len(columns)), range(len(columns))):
        parts = columns[first : last + 1]
        if rows <= FEWEST_SHARES or not FEWEST <= len(parts) <= FIRST or total in parts or not total.has_decimals:
            continue
        whole = reduce(add, (part.figures for part in parts))
        exact = (whole.distance(total.figures) == 0) & (total.figures.width + whole.width < PRECISE)
        odd = np.flatnonzero((whole.distance(total.figures) > APART) & ~exact).tolist()
        if len(odd) == 1 and exact.sum() == rows - 1 and len(set(total.texts)) == rows:
            terms = f"{' + '.join(part.texts[odd[0]] for part in parts)} = {whole.middle[odd[0]]:.5g}"
            given = f"{total.heading} {total.texts[odd[0]]}; in all other rows they are equal"
            yield Flag(f"{figures.names[odd[0]]}: {terms}, {given}", [figures.places[odd[0]]])


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
