"""What the trainer asks of a strategy. A new one is a new class here and a name in the campaign's keys."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from scalebench.campaign.cells import Cell


class Strategy(ABC):
    """One way in which ranks share an optimizer step.

    The trainer calls `micro_step` for every micro-batch of a step, `boundary` being true for the last, then `update`.
    """

    module: nn.Module
    optimizer: Optimizer

    def __init__(self, cell: Cell, model: nn.Module, device: torch.device) -> None:
        self.cell, self.device = cell, device
        self.accumulation = cell.batch.accumulation
        self.prepare(model)

    @abstractmethod
    def prepare(self, model: nn.Module) -> None:
        """Wrap the model and make the optimizer."""

    @abstractmethod
    def micro_step(self, tokens: Tensor, boundary: bool) -> Tensor:
        """Forward and backward of one micro-batch; returns this rank's mean loss, detached, without waiting for it."""

    @abstractmethod
    def update(self, step: int) -> None:
        """The optimizer's part of step `step` (counted from 0, warm-up included), with clipping and learning rate."""

    def dtypes(self) -> dict[str, str]:
        """Dtypes of parameters and optimizer state as they are, not as they were asked for."""
        parameters = {p.dtype for p in self.module.parameters()}
        state = {
            v.dtype for s in self.optimizer.state.values() for v in s.values() if isinstance(v, Tensor) and v.dim()
        }
        found = {"parameters": parameters, "optimizer_state": state}
        return {what: "+".join(sorted(str(d).removeprefix("torch.") for d in dtypes)) for what, dtypes in found.items()}
