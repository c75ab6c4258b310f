"""What was read: a line for each run and each row of a table, and per configuration the speed-up at each size."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from pydantic import BaseModel

from scaleproof.auditor.checks.baselines import Scaling, epoch_seconds, samples_rate, steps_rate, total_rate
from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.checks.rows import MEASURED, RowSeries, series_of
from scaleproof.auditor.read.printed_figures import RESULTS
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import LARGEST, PrintedInterval, ReportedRow, ReportedTable
from scaleproof.auditor.read.words import describe, names_in
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.number_format import integer, percent, times

Mark = Literal["invalid", "suspect", "waived", ""]
Range = tuple[float, float]
WORK_WORDS = ("strategy", "precision", "model", "phase")
CORRECTED_UNITS = ("x", "tokens/s", "samples/s", "%", "ms", "s")  # speeds and times, the ratio first
RATIOS = {"speedup", "efficiency", "change"}
USE = {"memory_bytes", "memory_share", "utilization", "communication_share"}  # of a device
MOST_LISTED_ROWS = 200  # rows of one table that are listed


class OverviewLine(BaseModel, extra="forbid"):
    """One line of what was read. Figures are printed with their units; empty where the files do not say.

    `values`: figures as numbers in base units, by kind: {"tokens_per_s": 390.0}; `recomputed_range`: least and most.
    """

    name: str
    place: str
    devices: int | None = None
    work: str = ""
    rate: str = ""
    published: str = ""
    recomputed: str = ""
    corrected: str = ""
    mark: Mark = ""
    values: dict[str, float] = {}
    recomputed_range: Range | None = None


def overview_lines(context: AuditContext, findings: list[Finding]) -> list[OverviewLine]:
    """Return a line for each run, then each row of a table; where there is neither, for each sentence with a figure."""
    about = by_subject(findings)
    return [*_run_lines(context, about), *_row_lines(context, about)] or list(_sentence_lines(context, about))


Subjects = dict[str, list[Finding]]  # name of a run, or place of a row -> findings about it


def by_subject(findings: Iterable[Finding]) -> Subjects:
    """Return name of a run or place -> findings about it. Returns [] for any other name."""
    subjects: Subjects = defaultdict(list)
    for finding in findings:
        for name in finding.runs:
            subjects[name].append(finding)
    return subjects


def _run_lines(context: AuditContext, about: Subjects) -> Iterator[OverviewLine]:
    """Yield a line for each run, with what claims say of it ("3.9x") and its speed-up over its baseline ("3.52x")."""
    published: dict[str, dict[str, str]] = defaultdict(dict)  # run -> kind of a claim -> its figure
    for claim in context.claims("speedup", "throughput"):
        value = claim.values["value"]
        text = f"{value:g}x" if claim.kind == "speedup" else f"{integer(value)} tokens/s"
        published[claim.values["of"]][claim.kind] = text  # "of": the name of the run
    speedups = {scaling.run.name: scaling.speedups for scaling in context.scalings}

    for run in context.evidence.runs:
        figures, speedup = published[run.name], speedups.get(run.name)
        yield OverviewLine(
            name=run.name,
            place=run.files[0] if run.files else run.name,
            devices=run.world_size,
            work=_work_of_run(run),
            rate=rate_of_run(run),
            published=", ".join(figures[kind] for kind in ("speedup", "throughput") if kind in figures),
            recomputed=_span(times, *speedup) if speedup else "",
            values=_values_of_run(run),
            recomputed_range=speedup or None,
            corrected=_corrected_figure(about[run.name], {run.name}),
            mark=mark_of(about[run.name]),
        )


def _work_of_run(run: ReportedRun) -> str:
    """Return what a run did, as far as it says so: "ddp, bf16, gpt2, batch 64 x 1024"."""
    parts = [str(word) for word in (run.strategy, run.precision, run.model, run.phase) if word]
    if run.global_batch or run.micro_batch:
        batch = f"batch {run.global_batch}" if run.global_batch else f"micro-batch {run.micro_batch}"
        parts.append(f"{batch} x {run.seq_len}" if run.seq_len else batch)
    if run.copy_of:
        parts.append(f"a copy of {run.copy_of}")
    return ", ".join(parts)


def _values_of_run(run: ReportedRun) -> dict[str, float]:
    """Return how fast a run says it was as numbers: {"tokens_per_s": 12345.0}."""
    rate = total_rate(run)
    total = {rate.unit.replace("/", "_per_").replace("FLOP", "flops"): rate.value} if rate else {}
    others = {"samples_per_s": samples_rate(run), "steps_per_s": steps_rate(run), "epoch_time_s": epoch_seconds(run)}
    return total | {kind: value for kind, value in others.items() if value}


def rate_of_run(run: ReportedRun) -> str:
    """Return how fast a run says it was, for people: "12,345 tokens/s", "24.3 s an epoch"; "" where it does not say."""
    rate = total_rate(run)
    if rate is None:
        return _other_rate_of_run(run)
    if rate.unit == "FLOP/s":
        return f"{rate.value / 1e12:,.4g} TFLOP/s"
    if rate.unit == "epochs/s":
        return f"{1 / rate.value:,.4g} s an epoch"
    return f"{rate.value:,.5g} {rate.unit}" if rate.value < 1e4 else f"{integer(rate.value)} {rate.unit}"


def _other_rate_of_run(run: ReportedRun) -> str:
    """Return samples/s (of one rank or of all), the time of an epoch or steps/s in words; "" without any."""
    if samples := samples_rate(run):
        return f"{samples:,.5g} samples/s"
    seconds = epoch_seconds(run)
    spans_are_epochs = bool(run.timed_spans) and run.timed_spans[0].index is not None
    if seconds and spans_are_epochs:
        return f"{seconds:,.4g} s an epoch"
    steps = steps_rate(run)
    return f"{steps:,.4g} steps/s" if steps else ""


def _row_lines(context: AuditContext, about: Subjects) -> Iterator[OverviewLine]:
    """Yield a line for each of the first MOST_LISTED_ROWS rows of each table, in the order of the files."""
    for table in context.evidence.tables:
        series_of_row = {id(row): series for series in series_of(table) for row in series.rows}
        names = _names_by_place(table, about)
        for row in table.rows[:MOST_LISTED_ROWS]:
            yield _row_line(table, row, series_of_row.get(id(row)), _findings_on(row, names, about))


def _names_by_place(table: ReportedTable, about: Subjects) -> dict[str, list[str]]:
    """Return "file:line" -> names of its rows; a line has several where each column is a configuration."""
    names: dict[str, list[str]] = defaultdict(list)
    for row in table.rows:
        for place in _places(row) & about.keys():
            names[place] += [row.description, row.name]
    return names


def _places(row: ReportedRow) -> set[str]:
    """Return "file:line" of a row and of its figures, which have lines of their own where columns are rows."""
    return {row.place, *row.places_of(row.figures)}


def _findings_on(row: ReportedRow, names: dict[str, list[str]], about: Subjects) -> list[Finding]:
    """Return the findings about a row. `names`: of the rows of its table by their place."""
    findings = ((place, finding) for place in sorted(_places(row)) for finding in about[place])
    return [finding for place, finding in findings if _is_about(finding, row, names[place])]


def _is_about(finding: Finding, row: ReportedRow, names: list[str]) -> bool:
    """Whether a finding on a line of a file is about this one of the rows that stand there, or about all.

    `names`: those of all rows of the line. Evidence about one row begins with its name; the longest that fits counts,
    as one name may begin with another.
    """
    named = [name for name in names if finding.evidence.startswith(f"{name}: ")]
    return not named or max(named, key=len) in (row.description, row.name)


def _sentence_lines(context: AuditContext, about: Subjects) -> Iterator[OverviewLine]:
    """Yield a line for each of the first MOST_LISTED_ROWS figures that sentences state as results, not hypotheses."""
    measured = [stated for stated in context.evidence.stated_figures if not stated.hypothetical]
    for stated in measured[:MOST_LISTED_ROWS]:
        is_ratio = stated.kind in ("speedup", "change", "efficiency")
        names = names_in(stated.sentence)  # with two models in it, the model of the figure is unknown
        words = {kind: word for kind, word in stated.words.items() if len(names.get(kind, ())) < 2}
        clause, _, behind = stated.sentence[stated.position :].partition(",")
        if re.search(r"(?<![\w.-])\d", behind):  # a list: what it names behind the figure is of another one
            nearer = describe(stated.sentence[: stated.position] + clause).words
            words = {kind: word for kind, word in words.items() if kind in nearer}
        start = (
            stated.sentence.rfind(" ", 0, max(stated.position - 40, 0)) + 1
        )  # what stands before the figure names it
        yield OverviewLine(
            name=f"“{stated.sentence[start : start + 60]}”",
            place=stated.source,
            devices=stated.devices,
            work=", ".join(words[kind] for kind in WORK_WORDS if kind in words),
            rate="" if is_ratio else stated.printed,
            published=stated.printed if is_ratio else "",
            mark=mark_of(about[stated.source]),
        )


def _row_line(
    table: ReportedTable, row: ReportedRow, series: RowSeries | None, findings: list[Finding]
) -> OverviewLine:
    """Return the line of a row, with its printed speed-up and the one that its series gives, e.g. "3.9x", "3.52x"."""
    printed = [figure.printed for kind in ("speedup", "efficiency") if (figure := row.usable(kind)) is not None]
    work = [row.words.get(word) or table.words.get(word) or "" for word in WORK_WORDS]
    batch = row.value("global_batch") or row.value("batch")
    length = row.value("seq_len")
    speedup = _recomputed_speedup(row, series)
    sizes = [
        f"batch {batch:g}" if batch and batch.is_integer() else "",
        f"length {length:g}" if length else "",
        *sorted(row.remarks),
    ]
    return OverviewLine(
        name=row.name,
        place=row.place,
        devices=row.devices,
        work=", ".join(filter(None, [*work, *sizes])),
        rate=_rate_of_row(row, table),
        published=", ".join(printed),
        recomputed=_span(times, *speedup) if speedup else "",
        values=_values_of_row(row),
        recomputed_range=speedup,
        corrected=_corrected_figure(findings, _places(row)),
        mark=mark_of(findings),
    )


def _rate_of_row(row: ReportedRow, table: ReportedTable) -> str:
    """Return the first figure of speed that a row prints, else its first result, with its heading: "390 (tokens/s)".

    Memory and the like stand for a speed only in a table without any.
    """
    figure = next((figure for kind in MEASURED if (figure := row.usable(kind)) is not None), None)
    if figure is None:
        no_speed = RATIOS if table.kinds().isdisjoint(MEASURED) else RATIOS | USE
        results = (figure.kind for figure in row.figures if figure.kind in RESULTS - no_speed)
        figure = next((figure for kind in results if (figure := row.usable(kind)) is not None), None)
    if figure is None:
        return ""
    return f"{figure.printed} ({figure.heading})"[:LABEL_LENGTH] if figure.heading else figure.printed


def _values_of_row(row: ReportedRow) -> dict[str, float]:
    """Return the usable figures of a row as numbers, the first of each kind: {"tokens_per_s": 390.0}."""
    kinds = dict.fromkeys(figure.kind for figure in row.figures)
    return {kind: figure.value for kind in kinds if (figure := row.known(kind)) is not None}


def _recomputed_speedup(row: ReportedRow, series: RowSeries | None) -> Range | None:
    """Return how many times as fast as its baseline a row is, least and most. Returns None where it has none.

    Figures may have several readings (a rate of all devices, or one): those that the printed speed-up confirms count.
    """
    if series is None or row in series.bases:
        return None
    stated = row.usable("speedup")
    readings = [reading for ratio in series.steadiest_ratios(row) for reading in ratio.readings if is_bounded(reading)]
    confirmed = [reading for reading in readings if stated is not None and stated.interval.meets(reading)]
    ends = sorted(end for reading in confirmed or readings for end in _ends(reading))
    return (ends[0], ends[-1]) if ends else None


def is_bounded(ratio: PrintedInterval) -> bool:
    """Whether a ratio says anything, as one over a printed "1", which may have been next to 0, does not."""
    return ratio.high < LARGEST


def _ends(ratio: PrintedInterval) -> tuple[float, float]:
    """Return the ratio of the printed figures twice; the smallest and the largest one over several baselines."""
    return (ratio.low, ratio.high) if ratio.as_printed is None else (ratio.as_printed, ratio.as_printed)


def _span(unit: Callable[[float], str], low: float, high: float) -> str:
    """Return a range in words: "3.4x to 3.6x", "3.5x" where both ends are printed alike."""
    first = unit(low)
    last = unit(high)
    return first if first == last else f"{first} to {last}"


def _corrected_figure(findings: list[Finding], names: set[str]) -> str:
    """Return the corrected figure of findings whose first run or row is one of `names`, by CORRECTED_UNITS, or ""."""
    about_it = (finding for finding in findings if finding.runs[0] in names and finding.severity != "note")
    corrections = [finding.corrected for finding in about_it if finding.corrected]
    by_unit = (correction for unit in CORRECTED_UNITS for correction in corrections if correction.unit == unit)
    return next((correction.figure for correction in by_unit), "")


def mark_of(findings: list[Finding]) -> Mark:
    """Return the severity of the worst finding. Returns "" where there are only notes."""
    severities = {finding.severity for finding in findings}
    return next((severity for severity in ("invalid", "suspect") if severity in severities), "")


KINDS_BESIDE = ("mfu", "flops_per_s", "memory_bytes")  # that are shown where a row prints them
LABEL_LENGTH = 60


class ScalingLine(BaseModel, extra="forbid"):
    """One size of one configuration; `place` is the row or the run.

    Figures are for people; `values` has them as numbers in base units, ranges the least and the most.
    """

    configuration: str
    place: str
    devices: int
    rate: str = ""
    speedup: str = ""
    efficiency: str = ""
    baseline: str = ""
    beside: str = ""
    mark: Mark = ""
    values: dict[str, float] = {}
    speedup_range: Range | None = None
    efficiency_range: Range | None = None


def scaling_lines(context: AuditContext, findings: list[Finding]) -> list[ScalingLine]:
    """Return a line for each size of each configuration whose rows or runs have a speed-up over another, tables first.

    Others, such as rows of one size and different work, stand in the overview alone.
    """
    about = by_subject(findings)
    lines: list[ScalingLine] = []
    for series in context.series:
        name = _configuration(series)
        names = _names_by_place(series.table, about)
        of_series = [(row, _scaling_line(name, row, series)) for row in series.rows]
        if any(line.speedup or line.beside for _, line in of_series):
            for row, line in of_series:
                line.mark = mark_of(_findings_on(row, names, about))
                lines.append(line)
    for line in _scaling_lines_of_runs(context):
        line.mark = mark_of(about[line.place])
        lines.append(line)
    return lines


def _configuration(series: RowSeries) -> str:
    """Return the words that all rows of a series share, "ddp, bf16", else the heading or the place of their table."""
    first_words = dict.fromkeys(series.rows[0].words.values())
    common = [word for word in first_words if all(word in row.words.values() for row in series.rows)]
    if common:
        return ", ".join(common)[:LABEL_LENGTH]
    return series.table.heading[:LABEL_LENGTH] or series.table.name


def _scaling_line(configuration: str, row: ReportedRow, series: RowSeries) -> ScalingLine:
    """Return the line of a row, with speed-up and efficiency ("3.6x", "90 %") unless it is a baseline.

    Figures with two readings, such as a rate of one device or of all, give these only beside a printed speed-up: by the
    reading that it confirms, else by the first.
    """
    line = ScalingLine(
        configuration=configuration, place=row.place, devices=row.devices or 1, rate=_rate_of_row(row, series.table)
    )
    line.values = _values_of_row(row)
    beside = [figure for kind in KINDS_BESIDE if (figure := row.usable(kind)) is not None]
    line.beside = ", ".join(f"{figure.heading} {figure.printed}" for figure in beside)
    ratios = series.steadiest_ratios(row)
    readings = [*filter(is_bounded, ratios[0].readings)] if ratios else []
    if row in series.bases or not readings:
        return line
    stated = row.usable("speedup")
    confirmed = (reading for reading in readings if stated is not None and stated.interval.meets(reading))
    speedup = next(confirmed, readings[0])
    if len(readings) == 1 or stated is not None:
        line.speedup_range = low, high = _ends(speedup)
        line.efficiency_range = (low / series.times_devices(row), high / series.times_devices(row))
        line.speedup = _span(times, low, high)
        line.efficiency = _span(percent, *line.efficiency_range)
        others = len(series.bases) - 1
        line.baseline = series.bases[0].name + f" and {others} more" * bool(others)
    return line


def _scaling_lines_of_runs(context: AuditContext) -> Iterator[ScalingLine]:
    """Yield a line for each run that is a baseline, followed by those of the larger runs over it: "3.4x to 3.6x"."""
    by_base: dict[str, list[Scaling]] = defaultdict(list)
    for scaling in context.scalings:
        by_base[scaling.base.name].append(scaling)
    for scalings in by_base.values():
        yield _scaling_line_of_run(scalings[0].base)
        for scaling in scalings:
            line = _scaling_line_of_run(scaling.run)
            line.baseline = scaling.base.name
            if scaling.speedups:
                line.speedup_range = low, high = scaling.speedups
                line.efficiency_range = (low / scaling.devices, high / scaling.devices)
                line.speedup = _span(times, low, high)
                line.efficiency = percent((low + high) / 2 / scaling.devices)
            yield line


def _scaling_line_of_run(run: ReportedRun) -> ScalingLine:
    line = ScalingLine(configuration=run.name, place=run.name, devices=run.world_size or 1, rate=rate_of_run(run))
    line.values = _values_of_run(run)
    return line
