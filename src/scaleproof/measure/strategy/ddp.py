"""DistributedDataParallel: a full replica on each device, gradients averaged by all-reduce while backward runs."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from scaleproof.measure.strategy.base import Native, compiled

DDP_OPTIONS = ("find_unused_parameters", "gradient_as_bucket_view", "broadcast_buffers")


class DDP(Native):
    """Parameters, gradients and optimizer state are whole on every device."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model in DDP, compiled around it where the cell says so."""
        elements = self.cell.execution.bucket_elements
        self.replica = DistributedDataParallel(
            model.to(self.device),
            device_ids=[self.device] if self.device.type == "cuda" else None,
            bucket_cap_mb=None if elements == "auto" else elements * 4 / 2**20,
            broadcast_buffers=False,  # all of them are constants, such as the frequencies of rotary positions
            gradient_as_bucket_view=True,  # gradients live in the buckets: no copy before and after a reduction
        )
        if self.cell.execution.reduce_dtype == "bf16":
            self.replica.register_comm_hook(None, bf16_compress_hook)  # None: all ranks
        # Compiled from outside: the graph is then cut at the buckets, so that reductions still overlap with backward.
        return compiled(self.replica, self.cell)

    def engine_config(self) -> dict[str, Any]:
        """Options read back from torch."""
        return {"ddp": {name: bool(getattr(self.replica, name)) for name in DDP_OPTIONS}}

    def synchronising(self, boundary: bool) -> AbstractContextManager:
        """The context for a micro-batch: gradients are summed locally, and reduced once, with the last of a step."""
        return nullcontext() if boundary else self.replica.no_sync()
