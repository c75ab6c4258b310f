"""The optimizer and its learning rate, the same for every strategy."""

import math

from torch import nn
from torch.optim import AdamW, Optimizer

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Work


def make_optimizer(model: nn.Module, cell: Cell) -> Optimizer:
    """AdamW for the parameters of `model`; matrices decay, biases and norms do not (as in nanoGPT and llm.c)."""
    work = cell.work
    settings = work.optimizer
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [tensor for tensor in trained if tensor.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [tensor for tensor in trained if tensor.dim() < 2], "weight_decay": 0.0},
    ]
    rate = learning_rate(work, 0)
    fused = cell.execution.fused_optimizer
    return AdamW(groups, lr=rate, betas=settings.betas, eps=settings.eps, fused=fused)


def learning_rate(work: Work, step: int) -> float:
    """Learning rate of step `step`, counted from 0 over warm-up and window.

    It rises linearly to its peak, stays there or falls (linearly, as a cosine) to a fraction of it at the last step.
    """
    peak, schedule = work.optimizer.learning_rate, work.schedule
    if step < schedule.ramp_steps:
        return peak * (step + 1) / schedule.ramp_steps
    if schedule.name == "constant":
        return peak
    total = work.warmup_steps + work.steps
    done = min(1.0, (step - schedule.ramp_steps) / max(1, total - schedule.ramp_steps))
    left = 1 - done if schedule.name == "linear" else (1 + math.cos(math.pi * done)) / 2  # from 1 down to 0
    return peak * (schedule.final_fraction + (1 - schedule.final_fraction) * left)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Let the optimizer make its next update with this learning rate, in all groups of parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate
