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
        """The model with a replica on each of the cell's devices, all of one node."""
        count = self.cell.execution.geometry.devices_per_node
        devices = [torch.device("cuda", index) for index in range(count)]
        return Replicas(model.to(self.device), devices, self.precision.autocast)


class Replicas(nn.DataParallel):
    """Replicas that compute in the dtype of `autocast`.

    Each replica runs in a thread of its own. torch turns autocast on in these threads, but does not pass its dtype on.
    """

    def __init__(
        self, model: nn.Module, devices: list[torch.device], autocast: Callable[[], AbstractContextManager]
    ) -> None:
        super().__init__(model, devices)
        self.autocast = autocast

    def parallel_apply(self, replicas: Sequence[nn.Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """Return the outputs of all replicas, each for its part of `inputs`: as torch, but with our autocast."""

        def under_autocast(replica: nn.Module) -> Callable[..., Any]:
            """Return the forward pass of a replica, to be called in its thread."""

            def forward(*replica_inputs: Any, **replica_kwargs: Any) -> Any:
                with self.autocast():
                    return replica(*replica_inputs, **replica_kwargs)

            return forward

        return super().parallel_apply([under_autocast(replica) for replica in replicas], inputs, kwargs)
