"""FSDP2 (fully_shard): parameters, gradients and optimizer state are sharded; a block is gathered when it is needed."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from scalebench.strategy.base import Native, compiled
from scalebench.strategy.precision import LOW, Precision


class FSDP(Native):
    """Each device keeps 1/N of every tensor. Blocks are gathered for forward, freed, and gathered again for backward."""

    def wrap(self, model: nn.Module) -> nn.Module:
        name = self.cell.execution.precision
        # Not autocast: a policy casts whole blocks when they are gathered, so that bf16 travels; gradients are reduced in fp32.
        self.precision = Precision(name, self.device, autocast=False)
        policy = MixedPrecisionPolicy(param_dtype=LOW.get(name), reduce_dtype=torch.float32 if name in LOW else None)
        for place, block in enumerate(model.blocks):
            model.blocks[place] = fully_shard(compiled(block, self.cell), mp_policy=policy)
        return fully_shard(model, mp_policy=policy)

    def synchronising(self, boundary: bool) -> AbstractContextManager:
        # Gradients of earlier micro-batches stay whole on each device and are reduced and sharded once, at the boundary.
        self.module.set_requires_gradient_sync(boundary)
        return nullcontext()
