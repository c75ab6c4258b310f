"""Time that a profile gives to jobs instead of what the campaign asks for: too little ends runs without a row."""

from scaleproof.ground.campaign.config import Resources
from scaleproof.ground.campaign.shared_jobs import run_minutes

RULES = ("train", "shared_job", "pairs", "trace_capture", "frontier")  # whose jobs stop runs at their own limit


def too_short(rule: str, minutes: float, resources: Resources) -> str | None:
    """Return what is wrong with `minutes` for a job of `rule`; None where they exceed a run's own limit.

    A run that reaches its own limit ends as a row; one that the scheduler ends leaves none.
    """
    limit = resources.time_limit
    if rule not in RULES or minutes > limit:
        return None
    return (
        f"set-resources gives a job of {rule} {minutes:g} minutes, but a run may take {limit:g} "
        "(resources.time_limit): the scheduler would end it before that, without a row; lower time_limit in the "
        f"campaign, or leave runtime out of set-resources: the job then asks for {run_minutes(resources)} at least"
    )
