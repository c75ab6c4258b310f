"""What is counted of each sample of a validation."""

import torch
from torch import Tensor
from torch.nn import functional


def scores(logits: Tensor, targets: Tensor) -> Tensor:
    """Of each sample its summed loss, the number of its targets, and how many of them have the highest logit.

    `logits` (samples, targets, classes), `targets` (samples, targets); returns float32 of shape (samples, 3).
    """
    losses = functional.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none")
    correct = logits.argmax(-1) == targets
    return torch.stack([losses.sum(1), torch.ones_like(losses).sum(1), correct.float().sum(1)], dim=1)
