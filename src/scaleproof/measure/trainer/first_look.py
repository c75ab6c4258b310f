"""The loss of a few samples by the model as it was built, in strict fp32, before a strategy wraps and casts it.

In lower precision rounding hides other weights, positions or masks from the losses of the steps; here nothing is
rounded, whatever the cell's precision is.
"""

import numpy as np
import torch
from torch import nn

from scaleproof.measure.corpus.plan import SamplePlan
from scaleproof.measure.corpus.reader import TokenFile
from scaleproof.measure.machine import accelerator

MOST_ROWS = 4
BUDGET_FLOPS = 2e10  # about a second of a core; one sample is scored whatever it takes


def losses_as_built(model: nn.Module, plan: SamplePlan, file: TokenFile, device: torch.device) -> list[float]:
    """Losses of the samples of step 0 with the smallest ids, one by one: 1 to MOST_ROWS of them.

    The model is on `device` meanwhile. Empty where that runs out of memory.
    """
    origin = next(model.parameters()).device
    # A forward pass takes 2 FLOPs for each parameter and token.
    parameters = sum(parameter.numel() for parameter in model.parameters())
    affordable = int(BUDGET_FLOPS / (2 * parameters * file.seq_len))
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
