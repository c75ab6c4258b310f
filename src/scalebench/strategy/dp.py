"""nn.DataParallel: one process; replicas are made anew and gradients gathered on the first device in every pass."""

import torch
from torch import nn

from scalebench.strategy.base import Native


class DP(Native):
    """The micro-batch that arrives is that of all devices together; DataParallel cuts it along its first dimension."""

    def wrap(self, model: nn.Module) -> nn.Module:
        devices = range(self.cell.execution.geometry.devices_per_node)
        return nn.DataParallel(model, [torch.device("cuda", i) for i in devices])
