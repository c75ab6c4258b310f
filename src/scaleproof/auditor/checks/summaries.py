"""Rows that sum up others: a mean lies between what it is the mean of, a total is no less than its largest part."""

import re
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, geometric_mean, harmonic_mean, median
from typing import NamedTuple

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.identities import TOTALS_DISAGREE
from scaleproof.auditor.checks.printed import PrintedInterval, hull, interval
from scaleproof.auditor.checks.rows import MEASURED, TIMES, describe, place, printed
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag

SUMMARY = re.compile(r"(?i)(?:overall |grand )?(?:(avg\.?|average|mean|median|geomean)|(total|sum))(?: [^\d]{0,20})?")
ROUNDING = 0.005
APART = 0.02  # from every mean that there is
FEWEST = 2
AVERAGED = (*MEASURED, "mfu", "memory_bytes", "power_w", "energy_j", "utilization", "speedup", "efficiency")
SUMMED = (*TIMES, "energy_j", "cost", "communication_time_s", "compute_time_s", "data_time_s")
FIRST = 6  # of the figures that a sentence lists
MEANS: tuple[Callable[[Sequence[float]], float], ...] = (fmean, median, geometric_mean, harmonic_mean)


class _Column(NamedTuple):
    """A figure of a summary row, and those of its column that it sums up."""

    summary: Quantity
    parts: list[Quantity]

    @property
    def values(self) -> list[float]:
        return [quantity.value for quantity in self.parts]

    @property
    def span(self) -> PrintedInterval:
        return hull(interval(quantity) for quantity in self.parts)

    def is_near(self, value: float) -> bool:
        return interval(self.summary).contains(value, ROUNDING)


@of_evidence.check(TOTALS_DISAGREE)
def summaries_follow(context: AuditContext) -> Iterator[Flag]:
    """A row called mean, average or total is the mean or the total of the rows above it."""
    for table in context.tables:
        for row, above, is_total in _summary_rows(table):
            columns = _columns(row, above, SUMMED if is_total else AVERAGED)
            yield from _totals(row, columns) if is_total else _means(row, columns)


def _summary_rows(table: ReportedTable) -> Iterator[tuple[ReportedRow, list[ReportedRow], bool]]:
    """(row, the measured rows above that it sums up, whether as a total) for each mean and total of a table.

    Left out are those with lines between them that are not in the table: they may be of more rows than were read.
    """
    above: list[ReportedRow] = []
    for row in table.rows:
        name = next((text for text in row.texts.values() if re.search(r"[A-Za-z]", text)), "")
        summary = SUMMARY.fullmatch(name.strip(" *_:"))
        if summary is None:
            above.append(row)
            continue
        complete = not above or table.form == "JSON" or row.line - above[0].line == len(above)
        if complete and len(above) >= FEWEST and all(one.measured for one in above):
            is_total = summary[2] is not None
            yield row, above, is_total
        above = []


def _columns(row: ReportedRow, above: list[ReportedRow], kinds: Sequence[str]) -> list[_Column]:
    """The columns of some kinds in which the row and all rows above it have a positive figure without a bound."""
    columns = []
    for quantity in row.figures:
        parts = [q for one in above for q in one.figures if (q.heading, q.kind) == (quantity.heading, quantity.kind)]
        usable = quantity.kind in kinds and not quantity.bound and all(q.value > 0 and not q.bound for q in parts)
        if usable and len(parts) == len(above):
            columns.append(_Column(quantity, parts))
    return columns


def _means(row: ReportedRow, columns: list[_Column]) -> Iterator[Flag]:
    """Means outside of the range of their rows; and those that no kind of mean gives.

    The latter only where another column is the arithmetic mean: it shows that the row is meant as one of these rows.
    """
    exemplary = any(column.is_near(fmean(column.values)) for column in columns)
    for column in columns:
        span, stated = column.span.widened(ROUNDING), interval(column.summary)
        outside = stated.high < span.low or stated.low > span.high
        is_a_mean = any(stated.contains(mean(column.values), APART) for mean in MEANS)
        checkable = exemplary and column.summary.kind in MEASURED and len(column.parts) > FEWEST
        if outside or (checkable and not is_a_mean):
            yield _flag(row, column, "the mean", fmean(column.values))


def _totals(row: ReportedRow, columns: list[_Column]) -> Iterator[Flag]:
    """Totals below their largest part; and those that are no sum, where another column of the row is one."""
    exemplary = any(column.is_near(sum(column.values)) for column in columns)
    for column in columns:
        stated, total = interval(column.summary), sum(column.values)
        below = stated.high < max(interval(part).low for part in column.parts) * (1 - ROUNDING)
        if below or (exemplary and not stated.contains(total, APART)):
            yield _flag(row, column, "the total", total)


def _flag(row: ReportedRow, column: _Column, what: str, value: float) -> Flag:
    """The finding on one figure of a summary row.

    `what`: "the mean" or "the total"; `value`: what the rows give for it, in the base unit of the column.
    """
    summary = column.summary
    parts = ", ".join(printed(quantity) for quantity in column.parts[:FIRST])
    more = ", ..." if len(column.parts) > FIRST else ""
    factor = value / summary.value  # the same in the base unit and in the printed one
    return Flag(
        f"{describe(row)}: {summary.heading} {printed(summary)} is given as {what} of {parts}{more}",
        [place(row)],
        corrected=Correction(
            value=float(f"{_as_printed(summary) * factor:.5g}"), unit="", derivation=f"{what} of the rows above it"
        ),
    )


def _as_printed(quantity: Quantity) -> float:
    """The number as its cell has it, in the unit of the column."""
    digits = re.search(r"\d[\d,]*(?:\.\d+)?", quantity.text)
    return float(digits[0].replace(",", "")) if digits else quantity.value
