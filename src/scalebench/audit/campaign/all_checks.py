"""All checks on our own runs, and running them. Importing a module of checks registers them."""

from collections.abc import Callable

from scalebench.audit.campaign import comparability, convergence, execution, timing, work  # noqa: F401
from scalebench.audit.finding import Finding, Findings
from scalebench.audit.registry import by_severity, codes_of, of_run, of_runs, rules_version
from scalebench.record.run import MeasuredRun, Run, measured

CODES = codes_of(of_run, of_runs)

# Not yet in the register.
CHECKS: tuple[Callable[[list[MeasuredRun]], list[Finding]], ...] = (
    work.ledger_equals_plan,
    work.tokens_are_the_batches,
    work.padding_is_no_work,
    work.batch_arithmetic,
    work.text_was_whole,
    work.world_is_the_geometry,
    execution.traffic_is_the_strategys,
    execution.precision_is_what_ran,
    execution.updates_are_the_steps,
    execution.utilization_is_possible,
    comparability.losses_agree,
    convergence.validation_is_the_plans,
    convergence.runs_learn_alike,
    comparability.surroundings_agree,
    comparability.runs_stay_together,
    comparability.repeated_enough,
)


def check_names() -> list[str]:
    return [*(c.__name__ for c in CHECKS), *(check.name for check in (*of_run, *of_runs))]


def audit(campaign: str, runs: list[Run]) -> Findings:
    """All findings about the runs that have numbers, invalid ones first. Nothing is checked where no run has any."""
    with_numbers = measured(runs)
    findings: list[Finding] = []
    if with_numbers:
        findings += [finding for check in CHECKS for finding in check(with_numbers)]
        findings += [*of_run.findings(with_numbers), *of_runs.findings([with_numbers])]
    return Findings(
        campaign=campaign,
        rules_version=rules_version(CODES),
        checks=check_names() if with_numbers else [],
        findings=by_severity(findings),
    )
