"""The list of checks, and running them."""

from collections.abc import Callable

from scalebench.audit.campaign import comparability, convergence, execution, timing, work
from scalebench.audit.finding import Finding, Findings
from scalebench.record.run import Run, measured

CHECKS: tuple[Callable[[list[Run]], list[Finding]], ...] = (
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
    timing.rate_times_time,
    timing.steps_fill_window,
    timing.figures_are_the_series,
    timing.ranks_take_turns,
    timing.window_is_long_enough,
    timing.data_never_limits,
    timing.machine_was_free,
    timing.devices_ran_free,
    comparability.losses_agree,
    convergence.validation_is_the_plans,
    convergence.runs_learn_alike,
    comparability.surroundings_agree,
    comparability.runs_stay_together,
    comparability.repeated_enough,
)


def audit(campaign: str, runs: list[Run]) -> Findings:
    """All findings about the runs that have numbers, the gravest first. Nothing is checked where no run has any."""
    with_numbers = measured(runs)
    checks = CHECKS if with_numbers else ()
    found = [finding for check in checks for finding in check(list(with_numbers))]
    found.sort(key=lambda f: ("invalid", "suspect", "note").index(f.severity))
    return Findings(campaign=campaign, checks=[c.__name__ for c in checks], findings=found)
