"""What a look at a machine or at a cluster gives: whether it is fit, by which evidence, and what to do if not."""

from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["PASS", "FAIL", "not here"]


@dataclass(frozen=True)
class Verdict:
    """What one look gives. `values`: figures behind the evidence, in the units of their names."""

    status: Status
    evidence: str
    advice: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against what was looked at: PASS, or nothing to look at."""
        return self.status != "FAIL"


def judged(ok: bool, evidence: str, advice: str = "", **values: object) -> Verdict:
    """Return the verdict PASS or FAIL; only a failure keeps the advice."""
    return Verdict("PASS" if ok else "FAIL", evidence, "" if ok else advice, values)


def not_here(why: str) -> Verdict:
    """Return the verdict that what was to be looked at is not there. `why`: its evidence."""
    return Verdict("not here", why)
