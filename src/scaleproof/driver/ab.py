"""Two commands as a campaign that Snakemake runs: what `scaleproof ab` writes, starts and reads."""

import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scaleproof.conclude.analysis.error_budget import next_level
from scaleproof.conclude.report.sentences.ab import AbVerdict, ab_verdict
from scaleproof.ground.campaign.loaded import RESULTS, LoadedCampaign
from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS
from scaleproof.ground.code_dependencies import PACKAGE
from scaleproof.ground.errors import UserError, damaged, first_fault
from scaleproof.ground.files import write_atomic, write_json
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.records.failed_runs import EXIT_CODE as FAILED_RUNS
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.ground.records.scaling_report import read_scaling_report

SNAKEFILE = (PACKAGE / "workflow_files/workflow/Snakefile").resolve()
SERIES = "series"  # folder of results/: the budgets of series
LAST_LINES = 12  # of Snakemake, where it fails
A, B = "a", "b"


@dataclass(frozen=True)
class AbRequest:
    """A is compared with, B is asked about; each a command line in words."""

    a: Sequence[str]
    b: Sequence[str]
    figures: str = "auto"
    patterns: Mapping[str, str] = field(default_factory=dict)
    per_step: Mapping[str, str | int] = field(default_factory=dict)  # tokens, samples or steps of a step
    steps: tuple[int, int] | None = None  # two lengths of run
    warmup_steps: int | None = None
    geometry: str = "1x1"
    difference: float = 0.02  # the smallest that matters, as a part
    minutes: float = 10.0  # for all runs
    at_least: int = 4
    at_most: int = 30  # repeats


def campaign_of(request: AbRequest, chance: float | None = None) -> dict[str, Any]:
    """Return the campaign that compares the two commands of `request`, as its YAML file holds it.

    `chance`: of claiming a difference that is not there; None: the usual 5 %.
    """
    workload: dict[str, Any] = {"command": "{program}"}
    workload["figures"] = dict(request.patterns) or request.figures
    if request.per_step:
        workload["per_step"] = dict(request.per_step)
    work: dict[str, Any] = {"steps": list(request.steps)} if request.steps else {}
    if request.warmup_steps is not None:
        work["warmup_steps"] = request.warmup_steps
    repeats: dict[str, float] = {
        "resolve": request.difference,
        "at_least": request.at_least,
        "at_most": request.at_most,
        "minutes": request.minutes,
    }
    if chance is not None:
        repeats["chance"] = chance
    campaign: dict[str, Any] = {"title": "Is B faster than A?", "workload": workload}
    if work:
        campaign["work"] = work
    return campaign | {
        "execution": {"geometry": request.geometry},
        "vary": {"program": {A: shlex.join(request.a), B: shlex.join(request.b)}},
        "question": {"is": B, "better_than": A},
        "resources": {"same_allocation": True},  # both of a repeat in one job: fewer jobs, and closer together
        "repeats": repeats,
    }


def write_campaign(request: AbRequest, name: str | None, series: str | None, results: Path = RESULTS) -> Path:
    """Write the campaign of the comparison as a YAML file, unless it is there, and return the path.

    `name`: of the file; by default ab- and a hash of the request. `series`: comparisons that share one error budget, of
    which this one takes its part. Raises UserError where the file is there with another comparison.
    """
    text = json.dumps(campaign_of(request), sort_keys=True)
    path = CAMPAIGNS / f"{name or f'ab-{hashlib.sha256(text.encode()).hexdigest()[:8]}'}.yaml"
    chance = _level_in_series(series, path.stem, results) if series else None
    content = yaml.safe_dump(campaign_of(request, chance), sort_keys=False, allow_unicode=True, width=1000)
    if path.is_file() and path.read_text(encoding="utf-8") != content:
        raise UserError(f"{path} is there already, with another comparison; give another --name, or remove it")
    if not path.is_file():
        write_atomic(path, content)
    return path


def run_campaign(path: Path, results: Path = RESULTS) -> None:
    """Run Snakemake for the report of the campaign at `path`. Raises UserError, with its last lines, where it fails."""
    report = results / path.stem / "report.html"
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(SNAKEFILE), "--cores", "all", "--quiet", "all"]
    done = subprocess.run([*command, "--", str(report)], capture_output=True, text=True, errors="replace")
    if done.returncode not in (0, FAILED_RUNS):
        last = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
        raise UserError(f"{path}: snakemake ended with exit code {done.returncode}:\n{last}")


def read_verdict(path: Path, request: AbRequest, series: str | None, results: Path = RESULTS) -> AbVerdict:
    """Return the verdict of the campaign at `path`, which has run, and enter it into its `series`, if it has one.

    Raises UserError where a file of its results is missing or damaged.
    """
    folder = results / path.stem
    loaded = LoadedCampaign(path, results)
    failures = {}
    for place in loaded.runs(results):
        if not (place / METRICS).is_file():
            continue
        metrics = read_run(place).metrics
        if metrics.failure:
            failures[metrics.cell] = f"{metrics.failure.failure_class}: {metrics.failure.reason}"
    report, findings = read_scaling_report(folder / "scaling_report.json"), read_findings(folder / "findings.json")
    verdict = ab_verdict(report, findings, failures, request.difference)
    if series:
        entries = _entries(series, results)
        entries[path.stem]["decided"] = verdict.word in ("faster", "slower")
        write_json(_series_file(series, results), entries)
    return verdict


def _series_file(series: str, results: Path) -> Path:
    """Where the levels of a series are kept."""
    return results / SERIES / f"{series}.json"


def _entries(series: str, results: Path) -> dict[str, dict[str, Any]]:
    """Return the comparisons of a series, in the order in which they were begun.

    Campaign -> its `level` of significance, and whether it `decided`, that is, claimed a difference.
    """
    path = _series_file(series, results)
    if not path.is_file():
        return {}
    try:
        entries: dict[str, dict[str, Any]] = json.loads(path.read_bytes())
        return {
            name: {"level": float(entry["level"]), "decided": bool(entry["decided"])} for name, entry in entries.items()
        }
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged(path, first_fault(error)) from None


def _level_in_series(series: str, campaign: str, results: Path) -> float:
    """Return the level of significance that a comparison has in its series.

    The level is noted before the comparison begins, so that one that is given up has spent it.
    """
    entries = _entries(series, results)
    if campaign not in entries:
        level = next_level([entry["decided"] for entry in entries.values()])
        entries[campaign] = {"level": level, "decided": False}
        write_json(_series_file(series, results), entries)
    return float(entries[campaign]["level"])
