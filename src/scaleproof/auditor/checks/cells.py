"""What a cell says of the others in its row: which is the best, how far two shares are apart, what changed."""

import re
from collections.abc import Iterator
from itertools import product

from scaleproof.auditor.checks.columns import FigureColumn, FigureTable, figure_tables
from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.checks.formulas import family, words_of
from scaleproof.auditor.read.headings import UNITS_IN_NAMES, column_of
from scaleproof.auditor.read.printed_figures import NUMBER, PrintedFigure, figures_of, unit_of
from scaleproof.auditor.read.reported_tables import PrintedInterval, ReportedTable, resolution_of
from scaleproof.ground.findings.registry import Flag

WINNER = re.compile(r"(?i)\W*(?:winner|fastest|faster)\W*")
SMALLER_IS_BETTER = {"time": True, "memory": True, "rate": False}
NO_WINNER = re.compile(
    r"(?i)diff|delta|Δ|chang|gap|margin|sav|free|reduc|speed-?up|gain|improv|ratio|overhead|length|context|size|window"
)
POINTS = re.compile(rf"(?P<sign>[+−-]?)(?P<n>{NUMBER.removeprefix('[-+−]?')}) ?(?:pp|percentage points)\b.*")
CHANGE = re.compile(rf"[^()]+\((?P<sign>[+−-])(?P<n>{NUMBER.removeprefix('[-+−]?')}) ?%\)")
ALIKE = PrintedInterval(0.5, 2.0)  # a stated change over the right one; outside of it, it may be of other cells
TOLERANCE = 0.05  # relative difference of a right change


def contradicted_cells(context: AuditContext) -> Iterator[Flag]:
    """Flag cells that their own rows contradict: a winner that is slower, "-22 pp" beside 77.8 % and 60.8 %."""
    for table in context.all_tables:
        if table.grid is None:
            continue
        for figures in figure_tables(table):
            if not figures.is_transposed:
                yield from _wrong_winners(figures)
        yield from _wrong_changes(table)


def _wrong_winners(table: FigureTable) -> Iterator[Flag]:
    """Flag rows whose winner is worse than another column: "Triton" beside CUDA 0.50 ms and Triton 0.51 ms."""
    for heading, texts in table.words.items():
        for row, text in enumerate(texts if WINNER.fullmatch(heading) else ()):
            compared = [column for column in table.columns if _direction(table, column, row) is not None]
            words = words_of(re.sub(r"\(.*|\bby\b.*|[\d.]+ ?[x×%].*", "", text))
            named = [column for column in compared if words and words <= words_of(column.heading)]
            if len(named) != 1 or len({_direction(table, column, row) for column in compared}) != 1:
                continue
            is_time = _direction(table, named[0], row)
            low, high = (ends[row] for ends in (named[0].figures.low, named[0].figures.high))
            better = [
                column
                for column in compared
                if (column.figures.high[row] < low if is_time else column.figures.low[row] > high)
            ]
            if better:
                figures = ", ".join(f"{column.heading} {column.texts[row]}" for column in (*named, *better))
                yield Flag(f"{table.names[row]}: {heading} {text}, but {figures}", [table.places[row]])


def _direction(table: FigureTable, column: FigureColumn, row: int) -> bool | None:
    """Return whether a smaller figure is better, as of times; None where that is not known."""
    figures = figures_of(column.texts[row])
    if not figures or NO_WINNER.search(f"{column.heading} {table.names[row]}"):
        return None
    in_name = UNITS_IN_NAMES.search(column.heading)
    unit = figures[0].unit or (unit_of(in_name[1]) if in_name else None)
    kind = column_of(table.names[row]).kind or ""
    name = unit.dimension if unit else family(column) or ("time" if kind.endswith("time_s") else kind)
    return SMALLER_IS_BETTER.get(name)


def _wrong_changes(table: ReportedTable) -> Iterator[Flag]:
    """Flag "-22 pp" behind 77.8 % and 60.8 %, and "50.0 tok/s (+15.6%)" behind 44.1 tok/s; not if other cells fit."""
    rows = table.grid.rows if table.grid else []
    figures = [[next(iter(figures_of(cell)), None) for cell in row] for _, row in rows]
    for i, (line, row) in enumerate(rows):
        for k, text in enumerate(row):
            points, change = POINTS.fullmatch(text), CHANGE.fullmatch(text)
            match = points or change
            ends = [figure for figure in figures[i][: k + bool(change)] if figure and figure.unit]
            if match is None or len(ends) != 2 or ends[0].unit != ends[1].unit:
                continue
            if points and (not ends[0].unit or ends[0].unit.dimension != "percent"):
                continue
            n, width = float(match["n"].replace(",", "")), resolution_of(match["n"])
            stated, right = PrintedInterval(n - width, n + width), _change(ends[0], ends[1], bool(points))
            is_like = match["sign"] in ("", "+" if ends[1].value > ends[0].value else "-", "−")
            is_near = right.middle > 0 and ALIKE.contains(n / right.middle, 0)
            others = [figure for cells in figures for figure in cells if figure and figure.unit == ends[0].unit]
            if (
                is_like
                and is_near
                and not any(stated.meets(_change(*pair, bool(points)), TOLERANCE) for pair in product(others, ends))
            ):
                evidence = f"{row[0]}: {text} behind {ends[0].text}: between the two it is {right.middle:.3g}"
                yield Flag(evidence, [f"{table.file}:{line}"])


def _change(first: PrintedFigure, last: PrintedFigure, in_points: bool) -> PrintedInterval:
    """Return how far two figures are apart, in points, or in per cent of the first."""
    gap, width = abs(last.value - first.value), first.resolution + last.resolution
    scale = 1.0 if in_points or not first.value else 100 / first.value
    return PrintedInterval(max(gap - width, 0.0), gap + width) * scale
