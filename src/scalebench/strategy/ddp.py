"""DistributedDataParallel: a full replica on each device, gradients averaged by all-reduce while backward runs."""

from contextlib import nullcontext

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from scalebench.strategy.base import Strategy
from scalebench.strategy.optimizer import learning_rate, make_optimizer, set_learning_rate


class DDP(Strategy):
    """Parameters, gradients and optimizer state are whole on every device."""

    def prepare(self, model: nn.Module) -> None:
        devices = [self.device] if self.device.type == "cuda" else None
        self.module = DistributedDataParallel(model.to(self.device), device_ids=devices)
        self.optimizer = make_optimizer(self.module, self.cell.work)

    def micro_step(self, tokens: Tensor, boundary: bool) -> Tensor:
        # The gradients of all micro-batches are summed locally and reduced once, at the boundary.
        with nullcontext() if boundary else self.module.no_sync():
            loss = self.module(tokens)
            (loss / self.accumulation).backward()
        return loss.detach()

    def update(self, step: int) -> None:
        work = self.cell.work
        if work.optimizer.max_grad_norm:
            clip_grad_norm_(self.module.parameters(), work.optimizer.max_grad_norm)
        set_learning_rate(self.optimizer, learning_rate(work, step))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
