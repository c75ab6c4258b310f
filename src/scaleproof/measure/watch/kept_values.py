"""What is made of the tensors of a watched loop: norms, means, and the figures that stay until the end."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

Kept = Tensor | float  # a number, where it may be had without waiting for a device


def to_keep(values: Sequence[Kept]) -> list[Kept]:
    """Return single figures in the form in which they are stored: those on a CPU as numbers, others as tensors.

    On a CPU small tensors of each step would fragment the memory: the allocator then takes 3 to 9 % of a step.
    """
    return [value.item() if isinstance(value, Tensor) and value.device.type == "cpu" else value for value in values]


@torch.no_grad()
def copied(tensors: list[Tensor], before: Sequence[Tensor] = ()) -> list[Tensor]:
    """Return copies of `tensors`, which overwrite the copies `before` if shapes, dtypes and devices are the same."""
    forms = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
    forms_before = [(copy.shape, copy.dtype, copy.device) for copy in before]
    if forms != forms_before:
        return [tensor.detach().clone() for tensor in tensors]
    return [copy.copy_(tensor) for copy, tensor in zip(before, tensors, strict=True)]


def mean_losses(losses: Sequence[Sequence[Kept]]) -> list[float] | None:
    """Return the mean loss of each step. Returns None where a step has no loss, or there is no step."""
    if not losses or not all(losses):
        return None
    return [statistics.fmean(map(float, step)) for step in losses]


def norm_of_all(tensors: Iterable[Tensor], device: torch.device) -> Tensor:
    """Return the 2-norm of all elements of `tensors`, in fp32, as a tensor on the device: nothing is waited for."""
    norms = [torch.linalg.vector_norm(tensor.float()) for tensor in tensors]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros((), device=device)


def nested_values(arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the values in those `arguments` that are dicts, lists or tuples, as a batch may be."""
    for argument in arguments:
        if isinstance(argument, dict):
            yield from argument.values()
        elif isinstance(argument, list | tuple):
            yield from argument
