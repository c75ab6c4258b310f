"""Columns that are the sum of other columns: what all rows but one show."""

from collections.abc import Iterator
from functools import reduce
from itertools import product
from operator import add

import numpy as np

from scaleproof.auditor.checks.columns import APART, FEWEST, FEWEST_SHARES, FIRST, FigureTable, figure_tables
from scaleproof.auditor.checks.context import AuditContext
from scaleproof.ground.findings.registry import Flag

PRECISE = 0.01  # relative width of figures whose sum nothing else is by chance


def sums_follow(context: AuditContext) -> Iterator[Flag]:
    """The one row in which a column is not the sum of columns side by side that it is, to the digit, in all others."""
    for table in context.evidence.tables:
        yield from (flag for figures in figure_tables(table) if not figures.on_side for flag in _sums(figures))


def _sums(figures: FigureTable) -> Iterator[Flag]:
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
