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
    """2-norm of all gradients in a probed step (`when`: before or after the window), as `rank` has it."""
    steps = [getattr(census, when) for census in run.metrics.census or []]
    strategy = run.metrics.training_config.strategy
    if strategy not in ("fsdp", "hsdp"):
        norm = steps[rank].gradient_norm if steps[rank] else None
        return None if norm is None else float(norm)
    nodes, per_node = map(int, run.metrics.config["execution"]["geometry"].split("x"))
    parts = steps[: sharing_devices(strategy, nodes, per_node)]  # of hsdp the first node has all
    norms = [step.gradient_norm for step in parts if step and step.gradient_norm is not None]
    return math.hypot(*norms) if len(norms) == len(parts) else None


def clipping_problems(run: MeasuredRun, rank: int) -> Iterator[str]:
    """Whether the gradients that AdamW used are those of the step, clipped as configured."""
    limit = run.metrics.config["work"]["optimizer"]["max_grad_norm"]
    for when in ("before", "after"):
        step, norm = getattr((run.metrics.census or [])[rank], when), gradient_norm(run, rank, when)
        if step is None or step.scaled_by is None or norm is None:
            continue
        factor = min(1.0, limit / (norm + 1e-6)) if limit else 1.0
        if not abs(step.scaled_by - factor) <= SCALED * factor:
            clipping = f"clipping at {significant(limit, 6)}" if limit else "no clipping"
            yield (
                f"in step {step.step} gradients with a norm of {significant(norm, 4)} entered AdamW scaled by "
                f"{significant(step.scaled_by, 4)}; {clipping} scales them by {significant(factor, 4)}"
            )


def update_problems(run: MeasuredRun, census: Census) -> Iterator[str]:
    """Whether every update of the window was made with the schedule's learning rate and the configured settings."""
    work, updates = run.metrics.config["work"], census.updates_in_window
    if updates is None or run.metrics.window.skipped_optimizer_steps:  # the calls are those of some steps alone
        return
    steps = range(work["warmup_steps"], work["warmup_steps"] + work["steps"])
    expected = sum((step + 1) * learning_rate(work, step) for step in steps) / len(steps)
    if not abs(updates.weighted_rate - expected) <= 1e-9 * max(expected, 1e-30):
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
    """Learning rate of a step by the schedule: a ramp, then constant, linear or cosine down to the final fraction."""
    peak, schedule = work["optimizer"]["learning_rate"], work["schedule"]
    if step < schedule["ramp_steps"]:
        return peak * (step + 1) / schedule["ramp_steps"]
    if schedule["name"] == "constant":
        return peak
    length = max(1, work["warmup_steps"] + work["steps"] - schedule["ramp_steps"])
    progress = min(1.0, (step - schedule["ramp_steps"]) / length)
    remaining = 1 - progress if schedule["name"] == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return peak * (schedule["final_fraction"] + (1 - schedule["final_fraction"]) * remaining)
