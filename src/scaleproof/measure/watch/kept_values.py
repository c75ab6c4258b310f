"""What is made of the tensors that a watched loop has: norms, means, and what of them stays until the end."""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Kept = Tensor | float  # a number, where it may be had without waiting for a device


def to_keep(values: Sequence[Kept]) -> list[Kept]:
    """Return the values of one element that stay until the end: those on a CPU as numbers, others as they are.

    A small tensor of each step would lie between the large ones that come and go, and the allocator of a CPU then has
    to find new places for these: 3 to 9 % of a step.
    """
    return [value.item() if isinstance(value, Tensor) and value.device.type == "cpu" else value for value in values]


def mean_losses(losses: Sequence[Sequence[Kept]]) -> list[float] | None:
    """Return the mean loss of each step; None where a step has no loss, or there is no step."""
    if not losses or not all(losses):
        return None
    return [statistics.fmean(map(float, step)) for step in losses]


def norm_of_all(tensors: list[Tensor], device: torch.device) -> Tensor:
    """Return the 2-norm of all elements of `tensors`, in fp32 and on the device, which is not waited for."""
    if not tensors:
        return torch.zeros((), device=device)
    return torch.stack([torch.linalg.vector_norm(tensor.float()) for tensor in tensors]).square().sum().sqrt()


def nested_values(arguments: tuple[Any, ...]) -> list[Any]:
    """Return the values inside of those arguments that are a mapping or a sequence, as a whole batch may be."""
    values: list[Any] = []
    for argument in arguments:
        if isinstance(argument, dict):
            values += argument.values()
        elif isinstance(argument, list | tuple):
            values += argument
    return values
