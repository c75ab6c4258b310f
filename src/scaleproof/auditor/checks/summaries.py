"""Means and totals that a table prints, as rows or columns of it, and shares that do not add up."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, harmonic_mean, median

from scaleproof.auditor.checks.columns import FigureColumn, FigureTable
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, AuditContext
from scaleproof.auditor.checks.rows import RATE_UNITS
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow
from scaleproof.auditor.read.surroundings import UNIT_AT_END, last_repeats
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import number
from scaleproof.ground.records.grouping import group_by

SUMMARY = re.compile(
    r"(?i)(?:overall |grand |arithmetic |geometric |geo\. ?|harmonic )?"
    r"(?:(?P<mean>avg\.?|average|mean|median|geomean|平均)|(?P<total>total|sum|总计|合计))"
    r"(?: (?:of|over|across) .{1,30}| ?\([^)]{1,30}\)|"
    r" (?:time|throughput|speed|rate|latency|speed-?up|memory|cost|(?:step|epoch) time)(?: ?\([^)]{1,30}\))?| ?± ?\w+)?"
)
BLOCK = re.compile(r"(\d+), (?=[^\W\d])")  # the size that a block of rows repeats: "4, mean" below "4" and "4"
OTHER_STATISTIC = re.compile(r"(?i)(?:min|max|std|best|worst|p\d\d)(?:imum|dev)?\b")  # a mean beside it is of the same
# Kinds of which a total is no less than the sum of its parts.
ADDED_UP = ("cost", "energy_j", "device_time_s", "tokens", "samples", "parameters")
AMOUNTS = ("cost", "energy_j", "device_time_s")  # whose total is never a mean, whatever stands above it
SAME_SIZE_FACTOR = 3.0  # beyond which a figure is of something else
ROUNDING_TOLERANCE = 0.005  # relative difference of a mean or total that is right
LEAST_GAP = 0.1  # of the values of a mean, relative to it, of which a right mean is no chance
MEAN_TOLERANCE = 0.02  # relative difference from every mean that shows that it is none
FEWEST_SUMMANDS = 2  # of a mean or total
FEWEST_SHARES = 3  # of a sum of shares, and rows of them
ALL_PERCENT = 100.0
MOST_LISTED = 6  # figures that a sentence lists
# Ends of kinds of figures.
NEVER_SUMMED = (
    *("_per_s", "rate", "mfu", "hfu", "utilization", "speedup", "efficiency"),
    *("accuracy", "loss", "perplexity"),
)
NEVER_AVERAGED = ("devices", "nodes", "batch", "steps", "epochs", "step", "epoch", "seq_len", "samples", "tokens")
KINDS_OF_MEAN: tuple[Callable[[list[float]], float], ...] = (fmean, median, geometric_mean, harmonic_mean)


@dataclass(frozen=True)
class Summary:
    """A figure that its heading calls the mean or the total of other figures of its row.

    Example: in a row "2, 4, 6, 4" the last cell stands in `column` "mean", and `summands` are the three columns before.
    `is_of_repeats`: whether these count repeats of one measurement, as "run 1", "run 2". `label`: its heading without
    the size of a block, which means below several blocks of rows share.
    """

    row: int
    row_name: str
    column: FigureColumn
    summands: list[FigureColumn]
    is_total: bool
    is_of_repeats: bool
    label: str

    @property
    def scale(self) -> float:
        """Factor to the unit of summands that print none: 1000 for "run 1" beside "avg (ms)"."""
        if not self.column.kind or any(summand.kind for summand in self.summands):
            return 1.0
        return _figure_of(self.column.texts[self.row]) / float(self.column.figures.middle[self.row])

    @property
    def stated(self) -> tuple[float, float]:
        """(lowest, highest) value that the printed figure may have been, in the unit of the summands."""
        figures = self.column.figures
        return float(figures.low[self.row]) * self.scale, float(figures.high[self.row]) * self.scale

    @property
    def values(self) -> list[float]:
        """The figures that are averaged or added up."""
        return [float(summand.figures.middle[self.row]) for summand in self.summands]

    @property
    def has_figures(self) -> bool:
        """Whether the summary and its summands are above 0. Summands of a total may also be 0."""
        lowest, _ = self.stated
        return lowest > 0 and all(value > 0 or (self.is_total and value == 0) for value in self.values)

    def is_near(self, value: float, relative: float = ROUNDING_TOLERANCE) -> bool:
        """Whether the printed figure may have been `value`, give or take a relative difference."""
        low, high = self.stated
        return low * (1 - relative) <= value <= high * (1 + relative)

    @property
    def right_value(self) -> float:
        """The total or the arithmetic mean of the summands."""
        return sum(self.values) if self.is_total else fmean(self.values)

    @property
    def is_in_other_unit(self) -> bool:
        """Whether the figure is right but for a thousand: 1.000 of 700 and 300, $108K of 56, 28 and 24."""
        return any(self.is_near(self.right_value * factor) for factor in (1e-6, 1e-3, 1e3, 1e6))

    @property
    def shows_meaning(self) -> bool:
        """Whether the figure is right, and not by chance: any figure between 4.0 and 4.1 is near their mean."""
        low, high = self.stated
        gap = math.inf if self.is_total else max(self.values) - min(self.values)
        is_to_the_digit = self.is_near(self.right_value, relative=0) and LEAST_GAP * gap > (high - low) / 2
        return is_to_the_digit or (self.is_near(self.right_value) and gap > LEAST_GAP * self.right_value)

    @property
    def is_impossible(self) -> bool:
        """Whether no mean or total of any kind has this value. A figure of another size is of something else."""
        low, high = self.stated
        if not self.right_value:  # a total of zeros
            return False
        if not 1 / SAME_SIZE_FACTOR < (low + high) / 2 / self.right_value < SAME_SIZE_FACTOR:
            return False

        lows = [float(summand.figures.low[self.row]) for summand in self.summands]
        highs = [float(summand.figures.high[self.row]) for summand in self.summands]
        if self.is_total:
            least_total = sum(lows) if self.column.kind in ADDED_UP else max(lows)
            return high < least_total * (1 - ROUNDING_TOLERANCE)
        return high < min(lows) * (1 - ROUNDING_TOLERANCE) or low > max(highs) * (1 + ROUNDING_TOLERANCE)

    @property
    def has_largest(self) -> bool:
        """Whether the figure may be as large as the largest summand, as any total is."""
        return self.stated[1] >= max(self.values) * (1 - ROUNDING_TOLERANCE)

    @property
    def is_total_or_mean(self) -> bool:
        """Whether the figure is what it is called: the total, or a mean of any kind."""
        possible = [self.right_value] if self.is_total else [mean(self.values) for mean in KINDS_OF_MEAN]
        return any(self.is_near(value, MEAN_TOLERANCE) for value in possible)

    @property
    def is_mean_of_most(self) -> bool:
        """Whether it is the mean without the first value (a warm-up), the smallest, the largest or both."""
        in_order = sorted(self.values)
        reduced = (self.values[1:], in_order[1:], in_order[:-1], in_order[1:-1])
        return any(self.is_near(fmean(values)) for values in reduced if values)


def summaries_follow(context: AuditContext) -> Iterator[Flag]:
    """Flag wrong means and totals of the rows above or the columns before them, and shares that do not add up."""
    understood = set(map(id, context.evidence.tables))
    for table in context.all_tables:
        if table.cut_off:
            continue  # its totals are of rows that were not read
        is_understood = id(table) in understood
        for figures in context.figures_of(table):
            if is_understood and not figures.is_transposed:
                yield from _shares_not_adding_up(figures)
            summaries = [summary for k in range(len(figures.columns)) for summary in _summaries(figures, k)]
            by_name = group_by(summaries, lambda summary: summary.label.lower())
            for same in by_name.values():
                yield from _wrong_summaries(figures, same, is_understood)


def _shares_not_adding_up(figures: FigureTable) -> Iterator[Flag]:
    """Flag rows whose shares do not add up to 100 %, where those of most rows do: 60 + 30 + 20 %."""
    in_percent = (column for column in figures.columns if column.is_in_percent)
    shares = [column for column in in_percent if column.kind not in ("speedup", "efficiency", "change")]
    sums = [sum(_figure_of(column.texts[i]) for column in shares) for i in range(len(figures.places))]
    rounding = len(shares) / 2  # half a per cent for each share
    right_count = sum(abs(total - ALL_PERCENT) <= rounding for total in sums)
    if len(shares) < FEWEST_SHARES or len(sums) < FEWEST_SHARES:
        return
    if right_count < ROWS_PER_ODD_ROW * (len(sums) - right_count):
        return

    for i, total in enumerate(sums):
        if abs(total - ALL_PERCENT) > MEAN_TOLERANCE * ALL_PERCENT + rounding:
            terms = " + ".join(column.texts[i] for column in shares)
            yield Flag(f"{figures.names[i]}: {terms} is {total:.4g} %, in all other rows 100 %", [figures.places[i]])


def _figure_of(text: str) -> float:
    """Return the figure of a cell as it is printed. Returns NaN where it has none or several."""
    figures = figures_of(text)
    return figures[0].value if len(figures) == 1 else math.nan


def _summaries(figures: FigureTable, k: int) -> list[Summary]:
    """Return the means or totals of the k-th column, if its heading says that it has some and their parts are there."""
    column = figures.columns[k]
    label = _label(column, figures)
    heading = SUMMARY.fullmatch(label)
    if heading is None:
        return []
    is_total = heading["total"] is not None
    summands = _summands(figures, k, is_total)
    repeat_count = 0 if is_total else last_repeats([summand.heading for summand in summands])
    if repeat_count:
        summands = summands[-repeat_count:]  # a mean behind "run 1" and "run 2" is of these repeats alone
    if len(summands) < FEWEST_SUMMANDS:
        return []
    of_rows = (
        Summary(row, name, column, summands, is_total, repeat_count > 0, label)
        for row, name in enumerate(figures.names)
    )
    usable = (summary for summary in of_rows if summary.has_figures and not summary.is_in_other_unit)
    return [summary for summary in usable if _can_be_summed_up(summary, figures)]


def _label(column: FigureColumn, figures: FigureTable) -> str:
    """Return the heading without marks and, of a row below a block of rows, without the block's size: "mean" of 4."""
    heading = column.heading.strip(" *_:")
    return BLOCK.sub("", heading) if figures.is_transposed else heading


def _wrong_summaries(figures: FigureTable, summaries: list[Summary], is_understood: bool) -> Iterator[Flag]:
    """Flag the wrong ones of means or totals of one name.

    `is_understood`: whether the headings of the table are known. Where they are not, right figures in other rows must
    show that they are summaries. Example: means 4 and 9 of 2, 4, 6 and of 3, 5, 7.
    """
    right_count = sum(summary.shows_meaning for summary in summaries)
    fewest_summands = min(len(summary.summands) for summary in summaries)
    # Unknown headings: enough right figures for each wrong one must show that these are summaries at all.
    one_suffices = figures.is_transposed and fewest_summands > FEWEST_SUMMANDS
    rows_per_wrong_row = 1 if one_suffices else ROWS_PER_ODD_ROW
    if not is_understood and right_count < max(1, rows_per_wrong_row * (len(summaries) - right_count)):
        return

    # One right mean or total of three summands, or two of two summands, show what the heading means: no chance.
    # Where most rows are wrong, it is measured by itself: parts that overlap have a smaller total.
    are_right = 0 < len(summaries) <= 2 * right_count
    rows_show_it = are_right and fewest_summands + right_count > FEWEST_SUMMANDS + 1
    for summary in summaries:
        is_certain = rows_show_it or (summary.is_of_repeats and not summary.is_mean_of_most)
        is_wrong = is_certain and not summary.is_total_or_mean
        is_below_a_part = summary.is_total and _kind_of_summary(summary, figures) in AMOUNTS and not summary.has_largest
        if is_wrong or (summary.is_impossible and (are_right or is_below_a_part)):
            yield _wrong_summary(figures, summary, is_correctable=right_count > 0 or not summary.is_total)


def _summands(figures: FigureTable, k: int, is_total: bool) -> list[FigureColumn]:
    """Return the columns whose mean or total the k-th column is: those before it; of a total perhaps those behind."""
    before = _columns_beside(figures, k, step=-1)
    if len(before) >= FEWEST_SUMMANDS or not is_total:
        return before
    return _columns_beside(figures, k, step=1)


def _columns_beside(figures: FigureTable, k: int, step: int) -> list[FigureColumn]:
    """Return the columns right before the k-th (`step` -1) or behind it (1): [A, B] of A, B, total.

    They end at another summary, at another block of rows and at another unit, which in a transposed table the headings
    must print. Returns [] where a column between was not read.
    """
    columns, is_transposed = figures.columns, figures.is_transposed
    block = m[1] if is_transposed and (m := BLOCK.match(columns[k].heading)) else ""
    summands: list[FigureColumn] = []
    last = columns[k]
    for column in reversed(columns[:k]) if step < 0 else columns[k + 1 :]:  # the nearest first
        # The last letters are the unit: "compute_time_s" and "data_time_s" can be added up. "Total" alone has no kind.
        units = {(beside.kind or "")[-6:] for beside in (column, *summands[:1])} - {""}
        printed_units = {m[1] for beside in (columns[k], column) if (m := UNIT_AT_END.search(beside.heading))}
        has_other_unit = (not is_transposed and len(units) > 1) or len(printed_units) > 1  # "ms", "ms/token"
        label = _label(column, figures)
        is_of_block = column.heading.partition(",")[0] == block or not block
        if SUMMARY.fullmatch(label) or OTHER_STATISTIC.match(label) or has_other_unit or not is_of_block:
            break
        if column.position != last.position + step or (is_transposed and column.line != last.line + step):
            return []
        summands.append(column)
        last = column
    return summands[::step]  # in the order of the table


def _kind_of_summary(summary: Summary, figures: FigureTable) -> str:
    """Return the kind of the figures of a summary; "" where it is unknown.

    In a transposed table the name of a row is the heading in the file, which says what its figures are.
    """
    return column_of(summary.row_name if figures.is_transposed else summary.column.heading).kind or ""


def _can_be_summed_up(summary: Summary, figures: FigureTable) -> bool:
    """Whether figures of this kind are ever added up, or averaged: there is no total of rates, no mean of devices."""
    kind = _kind_of_summary(summary, figures)
    low, high = summary.stated
    is_among_rows = figures.is_transposed and min(summary.values) <= high and low <= max(summary.values)
    if summary.is_total and is_among_rows and kind not in AMOUNTS:
        return False  # below a column of ratios stands their mean, whatever its row is called
    if summary.is_total and "%" in summary.column.texts[summary.row]:
        # Savings, changes and what is complete have no total; shares have one, 100 %.
        return summary.is_near(1.0) and max(summary.values) < 1
    return not kind.endswith(NEVER_SUMMED if summary.is_total else NEVER_AVERAGED)


def _wrong_summary(figures: FigureTable, summary: Summary, is_correctable: bool) -> Flag:
    """Flag a figure that is no mean or total of its row. `is_correctable`: whether all summands are surely meant."""
    row, column = summary.row, summary.column
    # In a transposed table the columns are the rows of the file.
    name, heading = (column.heading, summary.row_name) if figures.is_transposed else (summary.row_name, column.heading)
    place = column.place if figures.is_transposed else figures.places[row]

    summand_texts = [summand.texts[row] for summand in summary.summands]
    description = f"{'the total' if summary.is_total else 'the mean'} of {', '.join(summand_texts[:MOST_LISTED])}"
    if len(summand_texts) > MOST_LISTED:
        description += ", ..."
    evidence = f"{name}: {heading} {column.texts[row]} is given as {description}"
    if not is_correctable:
        return Flag(evidence, [place])

    printed = figures_of(column.texts[row])[0].value
    stated = float(column.figures.middle[row]) * summary.scale
    right = printed * summary.right_value / stated  # in the unit that is printed
    return Flag(evidence, [place], corrected=Correction(value=float(f"{right:.5g}"), unit="", derivation=description))


def totals_not_of_devices(rows: Sequence[ReportedRow], kind: str) -> Iterator[Flag]:
    """Flag rows whose figure per device x devices is not their total: 100 per device x 4, total 300.

    `kind`: that of both figures, a rate or memory. A figure that may be of one device or of all counts as the total
    only where it is right in twice as many rows as not.
    """
    right_count = 0  # rows of several devices: of one device the total is the same figure
    wrong = []  # (row, its total, its figure per device)
    for row in rows:
        pair = _total_and_part(row.all_of(kind))
        if not row.devices or pair is None:
            continue
        total, of_one = pair
        if not (of_one.interval * row.devices).meets_but_for_thousands(total.interval):
            wrong.append((row, total, of_one))
        elif row.devices > 1:
            right_count += 1

    for row, total, of_one in wrong:
        devices, (figure, unit) = row.devices or 1, of_one.figure_and_unit
        is_total = total.per_device is False and kind in RATE_UNITS  # memory of all may be that of the nodes
        if is_total or right_count >= ROWS_PER_ODD_ROW * len(wrong):
            product = f"{of_one.printed} per device x {devices} = {number(figure * devices, 4)}{unit}"
            yield Flag(f"{row.description}: {product}, the total is given as {total.printed}", [row.place])


def _total_and_part(figures: Sequence[Quantity]) -> tuple[Quantity, Quantity] | None:
    """Return (figure of all devices, figure of each), if a row has one of both, alike in item and statistic."""
    each = [figure for figure in figures if figure.per_device is True]
    totals = [figure for figure in figures if figure.per_device is not True]
    if len(each) != 1 or len(totals) != 1:
        return None
    (of_one,), (total,) = each, totals
    is_pair = (total.item, total.statistic) == (of_one.item, of_one.statistic)
    return (total, of_one) if is_pair and not total.bound and not of_one.bound else None
