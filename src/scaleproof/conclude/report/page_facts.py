"""What a report is made from, read once for the page and for the paper, and facts from the records of runs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.checks.printed import losses_of_sizes
from scaleproof.conclude.report.read_results import read_traces
from scaleproof.ground.campaign.command import fill_in
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Findings, read_findings
from scaleproof.ground.findings.forecast_report import ForecastReport, read_forecast
from scaleproof.ground.number_format import duration_text, fixed, integer, number, significant
from scaleproof.ground.records.comparison_report import AbComparison, read_comparison
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.host_names import Pseudonyms, hosts_of
from scaleproof.ground.records.jobs import job_end_counts
from scaleproof.ground.records.metrics import Measured, Printed, Recorded
from scaleproof.ground.records.profile_schema import PROFILE, Profile, read_profile
from scaleproof.ground.records.run import Run, timed_runs
from scaleproof.ground.records.run_sections import Failure
from scaleproof.ground.records.scaling_report import ScalingReport
from scaleproof.ground.records.traces_report import TracesReport
from scaleproof.ground.records.unreadable import is_readable
from scaleproof.ground.records.waterfall_report import WaterfallCell, read_waterfall
from scaleproof.measure.doctor.doctor import Report

MOST_COMMANDS = 8  # commands that the page quotes
STEPS_TEXT = "{warmup_steps} warm-up steps, not counted, then {steps} timed steps"
FLOPS_UNIT = "FLOPs per token, forward and backward"
Facts = list[tuple[str, str]]
Tables = tuple[pd.DataFrame, pd.DataFrame, ScalingReport]  # runs.csv, cells.csv, scaling_report.json


@dataclass(frozen=True)
class RunFacts:
    """What the page says of the records of all runs."""

    when: str
    machine: str
    protocol: Facts
    environment: Facts
    failed: list[tuple[str, Failure]]  # runs without numbers
    lost: list[str]  # raw files that are gone: their figures cannot be recomputed
    commands: dict[str, str]  # cell -> its command, where cells are commands
    losses: list[tuple[list[str], str]]  # cells that were compared, and whether their losses agree
    bytes_per_token: dict[str, float]  # of the text of a cell's corpus
    hosts: set[str]
    machine_check: Report | None  # what `scaleproof doctor` found before on the same machine


def collect_run_facts(runs: list[Run], doctor: Report | None = None) -> RunFacts:
    """Return what the page says of the runs: time, machine, protocol, environment, failures.

    A run whose record is damaged counts as a run without numbers. `doctor`: doctor.json, which may be of another
    machine or time.
    """
    recorded = [run for run in runs if is_readable(run)]
    raw_files = [(run, name) for run in recorded for name in run.metrics.files]
    return RunFacts(
        when=dates_and_duration(recorded),
        machine=machine_text(recorded),
        protocol=protocol_facts(recorded),
        environment=environment_facts(recorded),
        failed=_failures_by_cause(runs),
        lost=[f"{run.name}/{name}" for run, name in raw_files if not (run.folder / name).is_file()],
        commands={
            run.metrics.cell: _command_of(run.metrics)
            for run in recorded
            if run.metrics.config["workload"].get("command")
        },
        losses=[
            (cells, text) for cells, _, text in losses_of_sizes(timed_runs(recorded)) if "not compared" not in text
        ],
        bytes_per_token={
            run.metrics.cell: data.get("bytes_per_token", 0.0) for run in recorded if (data := run.metrics.data)
        },
        hosts={name for run in recorded for name in hosts_of(run.metrics.host, run.metrics.ranks)},
        machine_check=machine_check(doctor, recorded),
    )


def dates_and_duration(runs: list[Run]) -> str:
    """Return date and duration: "2026-11-21 23:03 to 23:09 UTC; 18 runs took 3.1 min"."""
    if not runs:
        return "unknown: no run has a record"
    starts = [datetime.fromisoformat(run.metrics.timestamp_utc).astimezone(UTC) for run in runs]
    seconds = [run.metrics.total_wall_time_s or 0 for run in runs]
    first_start = min(starts)
    last_end = max(start + timedelta(seconds=length) for start, length in zip(starts, seconds, strict=True))
    is_one_day = last_end.date() == first_start.date()
    end_text = f"{last_end:%H:%M}" if is_one_day else f"{last_end:%Y-%m-%d %H:%M}"
    duration = f"{plural(len(runs), 'run')} took {duration_text(sum(seconds))}"
    return f"{first_start:%Y-%m-%d %H:%M} to {end_text} UTC; {duration}"


def machine_text(runs: list[Run]) -> str:
    """Return devices and processor in a few words, for the head of the page."""
    metrics = [run.metrics for run in runs]
    devices = [name for name in _device_names(runs) if name != "cpu"]
    processors = _processors(metrics)
    if devices or not processors:
        return _all_values([*devices, *processors])
    return f"{_all_values(processors)} (a device here is one process, bound to cores of its own)"


def _device_names(runs: list[Run]) -> list[str]:
    """Return the name of the device of each rank of each run, repeats included."""
    ranks = chain.from_iterable(run.metrics.ranks or [] for run in runs)
    return [rank["device_name"] for rank in ranks]


def _processors(metrics: Sequence[Recorded]) -> list[str]:
    """Return the processor of each run, as "AMD EPYC 7763, 16 logical CPUs"."""
    return [f"{m.hardware['cpu_model']}, {m.hardware['cpu_allowed']} logical CPUs" for m in metrics]


def protocol_facts(runs: list[Run]) -> Facts:
    """Return what was run, as (name, text); where cells differ, all values are listed."""
    metrics = [run.metrics for run in runs if run.metrics.training_config]
    if len(metrics) < len(runs):  # runs of commands have no training configuration
        losses = ("Losses", _all_values([text for *_, text in losses_of_sizes(timed_runs(runs))]))
        return [*_protocol_of_commands([run.metrics for run in runs]), *([losses] if losses[1] else [])]
    work_sections: list[Mapping[str, Any]] = [m.config["work"] for m in metrics]
    models = [m.model for m in metrics if isinstance(m, Measured)]
    configs = [m.training_config for m in metrics if m.training_config]
    rows = [
        ("Model", [_model_facts(m) for m in metrics]),
        ("Parameters", [f"{integer(m.parameters)} ({integer(m.flops_per_token)} {FLOPS_UNIT})" for m in models]),
        ("Corpus", [_corpus_facts(m) for m in metrics]),
        ("Samples", [f"seq_len {c.seq_len}, global batch {c.global_batch}" for c in configs]),
        ("Steps", [STEPS_TEXT.format_map(work) for work in work_sections]),
        ("Optimizer", [_optimizer_text(work) for work in work_sections]),
    ]
    return [(name, _all_values(values)) for name, values in rows if values]


def _protocol_of_commands(metrics: Sequence[Recorded]) -> Facts:
    """Return what was run, as (name, text), of cells that are commands."""
    printed = [m for m in metrics if isinstance(m, Printed)]
    programs = [m.program for m in printed]
    warmup = []
    if any(m.window.clock == "printed" for m in printed):
        warmup = [f"the first {m.config['work']['warmup_steps']} steps of each log are not counted" for m in metrics]
    files = chain.from_iterable(program.files.items() for program in programs)  # (name, sha256)
    rows: list[tuple[str, list[Any]]] = [
        ("Command", list(dict.fromkeys(map(_command_of, metrics)))[:MOST_COMMANDS]),
        ("As started", [program.command for program in programs[:MOST_COMMANDS]]),
        ("Figures read by", [_reading_text(m) for m in printed]),
        ("Warm-up", warmup),
        ("Work of a step", [f"{significant(m.reading.per_step, 6)} {m.unit}" for m in printed if m.reading.per_step]),
        ("Program's files", [f"{name} sha256 {sha256[:12]}" for name, sha256 in files]),
        ("Program's commit", [_commit_text(program.git_commit, program.git_dirty) for program in programs]),
        ("Program's versions", [", ".join(map(" ".join, program.versions.items())) for program in programs]),
    ]
    return [(name, _all_values(values)) for name, values in rows if values]


def _command_of(metrics: Recorded) -> str:
    """Return the command of a cell, started or not; what only a run knows is left open, as {steps}."""
    sections: Mapping[str, Any] = metrics.config
    return fill_in(sections["workload"].get("command") or "unknown", sections.get("settings", {}))


def _reading_text(metrics: Printed) -> str:
    """Return in words which reader took the figures of a command from its log, and by whose clock."""
    reading = metrics.reading
    guessed = " (guessed: no known program prints such lines)" if reading.guessed else ""
    return f"{reading.reader}{guessed}, clock: {metrics.window.clock}"


def _commit_text(commit: str, dirty: bool | None) -> str:
    """Return a commit in words: "0123456789ab with uncommitted changes"."""
    return f"{commit[:12]}{' with uncommitted changes' if dirty else ''}"


def environment_facts(runs: list[Run]) -> Facts:
    """Return machine and versions, as (name, text); where runs differ, all values are listed."""
    metrics = [run.metrics for run in runs]
    facts = [("Machine", _all_values([m.host["hostname"] for m in metrics]))]
    if job_ends := job_end_counts(runs):
        facts.append(("Jobs", job_ends))
    facts.append(("Processor", _all_values(_processors(metrics))))
    facts.append(("Memory", _all_values([f"{fixed(m.hardware['memory_bytes'] / 2**30, 1)} GiB" for m in metrics])))
    if any(m.training_config for m in metrics):  # else commands; no names: no rank had a device
        facts.append(("Devices", _all_values(_device_names(runs) or ["none came up"])))
    facts.append(("Operating system", _all_values([m.host["os"] for m in metrics])))
    facts.append(("Python", _all_values([m.env["python_version"] for m in metrics])))
    for package in ("torch", "transformers", "deepspeed", "scaleproof"):
        facts.append((package, _all_values([m.env[f"{package}_version"] for m in metrics])))
    facts.append(("Commit", _all_values([_commit_text(m.git_commit, m.git_dirty) for m in metrics])))
    facts.append(("Measuring code", _all_values([f"sha256 {m.code_sha256[:12]}" for m in metrics])))
    return facts


def machine_check(report: Report | None, runs: list[Run]) -> Report | None:
    """Return the doctor's report, where it is of one of the hosts of each run and older than all runs; else None."""
    if report is None or not runs:
        return None
    for run in runs:
        hosts = set(hosts_of(run.metrics.host, run.metrics.ranks))
        if report.host not in hosts or datetime.fromisoformat(run.metrics.timestamp_utc) < report.timestamp_utc:
            return None
    return report


def _failures_by_cause(runs: list[Run]) -> list[tuple[str, Failure]]:
    """Return (names of runs, failure) for each distinct failure among `runs`."""
    failed = [(run.name, run.metrics.failure) for run in runs if run.metrics.failure]
    causes = group_by(failed, lambda name_and_failure: name_and_failure[1].model_dump_json()).values()
    return [(names_of_runs([name for name, _ in alike]), alike[0][1]) for alike in causes]


def names_of_runs(runs: list[str]) -> str:
    """Return names of runs as one text, repeats of a cell together: "ddp-n1x2/rep1, rep2; fsdp-n1x2/rep1"."""
    names_of: dict[str, list[str]] = {}  # "CELL/" -> its repeats; "" -> runs that are not repeats
    for run in dict.fromkeys(runs):
        cell, _, repeat = run.rpartition("/")
        if cell and repeat.startswith("rep"):
            names_of.setdefault(f"{cell}/", []).append(repeat)
        else:
            names_of.setdefault("", []).append(run)
    return "; ".join(f"{cell}{', '.join(names)}" for cell, names in names_of.items())


def _all_values(values: list[Any]) -> str:
    """Return all different values in one text, so that runs that differ are not summarised as if they were alike."""
    return "; ".join(dict.fromkeys("unknown" if v is None else str(v) for v in values))


def _model_facts(metrics: Recorded) -> str:
    """Return name and size of the model, and the rows of its embedding. `metrics`: of a run of the built-in trainer."""
    config = metrics.training_config
    assert config  # as of each run of the trainer
    assert metrics.data
    workload: Mapping[str, Any] = metrics.config["workload"]
    rows = workload["vocab_size"]
    if rows == "derive":  # as many as the tokenizer has
        rows = metrics.data["vocab_size"]
    return f"{config.model_name} ({config.model_size}), {integer(rows)} embedding rows (padded vocabulary)"


def _corpus_facts(metrics: Recorded) -> str:
    """Return name, revision, tokenizer and licence of a corpus, and its classes where they are learnt."""
    data = metrics.data
    assert data  # as of each run of the trainer
    revision = data["revision"] or data["corpus_sha256"][:12]
    text = f"{data['corpus']} ({revision}), tokenizer {data['tokenizer']}, licence {data['licence']}"
    is_classification = metrics.config["workload"]["task"] == "classification"
    classes = data.get("classes", [])
    return f"{text}, {len(classes)} classes" if is_classification and classes else text


def _optimizer_text(work: Mapping[str, Any]) -> str:
    """Return the optimizer of a configuration's section `work`, in words."""
    optimizer, schedule = work["optimizer"], work["schedule"]["name"]
    norm = optimizer["max_grad_norm"]
    clipping = f"clipping at {significant(norm, 6)}" if norm else "no clipping"
    rate = f"learning rate {significant(optimizer['learning_rate'], 6)} ({schedule})"
    return f"{optimizer['name']}, {rate}, {clipping}, seed {work['seed']}"


@dataclass(frozen=True)
class PageInputs:
    """Everything that the report of a campaign is made from."""

    facts: RunFacts
    runs_table: pd.DataFrame  # runs.csv
    cells: pd.DataFrame  # cells.csv
    report: ScalingReport
    findings: Findings
    charts: Path  # folder of the SVG files
    drawn: list[str]  # names of the charts that the campaign has
    campaign_file: str = ""  # as it was given to the command
    comparisons: Sequence[AbComparison] = ()
    traces: TracesReport | None = None
    profiles: Sequence[Profile] = ()
    waterfall: Sequence[WaterfallCell] = ()
    forecast: ForecastReport | None = None
    anonymous: bool = False  # whether hosts are named by pseudonyms

    @classmethod
    def read(
        cls,
        folder: Path,
        tables: Tables,
        title: str,
        files: Collection[str],
        facts: RunFacts,
        drawn: list[str],
        campaign_file: str,
        anonymous: bool = False,
    ) -> "PageInputs":
        """Return the inputs that are in a campaign's `folder`, beside those that are given. Raises UserError.

        `tables`: as `read_inputs` returns them. `title`: of the campaign, as it changes the page alone. `files`: which
        of comparison, traces, waterfall and forecast have a JSON file of that name from which the page is made.
        """
        runs_table, cells, report = tables
        traces = read_traces(folder)[0] if "traces" in files else None  # without the timelines
        traced = [trace.cell for trace in traces.traces] if traces else []
        return cls(
            facts=facts,
            runs_table=runs_table,
            cells=cells,
            report=report.model_copy(update={"title": title}),
            findings=read_findings(folder / "findings.json"),
            charts=folder / "charts",
            comparisons=read_comparison(folder / "comparison.json").comparisons if "comparison" in files else [],
            traces=traces,
            profiles=[read_profile(folder / "traces" / cell / PROFILE) for cell in traced],
            waterfall=read_waterfall(folder / "waterfall.json").cells if "waterfall" in files else [],
            forecast=read_forecast(folder / "forecast.json") if "forecast" in files else None,
            drawn=drawn,
            campaign_file=campaign_file,
            anonymous=anonymous,
        )

    @property
    def remarks(self) -> list[tuple[list[str], str]]:
        """Cells, and a sentence on whether their losses agree, or on how much text the cells of the question read."""
        question = self.report.question
        if not question or not question.ratio:
            return self.facts.losses
        cells = [question.subject, question.base]
        subject, base = (self.facts.bytes_per_token.get(cell, 0.0) for cell in cells)
        if not subject or not base or subject == base:
            return self.facts.losses
        text_ratio = number(question.ratio.value * subject / base)
        text = f"A token is {number(subject)} bytes of text in {cells[0]} and {number(base)} in {cells[1]}: the first "
        return [*self.facts.losses, (cells, f"{text}reads {text_ratio}x the bytes of text/s of the second")]

    def without_hosts(self, text: str) -> str:
        """Return a text without names of hosts where the report is anonymous."""
        if not self.anonymous:
            return text
        hosts = self.facts.hosts | self.findings.hosts_left_out
        if self.forecast:
            hosts |= self.forecast.hosts
        return Pseudonyms(hosts).in_text(text)
