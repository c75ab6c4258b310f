"""Scaling as anybody would ask for it first: per configuration the rate, speed-up and efficiency at each size."""

from collections import defaultdict
from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from scaleproof.auditor.checks.baselines import Scaling
from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.checks.overview import Mark, by_subject, mark_of, rate_of_run
from scaleproof.auditor.checks.printed import interval
from scaleproof.auditor.checks.rows import (
    MEASURED,
    STEADY,
    RowSeries,
    figure,
    name_of,
    place,
    printed,
    series_of,
)
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import ReportedRow
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.number_format import percent, times

BESIDE = ("mfu", "flops_per_s", "memory_bytes")  # that are shown where a row prints them
LABEL = 60


class ScalingLine(BaseModel):
    """One size of one configuration. Figures are for people; `place` is the row or the run."""

    model_config = ConfigDict(extra="forbid")

    configuration: str
    place: str
    devices: int
    rate: str = ""
    speedup: str = ""
    efficiency: str = ""
    baseline: str = ""
    beside: str = ""
    mark: Mark = ""


def scaling_lines(context: AuditContext, findings: list[Finding]) -> list[ScalingLine]:
    """All sizes of all configurations that were measured at two or more, the tables first."""
    about = by_subject(findings)
    lines = [*_of_tables(context), *_of_runs(context)]
    for line in lines:
        line.mark = mark_of(about[line.place])
    return lines


def _of_tables(context: AuditContext) -> Iterator[ScalingLine]:
    """A line for each row of each series of a table, the smallest size first."""
    for table in context.tables:
        for series in series_of(table):
            name = _configuration(series)
            for row in series.rows:
                yield _line(row, series, name)


def _configuration(series: RowSeries) -> str:
    """The words that all rows of a series have in common, else the heading above their table, else its place."""
    first_words = dict.fromkeys(series.rows[0].words.values())
    common = [word for word in first_words if all(word in row.words.values() for row in series.rows)]
    if common:
        return ", ".join(common)[:LABEL]
    return series.table.heading[:LABEL] or series.table.name


def _line(row: ReportedRow, series: RowSeries, name: str) -> ScalingLine:
    """The line of a row; `name` is its configuration's. No speed-up where its figures leave open which one it is."""
    devices = (row.devices or 1) / (series.bases[0].devices or 1)
    rate = next((q for kind in MEASURED if (q := figure(row, kind)) is not None), None)
    line = ScalingLine(configuration=name, place=place(row), devices=row.devices or 1)
    if rate is not None:
        line.rate = f"{printed(rate)} ({rate.heading})"[:LABEL] if rate.heading else printed(rate)
    line.beside = ", ".join(f"{q.heading} {printed(q)}" for kind in BESIDE if (q := figure(row, kind)) is not None)
    ratios = series.ratios(row, devices, STEADY) or series.ratios(row, devices)
    if row in series.bases or not ratios:
        return line
    stated = figure(row, "speedup")
    readings = ratios[0].readings
    ratio = next((r for r in readings if stated is not None and interval(stated).meets(r)), readings[0])
    if len(readings) == 1 or stated is not None:
        line.speedup, line.efficiency = times(ratio.middle), percent(ratio.middle / devices)
        line.baseline = name_of(series.bases[0])
    return line


def _of_runs(context: AuditContext) -> Iterator[ScalingLine]:
    """A line for each run that is a baseline, followed by those of the larger runs over it."""
    by_base: dict[str, list[Scaling]] = defaultdict(list)
    for scaling in context.scalings:
        by_base[scaling.base.name].append(scaling)
    for scalings in by_base.values():
        yield _line_of_run(scalings[0].base)
        for scaling in scalings:
            line = _line_of_run(scaling.run)
            line.baseline = scaling.base.name
            if scaling.speedups:
                low, high = scaling.speedups
                line.speedup = times(low) if times(low) == times(high) else f"{times(low)} to {times(high)}"
                line.efficiency = percent((low + high) / 2 / scaling.devices)
            yield line


def _line_of_run(run: ReportedRun) -> ScalingLine:
    return ScalingLine(configuration=run.name, place=run.name, devices=run.world_size or 1, rate=rate_of_run(run))
