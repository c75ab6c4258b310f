"""The losses of some samples of step 0, by the model as it was built: those of the reference, if it was built right."""

import numpy as np
import torch
from torch import nn

from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
from scaleproof.measure.machine import accelerator

MOST_ROWS = 4  # samples that the unwrapped model scores
BUDGET_FLOPS = 2e10  # about a second of a core; one sample is scored whatever it takes


def score_unwrapped_model(model: nn.Module, plan: SamplePlan, file: TokenFile, device: torch.device) -> list[float]:
    """Return the losses of 1 to MOST_ROWS samples of step 0, those with the smallest ids, in strict fp32.

    Those of the reference are equal if the model was built right. The model is moved to `device` and back. Returns []
    where memory runs out.
    """
    origin = next(model.parameters()).device
    parameters = sum(parameter.numel() for parameter in model.parameters())
    affordable = int(BUDGET_FLOPS / (2 * parameters * file.seq_len))  # 2 FLOPs for each parameter and token
    ids = np.sort(plan.step(0))[: max(1, min(MOST_ROWS, affordable))]
    torch.set_float32_matmul_precision("highest")
    rows = torch.from_numpy(file.read(ids))

    try:
        model.to(device)
        with torch.no_grad():
            losses = [float(model(row[None].to(device))) for row in rows]
    except torch.OutOfMemoryError:
        losses = []

    model.to(origin)  # a strategy that shards a model need not have all of it on a device
    accelerator.release_memory(device)
    return losses
