"""report.html: one page that needs nothing but itself."""

import base64
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from scalebench.audit.finding import Findings
from scalebench.record.run import Run
from scalebench.record.write import write_atomic
from scalebench.report.answer import answer
from scalebench.report.charts import CHARTS
from scalebench.report.figures import number, records
from scalebench.report.tables import HUMAN, human_rows, scaling_rows, split_constant


def write_page(
    runs: list[Run],
    table: pd.DataFrame,
    cells: pd.DataFrame,
    report: dict[str, Any],
    findings: Findings,
    charts: Path,
    out: Path,
) -> None:
    """Write the report of a campaign to `out`. `table` is runs.csv, `charts` the folder of the SVG files."""
    human, constant = split_constant(human_rows(scaling_rows(cells, report)))
    environment = Environment(
        loader=PackageLoader("scalebench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    page = environment.get_template("report.html.j2").render(
        report=report,
        answer=answer(report),
        columns=list(human.columns),
        rows=human.to_dict("records"),
        constant=constant,
        numeric=[HUMAN[c] for c in HUMAN if c not in ("strategy", "precision", "model", "geometry", "findings")],
        checks=len(findings.checks),
        findings=[(f, f.code not in {g.code for g in findings.findings[:i]}) for i, f in enumerate(findings.findings)],
        marked={f.code for f in findings.findings if f.severity != "note"},
        charts=[(name, _data_uri(charts / f"{name}.svg")) for name in CHARTS],
        captions=CAPTIONS,
        failed=[run for run in runs if not run.ok],
        runs=records(table),
        base=f"{out.parent}/",
        surroundings=_surroundings(runs),
        protocol=_protocol(runs[0]),
    )
    write_atomic(out, page)


CAPTIONS = {
    "throughput": "Throughput against the number of devices. Dots are runs, marks are cells with 95 % intervals over runs, "
    "the dashed line is the best baseline times the number of devices.",
    "step_time": "Time of an optimizer step with all of its micro-batches, the slowest rank's. All steps of all runs of a cell.",
    "speedup": "Speed-up relative to the same strategy at its smallest world size; the dashed line is ideal strong scaling.",
}


def _data_uri(path: Path) -> str:
    # As an image, not inline: the ids inside two SVG files cannot get into each other's way.
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def _protocol(run: Run) -> list[tuple[str, str]]:
    work, data, config = run.metrics.config["work"], run.metrics.data, run.metrics.training_config
    optimizer = work["optimizer"]
    facts = [
        ("Model", f"{config.model_name} ({config.model_size}), vocabulary {data['vocab_size']:,}"),
        ("Corpus", f"{data['corpus']} ({data['revision'] or data['corpus_sha256'][:12]}), tokenizer {data['tokenizer']}, licence {data['licence']}"),
        ("Samples", f"seq_len {config.seq_len}, global batch {config.global_batch_size}"),
        ("Steps", f"{work['warmup_steps']} warm-up steps, not counted, then {work['steps']} timed steps"),
        ("Optimizer", f"{optimizer['name']}, learning rate {optimizer['learning_rate']:g} ({work['schedule']['name']}), clipping at {optimizer['max_grad_norm']:g}, seed {work['seed']}"),
    ]  # fmt: skip
    if run.metrics.model:
        m = run.metrics.model
        facts.insert(
            1, ("Parameters", f"{m.parameters:,} ({m.flops_per_token:,} FLOP per token, forward and backward)")
        )
    return facts


def _surroundings(runs: list[Run]) -> list[tuple[str, str]]:
    """What machine and versions it was; where runs differ, all values are shown."""

    def every(values: list[Any]) -> str:
        return ", ".join(dict.fromkeys("unknown" if v is None else str(v) for v in values))

    metrics = [run.metrics for run in runs]
    devices = [rank["device_name"] for m in metrics for rank in (m.ranks or [])]
    rows = [
        ("Machine", every([m.host["hostname"] for m in metrics])),
        ("Processor", every([f"{m.hardware['cpu_model']}, {m.hardware['cpu_allowed']} logical CPUs" for m in metrics])),
        ("Memory", every([f"{m.hardware['memory_bytes'] / 2**30:.1f} GiB" for m in metrics])),
        ("Devices", every(devices or ["none came up"])),
        ("Operating system", every([m.host["os"] for m in metrics])),
        ("Python", every([m.env["python_version"] for m in metrics])),
    ]
    for package in ("torch", "transformers", "deepspeed", "scalebench"):
        rows.append((package, every([m.env[f"{package}_version"] for m in metrics])))
    commits = [f"{m.git_commit[:12]}{' with uncommitted changes' if m.git_dirty else ''}" for m in metrics]
    return [
        *rows,
        ("Commit", every(commits)),
        ("Measuring code", every([f"sha256 {m.code_sha256[:12]}" for m in metrics])),
    ]
