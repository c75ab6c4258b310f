"""Two commands as a campaign that Snakemake runs: what `scaleproof ab` writes, starts and reads."""

import re
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaleproof.conclude.analysis.run_tables import cell_rate
from scaleproof.conclude.analysis.stopping import shown_in_scatters
from scaleproof.conclude.report.sentences.ab import AbVerdict, no_numbers, with_words
from scaleproof.driver.ab_campaign import (
    LONG_RUN,
    MOST,
    AbRequest,
    Pace,
    campaign_file,
    make_campaign,
    read_campaign,
    repeats_of,
    run_lengths_to_try,
    write_campaign,
)
from scaleproof.driver.ab_verdict import failures_by_cell, read_verdict, trained_s
from scaleproof.driver.series import level_in_series, read_series
from scaleproof.driver.snakemake_view import GRACE_S, OutOfTime, run_snakemake
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.campaign.yaml_loader import read_yaml
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import write_json
from scaleproof.ground.records.metrics import Failed, Printed, Timed
from scaleproof.ground.records.retry import remove_failed
from scaleproof.ground.records.run import METRICS, TimedRun, read_run
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.command.figures import LONGER
from scaleproof.measure.machine.allocation import current_allocation
from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

SERIES = "series"  # folder of results/: the budgets of series
HARDLY_BEGUN_SHARE = 0.2  # of a run that was ended: with less training, it says nothing
FURTHER_CHANCE = 0.5  # factor on the chance of an error after an earlier call: all calls err at most twice as often


@dataclass(frozen=True)
class _Call:
    """One call of `scaleproof ab`."""

    path: Path  # the campaign's file
    request: AbRequest
    results: Path
    end: float  # of the minutes, by time.monotonic()
    chance: float | None  # of claiming a difference that is not there; None: 5 %
    earlier_rounds: int  # rounds of earlier calls, to which this call adds

    def campaign(self, rounds: int, seconds: float | None) -> dict[str, Any]:
        """Return the content of the campaign's file with `rounds` more rounds. Each run is ended after `seconds`."""
        rounds += self.earlier_rounds
        return make_campaign(self.request, rounds, self.chance, seconds, looked=self.earlier_rounds)

    def write_rounds(self, campaign: Mapping[str, Any]) -> None:
        """Write `campaign`, which differs from the file in the number of rounds, to the campaign's file.

        The tables that an earlier page was made from are removed, so that Snakemake takes a new look at the results.
        """
        if read_yaml(self.path)[0] == campaign:
            return
        write_campaign(self.path, campaign)
        for name in ("runs.csv", "findings.json"):
            (self.results / self.path.stem / name).unlink(missing_ok=True)


def run_comparison(request: AbRequest, name: str | None = None, results: Path = RESULTS) -> tuple[Path, AbVerdict]:
    """Compare the two commands within the minutes of `request`. Returns the campaign's file and the verdict.

    Whatever runs when the minutes are over is ended. The verdict then is that of the finished rounds if there is time
    for their page, else that nobody can tell yet. Where an earlier call has left the comparison open, a call with more
    minutes adds to its rounds. `name`: of the campaign's file; None: the request's name. Raises UserError for another
    comparison in this file, a command that cannot be run here, a failure of Snakemake, and damaged results.
    """
    end = time.monotonic() + 60 * request.minutes - GRACE_S
    path = campaign_file(request, name)
    budget = results / SERIES / f"{request.series}.json" if request.series else None
    if budget:
        read_series(budget)  # raises UserError where the file is damaged, before anything is written

    campaign = _write_first_campaign(path, request)
    # The time limit of a run grows with --minutes: a higher one means that this call has more of them than the last.
    has_more_time = make_campaign(request)["resources"]["time_limit"] > campaign["resources"]["time_limit"]
    earlier_rounds = _rounds_left_open(path, campaign, request, results) if has_more_time and not budget else 0
    if has_more_time and not earlier_rounds:
        _remove_timeouts(path, results)

    chance = level_in_series(budget, path.stem) if budget else None  # notes this comparison in the file, too
    if earlier_rounds >= FEWEST_REPEATS:  # fewer rounds claim nothing
        repeats = LoadedCampaign(path).campaign.repeats
        earlier_chance = repeats.chance if isinstance(repeats, RepeatUntil) else 1 - CONFIDENCE
        chance = round(FURTHER_CHANCE * earlier_chance, 9)

    call = _Call(path, request, results, end=end, chance=chance, earlier_rounds=earlier_rounds)
    try:
        page_s = _make_first_round(call, campaign)
        verdict = _verdict_without_figures(call)
        if not verdict:
            _make_page(call, page_s)
            verdict = read_verdict(path, request, results)
    except (OutOfTime, KeyboardInterrupt) as stopped:
        page = results / path.stem / "report.html"
        is_whole = _is_of_all_runs(page)
        if not is_whole:
            _remove_files_of_page(page.parent)
        if isinstance(stopped, KeyboardInterrupt):
            raise
        verdict = read_verdict(path, request, results) if is_whole else _verdict_without(page, request)
    if budget:
        entries = read_series(budget)  # level_in_series has added this comparison
        entries[path.stem]["decided"] = verdict.word in ("faster", "slower")
        write_json(budget, entries)
    return path, verdict


def _verdict_without_figures(call: _Call) -> AbVerdict | None:
    """Return the verdict where no run of either command has figures that can be read: no page would say more."""
    folders = LoadedCampaign(call.path, call.results).runs(call.results)
    runs = [read_run(folder).metrics for folder in folders if (folder / METRICS).is_file()]
    if not runs or any(not run.failure or run.failure.failure_class != "no_figures" for run in runs):
        return None
    logs = call.results / call.path.stem / "runs/*/*/train.log"
    return with_words(no_numbers(failures_by_cell(runs)), f"logs: {logs}")


def _is_of_all_runs(page: Path) -> bool:
    """Return whether the page is there and younger than every run: Snakemake may be ended just after making it."""
    records = page.parent.glob(f"runs/*/*/{METRICS}")
    return page.is_file() and all(record.stat().st_mtime <= page.stat().st_mtime for record in records)


def _remove_files_of_page(folder: Path) -> None:
    """Remove what an earlier call has made of fewer runs: neither page nor figures fit the runs that are there now."""
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.is_file():
            file.unlink()


def _verdict_without(page: Path, request: AbRequest) -> AbVerdict:
    """Return the verdict where the minutes were over before the `page` of all runs was made."""
    runs = [read_run(record.parent).metrics for record in page.parent.glob(f"runs/*/*/{METRICS}")]
    failures = failures_by_cell(runs)
    if failures.keys() - {run.cell for run in runs if not run.failure}:
        return no_numbers(failures)
    advice = "the same command goes on from there" if runs else "give more of them, or shorter runs (--seconds)"
    ratio = _ratio_so_far(page.parent / "runs")
    why = f"the {request.minutes:g} min were over after {plural(len(runs), 'run')}, before a page{ratio}; {advice}"
    return AbVerdict("undecided", f"cannot tell yet: {why}")


def _ratio_so_far(runs: Path) -> str:
    """Return B's rate over A's, as the page will state it; "" for no round, failed runs, or other units."""
    round_count = 0
    pairs: list[tuple[TimedRun, TimedRun]] = []  # of A and of B, by round
    for a_folder in (record.parent for record in runs.glob(f"a-*/*/{METRICS}")):
        for b_record in runs.glob(f"b-*/{a_folder.name}/{METRICS}"):
            round_count += 1
            a, b = read_run(a_folder), read_run(b_record.parent)
            if isinstance(a, TimedRun) and isinstance(b, TimedRun) and _unit_of(a) == _unit_of(b):
                pairs.append((a, b))
    if not pairs or len(pairs) < round_count:  # fewer: a run has failed, or units differ
        return ""

    a_rate, b_rate = (cell_rate(of_cell).value for of_cell in zip(*pairs, strict=True))
    return f" ({plural(len(pairs), 'round')}: B at {b_rate / a_rate:.3g}x A, unchecked)"


def _unit_of(run: TimedRun) -> str:
    return run.metrics.unit if isinstance(run.metrics, Printed) else "tokens"


def _write_first_campaign(path: Path, request: AbRequest) -> dict[str, Any]:
    """Write the campaign of `request` to `path`, unless its file is there. Checks the campaign and returns its content.

    Raises UserError where the campaign is wrong or not for this machine, and removes the file if this call wrote it.
    """
    earlier_campaign = read_campaign(path, request)
    campaign = earlier_campaign or make_campaign(request, seconds=request.seconds)
    if not earlier_campaign:
        write_campaign(path, campaign)

    try:
        geometry = LoadedCampaign(path).cells[0].execution.geometry  # raises UserError for a wrong campaign
        job = current_allocation() if geometry.nodes > 1 else None
        nodes = len(job.hosts) if job else 1
        gpus = len(usable_gpus(cuda_devices)[0])
        devices = gpus or available_cores()
        if geometry.nodes > nodes or geometry.devices_per_node > devices:
            machine = f"{plural(nodes, 'node')} with {plural(devices, 'GPU' if gpus else 'core')}"
            raise UserError(f"--geometry {geometry} is not here; allowed: at most {nodes}x{devices}, {machine}")
    except UserError as error:
        if not earlier_campaign:
            path.unlink()
        raise UserError(_name_options(str(error), path)) from None
    return campaign


def _name_options(message: str, path: Path) -> str:
    """Replace the campaign's file and keys in a message by options: "--seconds 9: ..." for "work.seconds 9: ..."."""
    message = re.sub(rf"{re.escape(str(path))}(, line \d+)?: ", "", message)
    message = re.sub(r"\b(execution|work)(\.|: )(?=[a-z])", "--", message).replace("--warmup_", "--warmup-")
    return re.sub(r"workload\.figures(\.|: )", "--pattern ", message).replace("workload.command", "the command")


def _rounds_left_open(path: Path, campaign: Mapping[str, Any], request: AbRequest, results: Path) -> int:
    """Count the rounds of earlier calls, if these have left open who is faster.

    Returns 0 where a verdict is there, or earlier calls have made the first round alone. `campaign`: the content of the
    campaign's file. Raises UserError where the results of these calls are damaged.
    """
    folder = results / path.stem
    if campaign["repeats"] == 1:  # the first round alone was made
        return 0
    if (folder / "report.html").is_file() and read_verdict(path, request, results).word != "undecided":
        return 0
    rounds = _whole_rounds(path, results)
    return rounds if rounds < MOST else 0  # no comparison has more rounds than MOST


def _remove_timeouts(path: Path, results: Path) -> None:
    """Remove all failed runs if the time limit, which the minutes of an earlier call had set, has stopped any."""
    runs = [run for run in LoadedCampaign(path, results).runs(results) if (run / METRICS).is_file()]
    failures = [read_run(run).metrics.failure for run in runs]
    if any(failure and failure.failure_class == "timeout" for failure in failures):
        remove_failed(results / path.stem, runs)


def _whole_rounds(path: Path, results: Path) -> int:
    """Count the finished rounds; if there are any, remove the runs of a round that was cut off."""
    folder = results / path.stem / "runs"
    cells = LoadedCampaign(path, results).cells
    rounds = min(len(list((folder / cell.slug).glob(f"*/{METRICS}"))) for cell in cells)
    for run in folder.glob("*/rep*") if rounds else ():
        if int(run.name.removeprefix("rep")) > rounds:  # of the round that was cut off
            shutil.rmtree(run)
    return rounds


def _make_page(call: _Call, page_s: float) -> None:
    """Make the rounds and their page. The page has the rounds that are finished `page_s` seconds before the end.

    Raises OutOfTime where the time is too short for the page.
    """
    page = call.results / call.path.stem / "report.html"
    try:
        run_snakemake(call.path, [page], limit_s=call.end - page_s - time.monotonic())
    except OutOfTime:
        rounds = _whole_rounds(call.path, call.results)
        if not rounds:  # nothing to make a page of: the first round is of an earlier call, and may have been removed
            raise
        repeats = repeats_of(call.request, rounds, call.chance, call.earlier_rounds)
        call.write_rounds(read_yaml(call.path)[0] | {"repeats": repeats})
        run_snakemake(call.path, [page], limit_s=call.end - time.monotonic())


def _make_first_round(call: _Call, earlier_campaign: dict[str, Any]) -> float:
    """Run both commands once, then write the campaign with as many rounds as there is time for.

    Returns about how many seconds the page takes; 0 where that is unknown. Raises OutOfTime when the minutes are over.

    While a run had hardly begun when it was ended, the round is made again with longer runs. Runs as long as LONG_RUN
    suffice if all have printed a figure. Nothing is done where an earlier call has given the answer.
    `earlier_campaign`: the content of the campaign's file; a further round has runs of the same length.
    """
    # A file with more than one repeat is of an earlier call that has made the first round, and this call adds none.
    if earlier_campaign["repeats"] != 1 and not call.earlier_rounds:
        return 0.0

    request, began = call.request, time.monotonic()
    lengths = run_lengths_to_try(request, earlier_campaign.get("work", {}).get("seconds"))
    repeat = call.earlier_rounds + 1
    for seconds in lengths[:1] if call.earlier_rounds else lengths:  # a further round is as long as the earlier ones
        round_began = time.monotonic()
        write_campaign(call.path, call.campaign(1, seconds) | {"repeats": repeat})  # up to this round, no further
        loaded = LoadedCampaign(call.path, call.results)
        try:
            run_snakemake(call.path, list(loaded.records(call.results)), limit_s=call.end - round_began)
        except (OutOfTime, KeyboardInterrupt):
            if call.earlier_rounds:  # undo this round: file, runs and page of the earlier call must fit together
                write_campaign(call.path, earlier_campaign)
                _whole_rounds(call.path, call.results)
            raise
        runs = [read_run(run).metrics for run in loaded.runs(call.results) if run.name == f"rep{repeat}"]
        too_short = [run for run in runs if _had_hardly_begun(run, seconds)]
        if seconds is not None and seconds >= LONG_RUN * 60 * request.minutes:
            too_short = [run for run in too_short if run.failure]  # runs of this length suffice if they have a figure
        if not too_short:
            break

    now = time.monotonic()
    runs_s = sum(run.total_wall_time_s or 0.0 for run in runs)
    pace = Pace(elapsed_s=now - round_began, runs_s=runs_s, spent_s=round_began - began)
    has_failed = any(run.failure for run in runs)  # a program that fails is not started again
    campaign = call.campaign(1 if has_failed else pace.rounds_in(request.minutes), seconds)
    call.write_rounds(campaign)
    if not has_failed:
        print(f"scaleproof: {_describe_rounds(campaign['repeats'])}", file=sys.stderr)
    return pace.page_s


def _describe_rounds(repeats: int | dict[str, float]) -> str:
    """Describe how many rounds there is time for (`repeats`), and which difference they will probably show."""
    if isinstance(repeats, int):
        return f"there is time for {plural(repeats, 'round')}, too few to look at them in between"
    rule = RepeatUntil.model_validate(repeats)
    scatters = f"{shown_in_scatters(rule):.1f} times the scatter of equal runs"
    return f"there is time for {rule.at_most} rounds, which probably show a difference of {scatters}"


def _had_hardly_begun(run: Timed | Failed, seconds: float | None) -> bool:
    """Return whether a run that was ended after `seconds` trained for too short a time to say anything."""
    if run.failure:  # a run without a figure fails
        was_ended = seconds is not None and (run.total_wall_time_s or 0.0) >= seconds
        return was_ended and run.failure.failure_class == "no_figures" and LONGER in run.failure.reason
    return isinstance(run, Printed) and trained_s(run) < HARDLY_BEGUN_SHARE * (run.reading.ended_after_s or 0.0)
