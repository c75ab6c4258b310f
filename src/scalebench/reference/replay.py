"""The replay: the first steps of a workload in one plain process, in strict fp32.

It imports nothing of corpus, model, strategy or trainer: what is wrong there cannot be wrong here as well. The update
is AdamW of `torch.optim` with decoupled weight decay on tensors of two or more dimensions and none on the others,
after the gradients' total 2-norm has been clipped; the loss of a step is the mean over the samples of the global
batch.
"""

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scalebench.reference.network import build
from scalebench.reference.samples import Samples, chain, checksum, step_ids, validation_ids
from scalebench.reference.schema import Reference, workload_name

MOST_STEPS, LEAST_STEPS = 30, 3
BUDGET_FLOPS = 3e11  # of the training steps: about ten seconds of a core
FIRST_ROWS = 4  # samples that are scored before step 0
ROWS_AT_ONCE = 8  # rows of one forward pass, whatever the cell's micro-batch


def replay(config: dict[str, Any], tokens: Path) -> Reference:
    """Replay the workload of a cell with the effective configuration `config` on the corpus in the folder `tokens`.

    As many steps as BUDGET_FLOPS allow, at least LEAST_STEPS and at most MOST_STEPS. Raises UserError where a token
    file is not the one that its tokens.json describes.
    """
    began = time.perf_counter()
    workload, work = config["workload"], config["work"]
    labelled = workload["task"] == "classification"
    train = Samples(tokens, "train", workload["seq_len"], labelled)
    torch.set_float32_matmul_precision("highest")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(workload, work["seed"], train.classes).to(device)
    parameters = sum(p.numel() for p in model.parameters())
    total = work["warmup_steps"] + work["steps"]
    count = min(total, steps_to_replay(parameters, work["global_batch"] * workload["seq_len"]))
    optimizer = adamw(model, work["optimizer"])
    first = np.sort(step_ids(train.count, work["global_batch"], work["seed"], 0))[:FIRST_ROWS]
    with torch.no_grad():
        first_losses = model(torch.from_numpy(train.rows(first)).to(device)).tolist()
    losses, norms = [], []
    for step in range(count):
        ids = step_ids(train.count, work["global_batch"], work["seed"], step)
        rows = torch.from_numpy(train.rows(ids)).to(device)
        losses.append(gradients(model, rows))
        norms.append(clip(model.parameters(), work["optimizer"]["max_grad_norm"]))
        for group in optimizer.param_groups:
            group["lr"] = rate_of_step(work, step)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    validation = Samples(tokens, "val", workload["seq_len"], labelled)
    scored = validation_ids(validation.count, work["validation_samples"])
    return Reference(
        workload=workload_name(config),
        train_sha256=train.sha256,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        torch_version=torch.__version__,
        parameters=parameters,
        losses=losses,
        total_steps=total,
        validation_loss=mean_loss(model, validation, scored, device) if count == total and len(scored) else None,
        validation_checksum=checksum(validation.rows(scored)) if len(scored) else None,
        step_checksums={
            step: checksum(train.rows(step_ids(train.count, work["global_batch"], work["seed"], step)))
            for step in (*range(count), total - 1, total)
        },
        window_chain=chain(train, work["global_batch"], work["seed"], range(work["warmup_steps"], total)),
        first_losses=first_losses,
        gradient_norms=norms,
        decayed=sum(p.numel() for p in model.parameters() if p.dim() > 1),
        seconds=time.perf_counter() - began,
    )


def steps_to_replay(parameters: int, tokens_per_step: int) -> int:
    """How many steps of about 6 x parameters FLOPs a token fit into the budget."""
    affordable = int(BUDGET_FLOPS / (6 * parameters * tokens_per_step))
    return max(LEAST_STEPS, min(MOST_STEPS, affordable))


def gradients(model: nn.Module, rows: Tensor) -> float:
    """Add the gradients of the rows' mean loss to the parameters; returns that loss."""
    total = 0.0
    for part in rows.split(ROWS_AT_ONCE):
        losses = model(part)
        (losses.sum() / len(rows)).backward()
        total += float(losses.detach().double().sum())
    return total / len(rows)


def mean_loss(model: nn.Module, samples: Samples, ids: Any, device: torch.device) -> float:
    """Mean loss over some samples, without training."""
    model.eval()
    total = 0.0
    with torch.no_grad():
        for part in torch.from_numpy(samples.rows(ids)).to(device).split(ROWS_AT_ONCE):
            total += float(model(part).double().sum())
    return total / len(ids)


def adamw(model: nn.Module, options: dict[str, Any]) -> torch.optim.AdamW:
    """The optimizer; its learning rate is set before every step."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": options["weight_decay"]},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=options["learning_rate"], betas=tuple(options["betas"]), eps=options["eps"])


def clip(parameters: Iterable[Tensor], limit: float) -> float:
    """Scale all gradients so that their total 2-norm is at most `limit`; 0: leave them. Returns their norm before."""
    present = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(float(g.pow(2).sum()) for g in present))
    for gradient in present if limit else []:
        gradient.mul_(min(1.0, limit / (norm + 1e-6)))
    return norm


def rate_of_step(work: dict[str, Any], step: int) -> float:
    """Learning rate of a step, counted from 0 over warm-up and window.

    A linear ramp over `ramp_steps` (step k has (k + 1) / ramp_steps of the peak), then constant, or a line or half a
    cosine from the peak down to `final_fraction` of it at the end of the run.
    """
    peak, schedule = work["optimizer"]["learning_rate"], work["schedule"]
    ramp = schedule["ramp_steps"]
    if step < ramp:
        return peak * (step + 1) / ramp
    if schedule["name"] == "constant":
        return peak
    progress = min(1.0, (step - ramp) / max(1, work["warmup_steps"] + work["steps"] - ramp))
    remaining = 1 - progress if schedule["name"] == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return peak * (schedule["final_fraction"] + (1 - schedule["final_fraction"]) * remaining)
