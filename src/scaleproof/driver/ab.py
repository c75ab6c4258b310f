"""Two commands as a campaign that Snakemake runs: what `scaleproof ab` writes, starts and reads."""

import hashlib
import json
import math
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from scaleproof.conclude.analysis.simultaneous import POWER_IN_WORDS
from scaleproof.conclude.analysis.stopping import shown_in_scatters
from scaleproof.conclude.report.sentences.ab import AbVerdict, ab_verdict, rounds_needed, with_words
from scaleproof.driver.series import level_in_series, read_series
from scaleproof.driver.snakemake_view import GRACE_S, OutOfTime, run_snakemake
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS, read_yaml
from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import write_atomic, write_json
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.number_format import integer, percent
from scaleproof.ground.records.metrics import Failed, Printed, Timed
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.command.figures import LONGER
from scaleproof.measure.machine.allocation import current_allocation
from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

WAITED = re.compile("^scaleproof: waiting for ", re.MULTILINE)  # in the log of a job
SERIES = "series"  # folder of results/: the budgets of series
A, B = "a", "b"
FIRST_LOOK = 4  # rounds before it
MOST = 30  # rounds
COUNTED = ("steps", "batches", "epochs", "items")  # units: how much work one is, nobody may have said
# What the first round takes beside its runs, Snakemake's start and its jobs', tells the rest: parts of it.
START_OF_ROUND = 0.25  # of a further round: several are one job
PAGE = 3.0  # of the page, with all before it (2.7 measured, and 2 on a busy machine)
# Of the minutes:
SHORT_RUN = 0.04  # a run that goes on is ended after it, as a proper end, which leaves room for ten rounds ...
LONG_RUN = 0.1  # ... or after this, where it had hardly begun to train by then ...
SLOW_START = 0.2  # ... or after this, where it had printed no figure by then either
LONGEST_RUN = 0.25  # one that cannot be ended is stopped after it
START_UP = 0.25  # of a run: steps that fill less leave most of the minutes to its start
LEAST_RUN_S = 15.0  # the start of a program may take so long
BEGUN = 0.2  # of a run that was ended: steps that fill less have hardly begun
FURTHER = 1.5  # times as long as the first try, or a further one tells little


@dataclass(frozen=True)
class AbRequest:
    """A is compared with, B is asked about; each a command line in words."""

    a: Sequence[str]
    b: Sequence[str]
    figures: str = "auto"
    patterns: Mapping[str, str] = field(default_factory=dict)
    per_step: tuple[str, Sequence[int]] | None = None  # unit, and amount of both or of each
    steps: tuple[int, int] | None = None  # two lengths of run
    seconds: float | None = None  # after which runs are ended; None: as there is time
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
    spent_s: float = 0.0  # before it

    @property
    def page_s(self) -> float:
        """Seconds that the page takes."""
        return PAGE * self._around_s

    @property
    def _around_s(self) -> float:
        """Seconds of the first round beside its runs; all of them where the runs were there already."""
        beside = self.elapsed_s - self.runs_s
        return beside if beside > 0 else self.elapsed_s

    @property
    def round_s(self) -> float:
        """Seconds that a further round takes."""
        return self.runs_s + START_OF_ROUND * self._around_s

    def rounds_in(self, minutes: float) -> int:
        """Return how many rounds end, with the page, within `minutes`; at least the first."""
        left = 60 * minutes - self.spent_s - self.elapsed_s - self.page_s
        return 1 + max(0, int(left // self.round_s))


def make_campaign(
    request: AbRequest, rounds: int = 1, chance: float | None = None, seconds: float | None = None
) -> dict[str, Any]:
    """Return the content of the campaign file that compares the two commands of `request`.

    `rounds`: the most that there is time for. `chance`: of claiming a difference that is not there (None: 5 %).
    `seconds`: after which a run is ended (None: it ends by itself).
    """
    workload: dict[str, Any] = {"command": "{program}", "figures": dict(request.patterns) or request.figures}
    vary: dict[str, Any] = {"program": {A: shlex.join(request.a), B: shlex.join(request.b)}}
    campaign: dict[str, Any] = {"title": "Is B faster than A?", "workload": workload}
    if request.per_step:
        unit, amounts = request.per_step
        workload["per_step"] = {unit: amounts[0]}
        if len(set(amounts)) > 1:
            # `vary` gives each program each amount: the other program's are excluded.
            workload["per_step"] = {unit: "{micro_batch}"}
            vary["micro_batch"] = list(amounts)
            campaign["exclude"] = [{"program": A, "micro_batch": amounts[1]}, {"program": B, "micro_batch": amounts[0]}]
    steps = list(request.steps) if request.steps else None
    work = {"steps": steps, "warmup_steps": request.warmup_steps, "seconds": seconds}
    if work := {key: value for key, value in work.items() if value is not None}:
        campaign["work"] = work
    # Minutes until a run is stopped: longer than the seconds after which the user has it ended.
    limit = max(LONGEST_RUN * request.minutes, 1.5 * (request.seconds or 0.0) / 60)
    return campaign | {
        "execution": {"geometry": request.geometry},
        "vary": vary,
        "question": {"is": B, "better_than": A},
        # Jobs may take a week: one makes all repeats up to a look at the results, with fewer starts, closer together.
        "resources": {"same_allocation": True, "minutes_per_job": 10_000, "time_limit": limit},
        "repeats": _repeats(request, rounds, chance),
    }


def _run_lengths_to_try(request: AbRequest) -> list[float | None]:
    """Return lengths of runs to try until one suffices, in seconds, the shortest first; [None]: runs end themselves."""
    if request.figures == "whole":
        return [None]
    if request.seconds:
        return [request.seconds]
    short_s, long_s, longest_s = (60 * request.minutes * part for part in (SHORT_RUN, LONG_RUN, SLOW_START))
    first_s = min(max(short_s, LEAST_RUN_S), longest_s)  # of few minutes all may be shorter than a program's start
    return [first_s, *(length for length in (long_s, longest_s) if length >= FURTHER * first_s)]


def _repeats(request: AbRequest, rounds: int, chance: float | None) -> int | dict[str, float]:
    """Return the key `repeats`: a number for few rounds, else a rule that stops once A and B are told apart."""
    if rounds < FIRST_LOOK:  # a number is judged at 5 %, which is more than a series gives; one run claims nothing
        return rounds if chance is None else 1
    # The first look must come before the last round.
    repeats = {"resolve": request.difference, "at_least": min(FIRST_LOOK, rounds - 1), "at_most": min(MOST, rounds)}
    return repeats if chance is None else repeats | {"chance": chance}


def run_comparison(
    request: AbRequest, name: str | None = None, series: str | None = None, results: Path = RESULTS
) -> tuple[Path, AbVerdict]:
    """Compare the two commands within the minutes of `request`; return the campaign's file and the verdict.

    Whatever runs when the minutes are over is ended: the verdict is that of the finished rounds if there is time for
    their page, else that nobody can tell yet.
    `name`: of the file; without it ab- and a hash of the request. `series`: name of comparisons that share one budget
    of false claims. Raises UserError for another comparison in this file, a command that cannot be run here, a failure
    of Snakemake, and damaged results.
    """
    end = time.monotonic() + 60 * request.minutes - GRACE_S
    content = json.dumps(make_campaign(request, seconds=request.seconds), sort_keys=True) + f"{request.minutes}"
    path = CAMPAIGNS / f"{name or f'ab-{hashlib.sha256(content.encode()).hexdigest()[:8]}'}.yaml"
    budget = results / SERIES / f"{series}.json" if series else None
    if budget:
        read_series(budget)  # raises where it is damaged, before anything is written
    _write_first_campaign(path, request)
    chance = level_in_series(budget, path.stem) if budget else None
    try:
        page_s = _make_first_round(path, request, chance, results, end)
        _make_page(path, request, chance, results, page_s, end)
        verdict = read_verdict(path, request, results)
    except OutOfTime:
        runs = sum(1 for _ in (results / path.stem).glob(f"runs/*/*/{METRICS}"))
        then = "the same command goes on from there" if runs else "give more of them, or shorter runs (--seconds)"
        ratio = _ratio_so_far(results / path.stem / "runs")
        why = f"{request.minutes:g} min were over after {plural(runs, 'run')}, without a page; {ratio}{then}"
        verdict = AbVerdict("undecided", f"cannot tell yet: {why}")
    if budget:
        entries = read_series(budget)  # with the level of this comparison
        entries[path.stem]["decided"] = verdict.word in ("faster", "slower")
        write_json(budget, entries)
    return path, verdict


def _ratio_so_far(runs: Path) -> str:
    """Return the rates of B over A in the whole rounds, as a part of a sentence; "" where one failed, or is none."""
    files = [(a, runs / a.parts[-3].replace("a", "b", 1) / a.parts[-2]) for a in runs.glob(f"a-*/*/{METRICS}")]
    rounds = [(read_run(a.parent).metrics, read_run(b).metrics) for a, b in files if (b / METRICS).is_file()]
    whole = [(a, b) for a, b in rounds if isinstance(a, Printed) and isinstance(b, Printed) and a.unit == b.unit]
    rates = [(a.window.tokens_per_s, b.window.tokens_per_s) for a, b in whole]
    if not rates or len(rates) < len(rounds):
        return ""
    a, b = map(median, zip(*rates, strict=True))
    return f"by the medians of {plural(len(rates), 'round')} B is {b / a:.3g} times as fast, unchecked: no verdict; "


def _write_first_campaign(path: Path, request: AbRequest) -> None:
    """Write the campaign of `request` to `path`, unless it is there, and check it as every campaign is.

    Raises UserError where it is wrong or not for this machine, and removes the file if this call wrote it.
    """
    was_there = path.exists()
    write_campaign(path, make_campaign(request, seconds=request.seconds), request)
    try:
        geometry = LoadedCampaign(path).cells[0].execution.geometry
        job = current_allocation() if geometry.nodes > 1 else None
        nodes = len(job.hosts) if job else 1
        gpus = len(usable_gpus(cuda_devices)[0])
        devices = gpus or available_cores()
        if geometry.nodes > nodes or geometry.devices_per_node > devices:
            what = f"{plural(nodes, 'node')} with {plural(devices, 'GPU' if gpus else 'core')}"
            raise UserError(f"--geometry {geometry} is not here; allowed: at most {nodes}x{devices}, {what}")
    except UserError as error:
        if not was_there:
            path.unlink()
        raise UserError(_name_options(str(error), path)) from None


def _name_options(message: str, path: Path) -> str:
    """Return a message on the campaign at `path` that names the options of `scaleproof ab` in place of file and keys.

    "config/campaigns/ab.yaml, line 7: work.seconds 9: ..." becomes "--seconds 9: ...".
    """
    message = re.sub(rf"{re.escape(str(path))}(, line \d+)?: ", "", message)
    message = re.sub(r"\b(execution|work)(\.|: )(?=[a-z])", "--", message).replace("--warmup_", "--warmup-")
    return re.sub(r"workload\.figures(\.|: )", "--pattern ", message).replace("workload.command", "the command")


def _make_page(path: Path, request: AbRequest, chance: float | None, results: Path, page_s: float, end: float) -> None:
    """Make the rounds and the page; those rounds alone that are finished `page_s` seconds before the `end`.

    Raises OutOfTime where there is no time for the page either.
    """
    page = results / path.stem / "report.html"
    try:
        run_snakemake(path, [page], limit_s=end - page_s - time.monotonic())
    except OutOfTime:
        runs = [results / path.stem / "runs" / cell.slug for cell in LoadedCampaign(path, results).cells]
        rounds = min(len(list(of_cell.glob(f"*/{METRICS}"))) for of_cell in runs)
        if not rounds:  # those of an earlier call were removed
            raise
        for place in (results / path.stem).glob("runs/*/rep*"):
            if int(place.name.removeprefix("rep")) > rounds:  # of a round that was cut off: none of the results
                shutil.rmtree(place)
        _write_yaml(path, read_yaml(path)[0] | {"repeats": _repeats(request, rounds, chance)})
        run_snakemake(path, [page], limit_s=end - time.monotonic())


def _make_first_round(path: Path, request: AbRequest, chance: float | None, results: Path, end: float) -> float:
    """Run both commands once, then write the campaign with as many rounds as there is time for.

    Returns about how many seconds the page takes; 0 where that is unknown. Raises OutOfTime at the `end`.

    The round is made again with longer runs while one of them had hardly begun when it was ended. Runs as long as
    LONG_RUN suffice if all have printed a figure. Nothing is done where an earlier call has written how many rounds.
    """
    began = time.monotonic()
    for seconds in _run_lengths_to_try(request):
        round_began = time.monotonic()
        if not write_campaign(path, make_campaign(request, 1, chance, seconds), request):
            return 0.0
        loaded = LoadedCampaign(path, results)
        run_snakemake(path, list(loaded.records(results)), limit_s=end - round_began)
        runs = [read_run(place).metrics for place in loaded.runs(results)]
        too_short = [run for run in runs if _had_hardly_begun(run, seconds)]
        if seconds is not None and seconds >= LONG_RUN * 60 * request.minutes:
            too_short = [run for run in too_short if run.failure]
        if not too_short:
            break
    now = time.monotonic()
    runs_s = sum(run.total_wall_time_s or 0.0 for run in runs)
    pace = Pace(elapsed_s=now - round_began, runs_s=runs_s, spent_s=round_began - began)
    if not any(run.failure for run in runs):  # a program that fails once is not started again
        rounds = pace.rounds_in(request.minutes)
        write_campaign(path, make_campaign(request, rounds, chance, seconds), request)
        print(f"scaleproof: {_describe_rounds(_repeats(request, rounds, chance))}", file=sys.stderr)
    return pace.page_s


def _describe_rounds(repeats: int | dict[str, float]) -> str:
    """Return a sentence: how many rounds there is time for, and which difference they will probably show."""
    if isinstance(repeats, int):
        return f"there is time for {plural(repeats, 'round')}, too few to look at them in between"
    rule = RepeatUntil.model_validate(repeats)
    scatters = f"{shown_in_scatters(rule):.1f} times the scatter of runs"
    return f"there is time for {rule.at_most} rounds, which show a difference of {scatters} {POWER_IN_WORDS}"


def _had_hardly_begun(run: Timed | Failed, seconds: float | None) -> bool:
    """Return whether a run that was ended after `seconds` trained for too short a time to say anything."""
    if run.failure:  # it had printed no figure by then
        was_ended = seconds is not None and (run.total_wall_time_s or 0.0) >= seconds
        return was_ended and run.failure.failure_class == "no_figures" and LONGER in run.failure.reason
    return isinstance(run, Printed) and trained_s(run) < BEGUN * (run.reading.ended_after_s or 0.0)


def write_campaign(path: Path, campaign: Mapping[str, Any], request: AbRequest) -> bool:
    """Write `campaign` as a YAML file; return whether it was written. One with its number of rounds is left as it is.

    Raises UserError where another comparison than that of `request` is there.
    """

    def asked(content: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was asked for: without repeats and run length, which the time has set."""
        work = {key: value for key, value in content.get("work", {}).items() if key != "seconds" or request.seconds}
        return {**content, "repeats": 1, "work": work}

    if path.is_file():
        there, _ = read_yaml(path)
        if not isinstance(there, dict) or asked(there) != asked(campaign):
            raise UserError(f"{path} is there already, with another comparison; give another --name, or remove it")
        if there["repeats"] != 1:
            return False
    _write_yaml(path, campaign)
    return True


def _write_yaml(path: Path, campaign: Mapping[str, Any]) -> None:
    """Write a campaign's content as its file."""
    write_atomic(path, yaml.safe_dump(dict(campaign), sort_keys=False, allow_unicode=True, width=1000))


def read_verdict(path: Path, request: AbRequest, results: Path = RESULTS) -> AbVerdict:
    """Return the verdict of the campaign at `path`, which has run; undecided, it says how many rounds there were.

    Raises UserError where a file of its results is missing or damaged.
    """
    folder = results / path.stem
    loaded = LoadedCampaign(path, results)
    runs = [read_run(place).metrics for place in loaded.runs(results) if (place / METRICS).is_file()]
    failures = {run.cell: f"{run.failure.failure_class}: {run.failure.reason}" for run in runs if run.failure}
    report, findings = read_scaling_report(folder / "scaling_report.json"), read_findings(folder / "findings.json")
    repeats = loaded.campaign.repeats
    level = 1 - repeats.chance if isinstance(repeats, RepeatUntil) else CONFIDENCE
    verdict = ab_verdict(report, findings, failures, request.difference, request.accept_differences, level)
    waited = _has_waited(folder / "logs")
    return with_words(verdict, *_remarks_on_verdict(verdict, request, loaded.campaign, runs, waited))


def _remarks_on_verdict(
    verdict: AbVerdict, request: AbRequest, campaign: Campaign, runs: Sequence[Timed | Failed], waited: bool
) -> Iterator[str]:
    """Yield what to say behind a verdict: how `runs` were counted and ended, and what would decide an open one.

    `waited`: whether a job has waited for devices.
    """
    if verdict.ratio is None:
        if any(run.failure and run.failure.failure_class == "timeout" for run in runs):
            yield f"a run may take {percent(LONGEST_RUN)} of --minutes {request.minutes:g}"
        return
    printed = [run for run in runs if isinstance(run, Printed)]
    if counted := [run.unit for run in printed if run.unit in COUNTED and run.reading.per_step is None]:
        yield f"{counted[0]} of A are taken for as much work as those of B"
    if any(run.reading.ended_after_s for run in printed):
        yield f"runs were ended after {campaign.work.seconds:g} s"
    rounds = campaign.most_repeats
    if verdict.word == "undecided" and rounds < MOST:
        why = ", as runs waited for devices that others used" if waited else ""
        yield f"{request.minutes:g} min had room for {plural(rounds, 'round')}{why}"
        yield from _ways_to_decide(verdict, request, rounds, printed)


def _has_waited(logs: Path) -> bool:
    """Return whether a job has waited for devices, as its log in the folder `logs` says."""
    return any(WAITED.search(log.read_text("utf-8", "replace")) for log in logs.glob("together-*.log"))


def _ways_to_decide(verdict: AbVerdict, request: AbRequest, rounds: int, runs: Sequence[Printed]) -> Iterator[str]:
    """Yield sentences on what would decide a comparison that `rounds` have left open: more time, or longer training."""
    needed = max(rounds_needed(verdict, request.difference) or 0, FIRST_LOOK + 1)
    if needed > MOST:
        yield f"{integer(needed)} rounds would be needed: longer runs (--seconds) or a larger --difference need fewer"
    else:
        minutes = math.ceil(request.minutes * needed / rounds)
        yield f"about {plural(minutes, 'minute')} would tell (--minutes {minutes})"
    share = sum(map(trained_s, runs)) / sum(run.total_wall_time_s for run in runs)
    if share < START_UP:
        yield f"training is {percent(share)} of the time of a run, the rest is its start: let it train longer"


def trained_s(run: Printed) -> float:
    """Return the seconds of a run in which it trained: its window, or if longer, from its first line to its last."""
    between_lines_s = run.second_clock.window_s if run.second_clock else None
    return max(run.window.wall_time_s, between_lines_s or 0.0)
