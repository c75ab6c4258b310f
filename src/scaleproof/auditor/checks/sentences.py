"""Figures of sentences beside tables: "FSDP takes 0.896 s on 4 GPUs", where its cell has 0.869 s.

Texts speak of much that stands in no table. So a figure is held against a cell only where its digits are those of the
cell but for one, or for two exchanged, and the words beside it leave so few cells that this is no chance.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from scaleproof.auditor.checks import comparisons
from scaleproof.auditor.checks.columns import FigureColumn, FigureTable
from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.checks.matching import evidence_index, match, stated_interval
from scaleproof.auditor.checks.named_cells import END_OF_CLAUSE, has_unit_of, named_columns, named_rows
from scaleproof.auditor.checks.rows import RowSeries, hull_of, series_of
from scaleproof.auditor.read.printed_figures import NUMBER
from scaleproof.auditor.read.reported import StatedFigure
from scaleproof.auditor.read.reported_tables import PrintedInterval, ReportedRow, ReportedTable
from scaleproof.auditor.read.words import is_inference, names_in
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import times

MOST_SERIES = 200
MOST_SENTENCES = 300  # of one audit
# A sentence with one of these may be about another baseline than the row with the fewest devices.
OTHER_BASELINE = re.compile(
    r"(?i)\b(?:vs\.?|versus|over|than|compared|relative|against|cpus?|baseline|naive|eager|theoretical|their|previous)\b"
)
# What is N times as fast is then a part of the step, or a link.
OF_A_PART = re.compile(
    r"(?i)\b(?:all-?reduce|all-?gather|reduce-?scatter|communication|interconnect|bandwidth|nvlink|infiniband|kernels?|"
    r"attention|data ?load\w*|sync\w*|transfers?|compil\w+) (?:is|are|was|were|runs?|becomes?|gets?) [^.;,]{0,20}$"
)
ALIKE = 0.002  # relative difference of figures that are one, beside their rounding
DIFFERENT = 0.05  # relative difference of figures that are not one
MOST_CHANCE = 0.4  # expected number of possible cells that have such digits by chance
SLIPS = 30  # numbers that a slip makes of one: a wrong digit of the first three, or two digits exchanged
OF_OTHERS = re.compile(
    r"(?i)\b(?:previous\w*|before|earlier|older?|originally|formerly|instead of|budget|limit|capacity|goal|"
    r"threshold|et al|reported (?:by|in))\b|\b(?:in|by|to) ,"  # "In [1], ...", whose mark is left out
)
_NUMBER = re.compile(NUMBER)


class Cell(NamedTuple):
    """A cell of a table with a figure."""

    column: FigureColumn
    row: int
    place: str
    row_name: str

    @property
    def text(self) -> str:
        return self.column.texts[self.row]

    @property
    def interval(self) -> PrintedInterval:
        return PrintedInterval(self.column.figures.low[self.row], self.column.figures.high[self.row])


def contradicted_sentences(context: AuditContext) -> Iterator[Flag]:
    """Flag figures of sentences that tables of their file contradict: speed-ups of devices or rows, mistyped cells."""
    flags_on_devices = list(_contradicted_speedups(context))
    yield from flags_on_devices
    flagged_sources = {flag.about[0] for flag in flags_on_devices}

    known, unknown = context.evidence.stated_figures, context.evidence.other_figures
    all_stated = [*known[:MOST_SENTENCES], *unknown[:MOST_SENTENCES]]
    tables_by_file: dict[str, list[FigureTable]] = {stated.file: [] for stated in all_stated}
    for table in context.all_tables:
        if table.file in tables_by_file:
            tables_by_file[table.file] += context.figures_of(table)

    for stated in all_stated:
        tables = tables_by_file[stated.file]
        if stated.source in flagged_sources:
            continue
        flags = list(_flag_on_mistyped_cell(stated, tables)) if _may_be_in_table(stated) else []
        if not (flags or stated.hypothetical or OF_OTHERS.search(stated.sentence)):
            flags = list(comparisons.flag_on_comparison(stated, tables))
        yield from flags


def _contradicted_speedups(context: AuditContext) -> Iterator[Flag]:
    """Flag "3.9x on 4 GPUs", or an efficiency, if each series of the sentence's document with 4 devices contradicts it.

    Not where any two rows or runs of the whole audit give the figure: it may be about these.
    """
    index = None
    for stated in filter(_is_of_devices, context.evidence.stated_figures[:MOST_SENTENCES]):
        tables = (table for table in context.tables if table.file == stated.file)
        all_series = [series for table in tables for series in series_of(table)][:MOST_SERIES]
        contradictions = [flag for series in all_series for flag in _contradictions(stated, series)]
        of_this_size = [series for series in all_series if any(row.devices == stated.devices for row in series.rows)]
        if contradictions and len(contradictions) == len(of_this_size):
            index = index or evidence_index(context.evidence)  # made once, and only where it is needed
            if match(stated, index) is None:
                yield contradictions[0]


def _is_of_devices(stated: StatedFigure) -> bool:
    """Whether a sentence states a measured speed-up or efficiency on N devices, over no baseline of another kind."""
    if stated.kind not in ("speedup", "efficiency") or stated.hypothetical or stated.bound == "<":
        return False
    if OF_A_PART.search(stated.sentence.partition(stated.printed)[0]):
        return False
    baseline_is_clear = stated.over_devices is not None or not OTHER_BASELINE.search(stated.sentence)
    return bool(stated.devices) and baseline_is_clear


def _contradictions(stated: StatedFigure, series: RowSeries) -> Iterator[Flag]:
    """Flag a sentence for each row that it is about and that contradicts it: "3.9x on 4 GPUs", the row gives 3.2x."""
    if stated.over_devices not in (None, series.bases[0].devices):
        return  # it is over another number of devices
    base = series.bases[0].description
    is_efficiency = stated.kind == "efficiency"
    for row, times_devices in series.larger():
        ratios = series.ratios(row) if _is_about(stated, row, series.table) else []
        if not ratios:
            continue
        speedup = hull_of(ratios)
        right = speedup / times_devices if is_efficiency else speedup
        is_above = stated.bound == ">" and right.high >= stated.value
        if is_above or stated_interval(stated).meets(right, DIFFERENT):
            continue

        corrected = None
        if right.precision < DIFFERENT:  # all figures of the row agree on one speed-up
            value, unit = (100 * right.middle, "%") if is_efficiency else (right.middle, "x")
            corrected = Correction(value=round(value, 3), unit=unit, derivation=f"{row.place} over {base}")
        speedups = " and ".join(f"{times(ratio.readings[0].in_known_digits)} by {ratio.heading}" for ratio in ratios)
        evidence = f"“{stated.printed}” on {stated.devices} devices; {row.place} gives {speedups} over {base}"
        yield Flag(evidence, [stated.source, row.place], corrected=corrected)


def _is_about(stated: StatedFigure, row: ReportedRow, table: ReportedTable) -> bool:
    """Whether a row is of the devices and settings that a sentence names: "DDP on 4 GPUs", a row of 4, DDP.

    The `words` of a sentence, row or table: name of a setting -> its value, as strategy -> ddp.
    """
    settings = row.words | table.words
    is_row_of_inference = "phase" in settings  # rows of training have no phase
    if row.devices != stated.devices or is_row_of_inference != is_inference([stated.sentence]):
        return False
    if "strategy" in stated.words and _introduces(stated, table):  # then the sentence names the table's strategy
        settings = {"strategy": stated.words["strategy"], **settings}
    return all(settings.get(name) == value for name, value in stated.words.items())


def _introduces(stated: StatedFigure, table: ReportedTable) -> bool:
    """Whether a sentence is the only paragraph above a table and names one strategy, which then holds for all rows."""
    paragraphs = table.grid.before if table.grid else []
    if len(paragraphs) != 1 or stated.sentence not in paragraphs[0]:
        return False
    named = names_in(" . ".join((*paragraphs, *table.section)))["strategy"]
    return named == {stated.words.get("strategy")}


def _may_be_in_table(stated: StatedFigure) -> bool:
    """Whether a sentence states a measured figure of three digits or more: no bound, nothing of others."""
    is_measured = not stated.hypothetical and stated.bound not in ("<", ">")
    return is_measured and len(_significant_digits(stated.printed)) > 2 and not OF_OTHERS.search(stated.sentence)


def _flag_on_mistyped_cell(stated: StatedFigure, tables: Sequence[FigureTable]) -> Iterator[Flag]:
    """Flag a figure that is a slip of the one cell that its words name: "0.896 s", where the cell has 0.869."""
    figure = stated_interval(stated)
    columns = ((table, column) for table in tables for column in table.columns if has_unit_of(stated, column))
    if any(figure.meets(cell.interval, ALIKE) for table, column in columns for cell in _cells(table, column)):
        return  # a cell has the figure

    possible = [cell for table in tables for cell in _possible_cells(stated, table)]
    mistyped = {cell.place: cell for cell in possible if _is_slip(figure, stated.printed, cell)}
    chance = len({cell.text for cell in possible}) * SLIPS / 10 ** len(_significant_digits(stated.printed))
    if len({cell.text for cell in mistyped.values()}) != 1 or chance > MOST_CHANCE:
        return  # no cell, several, or one that may be alike by chance
    cell = next(iter(mistyped.values()))
    if not figure.meets(cell.interval, DIFFERENT):
        evidence = f"“{stated.printed}”, but {cell.row_name} has {cell.column.heading} {cell.text}"
        yield Flag(f"{evidence}: the same figure but for a slip", [stated.source, cell.place], severity="note")


def _significant_digits(text: str) -> str:
    """Return the digits of the first number of a text, without zeros at its ends: "1234" of "1,234.0 ms"."""
    number = _NUMBER.search(text)
    return re.sub(r"\D", "", number[0]).strip("0") if number else ""


def _is_slip(figure: PrintedInterval, printed: str, cell: Cell) -> bool:
    """Whether a figure and a cell, in one unit, have one other digit, or two exchanged: "0.896 s" and "0.869"."""
    digits, cell_digits = (re.sub(r"[^\d.]", "", m[0]) for m in map(_NUMBER.search, (printed, cell.text)) if m)
    differing = [(a, b) for a, b in zip(digits, cell_digits, strict=False) if a != b]
    have_as_many = len(digits) == len(cell_digits) and digits.startswith("0") == cell_digits.startswith("0")
    if not have_as_many or "." in chain(*differing):  # 0.16 has fewer digits than 7.16
        return False
    is_exchange = len(differing) == 2 and differing[0] == differing[1][::-1]
    has_one_slip = len(differing) == 1 or is_exchange
    # In one unit, the values have the ratio of the printed numbers.
    return has_one_slip and (figure / cell.interval).contains(float(digits) / float(cell_digits))


def _cells(table: FigureTable, column: FigureColumn) -> Iterator[Cell]:
    for row, (place, name) in enumerate(zip(table.places, table.names, strict=True)):
        if column.figures.low[row] > 0:
            yield Cell(column, row, column.place if table.is_transposed else place, name)


def _possible_cells(stated: StatedFigure, table: FigureTable) -> Iterator[Cell]:
    """Yield the cells of a table that a sentence may be about: those in its unit whose rows or columns it names.

    A figure of up to three digits is like many cells by chance, so that the sentence must name a single row. A per cent
    may be of anything: the sentence must name the column, "MFU".
    """
    clauses = _clauses_around(stated)
    columns = [column for column in table.columns if has_unit_of(stated, column)]
    in_columns = named_columns(clauses, columns, needs_name=stated.dimension == "percent")
    in_rows = named_rows(clauses, table)

    names_any = len(in_rows) < len(table.places) or len(in_columns) < len(columns)
    names_enough = len(in_rows) == 1 or len(_significant_digits(stated.printed)) > 3
    if names_any and names_enough:
        for column in in_columns:
            yield from (cell for cell in _cells(table, column) if cell.row in in_rows)


def _clauses_around(stated: StatedFigure) -> list[str]:
    """Return the texts around a figure that may name its row and column, the most telling first.

    These are its clause, the clause up to the figure, the sentence up to the end of the clause, and up to the figure.
    """
    sentence, start = stated.sentence, stated.position
    end = start + len(stated.printed)
    bounds = list(END_OF_CLAUSE.finditer(sentence))
    clause_start = max((m.end() for m in bounds if m.end() <= start), default=0)
    clause_end = min((m.start() for m in bounds if m.start() >= end), default=len(sentence))
    return [sentence[clause_start:clause_end], sentence[clause_start:start], sentence[:clause_end], sentence[:start]]
