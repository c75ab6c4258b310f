"""nn.DataParallel: one process; replicas are made anew and gradients gathered on the first device in every pass."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from scaleproof.measure.strategy.base import Native


class DP(Native):
    """The micro-batch that arrives is that of all devices together; DataParallel cuts it along its first dimension."""

    def wrap(self, model: nn.Module) -> nn.Module:
        devices = range(self.cell.execution.geometry.devices_per_node)
        return Replicas(model, [torch.device("cuda", i) for i in devices], self.precision.autocast)


class Replicas(nn.DataParallel):
    """Replicas that compute in the dtype of `autocast`.

    They run in threads, in which torch turns autocast on where it is on here, but with the dtype of a fresh thread.
    """

    def __init__(
        self, model: nn.Module, devices: list[torch.device], autocast: Callable[[], AbstractContextManager]
    ) -> None:
        super().__init__(model, devices)
        self.autocast = autocast

    def parallel_apply(self, replicas: Sequence[nn.Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """The outputs of all replicas, each for its part of the `inputs`."""

        def within(replica: nn.Module) -> Callable[..., Any]:
            """The forward pass of a replica, under autocast in its own thread."""

            def forward(*inputs: Any, **kwargs: Any) -> Any:
                with self.autocast():
                    return replica(*inputs, **kwargs)

            return forward

        return super().parallel_apply([within(replica) for replica in replicas], inputs, kwargs)
