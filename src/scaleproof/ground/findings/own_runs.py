"""The checks of own runs, for houses that know the ground alone: whoever has them says so by an entry point."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.run import Run

GROUP = "scaleproof.own_runs"


@cache
def _entry_point(name: str) -> Callable[..., Any]:
    """Return the function of the entry point `name`, of which there must be exactly one."""
    (entry,) = entry_points(group=GROUP, name=name)
    checks: Callable[..., Any] = entry.load()
    return checks


def audit(campaign: str, runs: Sequence[Run]) -> Findings:
    """Return what the checks of own runs find in the runs of one campaign, invalid findings first."""
    findings: Findings = _entry_point("audit")(campaign, runs)
    return findings


def check_names() -> list[str]:
    names: list[str] = _entry_point("checks")()
    return names
