"""The campaign of `scaleproof ab`: two commands, how long their runs are, and how many rounds there are."""

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.yaml_loader import read_yaml
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_atomic
from scaleproof.ground.records.scaling_report import AB_TITLE

A, B = "a", "b"
FIRST_LOOK = 4  # rounds before the first look at the results
MOST = 30  # rounds
# Lengths of a run, as parts of the minutes of a call:
SHORT_RUN = 0.04  # the first try: a run that goes on is ended, as a proper end, which leaves room for ten rounds
LONG_RUN = 0.1  # the second try, where a run had hardly begun to train by then
SLOW_START = 0.2  # the third try, where a run had printed no figure by then either
LONGEST_RUN = 0.25  # a run that cannot be ended is stopped
LEAST_RUN_S = 15.0  # the start of a program may take so long
FURTHER = 1.5  # factor on the first try's length: a further try that is not longer tells little

# The first round's overhead is its time beside its runs: the start of Snakemake and of its jobs. In multiples of it:
FURTHER_ROUND_OVERHEAD = 0.25  # of each further round: several are one job
PAGE_OVERHEAD = 3.0  # the page, with all jobs before it (2.7 measured, and 2 on a busy machine)


@dataclass(frozen=True)
class AbRequest:
    """What `scaleproof ab` is asked for."""

    a: Sequence[str]  # the words of the command that B is compared with
    b: Sequence[str]
    figures: str = "auto"
    patterns: Mapping[str, str] = field(default_factory=dict)
    per_step: tuple[str, Sequence[int]] | None = None  # unit, and one amount for both or one for each
    steps: tuple[int, int] | None = None  # two lengths of run
    seconds: float | None = None  # of a run until it is ended; None: as many as there is time for
    warmup_steps: int | None = None
    geometry: str = "1x1"
    difference: float = 0.02  # the smallest that matters, as a part of the rate
    minutes: float = 10.0  # from the first start of a call to the page
    accept_differences: bool = False  # between what watched programs do
    series: str | None = None  # name of comparisons that share one budget of false claims

    @property
    def name(self) -> str:
        """The name of the campaign: ab- and a hash of what is compared. It is the same with more minutes."""
        content = json.dumps(_asked(make_campaign(self, seconds=self.seconds), self), sort_keys=True)
        return f"ab-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Pace:
    """The time that the first round took, in which A and B ran once each."""

    elapsed_s: float  # the runs and the overhead: the start of Snakemake and of its jobs
    runs_s: float  # the runs alone
    spent_s: float = 0.0  # before the round began

    @property
    def page_s(self) -> float:
        return PAGE_OVERHEAD * self._overhead_s

    @property
    def _overhead_s(self) -> float:
        """Seconds of the first round beside its runs: all of it if the runs took longer, as an earlier call's do."""
        overhead_s = self.elapsed_s - self.runs_s
        return overhead_s if overhead_s > 0 else self.elapsed_s

    @property
    def round_s(self) -> float:
        return self.runs_s + FURTHER_ROUND_OVERHEAD * self._overhead_s

    def rounds_in(self, minutes: float) -> int:
        """Count the rounds that end, with the page, within `minutes`. The first round always counts."""
        further_rounds_s = 60 * minutes - self.spent_s - self.elapsed_s - self.page_s
        return 1 + max(0, int(further_rounds_s // self.round_s))


def make_campaign(
    request: AbRequest, rounds: int = 1, chance: float | None = None, seconds: float | None = None, looked: int = 0
) -> dict[str, Any]:
    """Return the content of the campaign file that compares the two commands of `request`.

    `rounds`: the most that there is time for. `chance`: of claiming a difference that is not there (None: 5 %).
    `seconds`: after which a run is ended (None: it ends by itself). `looked`: rounds of earlier calls, already judged.
    """
    workload: dict[str, Any] = {"command": "{program}", "figures": dict(request.patterns) or request.figures}
    vary: dict[str, Any] = {"program": {A: shlex.join(request.a), B: shlex.join(request.b)}}
    campaign: dict[str, Any] = {"title": AB_TITLE, "workload": workload}
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

    # Minutes until a run is stopped as failed: longer than the seconds (--seconds) after which it is ended properly.
    limit = round(LONGEST_RUN * request.minutes + 1.5 * (request.seconds or 0.0) / 60, 6)
    return campaign | {
        "execution": {"geometry": request.geometry},
        "vary": vary,
        "question": {"is": B, "better_than": A},
        # A job may take a week, so that a single one makes all repeats up to a look at the results: the cluster starts
        # fewer jobs, and the runs are closer together in time.
        "resources": {"same_allocation": True, "minutes_per_job": 10_000, "time_limit": limit},
        "repeats": repeats_of(request, rounds, chance, looked),
    }


def run_lengths_to_try(request: AbRequest, tried: float | None) -> list[float | None]:
    """Return the seconds of a run to try, the shortest first, until one suffices; [None] for runs that end themselves.

    `tried`: the length of an earlier call's runs. It is tried first, as these runs are kept and none may be shorter,
    unless that call had so many more minutes that it is too long for this one.
    """
    if request.figures == "whole":
        return [None]
    if request.seconds:
        return [request.seconds]
    short_s, long_s, longest_s = (60 * request.minutes * part for part in (SHORT_RUN, LONG_RUN, SLOW_START))
    first_s = min(tried or max(short_s, LEAST_RUN_S), longest_s)  # with few minutes, each may be shorter than a start
    return [first_s, *(length for length in (long_s, longest_s) if length >= FURTHER * first_s)]


def repeats_of(request: AbRequest, rounds: int, chance: float | None = None, looked: int = 0) -> int | dict[str, float]:
    """Return `repeats`: a number for few rounds, else a rule that stops once A and B differ (see `make_campaign`)."""
    if rounds < FIRST_LOOK:
        return rounds if chance is None else 1  # a number is judged at 5 %, above `chance`; 1 repeat claims nothing
    # The first look must come before the last round.
    first_look = min(max(FIRST_LOOK, looked + 1), rounds - 1, MOST - 1)
    repeats = {"resolve": request.difference, "at_least": first_look, "at_most": min(MOST, rounds)}
    return repeats if chance is None else repeats | {"chance": chance}


def _asked(campaign: Mapping[str, Any], request: AbRequest) -> dict[str, Any]:
    """Return what the user has asked for in a campaign, without all that follows from the minutes."""
    work = {key: value for key, value in campaign.get("work", {}).items() if key != "seconds" or request.seconds}
    resources = {key: value for key, value in campaign["resources"].items() if key != "time_limit"}
    return {**campaign, "repeats": 1, "work": work, "resources": resources}


def campaign_file(request: AbRequest, name: str | None = None) -> Path:
    """Return the file of the comparison: of the given `name`, else of the request's name.

    The request's name depends on the version of scaleproof. If its file is missing, another file ab-*.yaml that asks
    for exactly the same is taken. A file with the same commands that asks otherwise, by other options or as another
    version writes them, is left alone, and a line says so.
    """
    path = CAMPAIGNS / f"{name or request.name}.yaml"
    if name or path.is_file():
        return path
    content_now = _asked(make_campaign(request, seconds=request.seconds), request)
    others: list[str] = []
    for earlier in sorted(CAMPAIGNS.glob("ab-*.yaml")):
        with suppress(UserError, AttributeError, LookupError, TypeError):  # a file that is damaged, or not of `ab`
            content, _ = read_yaml(earlier)
            if _asked(content, request) == content_now:
                return earlier
            if content["vary"]["program"] == content_now["vary"]["program"]:
                others.append(str(earlier))
    if others:
        reason = "it has the same commands with other options, or by an earlier version"
        print(f"scaleproof: left alone: {', '.join(others)} ({reason})", file=sys.stderr)
    return path


def read_campaign(path: Path, request: AbRequest) -> dict[str, Any] | None:
    """Read the campaign of an earlier call, None without one. Raises UserError for another comparison."""
    if not path.is_file():
        return None
    campaign, _ = read_yaml(path)
    is_ours = isinstance(campaign, dict) and isinstance(campaign.get("resources"), dict)  # as `_asked` needs it
    if not is_ours or _asked(campaign, request) != _asked(make_campaign(request, seconds=request.seconds), request):
        raise UserError(f"{path} is there already, with another comparison; give another --name, or remove it")
    return dict(campaign)


def write_campaign(path: Path, campaign: Mapping[str, Any]) -> None:
    write_atomic(path, yaml.safe_dump(dict(campaign), sort_keys=False, allow_unicode=True, width=1000))
