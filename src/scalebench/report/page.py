"""report.html: one page that needs nothing but itself."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scalebench.audit.finding import Finding, Findings
from scalebench.files import write_atomic
from scalebench.record.metrics import Recorded
from scalebench.record.run import Run
from scalebench.report.charts.catalog import COMPARISON, GALLERY
from scalebench.report.charts.traces import CAPTIONS as TRACE_CAPTIONS
from scalebench.report.html import environment
from scalebench.report.number_format import number, records
from scalebench.report.sentences.answer import answer, compared
from scalebench.report.sentences.trace import sentences
from scalebench.report.tables.cells import FILES_ONLY, HUMAN, comparison_rows, human_rows, scaling_rows, split_constant
from scalebench.report.tables.scaling import KINDS, law_sentences, series_human
from scalebench.report.tables.traces import trace_rows
from scalebench.report.tables.waterfall import sentence
from scalebench.trace.profile_schema import Profile


def write_page(
    runs: list[Run],
    table: pd.DataFrame,
    cells: pd.DataFrame,
    report: dict[str, Any],
    findings: Findings,
    comparisons: list[dict[str, Any]],
    drawn: list[str],
    charts: Path,
    out: Path,
    traces: dict[str, Any] | None = None,
    profiles: Sequence[Profile] = (),
    lost: list[dict[str, Any]] | None = None,
) -> None:
    """Write the report of a campaign to `out`. `table` is runs.csv; `drawn` are charts, `charts` the folder of their SVG files.

    `traces` is traces.json and `lost` the entries of waterfall.json, where the campaign has any.
    """
    human, constant = split_constant(human_rows(scaling_rows(cells, report)))
    human = human.drop(columns=[HUMAN[name] for name in FILES_ONLY], errors="ignore")
    scaling = [s for s in report["series"] if s["kind"]]
    shown = {name: GALLERY[name].caption for name in drawn if GALLERY[name].shown(cells, report)}
    shown |= {"comparison": COMPARISON} if comparisons else {}
    found = [
        *report["findings"],
        *(traces["findings"] if traces else []),
        *(f for c in comparisons for f in c["findings"]),
    ]
    every = [*findings.findings, *(Finding.model_validate(f) for f in found)]
    template = environment(number=number).get_template("report.html.j2")
    page = template.render(
        report=report,
        answer=answer(report, comparisons),
        columns=list(human.columns),
        rows=human.to_dict("records"),
        constant=constant,
        numeric=[HUMAN[c] for c in HUMAN if c not in ("strategy", "precision", "model", "geometry", "findings")],
        by_kind=_by_kind(report),
        lost=[sentence(entry) for entry in lost or []],
        compared=[compared(c) for c in comparisons],
        comparison_rows=comparison_rows({"comparisons": comparisons}).to_dict("records"),
        checks=len(findings.checks),
        findings=_grouped(every),
        of_run=_of_run(every),
        marked={f.code for f in every if f.severity != "note"},
        charts=[(name, _data_uri(charts / f"{name}.svg")) for name in shown],
        captions=shown | TRACE_CAPTIONS,
        traces=[(profile.cell, sentences(profile)) for profile in profiles],
        trace_rows=trace_rows(traces) if traces else [],
        trace_charts=[(name, _data_uri(charts / f"{name}.svg")) for name in TRACE_CAPTIONS] if traces else [],
        failed=[run for run in runs if not run.ok],
        runs=records(table),
        base=f"{out.parent}/",
        surroundings=_surroundings(runs),
        protocol=_protocol(runs),
        baselines=[(s["name"], s["kind"], s["baseline"]) for s in scaling],
    )
    write_atomic(out, page)


def _by_kind(report: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]], list[str]]]:
    """Strong and weak scaling, each where there is some: rows of the table, sentences on its laws."""
    there = [kind for kind in KINDS if any(s["kind"] == kind for s in report["series"])]
    return [(kind, series_human(report, kind).to_dict("records"), law_sentences(report, kind)) for kind in there]


def _data_uri(path: Path) -> str:
    # As an image, not inline: the ids inside two SVG files cannot get into each other's way.
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def _grouped(findings: list[Finding]) -> list[tuple[tuple[str, str, str], list[Finding]]]:
    """Findings of one kind together, the gravest first."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for f in findings:
        groups.setdefault((f.severity, f.code, f.advice), []).append(f)
    return list(groups.items())


def _of_run(findings: list[Finding]) -> dict[str, list[str]]:
    """Codes of findings, notes aside, by the name of the run."""
    found: dict[str, list[str]] = {}
    for f in findings:
        for run in f.runs if f.severity != "note" else ():
            found.setdefault(run, []).append(f.code)
    return found


def _every(values: list[Any]) -> str:
    """All values that there are; runs that differ are not told as if they were alike."""
    return "; ".join(dict.fromkeys("unknown" if v is None else str(v) for v in values))


def _protocol(runs: list[Run]) -> list[tuple[str, str]]:
    """What was run; where cells differ, all values are shown."""
    metrics = [run.metrics for run in runs]
    work = [m.config["work"] for m in metrics]
    rows = [
        ("Model", [f"{m.training_config.model_name} ({m.training_config.model_size}), {_rows(m):,} rows in the token table" for m in metrics]),
        ("Parameters", [f"{m.model.parameters:,} ({m.model.flops_per_token:,} FLOP per token, forward and backward)" for m in metrics if m.model]),
        ("Corpus", [f"{m.data['corpus']} ({m.data['revision'] or m.data['corpus_sha256'][:12]}), tokenizer {m.data['tokenizer']}, licence {m.data['licence']}{_classes(m)}" for m in metrics]),
        ("Samples", [f"seq_len {m.training_config.seq_len}, global batch {m.training_config.global_batch}" for m in metrics]),
        ("Steps", [f"{w['warmup_steps']} warm-up steps, not counted, then {w['steps']} timed steps" for w in work]),
        ("Optimizer", [f"{w['optimizer']['name']}, learning rate {w['optimizer']['learning_rate']:g} ({w['schedule']['name']}), {_clipping(w)}, seed {w['seed']}" for w in work]),
    ]  # fmt: skip
    return [(name, _every(values)) for name, values in rows if values]


def _classes(metrics: Recorded) -> str:
    """The classes of a corpus with labels, where they are what is learnt."""
    classes = metrics.data.get("classes", []) if metrics.config["workload"]["task"] == "classification" else []
    return f", {len(classes)} classes" if classes else ""


def _clipping(work: dict[str, Any]) -> str:
    norm = work["optimizer"]["max_grad_norm"]
    return f"clipping at {norm:g}" if norm else "no clipping"


def _rows(metrics: Recorded) -> int:
    rows = metrics.config["workload"]["vocab_size"]
    return metrics.data["vocab_size"] if rows == "derive" else rows


def _surroundings(runs: list[Run]) -> list[tuple[str, str]]:
    """What machine and versions it was; where runs differ, all values are shown."""

    metrics = [run.metrics for run in runs]
    devices = [rank["device_name"] for m in metrics for rank in (m.ranks or [])]
    rows = [
        ("Machine", _every([m.host["hostname"] for m in metrics])),
        (
            "Processor",
            _every([f"{m.hardware['cpu_model']}, {m.hardware['cpu_allowed']} logical CPUs" for m in metrics]),
        ),
        ("Memory", _every([f"{m.hardware['memory_bytes'] / 2**30:.1f} GiB" for m in metrics])),
        ("Devices", _every(devices or ["none came up"])),
        ("Operating system", _every([m.host["os"] for m in metrics])),
        ("Python", _every([m.env["python_version"] for m in metrics])),
    ]
    for package in ("torch", "transformers", "deepspeed", "scalebench"):
        rows.append((package, _every([m.env[f"{package}_version"] for m in metrics])))
    commits = [f"{m.git_commit[:12]}{' with uncommitted changes' if m.git_dirty else ''}" for m in metrics]
    return [
        *rows,
        ("Commit", _every(commits)),
        ("Measuring code", _every([f"sha256 {m.code_sha256[:12]}" for m in metrics])),
    ]
