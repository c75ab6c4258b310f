"""The list of checks, and running them."""

from collections.abc import Callable

from scalebench.audit import comparison, timing, work
from scalebench.audit.finding import Finding, Findings
from scalebench.record.run import Run

CHECKS: tuple[Callable[[list[Run]], list[Finding]], ...] = (
    work.ledger_equals_plan,
    work.tokens_are_the_batches,
    work.batch_arithmetic,
    timing.rate_times_time,
    timing.steps_fill_window,
    timing.step_time_times_rate,
    timing.machine_was_free,
    comparison.losses_agree,
    comparison.surroundings_agree,
    comparison.repeated_enough,
)


def audit(campaign: str, runs: list[Run]) -> Findings:
    """All findings about the runs that have numbers, the gravest first."""
    measured = [run for run in runs if run.ok]
    found = [finding for check in CHECKS for finding in check(measured)]
    found.sort(key=lambda f: ("invalid", "suspect", "note").index(f.severity))
    return Findings(campaign=campaign, checks=[c.__name__ for c in CHECKS], findings=found)
