"""The campaign of `scaleproof ab`: two commands, how long their runs are, and how many rounds there are."""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from scaleproof.ground.campaign.yaml_loader import read_yaml
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_atomic

A, B = "a", "b"
FIRST_LOOK = 4  # rounds before it
MOST = 30  # rounds
# Of the minutes:
SHORT_RUN = 0.04  # a run that goes on is ended after it, as a proper end, which leaves room for ten rounds ...
LONG_RUN = 0.1  # ... or after this, where it had hardly begun to train by then ...
SLOW_START = 0.2  # ... or after this, where it had printed no figure by then either
LONGEST_RUN = 0.25  # one that cannot be ended is stopped after it
LEAST_RUN_S = 15.0  # the start of a program may take so long
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
    minutes: float = 10.0  # from the first start of a call to the page
    accept_differences: bool = False  # of what watched programs do
    series: str | None = None  # name of comparisons that share one budget of false claims

    @property
    def name(self) -> str:
        """ab- and a hash of what is compared, and how; with more minutes it is the same comparison."""
        content = json.dumps(_asked(make_campaign(self, seconds=self.seconds), self), sort_keys=True)
        return f"ab-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def make_campaign(
    request: AbRequest,
    rounds: int = 1,
    chance: float | None = None,
    seconds: float | None = None,
    looked: int = 0,
) -> dict[str, Any]:
    """Return the content of the campaign file that compares the two commands of `request`.

    `rounds`: the most that there is time for. `chance`: of claiming a difference that is not there (None: 5 %).
    `seconds`: after which a run is ended (None: it ends by itself). `looked`: rounds of earlier calls.
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
    limit = round(LONGEST_RUN * request.minutes + 1.5 * (request.seconds or 0.0) / 60, 6)
    return campaign | {
        "execution": {"geometry": request.geometry},
        "vary": vary,
        "question": {"is": B, "better_than": A},
        # Jobs may take a week: one makes all repeats up to a look at the results, with fewer starts, closer together.
        "resources": {"same_allocation": True, "minutes_per_job": 10_000, "time_limit": limit},
        "repeats": repeats_of(request, rounds, chance, looked),
    }


def run_lengths_to_try(request: AbRequest, tried: float | None) -> list[float | None]:
    """Return lengths of runs to try until one suffices, in seconds, the shortest first; [None]: runs end themselves.

    `tried`: that of an earlier call, whose runs are kept: none is shorter.
    """
    if request.figures == "whole":
        return [None]
    if request.seconds:
        return [request.seconds]
    short_s, long_s, longest_s = (60 * request.minutes * part for part in (SHORT_RUN, LONG_RUN, SLOW_START))
    first_s = tried or min(max(short_s, LEAST_RUN_S), longest_s)  # of few minutes all may be shorter than a start
    return [first_s, *(length for length in (long_s, longest_s) if length >= FURTHER * first_s)]


def repeats_of(request: AbRequest, rounds: int, chance: float | None = None, looked: int = 0) -> int | dict[str, float]:
    """Return the key `repeats`: a number for few rounds, else a rule that stops once A and B are told apart."""
    if rounds < FIRST_LOOK:  # a number is judged at 5 %, which is more than a series gives; one run claims nothing
        return rounds if chance is None else 1
    # The first look must come before the last round.
    first_look = min(max(FIRST_LOOK, looked + 1), rounds - 1, MOST - 1)
    repeats = {"resolve": request.difference, "at_least": first_look, "at_most": min(MOST, rounds)}
    return repeats if chance is None else repeats | {"chance": chance}


def _asked(campaign: Mapping[str, Any], request: AbRequest) -> dict[str, Any]:
    """Return what a campaign was asked for: without all that the minutes have set."""
    work = {key: value for key, value in campaign.get("work", {}).items() if key != "seconds" or request.seconds}
    resources = {key: value for key, value in campaign["resources"].items() if key != "time_limit"}
    return {**campaign, "repeats": 1, "work": work, "resources": resources}


def read_campaign(path: Path, request: AbRequest) -> dict[str, Any] | None:
    """Return the content of the file of an earlier call; None without one.

    Raises UserError where another comparison than that of `request` is there.
    """
    if not path.is_file():
        return None
    there, _ = read_yaml(path)
    is_ours = isinstance(there, dict) and isinstance(there.get("resources"), dict)
    if not is_ours or _asked(there, request) != _asked(make_campaign(request, seconds=request.seconds), request):
        raise UserError(f"{path} is there already, with another comparison; give another --name, or remove it")
    return dict(there)


def write_campaign(path: Path, campaign: Mapping[str, Any]) -> None:
    """Write a campaign's content as its file."""
    write_atomic(path, yaml.safe_dump(dict(campaign), sort_keys=False, allow_unicode=True, width=1000))
