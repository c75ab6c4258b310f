"""One figure in several places: tables beside tables and runs of the same configurations.

Two places are held against each other only where figures that both print show that they are about the same measurement.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from statistics import fmean

from scaleproof.auditor.checks.context import AuditContext, has_relative_errors, near, of_evidence
from scaleproof.auditor.checks.matching import SETTING_KINDS
from scaleproof.auditor.checks.published_claims import claims_follow
from scaleproof.auditor.checks.rows import MEASURED, RATES, TIMES
from scaleproof.auditor.checks.sentences import contradicted_sentences
from scaleproof.auditor.read.printed_figures import figures_of, plain_text
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Severity
from scaleproof.ground.findings.registry import Flag

SOURCES_TOLERANCE = 0.05  # relative difference of two figures of one measurement
COMPUTED_TOLERANCE = 0.02  # the same of a result that is printed to the digit
TELLING_DIGITS = 1e-4  # relative width of such a result
EQUAL_TOLERANCE = 1e-4  # relative difference of one figure that is printed twice, beside its rounding
TELLING_PRECISION = 0.01  # relative width of a figure that shows, where it is equal to another, that the two are one
FEWEST_EVIDENCE = 2.0  # decimal logarithm of how unlikely it is that relative errors are a power of ten off by chance
EQUAL_PER_DIFFERENT = 2  # figures that are equal, for each one that differs
COMPARED_KINDS = (*MEASURED, "speedup", "efficiency", "mfu", "memory_bytes")
GENERAL_KINDS = {"rate": RATES, "time_s": TIMES}  # kinds of which a heading says no more, and what they may be
MOST_TABLES, MOST_ROWS = 60, 100  # that are held against each other
SIZE_OF_MODEL = re.compile(r"(?<![a-z\d.])\d+(?:\.\d+)?[bm](?![a-z\d])")
FILE_OF_DATA = re.compile(r"\.(?:jsonl?|csv|tsv)(?:#|$)")
ATTRIBUTES = ("strategy", "precision", "model", "dataset", "device", "backend", "run")


@of_evidence.finds("claim-not-in-data", "suspect")
def claims_are_in_the_data(context: AuditContext) -> Iterator[Flag]:
    """The published figure does not come out of the files that are published with it.

    Detected: More than 0.5 % (and 0.006) between the claim and the figure recomputed from the files (of an MFU from its
    flops and peak); a change that stands beside both its ends ("2x faster (9 s → 3 s)") and is neither their ratio nor
    their difference, within 5 %; a product, quotient or sum that is written out ("4 nodes x 8 GPUs = 64") and is
    another number in any unit; a figure of a sentence whose words name a cell of a table that differs by one digit, or
    by two that are exchanged (a note, all of these: prose may mean something else); how many times as fast, or by how
    many per cent more or less, a sentence says that one row is than another, if no column gives it within 10 %;
    relative errors that are not those of the two figures beside them, but in all rows one power of ten away.
    Seen: GPT-2 on L4: 4.789 comes out of no log.
    Repair: Generate tables from files; retype nothing.
    """
    yield from claims_follow(context)
    yield from contradicted_sentences(context)
    for table in context.tables:
        yield from _shifted_errors(table)
    for result in context.evidence.stated_results:
        tolerance = COMPUTED_TOLERANCE if result.stated.precision < TELLING_DIGITS else SOURCES_TOLERANCE
        if not any(result.stated.meets(reading, tolerance) for reading in result.readings):
            # Prose has more meanings of "=" than are known here: it is to be looked at.
            yield Flag(f"“{result.printed}”: {result.right}", [result.source], severity="note")


def _shifted_errors(table: ReportedTable) -> Iterator[Flag]:
    """Flag relative errors in percent that are a power of ten, the same in all rows, times those of the two figures.

    An error of another norm, or over many steps, is off by another factor in each row.
    """
    if table.grid is None or not has_relative_errors(table):
        return
    flags: list[Flag] = []
    powers: set[int] = set()
    evidence = 0.0
    for line, cells in table.grid.rows[:MOST_ROWS]:
        printed = [figures_of(plain_text(cell)) for cell in cells[1:4]]
        if [len(figures) for figures in printed] != [1, 1, 1]:
            continue
        one, other, error = (figures[0] for figures in printed)
        gap, rounding = abs(one.value - other.value), (one.resolution + other.resolution) / 2
        in_percent = error.unit is not None and error.unit.dimension == "percent"
        if not in_percent or one.unit != other.unit or gap <= 2 * rounding or abs(error.value) <= error.resolution:
            continue
        right = 100 * gap / max(abs(one.value), abs(other.value))  # in percent
        power = round(math.log10(abs(error.value) / right))
        least, most = (abs(error.value) + side * error.resolution for side in (-1, 1))
        if not least / (1 + rounding / gap) <= right * 10.0**power <= most / (1 - rounding / gap):
            return
        powers.add(power)
        evidence -= math.log10(min(1.0, math.log10(most / least)))  # any factor has a power of ten this near by chance
        sentence = f"{plain_text(cells[0])}: {plain_text(table.grid.header[3])} {error.text}, but {one.text} and "
        flags.append(Flag(f"{sentence}{other.text} are {right:.2g}% apart", [f"{table.file}:{line}"]))
    if len(powers) == 1 and powers != {0} and evidence >= FEWEST_EVIDENCE:
        yield from flags


@dataclass(frozen=True)
class _Place:
    """A row of a table or a run, and the attributes that it states: {"strategy": "ddp", "devices": 4}."""

    row: ReportedRow
    attributes: dict[str, str | float]

    @cached_property
    def model_sizes(self) -> set[str]:
        """The sizes of models that the row and the name of its file state: {"70b"}."""
        return set(SIZE_OF_MODEL.findall(" ".join((self.row.file, *self.row.texts.values())).lower()))

    def matches(self, other: "_Place") -> bool:
        """Whether both state something in common, a configuration or a size, and contradict each other in nothing."""
        if self.model_sizes and other.model_sizes and self.model_sizes.isdisjoint(other.model_sizes):
            return False
        common = self.attributes.keys() & other.attributes.keys()
        # All places have a phase ("" for training): more than that must be common.
        return len(common) > 1 and all(self.attributes[name] == other.attributes[name] for name in common)


@of_evidence.finds("files-disagree", "suspect")
def sources_agree(context: AuditContext) -> Iterator[Flag]:
    """Two files state different figures of one run or one configuration; one of them is of another run.

    Detected: World size, rate or wall time in RUN_COMPLETE or in the launcher's record differ from the metrics by more
    than 0.1 %; or two tables, or a table and runs, print most figures of the same configurations alike, and one of them
    more than 5 % apart (a note in two files of data: the newer may repeat what was not measured again). Rows that state
    the same are repeats: their mean is compared, and must be outside of them.
    Seen: A README whose notebook measured other figures.
    Repair: Make tables and sentences from the files; write every run into a folder of its own, its end marker last.
    """
    yield from _contradicting_records(context)
    tables = [*context.tables[:MOST_TABLES], context.runs_table]
    sources = []  # (places of a table, its figures as texts of three digits)
    for places in filter(None, map(_places, tables)):
        figures = (figure for place in places for figure in _compared_figures(place.row))
        sources.append((places, {f"{figure.value:.3g}" for figure in figures}))
    # Sources that do not share values, to three digits, are of something else.
    for (first, these), (second, those) in combinations(sources, 2):
        files = {re.sub(r"\d", "", first[0].row.file), re.sub(r"\d", "", second[0].row.file)}
        # Names that differ in their digits alone, "bench_2025.csv" and "bench_2026.csv", are of two runs.
        if len(files) > 1 and len(these & those) >= EQUAL_PER_DIFFERENT:
            severity: Severity | None = "note" if all(FILE_OF_DATA.search(file) for file in files) else None
            yield from (replace(flag, severity=severity) for flag in _contradicting_places(first, second))


def _places(table: ReportedTable) -> list[_Place]:
    """Return the configurations of a table. Rows that state the same, words too, are repeats: one row with means."""
    repeats: dict[tuple[tuple[tuple[str, str | float], ...], ...], list[ReportedRow]] = defaultdict(list)
    for row in table.rows[:MOST_ROWS]:
        if row.measured and _compared_figures(row):
            words = tuple((name, text) for name, text in row.texts.items() if not re.search(r"\d", text))
            repeats[tuple(_attributes(row, table).items()), words].append(row)
    return [_Place(_mean_row(rows), dict(attributes)) for (attributes, _), rows in repeats.items()]


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
    """Return what a row or its table states of the configuration: {"strategy": "ddp", "devices": 4, "phase": ""}."""
    words = {name: word.lower() for name, word in (table.words | row.words).items() if name in ATTRIBUTES}
    sizes = {kind: value for kind in SETTING_KINDS if (value := row.value(kind)) is not None}
    devices = {"devices": row.devices} if row.devices else {}
    return {**words, **sizes, **devices, "phase": row.words.get("phase", "")}


def _contradicting_places(first: Sequence[_Place], second: Sequence[_Place]) -> Iterator[Flag]:
    """Flag figures that two sources print differently, where they print EQUAL_PER_DIFFERENT times as many alike.

    Figures that are surely of one quantity are counted together. Two columns that may be of one quantity, because a
    heading has no unit, are counted apart. Example: 100 and 390 tokens/s in both, 750 in one and 690 in the other.
    """
    # Keys: () for figures that are surely of one quantity, else the headings of the two columns.
    equal: Counter[tuple[str, ...]] = Counter()  # -> how many telling figures are equal
    near: Counter[tuple[str, ...]] = Counter()  # -> how many are only nearly so, as those of another run
    contradictions = defaultdict(list)  # -> (what is wrong, where) of each figure that differs
    for place, other in _pairs_of_places(first, second):
        for here, there in product(_compared_figures(place.row), _compared_figures(other.row)):
            is_surely_one = here.kind == there.kind and here.is_like(there) and here.unit_stated
            if not is_surely_one and not _may_be_one_quantity(here, there):
                continue
            headings = () if is_surely_one else (here.heading, there.heading)
            if _range(here).meets(_range(there), SOURCES_TOLERANCE):
                # Another run has the same memory, which shows nothing; 737.1 beside 738.4 shows that it is another.
                is_precise = min(here.interval.precision, there.interval.precision) <= TELLING_PRECISION
                is_equal = here.interval.meets(there.interval, EQUAL_TOLERANCE)
                (equal if is_equal else near)[headings] += is_precise and here.kind != "memory_bytes"
            else:
                figures = f"{here.printed} in {place.row.place}, {there.printed} in {other.row.place}"
                evidence = f"{place.row.description}: {here.heading} {figures}"
                contradictions[headings].append((evidence, [place.row.place, other.row.place]))

    for headings, wrong in contradictions.items():
        if equal[headings] - near[headings] < EQUAL_PER_DIFFERENT * len(wrong):
            continue  # the sources are of something else
        verb = "is" if equal[headings] == 1 else "are"
        others = f"{plural(equal[headings], 'other figure')} of the two places {verb} equal"
        yield from (Flag(f"{evidence}; {others}", about) for evidence, about in wrong)


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
    """Yield a sentence for each of world size, rate and wall time that differs in a run and its completion marker."""
    if marker["folder"] != run.details.get("folder") or run.rate_scope != "global" or not run.timed_spans:
        return
    metrics = {"world": run.world_size, "rate": run.details.get("mean_rate"), "wall": run.details.get("wall")}
    for name, value in metrics.items():
        if marker[name] and value and not near(marker[name], value, 1e-3):
            yield f"{name} is {value:g} in the metrics and {marker[name]:g} in {marker['name']}"
