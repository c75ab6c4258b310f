"""Speed-ups and efficiencies of sentences beside tables: "3.9x on 4 GPUs", where the rows of their file give 3.2x.

Texts speak of much that stands in no table. So a figure alone is held against no cell.
"""

import re
from collections.abc import Iterator

from scaleproof.auditor.checks import comparisons
from scaleproof.auditor.checks.columns import FigureTable
from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.checks.efficiencies import efficiencies_follow
from scaleproof.auditor.checks.explanations import columns_follow
from scaleproof.auditor.checks.matching import evidence_index, match, stated_interval
from scaleproof.auditor.checks.rows import RowSeries, hull_of, series_of
from scaleproof.auditor.read.reported import StatedFigure
from scaleproof.auditor.read.reported_tables import ReportedRow, ReportedTable
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
DIFFERENT = 0.05  # relative difference of figures that are not one
OF_OTHERS = re.compile(
    r"(?i)\b(?:previous\w*|before|earlier|older?|originally|formerly|instead of|budget|limit|capacity|goal|"
    r"threshold|et al|reported (?:by|in))\b|\b(?:in|by|to) ,"  # "In [1], ...", whose mark is left out
)


def contradicted_sentences(context: AuditContext) -> Iterator[Flag]:
    """Flag figures of sentences that tables of their file contradict: speed-ups of devices or rows."""
    flags_on_devices = list(_contradicted_speedups(context))
    yield from flags_on_devices
    flagged_sources = {flag.about[0] for flag in flags_on_devices}

    tables_by_file: dict[str, list[FigureTable]] = {}
    for stated in context.evidence.stated_figures[:MOST_SENTENCES]:
        if stated.source in flagged_sources or stated.hypothetical or OF_OTHERS.search(stated.sentence):
            continue
        if stated.file not in tables_by_file:
            tables = (table for table in context.all_tables if table.file == stated.file)
            tables_by_file[stated.file] = [figures for table in tables for figures in context.figures_of(table)]
        yield from comparisons.flag_on_comparison(stated, tables_by_file[stated.file])


def _contradicted_speedups(context: AuditContext) -> Iterator[Flag]:
    """Flag "3.9x on 4 GPUs", or an efficiency, if each series of the sentence's document with 4 devices contradicts it.

    Not where any two rows or runs of the whole audit give the figure: it may be about these. A printed speed-up that
    is wrong itself gives none.
    """
    index = None
    for stated in filter(_is_of_devices, context.evidence.stated_figures[:MOST_SENTENCES]):
        tables = (table for table in context.tables if table.file == stated.file)
        all_series = [series for table in tables for series in series_of(table)][:MOST_SERIES]
        contradictions = [flag for series in all_series for flag in _contradictions(stated, series)]
        of_this_size = [series for series in all_series if any(row.devices == stated.devices for row in series.rows)]
        if contradictions and len(contradictions) == len(of_this_size):
            if index is None:  # made once, and only where it is needed
                findings = (*context.findings_of(columns_follow), *context.findings_of(efficiencies_follow))
                wrong = {place for finding in findings if finding.severity != "note" for place in finding.runs}
                index = evidence_index(context.evidence, wrong)
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
