"""What an update does with the gradients: their norm before it, and the factor by which they were scaled in it.

Never in the window: reading the norm waits for the device.
"""

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from scaleproof.measure.strategy import Strategy
from scaleproof.measure.strategy.base import Native

LEAST = 8  # elements of the tensor that is watched


class UpdateWitness:
    """Looks at gradients before an update and at AdamW's first moment before and after it.

    `gradient_norm`: 2-norm of this rank's gradients before clipping, of its shards under FSDP; of all gradients as
    DeepSpeed's ZeRO reports it. `scaled_by`: of one small tensor, the norm of what entered the first moment over that
    of its gradient. None where they are not known: under a loss scale, and the factor in ZeRO's partitions.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.gradient_norm: float | None = None
        self.scaled_by: float | None = None
        self._watched: Tensor | None = None

    @torch.no_grad()  # else a look at a shard would be a node of the graph
    def before(self) -> None:
        """Take the gradients' norm; keep gradient and first moment of the smallest tensor (LEAST elements or more)."""
        if not self._holds_gradients():
            return
        parameters = [parameter for parameter in self.strategy.module.parameters() if parameter.grad is not None]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not gradients:
            return
        norms = [torch.linalg.vector_norm(_local(gradient)) for gradient in gradients]
        self.gradient_norm = float(torch.stack(norms).double().square().sum().sqrt())
        large_enough = [parameter for parameter in parameters if _local(parameter).numel() >= LEAST]
        if large_enough:
            self._watched = min(large_enough, key=lambda parameter: _local(parameter).numel())
            assert self._watched.grad is not None
            self._gradient = _local(self._watched.grad).clone()
            self._moment = self._first_moment()

    @torch.no_grad()
    def after(self) -> None:
        """Take the norm that ZeRO reports, where it has one, and compute the factor from the moment as it is now.

        AdamW makes the first moment beta x moment + (1 - beta) x gradient, so that what entered it can be told.
        """
        engine = getattr(self.strategy, "engine", None)
        if engine is not None and engine.zero_optimization_stage() and self.strategy.cell.execution.precision != "fp16":
            norm = engine.get_global_grad_norm()
            self.gradient_norm = None if norm is None else float(norm)
        if self._watched is None or not float(self._gradient.norm()):
            return
        beta = next(
            group["betas"][0]
            for group in self.strategy.optimizer.param_groups
            if any(parameter is self._watched for parameter in group["params"])
        )
        entered = (self._first_moment().double() - beta * self._moment.double()) / (1 - beta)
        self.scaled_by = float(entered.norm() / self._gradient.double().norm())

    def _holds_gradients(self) -> bool:
        """Whether parameters hold the reduced gradients, unscaled, when the update begins."""
        if self.strategy.cell.execution.precision == "fp16":
            return False
        engine = getattr(self.strategy, "engine", None)
        return isinstance(self.strategy, Native) or (engine is not None and not engine.zero_optimization_stage())

    def _first_moment(self) -> Tensor:
        """A copy of AdamW's first moment of the watched tensor; zeros before its first update."""
        assert self._watched is not None
        state = self.strategy.optimizer.state.get(self._watched, {})
        moment = state.get("exp_avg")
        return torch.zeros_like(self._gradient) if moment is None else _local(moment).clone()


def _local(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor."""
    part: Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return part.detach()
