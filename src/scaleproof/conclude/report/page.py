"""report.html: one page that needs nothing but itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from markupsafe import Markup

from scaleproof.conclude.analysis.ranking import largest_group
from scaleproof.conclude.report import HOUSE, page_tables
from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.conclude.report.claims_report import claims_report
from scaleproof.conclude.report.inline_svg import inline_svg
from scaleproof.conclude.report.page_facts import PageInputs, names_of_runs
from scaleproof.conclude.report.read_results import row_dicts
from scaleproof.conclude.report.sentences.ab import drift_sentences
from scaleproof.conclude.report.sentences.answer import Bullet, answer_campaign
from scaleproof.conclude.report.sentences.forecast import forecast_sentences
from scaleproof.conclude.report.sentences.next_step import command
from scaleproof.conclude.report.sentences.ratios import ab_sentence
from scaleproof.conclude.report.sentences.scaling import is_half_known, law_sentences, loss_sentence
from scaleproof.conclude.report.sentences.trace import trace_sentences
from scaleproof.conclude.report.sentences.trust import trust_in
from scaleproof.conclude.report.tables.cells import restated_time_note
from scaleproof.conclude.report.tables.comparison import comparison_rows, pair_rows
from scaleproof.conclude.report.tables.forecast import forecast_table
from scaleproof.conclude.report.tables.scaling import KINDS
from scaleproof.ground.chart_words import CHART_WORDS
from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.errors import plural
from scaleproof.ground.files import write_atomic
from scaleproof.ground.findings.finding import SEVERITIES, Correction, Finding
from scaleproof.ground.findings.forecast_report import ForecastReport
from scaleproof.ground.html import jinja_environment, link_cells, link_findings
from scaleproof.ground.number_format import estimate, in_unit, number
from scaleproof.ground.records.claims import CLAIMS
from scaleproof.ground.records.evidence import CHECKED, MEANING
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.scaling_report import ScalingReport

FIRST_CHARTS = 4  # charts that are seen at once
MOST_CELLS = 8  # named in the heading of a finding
PLACED = ("waterfall", "forecast", "comparison")  # charts that stand in sections of their own
MOST_JOBS = 4  # whole jobs, or cells with one device, that are named below the table of cells
TRACE_CHARTS = tuple(name for name in CHART_WORDS if name.startswith("trace-"))
LEAST_TRACES = {"trace-communication": 2}  # of a chart; for a single cell this one repeats the chart of its steps
SIGNED = '<dd id="signature">'  # with "unsigned" in it, or the key of a publication


@dataclass(frozen=True)
class Drawing:
    """A chart on the page."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Occurrence:
    """Findings that say the same of several runs. `where`: "ddp-n1x2/rep1, rep2"."""

    where: str
    evidence: str
    corrected: Correction | None


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one code and severity. `where`: the cells or comparisons, and the number of runs.

    `in_rows`: whether a cell of the table has one of them.
    """

    code: str
    severity: str
    where: str
    advice: list[str]
    occurrences: list[Occurrence]
    in_rows: bool


def write_page(inputs: PageInputs, out: Path) -> None:
    """Write the report to `out`, and claims.json beside it; links in it are relative to its folder."""
    page = page_text(inputs)  # first: it refuses damaged charts
    write_atomic(out.parent / CLAIMS, claims_text(inputs))
    write_atomic(out, page)


def claims_text(inputs: PageInputs) -> str:
    claims = claims_report(inputs).model_dump_json(indent=2, by_alias=True)
    return in_unit(inputs.without_hosts(claims), inputs.report.unit)


def page_text(inputs: PageInputs) -> str:
    """Return the HTML of the report, with rates in the campaign's unit, and host names left out if they are private."""
    rows = _run_rows(inputs.runs_table, inputs.findings.findings)
    template = jinja_environment(HOUSE, number=number).get_template("report.html.j2")
    page = template.render(_template_values(inputs), run_rows=rows)
    return in_unit(inputs.without_hosts(page), inputs.report.unit)


def with_signature(page: str, fingerprint: str, file: str) -> str:
    """Return the text of a page with the key of its publication in place of "unsigned"."""
    signature = f'{SIGNED}by the SSH key {fingerprint}: <a href="{file}">{file}</a>'
    return page.replace(f"{SIGNED}unsigned", signature, 1)


def _template_values(inputs: PageInputs) -> dict[str, Any]:
    """Return what the template is filled with, name -> value, but for the rows of runs (`_run_rows`)."""
    report = inputs.report
    facts = inputs.facts
    sides = {"A": report.question.base, "B": report.question.subject} if report.question else {}
    slugs = set(inputs.cells["cell"])  # the names of cells, whose rows the page can link to
    tables = _page_tables(inputs)
    context: dict[str, Any] = {
        "report": report,
        "evidence": MEANING[report.evidence],
        "checked": CHECKED[report.evidence],
        "when": facts.when,
        "machine": facts.machine,
        "campaign_file": inputs.campaign_file,
        "command": command(report),
        "sides": [(side, cell, facts.commands[cell]) for side, cell in sides.items() if cell in facts.commands],
        "lost": facts.lost,
        "failed": facts.failed,
        "protocol": facts.protocol,
        "environment": facts.environment,
        "machine_check": facts.machine_check,
        "tables": tables,
        "columns": page_tables.defined_columns(tables.values()),
        "terms": page_tables.terms_of_page(inputs),
        "definition_of": lambda name: COLUMNS[name].definition,
        "forecast": _forecast_values(inputs.forecast),
        "compared": [[ab_sentence(c), *drift_sentences(c, inputs.cells)] for c in inputs.comparisons],
        "comparison_rows": comparison_rows(inputs.comparisons).to_dict("records"),
        "pair_rows": pair_rows(inputs.comparisons),
        "traces": [(profile.cell, trace_sentences(profile)) for profile in inputs.profiles],
        "trace_rows": [page_tables.trace_row(trace) for trace in inputs.traces.ok] if inputs.traces else [],
    }
    context |= _answer_values(inputs, slugs) | _scaling_values(inputs)
    return context | _chart_values(inputs) | _finding_values(inputs, slugs)


def _forecast_values(forecast: ForecastReport | None) -> dict[str, Any] | None:
    """Return sentences and rows of the forecasts; None without forecast.json."""
    if not forecast:
        return None
    rows = forecast_table(forecast.forecasts).to_dict("records") if forecast.forecasts else []
    are_any_made = any(row.forecast for row in forecast.forecasts)  # not all refused
    return {"sentences": forecast_sentences(forecast), "rows": rows, "are_any_made": are_any_made}


def _answer_values(inputs: PageInputs, slugs: set[str]) -> dict[str, Any]:
    """Return the values of the answer at the top, and whether it can be trusted. `slugs`: the cells that have a row."""
    conclusion = answer_campaign(inputs.report, inputs.comparisons, inputs.forecast, inputs.remarks)
    trust = trust_in(inputs.findings, inputs.report, len(inputs.facts.lost), inputs.comparisons)
    severities = _severities(inputs.findings.findings)
    bullets = conclusion.bullets_of_page(inputs.report, bool(inputs.facts.failed))
    return {
        "verdict": conclusion.verdict,
        "whole_job": _whole_job(inputs.report),
        "bullets": [(bullet.topic, _bullet_html(bullet, slugs)) for bullet in bullets],
        "trust": trust,
        "trust_text": link_findings(trust.text, severities) if trust else "",
        "trust_elsewhere": link_findings(trust.elsewhere, severities) if trust else "",
    }


def _whole_job(report: ScalingReport) -> tuple[str, page_tables.PageFigure] | None:
    """Return the cell that the verdict is about, and the speed-up of its whole job over its series' smallest size.

    Returns None where the verdict is about another ratio, or nothing is known of whole jobs.
    """
    if report.question or report.status != "ok":
        return None
    group = largest_group(report.ranking)
    candidates = [series for series in report.series if len(series.runs) > 1]  # the verdict is about the first of them
    if group:  # the verdict is on a cell of the group against one device: on the recommended, else the fastest
        cell = group.advice.cell or group.comparable[0].cell
        ending_in_cell = [series for series in report.series if series.points[-1].cell == cell]
        # Only a series whose baseline is the one device that the verdict compares the cell with.
        candidates = [series for series in ending_in_cell if series.points[-1].best_single == series.baseline]
    for series in candidates:
        last = series.points[-1]
        if ratio := last.speedup_by_job_wall_time:
            job = page_tables.series_figure(last, "speedup_by_job_wall_time", ratio)
            text = estimate(ratio, unit="x")
            return last.cell, replace(job, text=text, source=series.baseline, undecided=ratio.spans())
    return None


def _scaling_values(inputs: PageInputs) -> dict[str, Any]:
    """Return what stands around the tables of cells and series: notes, baselines, sentences on laws and losses."""
    report = inputs.report
    is_scaled = any(series.kind for series in report.series)
    return {
        "restated": restated_time_note(inputs.cells).strip(),
        "whole_jobs": _whole_jobs(report),
        "singles": _single_devices(report),
        "curved": [s.kind for s in report.series if len(s.runs) > 2],  # kinds whose table is open at first
        "laws": {kind: law_sentences(report, kind) for kind in KINDS},
        "baselines": [(s.name, s.kind, s.baseline) for s in report.series if s.kind],
        "without_baseline": [s.name for s in report.series if not s.kind] if is_scaled else [],
        "losses": [loss_sentence(cell) for cell in inputs.waterfall if is_half_known(cell)],
    }


def _chart_values(inputs: PageInputs) -> dict[str, Any]:
    """Return what the page's template needs of charts.

    `charts`: those of the section on charts, of which the first `first_charts` are seen at once. `placed`: those with a
    section of their own by name, None for one without content. `trace_charts`: those of traces.
    """
    charts = _charts_with_content(inputs)
    return {
        "charts": [chart for chart in charts if chart.name not in PLACED],
        "placed": dict.fromkeys(PLACED) | {chart.name: chart for chart in charts if chart.name in PLACED},
        "first_charts": FIRST_CHARTS,
        "trace_charts": _trace_charts(inputs),
    }


def _finding_values(inputs: PageInputs, slugs: set[str]) -> dict[str, Any]:
    """Return the values of the findings: below the table of cells, in their section, and wherever a code stands."""
    findings = inputs.findings.findings
    groups = group_findings(findings, slugs)
    of_severity = group_by(findings, lambda finding: finding.severity)
    return {
        "footnotes": [group for group in groups if group.severity != "note"],
        "checks": len(inputs.findings.checks),
        "groups": groups,
        "severities": {word: _count_text(of_severity[word]) for word in SEVERITIES if word in of_severity},
        "severity_of": _severities(findings),
        "codes_of_cell": _codes_by_place(findings, "cells"),
    }


def _run_rows(runs: pd.DataFrame, findings: list[Finding]) -> Markup:
    """Return the rows of the table of `runs` (runs.csv) as HTML, with links relative to the page's folder."""
    template = jinja_environment(HOUSE, number=number).get_template("run_rows.html.j2")
    return Markup(template.render(runs=row_dicts(runs), codes_of_run=_codes_by_place(findings, "runs")))


def _bullet_html(bullet: Bullet, slugs: set[str]) -> Markup:
    """Return a bullet as HTML, followed by what it rests on in soft grey. `slugs`: the cells that have a row.

    Its cells link to their rows: where text or basis names them (`sentence` is both, and the label), else in
    "(see ...)" behind the text.
    """
    label = Markup("<strong>{}:</strong> ").format(bullet.label) if bullet.label else Markup("")
    named = link_cells(bullet.sentence, slugs)
    unnamed_cells = [cell for cell in bullet.cells if cell in slugs and f">{cell}</a>" not in named]
    see_also = f" (see {', '.join(unnamed_cells)})" if unnamed_cells else ""
    statement = label + link_cells(f"{bullet.text}{see_also}", slugs)
    if not bullet.basis:
        return statement
    return statement + Markup(' <span class="soft">({})</span>').format(link_cells(bullet.basis, slugs))


def _page_tables(inputs: PageInputs) -> dict[str, page_tables.PageTable]:
    """Return the tables of the page by their names: all cells, then each kind of scaling that there is."""
    report = inputs.report
    tables = {"cells": page_tables.cells_view(inputs.cells, report)}
    for kind in KINDS:
        if any(series.kind == kind for series in report.series):
            tables[kind] = page_tables.series_view(report, kind)
    return tables


def _whole_jobs(report: ScalingReport) -> list[tuple[str, page_tables.PageFigure, page_tables.PageFigure]]:
    """Return (cell, speed-up of the whole job, speed-up in the window) of the largest size of a few series."""
    jobs = []
    for point in (series.points[-1] for series in report.series if series.kind):
        of_job, of_window = point.speedup_by_job_wall_time, point.speedup
        if of_job and of_window:
            job = page_tables.series_figure(point, "speedup_by_job_wall_time", of_job)
            window = page_tables.series_figure(point, "speedup", of_window)
            jobs.append((point.cell, job, window))
    return jobs[:MOST_JOBS]


def _single_devices(report: ScalingReport) -> list[str]:
    """Return the cells with one device that others are compared with; [] where they are too many to name."""
    best = [point.best_single for point in report.points if point.best_single and point.speedup_vs_best_single]
    cells = list(dict.fromkeys(best))
    return cells if len(cells) <= MOST_JOBS else []


def _charts_with_content(inputs: PageInputs) -> list[Drawing]:
    """Return the charts that have something to show: by cells and report, as CATALOG asks, or by their own results."""
    # All are read: the manifest has the hashes of those without content, too, and a damaged one is refused.
    drawings = {name: _drawing(inputs, name) for name in inputs.drawn}
    names = [name for name in inputs.drawn if CATALOG[name].has_content(inputs.cells, inputs.report)]
    if any(comparison.estimate for comparison in inputs.comparisons):
        names.append("comparison")  # the chart of A/B pairs, which is not in CATALOG
        drawings["comparison"] = _drawing(inputs, "comparison")
    has_forecasts = inputs.forecast is not None and any(row.forecast for row in inputs.forecast.forecasts)
    has_waterfall = any(map(is_half_known, inputs.waterfall))
    # The conditions in CATALOG do not see these results.
    empty = {"forecast": not has_forecasts, "waterfall": not has_waterfall}
    return [drawings[name] for name in names if not empty.get(name)]


def _trace_charts(inputs: PageInputs) -> list[Drawing]:
    """Return the charts of traces; charts that compare traces only where there are several."""
    trace_count = len(inputs.traces.ok) if inputs.traces else 0
    drawings = [_drawing(inputs, name) for name in TRACE_CHARTS] if inputs.traces else []
    return [drawing for drawing in drawings if trace_count >= LEAST_TRACES.get(drawing.name, 1)]


def _drawing(inputs: PageInputs, name: str) -> Drawing:
    """Return the chart `name` of a campaign, from its SVG file."""
    words = CHART_WORDS[name]
    return Drawing(name, words.title, words.caption, inline_svg(inputs.charts / f"{name}.svg", name, words.title))


def group_findings(findings: list[Finding], slugs: set[str]) -> list[FindingGroup]:
    """Group findings by code and severity, in their order: the most severe first. `slugs`: the cells with a row."""
    groups = []
    for (code, severity), group in group_by(findings, lambda finding: (finding.code, finding.severity)).items():
        cells = set(chain.from_iterable(finding.cells for finding in group))
        groups.append(
            FindingGroup(
                code=code,
                severity=severity,
                where=_group_location(group),
                advice=list(dict.fromkeys(finding.advice for finding in group)),
                occurrences=_group_occurrences(group),
                in_rows=not slugs.isdisjoint(cells),
            )
        )
    return groups


def _count_text(findings: Sequence[Finding]) -> str:
    """Return how many `findings` of a severity there are, and in how many runs: "27 suspect findings in 12 runs"."""
    severity = findings[0].severity
    runs = set(chain.from_iterable(finding.runs for finding in findings))
    text = plural(len(findings), "note" if severity == "note" else f"{severity} finding")
    return f"{text} in {plural(len(runs), 'run')}" if runs else text


def _group_location(group: list[Finding]) -> str:
    """Return which cells and runs a group of findings concerns: "zero2-n1x2, zero3-n1x2 (6 runs)"; "" without cells."""
    cells = list(dict.fromkeys(chain.from_iterable(finding.cells for finding in group)))
    runs = set(chain.from_iterable(finding.runs for finding in group))
    cells_text = ", ".join(cells) if len(cells) <= MOST_CELLS else f"{len(cells)} cells"
    if not cells or len(runs) < 2:
        return cells_text
    return f"{cells_text} ({plural(len(runs), 'run')})"


def _group_occurrences(group: list[Finding]) -> list[Occurrence]:
    """Return what a group of findings says, each text once, with its runs (or cells)."""
    occurrences = []
    for alike in group_by(group, lambda finding: (finding.evidence, str(finding.corrected))).values():
        names = names_of_runs(list(chain.from_iterable(finding.runs or finding.cells for finding in alike)))
        occurrences.append(Occurrence(names, alike[0].evidence, alike[0].corrected))
    return occurrences


def _severities(findings: list[Finding]) -> dict[str, str]:
    """Return code -> severity, for a code with several the most severe: `findings` begin with the most severe."""
    return {finding.code: finding.severity for finding in reversed(findings)}


def _codes_by_place(findings: list[Finding], places: Literal["cells", "runs"]) -> dict[str, dict[str, str]]:
    """Return name of a cell or run -> the codes of its findings -> severity there, which may be less than elsewhere."""
    codes: dict[str, dict[str, str]] = {}
    for finding in findings:  # the most severe first
        for place in getattr(finding, places):
            codes.setdefault(place, {}).setdefault(finding.code, finding.severity)
    return codes
