"""The updates of a run: what went into them, and with which settings they were made."""

import math
from collections.abc import Iterator

from scaleproof.ground.campaign.cells import sharing_devices
from scaleproof.ground.number_format import integer, significant
from scaleproof.ground.records.census import Census
from scaleproof.ground.records.open_sections import RecordedWork
from scaleproof.ground.records.run import MeasuredRun

SCALED = 1e-3  # relative; of a factor that is read back from the optimizer's first moment: within 3e-7 in sound runs


def gradient_norm(run: MeasuredRun, rank: int, when: str) -> float | None:
    """Return the 2-norm of all gradients in a probed step, as `rank` has it; None where it was not recorded.

    `when`: "before" or "after" the window. FSDP's ranks have a part of the gradients each, whose norms are combined.
    """
    steps = [getattr(census, when) for census in run.metrics.census or []]
    strategy = run.metrics.training_config.strategy
    if strategy not in ("fsdp", "hsdp"):
        norm = steps[rank].gradient_norm if steps[rank] else None
        return None if norm is None else float(norm)
    nodes, per_node = map(int, run.metrics.config["execution"]["geometry"].split("x"))
    parts = steps[: sharing_devices(strategy, nodes, per_node)]  # of hsdp the first node has all parts
    norms = [step.gradient_norm for step in parts if step and step.gradient_norm is not None]
    return math.hypot(*norms) if len(norms) == len(parts) else None


def clipping_problems(run: MeasuredRun, rank: int) -> Iterator[str]:
    """Yield in words where AdamW's gradients in a probed step of `rank` are not the step's, clipped as configured."""
    limit = run.metrics.config["work"]["optimizer"]["max_grad_norm"]
    for when in ("before", "after"):
        step = getattr((run.metrics.census or [])[rank], when)
        norm = gradient_norm(run, rank, when)
        if step is None or step.scaled_by is None or norm is None:
            continue
        factor = min(1.0, limit / (norm + 1e-6)) if limit else 1.0  # as torch.nn.utils.clip_grad_norm_ has it
        if not abs(step.scaled_by - factor) <= SCALED * factor:
            clipping = f"clipping at {significant(limit, 6)}" if limit else "no clipping"
            yield (
                f"in step {step.step} gradients with a norm of {significant(norm, 4)} entered AdamW scaled by "
                f"{significant(step.scaled_by, 4)}; {clipping} scales them by {significant(factor, 4)}"
            )


def update_problems(run: MeasuredRun, census: Census) -> Iterator[str]:
    """Yield in words where updates of the window had other learning rates or settings than configured.

    Learning rates are compared by one sum, in which each is weighted by the number of its step.
    """
    work, updates = run.metrics.config["work"], census.updates_in_window
    if updates is None or run.metrics.window.skipped_optimizer_steps:  # the calls are those of some steps alone
        return
    steps = range(work["warmup_steps"], work["warmup_steps"] + work["steps"])
    expected = sum((step + 1) * learning_rate(work, step) for step in steps) / len(steps)
    if not abs(updates.weighted_rate - expected) <= 1e-9 * max(expected, 1e-30):  # flags NaN as well
        ratio = updates.weighted_rate / expected if expected else math.inf
        yield (
            f"the learning rates in the window are not those of the schedule: "
            f"{significant(ratio, 6)} times as much on average"
        )
    if updates.calls % len(steps):
        yield f"the optimizer was called {integer(updates.calls)} times in the {len(steps)} steps of the window"
    if updates.decays > 1:
        yield "weight decay was not the same in all steps of the window"
    optimizer = work["optimizer"]
    allowed = [[decay, *optimizer["betas"], optimizer["eps"]] for decay in (0.0, optimizer["weight_decay"])]
    if any(settings not in updates.settings for settings in allowed) or len(updates.settings) > len(allowed):
        ran = ", ".join(str(settings) for settings in updates.settings)
        yield f"in the window the optimizer ran with [weight decay, beta1, beta2, eps] of {ran}"


def learning_rate(work: RecordedWork, step: int) -> float:
    """Return the learning rate of a step by the schedule of `work`.

    A ramp up to the peak, then constant, or linear or cosine down to the final fraction of the peak.
    """
    peak, schedule = work["optimizer"]["learning_rate"], work["schedule"]
    if step < schedule["ramp_steps"]:
        return peak * (step + 1) / schedule["ramp_steps"]
    if schedule["name"] == "constant":
        return peak
    length = max(1, work["warmup_steps"] + work["steps"] - schedule["ramp_steps"])
    progress = min(1.0, (step - schedule["ramp_steps"]) / length)
    cosine = (1 + math.cos(math.pi * progress)) / 2
    remaining = 1 - progress if schedule["name"] == "linear" else cosine
    return peak * (schedule["final_fraction"] + (1 - schedule["final_fraction"]) * remaining)
