"""The verdict of `scaleproof ab`, read from the results of its campaign, with remarks on it."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from scaleproof.conclude.report.sentences.ab import AbVerdict, ab_verdict, rounds_needed, with_words
from scaleproof.driver.ab_campaign import FIRST_LOOK, LONGEST_RUN, MOST, AbRequest
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.number_format import integer, percent
from scaleproof.ground.records.metrics import Failed, Printed, Timed
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.snakemake_command import RESULTS

WAITED = re.compile("^scaleproof: waiting for ", re.MULTILINE)  # in the log of a job
COUNTED = ("steps", "batches", "epochs", "items")  # units that may be different work in A and in B
LEAST_TRAINING_SHARE = 0.25  # of a run: with less training, most of the minutes go into its start
ROUND_OVERHEAD = 1.25  # minutes of a round over those of its runs


def read_verdict(path: Path, request: AbRequest, results: Path = RESULTS) -> AbVerdict:
    """Return the verdict of the campaign at `path`, which has run. An open verdict says how many rounds there were.

    Raises UserError where a file of the results is missing or damaged.
    """
    folder = results / path.stem
    loaded = LoadedCampaign(path, results)
    runs = [read_run(place).metrics for place in loaded.runs(results) if (place / METRICS).is_file()]
    failures = failures_by_cell(runs)
    report = read_scaling_report(folder / "scaling_report.json")
    findings = read_findings(folder / "findings.json")

    repeats = loaded.campaign.repeats
    level = 1 - repeats.chance if isinstance(repeats, RepeatUntil) else CONFIDENCE
    verdict = ab_verdict(report, findings, failures, request.difference, request.accept_differences, confidence=level)
    waited = _has_waited(folder / "logs")
    return with_words(verdict, *_remarks_on_verdict(verdict, request, loaded.campaign, runs, waited))


def _remarks_on_verdict(
    verdict: AbVerdict, request: AbRequest, campaign: Campaign, runs: Sequence[Timed | Failed], waited: bool
) -> Iterator[str]:
    """Yield remarks on a verdict: how `runs` were counted and ended, and what would decide an open verdict.

    `waited`: whether a job has waited for devices.
    """
    if verdict.ratio is None:
        if any(run.failure and run.failure.failure_class == "timeout" for run in runs):
            yield f"a run may take {percent(LONGEST_RUN)} of --minutes {request.minutes:g}"
        return  # the other remarks are on a ratio

    printed = [run for run in runs if isinstance(run, Printed)]
    units = [run.unit for run in printed if run.unit in COUNTED and run.reading.per_step is None]  # of unknown work
    if units:
        remedy = " (if they are not: --metric samples/s --per-step A B, samples of a step of each)"
        yield f"{units[0]} of A are taken for as much work as those of B{remedy if units[0] == 'steps' else ''}"
    if any(run.reading.ended_after_s for run in printed):
        yield f"runs were ended after {campaign.work.seconds:g} s"
    rounds = campaign.most_repeats
    if verdict.word == "undecided" and rounds < MOST:
        why = ", as runs waited for devices that others used" if waited else ""
        yield f"{plural(rounds, 'round')} so far{why}"
        yield from _ways_to_decide(verdict, request, rounds, printed)


def _has_waited(logs: Path) -> bool:
    """Return whether a job has waited for devices. Its log in the folder `logs` says so."""
    return any(WAITED.search(log.read_text("utf-8", "replace")) for log in logs.glob("together-*.log"))


def _ways_to_decide(verdict: AbVerdict, request: AbRequest, rounds: int, runs: Sequence[Printed]) -> Iterator[str]:
    """Yield ways to decide a comparison that `rounds` have left open: more time, or longer training."""
    needed = max(rounds_needed(verdict, request.difference) or 0, FIRST_LOOK + 1)  # 0: unknown
    if needed > MOST:
        yield f"{integer(needed)} rounds would be needed: longer runs (--seconds) or a larger --difference need fewer"
    else:
        # Rounds of earlier calls took more minutes than this call had.
        minutes_so_far = max(request.minutes, ROUND_OVERHEAD * sum(run.total_wall_time_s for run in runs) / 60)
        minutes = math.ceil(minutes_so_far * needed / rounds)
        advice = "under another --name" if request.series else "goes on with these rounds"
        yield f"about {plural(minutes, 'minute')} would tell (--minutes {minutes} {advice})"
    share = sum(map(trained_s, runs)) / sum(run.total_wall_time_s for run in runs)
    if share < LEAST_TRAINING_SHARE:
        yield f"training is {percent(share)} of the time of a run, the rest is its start: let it train longer"


def trained_s(run: Printed) -> float:
    """Return the seconds in which a run trained: its window, or the time from its first line to its last if longer."""
    between_lines_s = run.second_clock.window_s if run.second_clock else None
    return max(run.window.wall_time_s, between_lines_s or 0.0)


def failures_by_cell(runs: Iterable[Timed | Failed]) -> dict[str, str]:
    """Return cell -> the class and the reason of the last failure of its runs."""
    return {run.cell: f"{run.failure.failure_class}: {run.failure.reason}" for run in runs if run.failure}
