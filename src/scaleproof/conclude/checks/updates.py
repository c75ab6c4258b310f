"""The updates of a run: what went into them, and with which settings they were made.

A probed step is one that each rank counted, one before and one after the window; its figures are in the rank's census.
A rank's witness are the first steps of the run made once more, all of them probed.
"""

import math
from collections.abc import Iterator

from scaleproof.ground.campaign.cells import sharing_devices
from scaleproof.ground.campaign.strategies import FSDP
from scaleproof.ground.number_format import integer, significant
from scaleproof.ground.records.census import Census
from scaleproof.ground.records.grouping import all_known
from scaleproof.ground.records.open_sections import RecordedWork
from scaleproof.ground.records.run import MeasuredRun

# The relative tolerance of a factor that is read back from the optimizer's first moment: within 3e-7 in sound runs.
SCALED = 1e-3


def gradient_norm(run: MeasuredRun, rank: int, when: str) -> float | None:
    """Return the 2-norm of all gradients in a probed step, as `rank` has it; None where it was not recorded.

    `when`: the step probed "before" or "after" the window.
    """
    steps = [getattr(census, when) for census in run.metrics.census or []]
    return norm_of_ranks(run, rank, [step.gradient_norm if step else None for step in steps])


def norm_of_ranks(run: MeasuredRun, rank: int, norms: list[float | None]) -> float | None:
    """Return the 2-norm of all gradients of a step from what each rank recorded of it; None where it is unknown.

    Under FSDP a rank recorded the norm of its part, and the parts are combined. Else `rank` recorded the norm of all.
    """
    strategy = run.metrics.training_config.strategy
    if strategy not in FSDP:
        return norms[rank]
    parts = all_known(norms[: sharing_devices(strategy, *run.geometry)])  # the first node of hsdp has all parts
    return math.hypot(*parts) if parts else None


def clipping_problems(run: MeasuredRun, rank: int) -> Iterator[str]:
    """Yield in words each probed step of `rank`, and the first step of its witness, that was clipped wrongly.

    It is wrong where the factor does not follow from the configured limit and the norm of the gradients.
    """
    censuses = run.metrics.census or []
    for when in ("before", "after"):
        step = getattr(censuses[rank], when)
        if step and (problem := _clipping_problem(run, step.step, gradient_norm(run, rank, when), step.scaled_by)):
            yield problem

    witnesses = [census.witness for census in censuses]
    own_witness = witnesses[rank]
    for step_index, scaled_by in enumerate(own_witness.scaled_by if own_witness else []):
        norms = [witness.gradient_norms[step_index] if witness else None for witness in witnesses]
        if problem := _clipping_problem(run, step_index, norm_of_ranks(run, rank, norms), scaled_by):
            yield problem
            break  # the first is enough


def _clipping_problem(run: MeasuredRun, step: int, norm: float | None, scaled_by: float | None) -> str | None:
    """Return in words that clipping scaled the gradients of a step by a wrong factor; None if right, or not known.

    `norm`: the norm of the gradients before clipping. `scaled_by`: the factor, as read back from AdamW.
    """
    if scaled_by is None or norm is None:
        return None
    right_factor, clipping = 1.0, "no clipping"
    if limit := run.metrics.config["work"]["optimizer"]["max_grad_norm"]:
        right_factor = min(1.0, limit / (norm + 1e-6))  # as torch.nn.utils.clip_grad_norm_ has it
        clipping = f"clipping at {significant(limit, 6)}"
    if abs(scaled_by - right_factor) <= SCALED * right_factor:
        return None
    return (
        f"in step {step} gradients with a norm of {significant(norm, 4)} entered AdamW scaled by "
        f"{significant(scaled_by, 4)}; {clipping} scales them by {significant(right_factor, 4)}"
    )


def update_problems(run: MeasuredRun, census: Census) -> Iterator[str]:
    """Yield in words which learning rates and settings of the window's updates are not the configured ones.

    A record has one mean of the learning rates, each weighted by the number of its step (from 1), so that another order
    gives another mean. Older records have no `updates_in_window`.
    """
    work, updates = run.metrics.config["work"], census.updates_in_window
    if updates is None:
        return
    yield from _condition_problems(run, census, updates.conditions)
    if run.metrics.window.skipped_optimizer_steps:  # the optimizer was not called in every step
        return

    steps = range(work["warmup_steps"], work["warmup_steps"] + work["steps"])
    expected_rate = sum((step + 1) * learning_rate(work, step) for step in steps) / len(steps)
    if not abs(updates.weighted_rate - expected_rate) <= 1e-9 * max(expected_rate, 1e-30):  # flags NaN as well
        ratio = updates.weighted_rate / expected_rate if expected_rate else math.inf
        yield (
            f"the learning rates in the window are not those of the schedule: "
            f"{significant(ratio, 6)} times as much on average"
        )
    if updates.calls % len(steps):
        yield f"the optimizer was called {integer(updates.calls)} times in the {len(steps)} steps of the window"
    if updates.decays > 1:
        yield "weight decay was not the same in all steps of the window"

    optimizer = work["optimizer"]
    # Biases and norms have no weight decay, matrices the configured one; all else is the same for both.
    expected_settings = [[decay, *optimizer["betas"], optimizer["eps"]] for decay in (0.0, optimizer["weight_decay"])]
    lacks_expected = any(settings not in updates.settings for settings in expected_settings)
    if lacks_expected or len(updates.settings) > len(expected_settings):
        settings_text = ", ".join(map(str, updates.settings))
        yield f"in the window the optimizer ran with [weight decay, beta1, beta2, eps] of {settings_text}"


def _condition_problems(run: MeasuredRun, census: Census, conditions: dict[str, list[str]]) -> Iterator[str]:
    """Yield in words which conditions of the window's updates are not the configured ones: "torch used 4 threads"."""
    matmul_precision = "high" if run.metrics.training_config.precision == "tf32" else "highest"
    expected = {  # name -> the configured value, and a phrase for all others
        "threads": (str(census.threads), "torch used {} threads"),
        "float32_matmul": (matmul_precision, "float32 products had the precision {}"),
        "dispatch_modes": ("0", "{} dispatch modes watched the update"),  # such as profilers
        "moments": ("float32", "AdamW's moments were kept in {}"),
    }
    for name, (configured_value, phrase) in expected.items():
        other_values = [value for value in conditions.get(name, []) if value != configured_value]
        if other_values:
            yield f"in the window {phrase.format(' and '.join(other_values))}, {configured_value} is configured"


def learning_rate(work: RecordedWork, step: int) -> float:
    """Return the learning rate of a step by the schedule of `work`.

    It is a ramp up to the peak, then constant, or linear or cosine down to the final fraction of the peak.
    """
    peak, schedule = work["optimizer"]["learning_rate"], work["schedule"]
    if step < schedule["ramp_steps"]:
        return peak * (step + 1) / schedule["ramp_steps"]
    if schedule["name"] == "constant":
        return peak
    steps_after_ramp = max(1, work["warmup_steps"] + work["steps"] - schedule["ramp_steps"])
    progress = min(1.0, (step - schedule["ramp_steps"]) / steps_after_ramp)
    remaining_share = {"linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}[schedule["name"]]
    return peak * (schedule["final_fraction"] + (1 - schedule["final_fraction"]) * remaining_share)
