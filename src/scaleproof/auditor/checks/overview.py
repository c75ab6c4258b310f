"""What was read: one line for each run and each row of a table, with what was published and what follows from it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from statistics import median_high
from typing import Literal

from pydantic import BaseModel, ConfigDict

from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.checks.printed import interval
from scaleproof.auditor.checks.rows import (
    MEASURED,
    STEADY,
    RowSeries,
    describe,
    figure,
    name_of,
    place,
    printed,
    series_of,
)
from scaleproof.auditor.checks.speeds import epoch_seconds, speed
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import ReportedRow, ReportedTable
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.number_format import integer

Mark = Literal["invalid", "suspect", "note", ""]
WORDS = ("strategy", "precision", "model")
CORRECTED_UNITS = ("x", "tokens/s", "samples/s", "%", "ms", "s")  # speeds and times, the ratio first
PER_TABLE = 200  # rows of one table that are listed


class OverviewLine(BaseModel):
    """One line of what was read. Figures are printed with their units; empty where the files do not say."""

    model_config = ConfigDict(extra="forbid")

    name: str
    place: str
    devices: int | None = None
    work: str = ""
    rate: str = ""
    published: str = ""
    recomputed: str = ""
    corrected: str = ""
    mark: Mark = ""


def readings(context: AuditContext, findings: list[Finding]) -> list[OverviewLine]:
    """Runs first, then tables in the order of the files; sentences where there is nothing else."""
    about = by_subject(findings)
    return [*_runs(context, about), *_rows(context, about)] or list(_sentences(context, about))


Subjects = dict[str, list[Finding]]


def by_subject(findings: Iterable[Finding]) -> Subjects:
    """Findings by the run or place that they are about; a name without any has an empty list."""
    subjects: Subjects = defaultdict(list)
    for finding in findings:
        for name in finding.runs:
            subjects[name].append(finding)
    return subjects


def _runs(context: AuditContext, about: Subjects) -> Iterator[OverviewLine]:
    published = {claim.values["of"]: claim.values["value"] for claim in context.claims("speedup")}
    rates = {claim.values["of"]: claim.values["value"] for claim in context.claims("throughput")}
    ratios = {s.run.name: s.speedups for s in context.scalings}
    for run in context.evidence.runs:
        claims = [f"{published[run.name]:g}x"] if run.name in published else []
        claims += [f"{integer(rates[run.name])} tokens/s"] if run.name in rates else []
        ratio = ratios.get(run.name)
        yield OverviewLine(
            name=run.name,
            place=run.files[0] if run.files else run.name,
            devices=run.world_size,
            work=_work_of_run(run),
            rate=rate_of_run(run),
            published=", ".join(claims),
            recomputed=_span(*ratio) if ratio else "",
            corrected=_corrected(about[run.name], run.name),
            mark=mark_of(about[run.name]),
        )


def _work_of_run(run: ReportedRun) -> str:
    words = [str(w) for w in (run.strategy, run.precision, run.model) if w]
    batch = (
        f"batch {run.global_batch}" if run.global_batch else f"micro-batch {run.micro_batch}" * bool(run.micro_batch)
    )
    length = f" x {run.seq_len}" if run.seq_len and batch else ""
    copied = f"a copy of {run.copy_of}" if run.copy_of else ""
    return ", ".join(filter(None, [*words, batch + length, copied]))


def rate_of_run(run: ReportedRun) -> str:
    """How fast a run says it was, for people."""
    rate = speed(run)
    if rate is None:
        # Whose samples they are is often unsaid: they are shown, and nothing is computed of them.
        samples = [span.samples_per_s for span in run.timed_spans if span.samples_per_s]
        samples = samples or run.logged_steps.nonzero("samples_per_s").tolist()
        if samples:
            return f"{median_high(samples):,.5g} samples/s"
        seconds = epoch_seconds(run)
        return f"{seconds:,.4g} s an epoch" if seconds and run.timed_spans[0].index is not None else ""
    if rate.unit == "FLOP/s":
        return f"{rate.value / 1e12:,.4g} TFLOP/s"
    if rate.unit == "epochs/s":
        return f"{1 / rate.value:,.4g} s an epoch"
    return f"{rate.value:,.5g} {rate.unit}" if rate.value < 1e4 else f"{integer(rate.value)} {rate.unit}"


def _rows(context: AuditContext, about: Subjects) -> Iterator[OverviewLine]:
    for table in context.evidence.tables:
        series = {id(row): s for s in series_of(table) for row in s.rows}
        beside: dict[str, list[str]] = defaultdict(list)  # rows of one line: columns may be configurations
        for row in table.rows:
            beside[place(row)].append(describe(row))
        for row in table.rows[:PER_TABLE]:
            findings = [f for f in about[place(row)] if _is_about(f, row, beside[place(row)])]
            yield _row(table, row, series.get(id(row)), findings)


def _is_about(finding: Finding, row: ReportedRow, beside: list[str]) -> bool:
    """Whether a finding on a line is about this row of it, which its evidence names first, or about all of them."""
    named = [label for label in beside if finding.evidence.startswith(f"{label}: ")]
    return not named or describe(row) == max(named, key=len)


def _sentences(context: AuditContext, about: Subjects) -> Iterator[OverviewLine]:
    measured = [stated for stated in context.evidence.stated_figures if not stated.hypothetical]
    for stated in measured[:PER_TABLE]:
        ratio = stated.kind in ("speedup", "change", "efficiency")
        yield OverviewLine(
            name=f"“{stated.sentence[:60]}”",
            place=stated.source,
            devices=stated.devices,
            work=", ".join(stated.words[word] for word in WORDS if word in stated.words),
            rate="" if ratio else stated.printed,
            published=stated.printed if ratio else "",
            mark=mark_of(about[stated.source]),
        )


def _row(table: ReportedTable, row: ReportedRow, series: RowSeries | None, findings: list[Finding]) -> OverviewLine:
    ratios = [figure(row, kind) for kind in ("speedup", "efficiency")]
    work = [row.words.get(word) or table.words.get(word) or "" for word in WORDS]
    batch = row.value("global_batch") or row.value("batch")
    length = row.value("seq_len")
    sizes = [f"batch {batch:g}" if batch else "", f"length {length:g}" if length else "", *sorted(row.remarks)]
    return OverviewLine(
        name=name_of(row),
        place=place(row),
        devices=row.devices,
        work=", ".join(filter(None, [*work, *sizes])),
        rate=next((_measured(row, kind) for kind in MEASURED if figure(row, kind)), ""),
        published=", ".join(f"{printed(q)}" for q in ratios if q is not None),
        recomputed=_recomputed(row, series),
        corrected=_corrected(findings, place(row)),
        mark=mark_of(findings),
    )


def _measured(row: ReportedRow, kind: str) -> str:
    quantity = figure(row, kind)
    if quantity is None:
        return ""
    return f"{printed(quantity)} ({quantity.heading})"[:60] if quantity.heading else printed(quantity)


def _recomputed(row: ReportedRow, series: RowSeries | None) -> str:
    """How many times as fast as the smallest row it is, in the reading that its printed speed-up confirms, if any."""
    if series is None or row in series.bases:
        return ""
    devices = (row.devices or 1) / (series.bases[0].devices or 1)
    ratios = series.ratios(row, devices, STEADY) or series.ratios(row, devices)
    stated = figure(row, "speedup")
    readings = [reading for ratio in ratios for reading in ratio.readings]
    confirmed = [reading for reading in readings if stated is not None and interval(stated).meets(reading)]
    middles = sorted(reading.middle for reading in confirmed or readings)
    return _span(middles[0], middles[-1]) if middles else ""


def _span(low: float, high: float) -> str:
    first, last = f"{low:.3g}", f"{high:.3g}"
    return f"{first}x" if first == last else f"{first}x to {last}x"


def _corrected(findings: list[Finding], name: str) -> str:
    """The corrected figure of the most severe finding that is about this run or row first of all."""
    corrections = [
        finding.corrected
        for finding in findings
        if finding.corrected and finding.runs[0] == name and finding.severity != "note"
    ]
    figures = [c.figure for unit in CORRECTED_UNITS for c in corrections if c.unit == unit]
    return figures[0] if figures else ""


def mark_of(findings: list[Finding]) -> Mark:
    """The severity of the worst of them, above a note."""
    for severity in ("invalid", "suspect"):
        if any(finding.severity == severity for finding in findings):
            return severity
    return ""
