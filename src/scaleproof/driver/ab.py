"""Two commands as a campaign that Snakemake runs: what `scaleproof ab` writes, starts and reads."""

import hashlib
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from scaleproof.conclude.analysis.error_budget import next_level
from scaleproof.conclude.report.sentences.ab import AbVerdict, ab_verdict
from scaleproof.driver.snakemake_view import run_snakemake
from scaleproof.ground.campaign.loaded import RESULTS, LoadedCampaign
from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS
from scaleproof.ground.errors import UserError, damaged, first_fault, plural
from scaleproof.ground.files import write_atomic, write_json
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.number_format import percent
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.ground.records.scaling_report import read_scaling_report

SERIES = "series"  # folder of results/: the budgets of series
A, B = "a", "b"
FIRST_LOOK = 4  # rounds before it
MOST = 30  # rounds
# What the first round takes beside its runs, Snakemake's start and its jobs', tells the rest: parts of it.
START_OF_ROUND = 0.5  # of a further round
PAGE = 3.0  # of the page, with all before it (2.7 measured, and 2 on a busy machine)
LONGEST_RUN = 0.25  # of the minutes: longer runs leave no room for a second round


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
    minutes: float = 10.0  # from the first start to the page
    accept_differences: bool = False  # of what watched programs do


@dataclass(frozen=True)
class Pace:
    """What the first round took, A once and B once. `elapsed_s`: with all around its runs, `runs_s`: they alone."""

    elapsed_s: float
    runs_s: float

    @property
    def _around_s(self) -> float:
        """Seconds of the first round beside its runs; all of them where the runs were there already."""
        beside = self.elapsed_s - self.runs_s
        return beside if beside > 0 else self.elapsed_s

    @property
    def round_s(self) -> float:
        """Seconds of a further round."""
        return self.runs_s + START_OF_ROUND * self._around_s

    def rounds_in(self, minutes: float) -> int:
        """The number of rounds that end, with the page, within `minutes`; at least the first."""
        left = 60 * minutes - self.elapsed_s - PAGE * self._around_s
        return 1 + max(0, int(left // self.round_s))


def campaign_of(request: AbRequest, rounds: int = 1, chance: float | None = None) -> dict[str, Any]:
    """Return the campaign that compares the two commands of `request`, as its YAML file holds it.

    `rounds`: the most that there is time for. `chance`: of claiming a difference that is not there; None: 5 %.
    """
    workload: dict[str, Any] = {"command": "{program}"}
    workload["figures"] = dict(request.patterns) or request.figures
    if request.per_step:
        workload["per_step"] = dict(request.per_step)
    work: dict[str, Any] = {"steps": list(request.steps)} if request.steps else {}
    if request.warmup_steps is not None:
        work["warmup_steps"] = request.warmup_steps
    campaign: dict[str, Any] = {"title": "Is B faster than A?", "workload": workload}
    if work:
        campaign["work"] = work
    return campaign | {
        "execution": {"geometry": request.geometry},
        "vary": {"program": {A: shlex.join(request.a), B: shlex.join(request.b)}},
        "question": {"is": B, "better_than": A},
        # Both of a repeat in one job: fewer jobs, and closer together.
        "resources": {"same_allocation": True, "time_limit": LONGEST_RUN * request.minutes},
        "repeats": _repeats(request, rounds, chance),
    }


def _repeats(request: AbRequest, rounds: int, chance: float | None) -> int | dict[str, float]:
    """Return how often both run where there is time for `rounds`: so often, or until they are told apart."""
    if rounds < FIRST_LOOK:
        return rounds if chance is None else 1  # a fixed number is judged at 5 %, which is more than a series gives
    repeats = {
        "resolve": request.difference,
        "at_least": min(FIRST_LOOK, rounds - 1),
        "at_most": min(MOST, rounds),
    }
    return repeats if chance is None else repeats | {"chance": chance}


def compare(
    request: AbRequest, name: str | None = None, series: str | None = None, results: Path = RESULTS
) -> tuple[Path, AbVerdict]:
    """Compare the two commands within the minutes of `request`; return the campaign's file and the verdict.

    The first round tells how many more there is time for. `name`: of the file; by default ab- and a hash of the
    request. `series`: comparisons that share one error budget, of which this one takes its part. Raises UserError where
    the file is there with another comparison, where Snakemake fails, or where a file of the results is damaged.
    """
    started = time.monotonic()
    text = json.dumps(campaign_of(request), sort_keys=True) + f"{request.minutes}"
    path = CAMPAIGNS / f"{name or f'ab-{hashlib.sha256(text.encode()).hexdigest()[:8]}'}.yaml"
    chance = _level_in_series(series, path.stem, results) if series else None
    if write_campaign(path, campaign_of(request, 1, chance)):
        first_round = LoadedCampaign(path, results)
        run_snakemake(path, list(first_round.records(results)))
        runs = [read_run(place).metrics for place in first_round.runs(results)]
        if not any(run.failure for run in runs):  # a program that fails once is not started again
            pace = Pace(time.monotonic() - started, sum(run.total_wall_time_s or 0.0 for run in runs))
            write_campaign(path, campaign_of(request, pace.rounds_in(request.minutes), chance))
    run_snakemake(path, [results / path.stem / "report.html"])
    verdict = read_verdict(path, request, results)
    if series:
        entries = _entries(series, results)
        entries[path.stem]["decided"] = verdict.word in ("faster", "slower")
        write_json(_series_file(series, results), entries)
    return path, verdict


def write_campaign(path: Path, campaign: Mapping[str, Any]) -> bool:
    """Write `campaign` as a YAML file, unless it is there with more repeats than one; return whether it was written.

    Raises UserError where another comparison is there.
    """
    if path.is_file():
        there = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(there, dict) or there | {"repeats": 1} != {**campaign, "repeats": 1}:
            raise UserError(f"{path} is there already, with another comparison; give another --name, or remove it")
        if there["repeats"] != 1:
            return False
    write_atomic(path, yaml.safe_dump(dict(campaign), sort_keys=False, allow_unicode=True, width=1000))
    return True


def read_verdict(path: Path, request: AbRequest, results: Path = RESULTS) -> AbVerdict:
    """Return the verdict of the campaign at `path`, which has run; undecided, it says how many rounds there were.

    Raises UserError where a file of its results is missing or damaged.
    """
    folder = results / path.stem
    loaded = LoadedCampaign(path, results)
    runs = [read_run(place).metrics for place in loaded.runs(results) if (place / METRICS).is_file()]
    failures = {run.cell: f"{run.failure.failure_class}: {run.failure.reason}" for run in runs if run.failure}
    report, findings = read_scaling_report(folder / "scaling_report.json"), read_findings(folder / "findings.json")
    verdict = ab_verdict(report, findings, failures, request.difference, request.accept_differences)
    if any(isinstance(run, Printed) and run.unit == "steps" and run.reading.per_step is None for run in runs):
        verdict = replace(verdict, sentence=f"{verdict.sentence}; a step of A is taken for as much work as one of B")
    rounds = loaded.campaign.most_repeats
    if verdict.word == "undecided" and rounds < MOST:
        room = f"{request.minutes:g} min had room for {plural(rounds, 'round')} (--minutes)"
    elif any(run.failure and run.failure.failure_class == "timeout" for run in runs):
        room = f"a run may take {percent(LONGEST_RUN)} of --minutes {request.minutes:g}"
    else:
        return verdict
    return replace(verdict, sentence=f"{verdict.sentence}; {room}")


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
