"""DistributedDataParallel: a full replica on each device, gradients averaged by all-reduce while backward runs."""

from contextlib import AbstractContextManager, nullcontext

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalebench.strategy.base import Native, compiled


class DDP(Native):
    """Parameters, gradients and optimizer state are whole on every device."""

    def wrap(self, model: nn.Module) -> nn.Module:
        elements = self.cell.execution.bucket_elements
        options = {} if elements == "auto" else {"bucket_cap_mb": elements * 4 / 2**20}
        devices = [self.device] if self.device.type == "cuda" else None
        self.replica = DistributedDataParallel(model, device_ids=devices, **options)
        # Compiled from outside: the graph is then cut at the buckets, so that reductions still overlap with backward.
        return compiled(self.replica, self.cell)

    def synchronising(self, boundary: bool) -> AbstractContextManager:
        # The gradients of all micro-batches are summed locally and reduced once, at the boundary.
        return nullcontext() if boundary else self.replica.no_sync()
