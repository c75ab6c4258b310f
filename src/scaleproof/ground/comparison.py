"""One result relative to another: the ratio with its interval, what it supports, and why there may be none."""

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scipy.special import stdtrit
from typing_extensions import TypedDict

from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.errors import UserError, did_you_mean, shortened
from scaleproof.ground.records.evidence import EvidenceLevel

FASTER = "faster"
SLOWER = "slower"
UNDECIDED = "cannot be told apart"
NO_INTERVAL = "no interval"


@dataclass(frozen=True)
class Compared:
    """B relative to A. `why` says what forbids a ratio; low and high are None where a side has one run.

    Of several cells the intervals hold for all at once with 95 %; `claims`: for how many.
    """

    a: str
    b: str
    runs: tuple[int, int]
    rates: tuple[float, float]
    intended: list[str]  # fields that were meant to differ, and do
    why: str | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = "tokens/s"
    evidence: EvidenceLevel = "printed"  # of the weaker side
    unstated: list[str] = field(default_factory=list)  # fields that one of the sides does not state
    losses: str = ""  # a sentence on the losses of equal steps
    suspect: list[str] = field(default_factory=list)  # codes of findings that do not forbid a ratio
    suspect_sides: dict[str, str] = field(default_factory=dict)  # such a code -> "A", "B" or "A and B"
    freedom: float | None = None  # Student's degrees of freedom of the interval
    claims: int = 1
    sessions: list[str] = field(default_factory=list)  # the day, or job, of A and of B where these are two; else []

    @property
    def reservations(self) -> list[str]:
        """The codes of `suspect`, each with its side: "machine-busy (B)"."""
        return [f"{code} ({self.suspect_sides.get(code, 'A and B')})" for code in self.suspect]

    def is_decided_with(self, times: int) -> bool:
        """Return whether so many times the runs, with the same ratio and spread, would make the interval leave out 1.

        The standard error falls with the square root of the runs, Student's quantile with the degrees of freedom, which
        grow by Welch's formula as n - 1 does.
        """
        n = min(self.runs)
        if not self.ratio or not self.low or not self.high or self.freedom is None or n < 2:
            return False
        freedom = self.freedom * (times * n - 1) / (n - 1)
        narrowing = _quantile(freedom, self.claims) / _quantile(self.freedom, self.claims) / math.sqrt(times)
        return abs(math.log(self.ratio)) > math.log(self.high / self.low) / 2 * narrowing


class Comparisons(TypedDict):
    """What `scaleproof compare --json` prints."""

    compared: list[Compared]
    on_one_side: list[str]  # cells that the other side has not
    next: str


def claim_on(compared: Compared) -> str:
    """Return FASTER, SLOWER or UNDECIDED, by where the interval lies; NO_INTERVAL for a ratio without one."""
    low, high = compared.low, compared.high
    if low is None or high is None:
        return NO_INTERVAL
    if low <= 1 <= high:
        return UNDECIDED
    return FASTER if low > 1 else SLOWER


def with_simultaneous_intervals(compared: Sequence[Compared]) -> list[Compared]:
    """Return the comparisons with intervals so wide that all hold at once with 95 % (Bonferroni).

    With single intervals, about one in twenty comparisons of equal cells would seem to show a difference.
    """
    claims = sum(single.ratio is not None for single in compared)
    simultaneous: list[Compared] = []
    for single in compared:
        if single.ratio is None:
            simultaneous.append(single)
        else:
            low, high = _simultaneous_bounds(single, claims)
            simultaneous.append(replace(single, low=low, high=high, claims=claims))
    return simultaneous


def _simultaneous_bounds(compared: Compared, claims: int) -> tuple[float | None, float | None]:
    """Return bounds of a ratio that hold for `claims` at once with 95 %; (None, None) without an interval."""
    ratio, freedom = compared.ratio, compared.freedom
    low, high = compared.low, compared.high
    if ratio is None or low is None or high is None or freedom is None:
        return None, None
    if claims == 1:
        return low, high
    # The interval is symmetric on the logarithm; Student's quantile for so many claims replaces that for one.
    half_width = math.log(high / ratio) * _quantile(freedom, claims) / _quantile(freedom, 1)
    return ratio * math.exp(-half_width), ratio * math.exp(half_width)


def _quantile(freedom: float, claims: int) -> float:
    """Return Student's quantile with which intervals of `claims` comparisons hold at once with 95 % (Bonferroni)."""
    return float(stdtrit(freedom, 1 - (1 - CONFIDENCE) / 2 / claims))


def why_incomparable(unexpected: list[str], vary: list[str]) -> str:
    """Return why there is no ratio: `unexpected` fields differ. `vary`: fields already allowed to, for the hint."""
    return f"incomparable: {', '.join(unexpected)} (if this is meant to differ: --vary {shlex.join(vary + unexpected)})"


def field_error(name: str, known: Iterable[str], place: Path | None = None) -> UserError:
    """Return the error for a `name` after --vary that is no field. `known`: the fields; `place`: their file."""
    listed = shortened(", ".join(sorted(field for field in known if "." not in field)), 400)
    if "," in name:
        return UserError(f'--vary: "{name}" is no field; separate fields by spaces: --vary {name.replace(",", " ")}')
    of_place = f" of {place}" if place else ""
    return UserError(f'--vary: there is no field "{name}".{did_you_mean(name, known)} Fields{of_place}: {listed}')
