"""Two commands as a campaign that Snakemake runs: what `scaleproof ab` writes, starts and reads."""

import math
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from scaleproof.conclude.analysis.simultaneous import POWER_IN_WORDS
from scaleproof.conclude.analysis.stopping import shown_in_scatters
from scaleproof.conclude.report.sentences.ab import AbVerdict, ab_verdict, rounds_needed, with_words
from scaleproof.driver.ab_campaign import (
    FIRST_LOOK,
    LONG_RUN,
    LONGEST_RUN,
    MOST,
    AbRequest,
    make_campaign,
    read_campaign,
    repeats_of,
    run_lengths_to_try,
    write_campaign,
)
from scaleproof.driver.series import level_in_series, read_series
from scaleproof.driver.snakemake_view import GRACE_S, OutOfTime, run_snakemake
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS, read_yaml
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import write_json
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.number_format import integer, percent
from scaleproof.ground.records.metrics import Failed, Printed, Timed
from scaleproof.ground.records.retry import remove_failed
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.command.figures import LONGER
from scaleproof.measure.machine.allocation import current_allocation
from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

WAITED = re.compile("^scaleproof: waiting for ", re.MULTILINE)  # in the log of a job
SERIES = "series"  # folder of results/: the budgets of series
COUNTED = ("steps", "batches", "epochs", "items")  # units: how much work one is, nobody may have said
# What the first round takes beside its runs, Snakemake's start and its jobs', tells the rest: parts of it.
START_OF_ROUND = 0.25  # of a further round: several are one job
PAGE = 3.0  # of the page, with all before it (2.7 measured, and 2 on a busy machine)
START_UP = 0.25  # of a run: steps that fill less leave most of the minutes to its start
BEGUN = 0.2  # of a run that was ended: steps that fill less have hardly begun
FURTHER_CHANCE = 0.5  # of an error, where an earlier call has looked: all calls together err at most twice as often


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


@dataclass(frozen=True)
class _Call:
    """A call of `scaleproof ab`: the campaign's file, and the end of the minutes. `earlier`: rounds that it adds to."""

    path: Path
    request: AbRequest
    results: Path
    end: float
    chance: float | None  # of claiming a difference that is not there; None: 5 %
    earlier: int

    def campaign(self, rounds: int, seconds: float | None) -> dict[str, Any]:
        """Return the content of the campaign's file with `rounds` more, each of whose runs is ended after `seconds`."""
        return make_campaign(self.request, self.earlier + rounds, self.chance, seconds, self.earlier)

    def write_rounds(self, campaign: Mapping[str, Any]) -> None:
        """Write the campaign's file with another number of rounds.

        What an earlier page was made from is removed: Snakemake does not miss a look whose table of runs is there.
        """
        if read_yaml(self.path)[0] == campaign:
            return
        write_campaign(self.path, campaign)
        for name in ("runs.csv", "findings.json"):
            (self.results / self.path.stem / name).unlink(missing_ok=True)


def run_comparison(request: AbRequest, name: str | None = None, results: Path = RESULTS) -> tuple[Path, AbVerdict]:
    """Compare the two commands within the minutes of `request`; return the campaign's file and the verdict.

    Whatever runs when the minutes are over is ended: the verdict is that of the finished rounds if there is time for
    their page, else that nobody can tell yet.
    `name`: of the file; without it that of the request. Where an earlier call has left it open, more minutes go on with
    its rounds. Raises UserError for another comparison in this file, a command that cannot be run here, a failure of
    Snakemake, and damaged results.
    """
    end = time.monotonic() + 60 * request.minutes - GRACE_S
    path = CAMPAIGNS / f"{name or request.name}.yaml"
    budget = results / SERIES / f"{request.series}.json" if request.series else None
    if budget:
        read_series(budget)  # raises where it is damaged, before anything is written
    there = _write_first_campaign(path, request)
    has_more_time = make_campaign(request)["resources"]["time_limit"] > there["resources"]["time_limit"]
    earlier = _rounds_left_open(path, there, request, results) if has_more_time and not budget else 0
    if has_more_time and not earlier:
        _remove_timeouts(path, results)
    chance = level_in_series(budget, path.stem) if budget else None
    if earlier >= FEWEST_REPEATS:  # fewer claim nothing
        was = LoadedCampaign(path).campaign.repeats
        chance = round(FURTHER_CHANCE * (was.chance if isinstance(was, RepeatUntil) else 1 - CONFIDENCE), 9)
    call = _Call(path, request, results, end, chance, earlier)
    try:
        _make_page(call, _make_first_round(call, there))
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


def _write_first_campaign(path: Path, request: AbRequest) -> dict[str, Any]:
    """Write the campaign of `request` to `path`, unless it is there, and check it as every campaign is; return it.

    Raises UserError where it is wrong or not for this machine, and removes the file if this call wrote it.
    """
    was_there = read_campaign(path, request)
    campaign = was_there or make_campaign(request, seconds=request.seconds)
    if not was_there:
        write_campaign(path, campaign)
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
    return campaign


def _name_options(message: str, path: Path) -> str:
    """Return a message on the campaign at `path` that names the options of `scaleproof ab` in place of file and keys.

    "config/campaigns/ab.yaml, line 7: work.seconds 9: ..." becomes "--seconds 9: ...".
    """
    message = re.sub(rf"{re.escape(str(path))}(, line \d+)?: ", "", message)
    message = re.sub(r"\b(execution|work)(\.|: )(?=[a-z])", "--", message).replace("--warmup_", "--warmup-")
    return re.sub(r"workload\.figures(\.|: )", "--pattern ", message).replace("workload.command", "the command")


def _rounds_left_open(path: Path, there: Mapping[str, Any], request: AbRequest, results: Path) -> int:
    """Return how many rounds of earlier calls have told nobody yet who is faster; 0 if some have, or there was one.

    `there`: the content of the campaign's file. Raises UserError where the results of these calls are damaged.
    """
    folder = results / path.stem
    if there["repeats"] == 1:
        return 0
    if (folder / "report.html").is_file() and read_verdict(path, request, results).word != "undecided":
        return 0
    rounds = _whole_rounds(path, results)
    return rounds if rounds < MOST else 0


def _remove_timeouts(path: Path, results: Path) -> None:
    """Remove the failed runs where one was stopped at a limit that the minutes of an earlier call had set."""
    runs = [place for place in LoadedCampaign(path, results).runs(results) if (place / METRICS).is_file()]
    failures = [run.failure for run in (read_run(place).metrics for place in runs) if run.failure]
    if any(failure.failure_class == "timeout" for failure in failures):
        remove_failed(results / path.stem, runs)


def _whole_rounds(path: Path, results: Path) -> int:
    """Return how many rounds are finished; of one that was cut off, remove what it has left: it is none of the results.

    Nothing is removed where no round is finished.
    """
    runs = [results / path.stem / "runs" / cell.slug for cell in LoadedCampaign(path, results).cells]
    rounds = min(len(list(of_cell.glob(f"*/{METRICS}"))) for of_cell in runs)
    for place in (results / path.stem).glob("runs/*/rep*") if rounds else ():
        if int(place.name.removeprefix("rep")) > rounds:
            shutil.rmtree(place)
    return rounds


def _make_page(call: _Call, page_s: float) -> None:
    """Make the rounds and the page; those rounds alone that are finished `page_s` seconds before the end.

    Raises OutOfTime where there is no time for the page either.
    """
    page = call.results / call.path.stem / "report.html"
    try:
        run_snakemake(call.path, [page], limit_s=call.end - page_s - time.monotonic())
    except OutOfTime:
        if not (rounds := _whole_rounds(call.path, call.results)):  # those of an earlier call were removed
            raise
        repeats = repeats_of(call.request, rounds, call.chance, call.earlier)
        call.write_rounds(read_yaml(call.path)[0] | {"repeats": repeats})
        run_snakemake(call.path, [page], limit_s=call.end - time.monotonic())


def _make_first_round(call: _Call, there: dict[str, Any]) -> float:
    """Run both commands once, then write the campaign with as many rounds as there is time for.

    Returns about how many seconds the page takes; 0 where that is unknown. Raises OutOfTime at the end.

    The round is made again with longer runs while one of them had hardly begun when it was ended. Runs as long as
    LONG_RUN suffice if all have printed a figure. Nothing is done where an earlier call has given the answer.
    `there`: the content of the campaign's file, whose runs keep their length.
    """
    if there["repeats"] != 1 and not call.earlier:
        return 0.0
    request, began = call.request, time.monotonic()
    lengths = run_lengths_to_try(request, there.get("work", {}).get("seconds"))
    for seconds in lengths[:1] if call.earlier else lengths:
        round_began = time.monotonic()
        write_campaign(call.path, call.campaign(1, seconds) | {"repeats": call.earlier + 1})
        loaded = LoadedCampaign(call.path, call.results)
        try:
            run_snakemake(call.path, list(loaded.records(call.results)), limit_s=call.end - round_began)
        except (OutOfTime, KeyboardInterrupt):
            if call.earlier:  # the page of the earlier call stays that of its rounds
                write_campaign(call.path, there)
                _whole_rounds(call.path, call.results)
            raise
        places = [place for place in loaded.runs(call.results) if place.name == f"rep{call.earlier + 1}"]
        runs = [read_run(place).metrics for place in places]
        too_short = [run for run in runs if _had_hardly_begun(run, seconds)]
        if seconds is not None and seconds >= LONG_RUN * 60 * request.minutes:
            too_short = [run for run in too_short if run.failure]
        if not too_short:
            break
    now = time.monotonic()
    runs_s = sum(run.total_wall_time_s or 0.0 for run in runs)
    pace = Pace(elapsed_s=now - round_began, runs_s=runs_s, spent_s=round_began - began)
    has_failed = any(run.failure for run in runs)  # such a program is not started again
    campaign = call.campaign(1 if has_failed else pace.rounds_in(request.minutes), seconds)
    call.write_rounds(campaign)
    if not has_failed:
        print(f"scaleproof: {_describe_rounds(campaign['repeats'])}", file=sys.stderr)
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
        how = "under another --name" if request.series else "go on with these rounds"
        yield f"about {plural(minutes, 'minute')} would tell (--minutes {minutes} {how})"
    share = sum(map(trained_s, runs)) / sum(run.total_wall_time_s for run in runs)
    if share < START_UP:
        yield f"training is {percent(share)} of the time of a run, the rest is its start: let it train longer"


def trained_s(run: Printed) -> float:
    """Return the seconds of a run in which it trained: its window, or if longer, from its first line to its last."""
    between_lines_s = run.second_clock.window_s if run.second_clock else None
    return max(run.window.wall_time_s, between_lines_s or 0.0)
