"""One figure in several places: sentences beside tables, tables beside tables and runs of the same configurations.

Two places are held against each other only where figures that both print show that they are about the same measurement.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from statistics import fmean

from scaleproof.auditor.checks.context import AuditContext, near, of_evidence
from scaleproof.auditor.checks.matching import SETTING_KINDS, evidence_index, match, stated_interval
from scaleproof.auditor.checks.published_claims import claims_follow
from scaleproof.auditor.checks.rows import MEASURED, RATES, TIMES, RowSeries, hull_of, series_of
from scaleproof.auditor.read.reported import ReportedRun, StatedFigure
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable
from scaleproof.auditor.read.words import is_inference, names_in
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import times

SOURCES_TOLERANCE = 0.05  # relative difference of two figures of one measurement
EQUAL_TOLERANCE = 0.002  # relative difference of one figure that is printed twice, beside its rounding
TELLING_PRECISION = 0.01  # relative width of a figure that shows, where it is equal to another, that the two are one
EQUAL_PER_DIFFERENT = 2  # figures that are equal, for each one that differs
COMPARED_KINDS = (*MEASURED, "speedup", "efficiency", "mfu", "memory_bytes")
GENERAL_KINDS = {"rate": RATES, "time_s": TIMES}  # kinds of which a heading says no more, and what they may be
MOST_TABLES, MOST_ROWS = 60, 100  # that are held against each other
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
ATTRIBUTES = ("strategy", "precision", "model", "dataset", "device", "backend", "run")


@of_evidence.finds("claim-not-in-data", "suspect")
def claims_are_in_the_data(context: AuditContext) -> Iterator[Flag]:
    """The published figure does not come out of the files that are published with it.

    Detected: More than 0.5 % (and 0.006) between the claim and the figure recomputed from the files; a change that
    stands beside both its ends ("2x faster (9 s → 3 s)") and is neither their ratio nor their difference, within 5 %; a
    product, quotient or sum that is written out ("4 nodes x 8 GPUs = 64") and is another number in any unit.
    Seen: GPT-2 on L4: 4.789 comes out of no log.
    Repair: Generate tables from files; retype nothing.
    """
    yield from claims_follow(context)
    yield from _contradicted_sentences(context)
    for result in context.evidence.stated_results:
        if not any(result.stated.meets(reading, SOURCES_TOLERANCE) for reading in result.readings):
            yield Flag(f"“{result.printed}”: {result.right}", [result.source])


def _contradicted_sentences(context: AuditContext) -> Iterator[Flag]:
    """Flag a speed-up or efficiency in a sentence, if each series of its document with so many devices contradicts it.

    Not where any two rows or runs of the whole audit give the figure: it may be about these.
    """
    index = None
    for stated in filter(_is_of_devices, context.evidence.stated_figures[:MOST_SENTENCES]):
        tables = (table for table in context.tables if table.file == stated.file)
        all_series = [series for table in tables for series in series_of(table)][:MOST_SERIES]
        contradictions = [flag for series in all_series for flag in _contradictions(stated, series)]
        series_with_size = sum(any(row.devices == stated.devices for row in series.rows) for series in all_series)
        if contradictions and len(contradictions) == series_with_size:
            index = index or evidence_index(context.evidence)  # made once, and only where it is needed
            if match(stated, index) is None:
                yield contradictions[0]


def _is_of_devices(stated: StatedFigure) -> bool:
    """Whether a sentence states a measured speed-up or efficiency on N devices, over no baseline of another kind."""
    if stated.kind not in ("speedup", "efficiency") or stated.hypothetical or stated.bound not in (None, "~"):
        return False
    if OF_A_PART.search(stated.sentence.partition(stated.printed)[0]):
        return False
    baseline_is_clear = stated.over_devices is not None or not OTHER_BASELINE.search(stated.sentence)
    return bool(stated.devices) and baseline_is_clear


def _contradictions(stated: StatedFigure, series: RowSeries) -> Iterator[Flag]:
    """Flag a sentence for each row that it is about and that contradicts it: "3.9x on 4 GPUs", the row gives 3.2x."""
    if stated.over_devices not in (None, series.bases[0].devices):
        return
    base = series.bases[0].description
    is_efficiency = stated.kind == "efficiency"
    for row, devices in series.larger():
        ratios = series.ratios(row) if _is_about(stated, row, series.table) else []
        if not ratios:
            continue
        speedup = hull_of(ratios)
        right = speedup / devices if is_efficiency else speedup
        if stated_interval(stated).meets(right, SOURCES_TOLERANCE):
            continue
        corrected = None
        if right.precision < SOURCES_TOLERANCE:  # all figures of the row agree on one
            value, unit = (100 * right.middle, "%") if is_efficiency else (right.middle, "x")
            corrected = Correction(value=round(value, 3), unit=unit, derivation=f"{row.place} over {base}")
        given = " and ".join(f"{times(ratio.readings[0].middle)} by {ratio.heading}" for ratio in ratios)
        evidence = f"“{stated.printed}” on {stated.devices} devices; {row.place} gives {given} over {base}"
        yield Flag(evidence, [stated.source, row.place], corrected=corrected)


def _is_about(stated: StatedFigure, row: ReportedRow, table: ReportedTable) -> bool:
    """Whether a row has the devices and the words of a sentence: "DDP on 4 GPUs" and a row of 4, DDP."""
    words = row.words | table.words
    if row.devices != stated.devices or ("phase" in words) != is_inference([stated.sentence]):
        return False  # "phase" is there for inference alone
    if "strategy" in stated.words and _introduces(stated, table):
        words.setdefault("strategy", stated.words["strategy"])
    return all(words.get(name) == word for name, word in stated.words.items())


def _introduces(stated: StatedFigure, table: ReportedTable) -> bool:
    """Whether a sentence is the only paragraph above a table and names one strategy, which then holds for all rows."""
    paragraphs = table.grid.before if table.grid else []
    if len(paragraphs) != 1 or stated.sentence not in paragraphs[0]:
        return False
    named = names_in(" . ".join((*paragraphs, *table.section)))["strategy"]
    return named == {stated.words.get("strategy")}


@dataclass(frozen=True)
class _Place:
    """A row of a table or a run, and the attributes that it states: {"strategy": "ddp", "devices": 4}."""

    row: ReportedRow
    attributes: dict[str, str | float]

    def matches(self, other: "_Place") -> bool:
        """Whether both state something in common, a configuration or a size, and contradict each other in nothing."""
        common = self.attributes.keys() & other.attributes.keys()
        return len(common) > 1 and all(self.attributes[name] == other.attributes[name] for name in common)


@of_evidence.finds("files-disagree", "suspect")
def sources_agree(context: AuditContext) -> Iterator[Flag]:
    """Two files state different figures of one run or one configuration; one of them is of another run.

    Detected: World size, rate or wall time in RUN_COMPLETE or in the launcher's record differ from the metrics by more
    than 0.1 %; or two tables, or a table and runs, print most figures of the same configurations alike, and one of them
    more than 5 % apart. Rows that state the same are repeats: their mean is compared, and must be outside of them.
    Seen: A README whose notebook measured other figures.
    Repair: Write every run into a folder of its own, and the completion marker last; make tables from files.
    """
    yield from _contradicting_records(context)
    tables = [*context.tables[:MOST_TABLES], context.runs_table]
    sources = []
    for places in filter(None, map(_places, tables)):
        figures = (figure for place in places for figure in _compared_figures(place.row))
        sources.append((places, {f"{figure.value:.3g}" for figure in figures}))
    # Sources that do not share values, to three digits, are of something else.
    for (first, these), (second, those) in combinations(sources, 2):
        if first[0].row.file != second[0].row.file and len(these & those) >= EQUAL_PER_DIFFERENT:
            yield from _contradicting_places(first, second)


def _places(table: ReportedTable) -> list[_Place]:
    """Return the configurations of a table, one each for rows that state the same: repeats, with their mean figures."""
    repeats: dict[tuple[tuple[str, str | float], ...], list[ReportedRow]] = defaultdict(list)
    for row in table.rows[:MOST_ROWS]:
        if row.measured and _compared_figures(row):
            repeats[tuple(_attributes(row, table).items())].append(row)
    return [_Place(_mean_row(rows), dict(attributes)) for attributes, rows in repeats.items()]


def _mean_row(rows: list[ReportedRow]) -> ReportedRow:
    """Return one row with the means and spreads of the figures that all these rows have; a single row as it is."""
    if len(rows) == 1:
        return rows[0]
    means = []
    for first in _compared_figures(rows[0]):
        values = [figure.value for row in rows if (figure := row.usable(first.kind))]
        mean = fmean(values)
        spread = max(abs(value - mean) for value in values)
        if len(values) == len(rows):
            means.append(replace(first, value=mean, text=f"{mean:.5g} (mean of {len(rows)})", spread=spread))
    return replace(rows[0], figures=means) if means else rows[0]


def _compared_figures(row: ReportedRow) -> list[Quantity]:
    """Return the usable figures of a row that are compared between sources: speeds, ratios, MFU, memory."""
    return [figure for kind in COMPARED_KINDS if (figure := row.usable(kind))]


def _attributes(row: ReportedRow, table: ReportedTable) -> dict[str, str | float]:
    """Return what a row or its table states of the configuration: name -> word in lower case, or number."""
    words = {name: word.lower() for name, word in (table.words | row.words).items() if name in ATTRIBUTES}
    sizes = {kind: value for kind in SETTING_KINDS if (value := row.value(kind)) is not None}
    devices = {"devices": row.devices} if row.devices else {}
    return {**words, **sizes, **devices, "phase": row.words.get("phase", "")}


def _contradicting_places(first: Sequence[_Place], second: Sequence[_Place]) -> Iterator[Flag]:
    """Flag figures that two sources print differently, where they print EQUAL_PER_DIFFERENT times as many alike.

    Figures of surely one quantity are counted together, those of two columns that may be of one (a unit is not said) by
    themselves. Example: 100 and 390 tokens/s in both, 750 in one and 690 in the other.
    """
    equal: Counter[tuple[str, ...]] = Counter()  # () or the headings of two columns -> figures that tell
    different = defaultdict(list)
    for place, other in _pairs_of_places(first, second):
        for here, there in product(_compared_figures(place.row), _compared_figures(other.row)):
            is_surely_one = here.kind == there.kind and here.is_like(there) and here.unit_stated
            if not is_surely_one and not _may_be_one_quantity(here, there):
                continue
            headings = () if is_surely_one else (here.heading, there.heading)
            if here.interval.meets(there.interval, EQUAL_TOLERANCE):
                equal[headings] += min(here.interval.precision, there.interval.precision) <= TELLING_PRECISION
            elif not _range(here).meets(_range(there), SOURCES_TOLERANCE):
                different[headings].append((place.row, here, other.row, there))
    for headings, pairs in different.items():
        if equal[headings] < EQUAL_PER_DIFFERENT * len(pairs):
            continue  # the sources are of something else
        verb = "is" if equal[headings] == 1 else "are"
        others = f"{plural(equal[headings], 'other figure')} of the two places {verb} equal"
        for row, here, other_row, there in pairs:
            figures = f"{here.printed} in {row.place}, {there.printed} in {other_row.place}"
            yield Flag(f"{row.description}: {here.heading} {figures}; {others}", [row.place, other_row.place])


def _pairs_of_places(first: Sequence[_Place], second: Sequence[_Place]) -> Iterator[tuple[_Place, _Place]]:
    """Yield the pairs of places in two sources of which each matches the other and no third."""
    for place in first:
        matching = [other for other in second if place.matches(other)]
        if len(matching) == 1 and sum(rival.matches(matching[0]) for rival in first) == 1:
            yield place, matching[0]


def _may_be_one_quantity(here: Quantity, there: Quantity) -> bool:
    """Whether two figures may be the same quantity where a heading is vague: it has no unit, or says "rate" or "time".

    Their statistics must be equal, and neither may be per device where the other is of all.
    """
    kinds = {here.kind, there.kind}
    one_is_vague = any(name in kinds and kinds <= set(names) for name, names in GENERAL_KINDS.items())
    one_scope = here.per_device == there.per_device or None in (here.per_device, there.per_device)
    return (one_is_vague or len(kinds) == 1) and one_scope and here.statistic == there.statistic


def _range(quantity: Quantity) -> PrintedInterval:
    """Return what a figure may have been. A mean of repeats is widened by its spread: others may print one of them."""
    spread, around = quantity.spread or 0.0, quantity.interval
    return PrintedInterval(max(0.0, around.low - spread), around.high + spread)


def _contradicting_records(context: AuditContext) -> Iterator[Flag]:
    """Flag runs whose completion marker or launcher's record does not say what their metrics say."""
    for run in context.runs:
        wrong = [text for marker in context.evidence.completions for text in _differences_of_marker(run, marker)]
        launched = run.details.get("launcher_world")
        if launched and run.world_size and launched != run.world_size:
            wrong.append(f"world size is {run.world_size} in the metrics and {launched} in the launcher's record")
        if wrong:
            yield Flag("; ".join(wrong), [run])


def _differences_of_marker(run: ReportedRun, marker: dict) -> Iterator[str]:
    """Yield a sentence for each of world size, rate and wall time that a run and its completion marker state apart."""
    if marker["folder"] != run.details.get("folder") or run.rate_scope != "global" or not run.timed_spans:
        return
    metrics = {"world": run.world_size, "rate": run.details.get("mean_rate"), "wall": run.details.get("wall")}
    for name, value in metrics.items():
        if marker[name] and value and not near(marker[name], value, 1e-3):
            yield f"{name} is {value:g} in the metrics and {marker[name]:g} in {marker['name']}"
