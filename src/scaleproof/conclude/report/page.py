"""report.html: one page that needs nothing but itself."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from scaleproof.conclude.report.sentences.scaling import is_half_known, law_sentences, loss_sentences
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
from scaleproof.ground.html import jinja_environment, link_cells, link_findings
from scaleproof.ground.number_format import in_unit, number
from scaleproof.ground.records.claims import CLAIMS
from scaleproof.ground.records.evidence import CHECKED, MEANING
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.scaling_report import ScalingReport

FIRST_CHARTS = 4  # charts that are seen at once
MOST_CELLS = 8  # named in the heading of a finding
PLACED = ("waterfall", "forecast", "comparison")  # charts that stand in sections of their own
MOST_JOBS = 4  # named below the table of cells
TRACE_CHARTS = tuple(name for name in CHART_WORDS if name.startswith("trace-"))
COMPARING = ("trace-communication",)  # for a single cell it repeats the chart of its steps
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
    """Findings of one code and severity; `where`: the cells or comparisons and the number of runs.

    `in_rows`: whether a cell of the table has one.
    """

    code: str
    severity: str
    where: str
    advice: list[str]
    occurrences: list[Occurrence]
    in_rows: bool


def write_page(inputs: PageInputs, out: Path) -> None:
    """Write the report to `out`, and claims.json beside it; links in it are relative to its folder."""
    write_atomic(out.parent / CLAIMS, claims_text(inputs))
    write_atomic(out, page_text(inputs, out.parent))


def claims_text(inputs: PageInputs) -> str:
    """Return the text of claims.json."""
    claims = claims_report(inputs).model_dump_json(indent=2, by_alias=True)
    return in_unit(inputs.without_hosts(claims), inputs.report.unit)


def page_text(inputs: PageInputs, folder: Path) -> str:
    """Return the text of the report; `folder`: of the campaign, which links are relative to."""
    rows = _run_rows(inputs.runs_table, inputs.findings.findings, folder)
    template = jinja_environment(HOUSE, number=number).get_template("report.html.j2")
    page = template.render(_template_values(inputs), run_rows=rows)
    return in_unit(inputs.without_hosts(page), inputs.report.unit)


def with_signature(page: str, fingerprint: str, file: str) -> str:
    """Return the text of a page with the key that it is published with, in place of "unsigned"."""
    signed = f'{SIGNED}by the SSH key {fingerprint}: <a href="{file}">{file}</a>'
    return page.replace(f"{SIGNED}unsigned", signed, 1)


def _template_values(inputs: PageInputs) -> dict[str, Any]:
    """Return what the template is filled with, name -> value; a template of its own makes the rows of runs."""
    report, forecast = inputs.report, inputs.forecast
    facts = inputs.facts
    slugs = set(inputs.cells["cell"])  # the names of cells, whose rows the page can link to
    tables = _page_tables(inputs)
    forecast_rows = forecast_table(forecast.forecasts).to_dict("records") if forecast and forecast.forecasts else []
    context: dict[str, Any] = {
        "report": report,
        "evidence": MEANING[report.evidence],
        "checked": CHECKED[report.evidence],
        "when": facts.when,
        "machine": facts.machine,
        "campaign_file": inputs.campaign_file,
        "command": command(report),
        "lost": facts.lost,
        "failed": facts.failed,
        "protocol": facts.protocol,
        "environment": [*facts.environment, *(facts.machine_check.facts if facts.machine_check else [])],
        "machine_check": facts.machine_check,
        "tables": tables,
        "columns": page_tables.defined_columns(tables.values()),
        "terms": page_tables.terms_of_page(inputs),
        "definition_of": lambda name: COLUMNS[name].definition,
        "forecast": {"sentences": forecast_sentences(forecast), "rows": forecast_rows} if forecast else None,
        "compared": [[ab_sentence(c), *drift_sentences(c, inputs.cells)] for c in inputs.comparisons],
        "comparison_rows": comparison_rows(inputs.comparisons).to_dict("records"),
        "pair_rows": pair_rows(inputs.comparisons),
        "traces": [(profile.cell, trace_sentences(profile)) for profile in inputs.profiles],
        "trace_rows": [page_tables.trace_row(trace) for trace in inputs.traces.ok] if inputs.traces else [],
    }
    context |= _answer(inputs, slugs) | _scaling_values(inputs)
    return context | _chart_values(inputs) | _finding_values(inputs, slugs)


def _answer(inputs: PageInputs, slugs: set[str]) -> dict[str, Any]:
    """Return the values of the answer at the top, and whether it can be trusted. `slugs`: the cells that have a row."""
    conclusion = answer_campaign(inputs.report, inputs.comparisons, inputs.forecast)
    trust = trust_in(inputs.findings, inputs.report, len(inputs.facts.lost), inputs.comparisons)
    severities = _severities(inputs.findings.findings)
    return {
        "verdict": conclusion.verdict,
        "whole_job": _whole_job(inputs.report),
        "bullets": [_bullet_html(bullet, slugs) for bullet in conclusion.bullets_of_page(inputs.report)],
        "trust": trust,
        "trust_text": link_findings(trust.text, severities) if trust else "",
        "trust_elsewhere": link_findings(trust.elsewhere, severities) if trust else "",
    }


def _whole_job(report: ScalingReport) -> page_tables.PageFigure | None:
    """Return the speed-up of the whole job of the cell that the verdict is about, over its series' smallest size.

    None where the verdict is about another ratio, or nothing is known of whole jobs.
    """
    if report.question or report.status != "ok":
        return None
    if group := largest_group(report.ranking):  # the verdict is on its cell against one device
        cell = group.advice.cell or group.comparable[0].cell
        ends = [(series.baseline, series.points[-1]) for series in report.series]
        meant = [(base, last) for base, last in ends if last.cell == cell and last.best_single == base]
    else:  # it is on the first series of several sizes
        meant = [(series.baseline, series.points[-1]) for series in report.series if len(series.runs) > 1]
    for baseline, last in meant:
        if ratio := last.speedup_by_job_wall_time:
            job = page_tables.series_figure(last, "speedup_by_job_wall_time", ratio)
            return replace(job, source=baseline, undecided=ratio.spans())
    return None


def _scaling_values(inputs: PageInputs) -> dict[str, Any]:
    """Return the values around the tables of cells and series, and of the sentences on where scaling is lost."""
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
        "losses": loss_sentences(inputs.waterfall),
    }


def _chart_values(inputs: PageInputs) -> dict[str, Any]:
    """Return the values of the charts: those with a section of their own by name, and all others."""
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
    groups = _group_findings(findings, slugs)
    return {
        "footnotes": [group for group in groups if group.severity != "note"],
        "checks": len(inputs.findings.checks),
        "groups": groups,
        "severities": {s: sum(finding.severity == s for finding in findings) for s in SEVERITIES},
        "severity_of": _severities(findings),
    }


def _run_rows(runs: pd.DataFrame, findings: list[Finding], folder: Path) -> Markup:
    """Return the rows of the table of `runs` (runs.csv) as HTML, with links relative to `folder`, the page's."""
    context = {
        "runs": row_dicts(runs),
        "codes_of_run": _codes_by_run(findings),
        "severity_of": _severities(findings),
        "base": f"{folder}/",  # which is taken off the paths of runs.csv
    }
    return Markup(jinja_environment(HOUSE, number=number).get_template("run_rows.html.j2").render(context))


def _bullet_html(bullet: Bullet, slugs: set[str]) -> Markup:
    """Return a bullet as HTML, followed by what it rests on in soft grey. `slugs`: the cells that have a row.

    Its cells link to their rows: where the text names them, else in "(see ...)" behind it.
    """
    label = Markup("<strong>{}:</strong> ").format(bullet.label) if bullet.label else Markup("")
    unnamed = [cell for cell in bullet.cells if cell in slugs and cell not in bullet.sentence]
    text = link_cells(f"{bullet.text} (see {', '.join(unnamed)})" if unnamed else bullet.text, slugs)
    if not bullet.basis:
        return label + text
    return label + text + Markup(' <span class="soft">({})</span>').format(link_cells(bullet.basis, slugs))


def _page_tables(inputs: PageInputs) -> dict[str, page_tables.PageTable]:
    """Return the tables of the page by their names: all cells, then each kind of scaling that there is."""
    kinds = [kind for kind in KINDS if any(s.kind == kind for s in inputs.report.series)]
    series = {kind: page_tables.series_view(inputs.report, kind) for kind in kinds}
    marked = {cell for finding in inputs.findings.findings if finding.severity != "note" for cell in finding.cells}
    return {"cells": page_tables.cells_view(inputs.cells, inputs.report, marked)} | series


def _whole_jobs(report: ScalingReport) -> list[tuple[str, page_tables.PageFigure, page_tables.PageFigure]]:
    """Return (cell, speed-up of the whole job, speed-up in the window) of the largest size of each series, a few."""
    jobs = []
    for point in (series.points[-1] for series in report.series if series.kind):
        if (of_job := point.speedup_by_job_wall_time) and (of_window := point.speedup):
            job = page_tables.series_figure(point, "speedup_by_job_wall_time", of_job)
            jobs.append((point.cell, job, page_tables.series_figure(point, "speedup", of_window)))
    return jobs[:MOST_JOBS]


def _single_devices(report: ScalingReport) -> list[str]:
    """Return the cells with one device that others are relative to; none where there are too many to name."""
    best = [point.best_single for point in report.points if point.best_single and point.speedup_vs_best_single]
    cells = list(dict.fromkeys(best))
    return cells if len(cells) <= MOST_JOBS else []


def _charts_with_content(inputs: PageInputs) -> list[Drawing]:
    """Return the charts that have something to show."""
    chosen = [name for name in inputs.drawn if CATALOG[name].has_content(inputs.cells, inputs.report)]
    chosen += ["comparison"] if any(c.estimate for c in inputs.comparisons) else []
    if not any(map(is_half_known, inputs.waterfall)):
        chosen = [name for name in chosen if name != "waterfall"]
    if not inputs.forecast or not any(row.forecast for row in inputs.forecast.forecasts):
        chosen = [name for name in chosen if name != "forecast"]
    return [_drawing(inputs, name) for name in chosen]


def _trace_charts(inputs: PageInputs) -> list[Drawing]:
    """Return the charts of traces; those that compare traces only where there are several."""
    traced = len(inputs.traces.ok) if inputs.traces else 0
    if not traced:
        return []
    names = [name for name in TRACE_CHARTS if traced > 1 or name not in COMPARING]
    return [_drawing(inputs, name) for name in names]


def _drawing(inputs: PageInputs, name: str) -> Drawing:
    """Return the chart `name` of a campaign, from its SVG file."""
    words = CHART_WORDS[name]
    return Drawing(name, words.title, words.caption, inline_svg(inputs.charts / f"{name}.svg", name, words.title))


def _group_findings(findings: list[Finding], slugs: set[str]) -> list[FindingGroup]:
    """Group findings by code and severity, in their order: the most severe first. `slugs`: the cells with a row."""
    groups = group_by(findings, lambda finding: (finding.code, finding.severity))
    return [
        FindingGroup(
            code=code,
            severity=severity,
            where=_group_location(group),
            advice=list(dict.fromkeys(finding.advice for finding in group)),
            occurrences=_group_occurrences(group),
            in_rows=any(slugs & set(finding.cells) for finding in group),
        )
        for (code, severity), group in groups.items()
    ]


def _group_location(group: list[Finding]) -> str:
    """Return which cells and runs a group of findings concerns: "zero2-n1x2, zero3-n1x2 (6 runs)"; "" without cells."""
    cells = list(dict.fromkeys(cell for finding in group for cell in finding.cells))
    named = ", ".join(cells) if len(cells) <= MOST_CELLS else f"{len(cells)} cells"
    runs = {run for finding in group for run in finding.runs}
    return f"{named} ({plural(len(runs), 'run')})" if len(runs) > 1 and named else named


def _group_occurrences(group: list[Finding]) -> list[Occurrence]:
    """Return what a group of findings says, each text once, with the runs (or cells) that it is said of."""
    occurrences = []
    for alike in group_by(group, lambda finding: (finding.evidence, str(finding.corrected))).values():
        names = names_of_runs([run for finding in alike for run in finding.runs or finding.cells])
        occurrences.append(Occurrence(names, alike[0].evidence, alike[0].corrected))
    return occurrences


def _severities(findings: list[Finding]) -> dict[str, str]:
    """Return code -> severity, the most severe where it has several: `findings` begin with these."""
    return {finding.code: finding.severity for finding in reversed(findings)}


def _codes_by_run(findings: list[Finding]) -> dict[str, list[str]]:
    """Return name of a run -> the codes of its findings, each once."""
    codes: dict[str, list[str]] = {}
    for finding in findings:
        for run in finding.runs:
            codes.setdefault(run, []).append(finding.code)
    return {run: list(dict.fromkeys(names)) for run, names in codes.items()}
