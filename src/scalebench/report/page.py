"""report.html: one page that needs nothing but itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from scalebench.audit.finding import Finding
from scalebench.files import write_atomic
from scalebench.record.run import Run
from scalebench.report.chart_catalog import CATALOG, COMPARISON
from scalebench.report.charts.traces import CAPTIONS as TRACE_CAPTIONS
from scalebench.report.html import environment, linked
from scalebench.report.inline_svg import inline_svg
from scalebench.report.number_format import number, records
from scalebench.report.page_facts import environment_facts, machine, machine_check, protocol, when
from scalebench.report.page_inputs import PageInputs
from scalebench.report.page_tables import Table, cells_view, series_view
from scalebench.report.sentences.answer import Bullet, conclude
from scalebench.report.sentences.forecast import forecast_sentences, what_if_rows
from scalebench.report.sentences.ratios import ab_sentence
from scalebench.report.sentences.scaling_laws import law_sentences
from scalebench.report.sentences.trace import sentences
from scalebench.report.sentences.waterfall import loss_sentence
from scalebench.report.tables.cells import restated
from scalebench.report.tables.columns import DEFINITIONS, HUMAN
from scalebench.report.tables.comparison import comparison_rows
from scalebench.report.tables.forecast import forecast_human
from scalebench.report.tables.scaling import KINDS
from scalebench.report.tables.traces import trace_rows

SEVERITIES = ("invalid", "suspect", "note")
MOST_FOOTNOTES = 5


@dataclass(frozen=True)
class Drawing:
    """A chart on the page."""

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class FindingGroup:
    """Findings of one code and severity."""

    code: str
    severity: str
    advice: list[str]
    findings: list[Finding]


def write_page(inputs: PageInputs, out: Path) -> None:
    """Write the report to `out`; links in it are relative to its folder."""
    report, comparisons = inputs.report, list(inputs.comparisons)
    conclusion = conclude(report, comparisons, inputs.forecast)
    findings = inputs.findings.findings
    slugs = set(inputs.cells["cell"])
    footnotes = [finding for finding in findings if finding.severity != "note"]
    context = {
        "report": report,
        "verdict": conclusion.verdict,
        "bullets": [_with_rows(bullet, slugs) for bullet in conclusion.bullets],
        "when": when(inputs.runs),
        "machine": machine(inputs.runs),
        "campaign_file": inputs.campaign_file,
        "tables": _tables(inputs),
        "footnotes": [(slugs & set(f.cells), f) for f in footnotes[:MOST_FOOTNOTES]],
        "more_footnotes": max(0, len(footnotes) - MOST_FOOTNOTES),
        "restated": restated(inputs.cells),
        "laws": {kind: law_sentences(report, kind) for kind in KINDS},
        "baselines": [(s["name"], s["kind"], s["baseline"]) for s in report["series"] if s["kind"]],
        "without_baseline": _without_baseline(report),
        "losses": [loss_sentence(entry) for entry in inputs.waterfall if _is_known(entry)],
        "compared": [ab_sentence(c) for c in comparisons],
        "comparison_rows": comparison_rows({"comparisons": comparisons}).to_dict("records"),
        "forecast": _forecast(inputs.forecast) if inputs.forecast else None,
        "charts": _charts(inputs),
        "traces": [(profile.cell, sentences(profile)) for profile in inputs.profiles],
        "trace_rows": trace_rows(inputs.traces) if inputs.traces else [],
        "trace_charts": _trace_charts(inputs),
        "checks": len(inputs.findings.checks),
        "groups": _grouped(findings),
        "severities": {s: sum(f.severity == s for f in findings) for s in SEVERITIES},
        "severity_of": {group.code: group.severity for group in reversed(_grouped(findings))},
        "failed": [run for run in inputs.runs if not run.ok],
        "definitions": {HUMAN.get(key, key): text for key, text in DEFINITIONS.items() if key in HUMAN},
        "runs": records(inputs.runs_table),
        "codes_of_run": _codes_of_run(findings),
        "base": f"{out.parent}/",
        "lost": lost_files(inputs.runs),
        "environment": environment_facts(inputs.runs),
        "machine_check": machine_check(inputs.doctor, inputs.runs),
        "protocol": protocol(inputs.runs),
    }
    page = environment(number=number).get_template("report.html.j2").render(context)
    write_atomic(out, inputs.without_hosts(page))


def _with_rows(bullet: Bullet, slugs: set[str]) -> Markup:
    """A bullet whose cells link to their rows: where the text names them, else behind it."""
    text = bullet.sentence
    unnamed = [cell for cell in bullet.cells if cell in slugs and cell not in text]
    return linked(f"{text} [{', '.join(unnamed)}]" if unnamed else text, slugs)


def lost_files(runs: Sequence[Run]) -> list[str]:
    """Raw files that a run was recorded with and that are gone: its figures cannot be recomputed."""
    return [f"{run.name}/{name}" for run in runs for name in run.metrics.files if not (run.folder / name).is_file()]


def _tables(inputs: PageInputs) -> dict[str, Table]:
    kinds = [kind for kind in KINDS if any(s["kind"] == kind for s in inputs.report["series"])]
    series = {kind: series_view(inputs.report, kind) for kind in kinds}
    marked = {cell for finding in inputs.findings.findings if finding.severity != "note" for cell in finding.cells}
    return {"cells": cells_view(inputs.cells, inputs.report, marked)} | series


def _forecast(forecast: dict[str, Any]) -> dict[str, Any]:
    """The section about forecasts: sentences, the table, and what would have to change."""
    rows = forecast["forecasts"]
    return {
        "sentences": forecast_sentences(forecast),
        "rows": forecast_human(rows).to_dict("records") if rows else [],
        "what_if": what_if_rows(forecast),
    }


def _without_baseline(report: dict[str, Any]) -> list[str]:
    """Series of one size beside others that have several: they have no speed-up of their own."""
    if not any(s["kind"] for s in report["series"]):
        return []
    return [s["name"] for s in report["series"] if not s["kind"]]


def _is_known(entry: dict[str, Any]) -> bool:
    """A waterfall says something where at least half of its parts were measured."""
    measured = sum(part["ms"] is not None for part in entry["parts"])
    return 2 * measured >= len(entry["parts"])


def _charts(inputs: PageInputs) -> list[Drawing]:
    """The charts that have something to show."""
    chosen = {n: CATALOG[n] for n in inputs.drawn if CATALOG[n].has_content(inputs.cells, inputs.report)}
    if not any(_is_known(entry) for entry in inputs.waterfall):
        chosen.pop("waterfall", None)
    if not any(row["value"] is not None for row in (inputs.forecast or {"forecasts": []})["forecasts"]):
        chosen.pop("forecast", None)
    if any(c["estimate"] for c in inputs.comparisons):
        chosen["comparison"] = COMPARISON
    return [_drawing(inputs, name, chart.title, chart.caption) for name, chart in chosen.items()]


def _trace_charts(inputs: PageInputs) -> list[Drawing]:
    if not inputs.traces or not any(t["status"] == "ok" for t in inputs.traces["traces"]):
        return []
    titles = {name: name.removeprefix("trace-").capitalize() for name in TRACE_CAPTIONS}
    return [_drawing(inputs, name, titles[name], caption) for name, caption in TRACE_CAPTIONS.items()]


def _drawing(inputs: PageInputs, name: str, title: str, caption: str) -> Drawing:
    return Drawing(name, title, caption, inline_svg(inputs.charts / f"{name}.svg", name, title))


def _grouped(findings: list[Finding]) -> list[FindingGroup]:
    """Findings of one kind together, the most severe first."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.severity), []).append(finding)
    return [
        FindingGroup(code, severity, list(dict.fromkeys(f.advice for f in group)), group)
        for (code, severity), group in groups.items()
    ]


def _codes_of_run(findings: list[Finding]) -> dict[str, list[str]]:
    """Codes of findings, notes aside, by the name of the run."""
    codes: dict[str, list[str]] = {}
    for finding in findings:
        for run in finding.runs if finding.severity != "note" else ():
            codes.setdefault(run, []).append(finding.code)
    return {run: list(dict.fromkeys(names)) for run, names in codes.items()}
