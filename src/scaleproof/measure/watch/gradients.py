"""Gradients that a loop forgets: those that it does not clear, and those that no optimizer uses."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from scaleproof.measure.strategy.base import local_shard

COPIED_ELEMENTS = 1 << 16  # elements of the followed gradient that are copied


class UnclearedGradient:
    """Finds out whether a training loop forgets to clear gradients, by following one parameter.

    If it does, a backward pass adds to the gradient that the last update has already used.
    """

    def __init__(self, parameters: list[Tensor]) -> None:
        """Follow the largest of `parameters` with at most COPIED_ELEMENTS elements, else the smallest."""
        small_ones = [parameter for parameter in parameters if parameter.numel() <= COPIED_ELEMENTS]
        self._followed = max(small_ones, key=Tensor.numel) if small_ones else min(parameters, key=Tensor.numel)
        self._used: Tensor | None = None  # a copy of the gradient that the last update has used
        self._finds_used: bool | Tensor = False  # whether the present backward pass finds `_used` not cleared
        self._passes: list[bool | Tensor] = []  # `_finds_used` of each backward pass since the last update
        self._passes_between_updates: list[bool | Tensor] = []
        self._hooks = [
            self._followed.register_hook(self._before_adding),
            # Not called by autograd.grad, which adds nothing.
            self._followed.register_post_accumulate_grad_hook(lambda _: self._passes.append(self._finds_used)),
        ]

    def note_update(self) -> None:
        """After an update, keep what the backward passes before it have found, and copy the gradient that it used."""
        if self._used is not None:  # before the first update there was no used gradient to find
            self._passes_between_updates += self._passes
        self._passes = []
        gradient = self._gradient()
        self._used = None if gradient is None else gradient.clone()

    def stop(self) -> None:
        """Remove the hooks and drop the copy. May be called again."""
        self._used = None
        for hook in self._hooks:
            hook.remove()

    def was_never_cleared(self) -> bool:
        """Return whether every backward pass between the updates has found the used gradient. Waits for the device."""
        return bool(self._passes_between_updates) and all(map(bool, self._passes_between_updates))

    def _gradient(self) -> Tensor | None:
        """Return the first elements of the followed gradient. Returns None where there is no gradient."""
        gradient = self._followed.grad
        return None if gradient is None else local_shard(gradient).detach().flatten()[:COPIED_ELEMENTS]

    def _before_adding(self, _: Tensor) -> None:
        """Before a backward pass adds to the gradient, note whether the used gradient is still in it.

        Before the first pass after an update it then equals the copy; before later passes it is not zero.
        """
        gradient = self._gradient()
        if gradient is None or self._used is None:
            self._finds_used = False
        elif self._passes:
            self._finds_used = gradient.any()
        else:
            self._finds_used = gradient.any() & (gradient == self._used).all()


class LeftOut(NamedTuple):
    """A parameter that has a gradient and is not in the optimizer; of it, the element with the largest gradient."""

    parameter: Tensor
    place: Tensor  # the element's place in this rank's part of the parameter
    gradient: Tensor  # the size of the element's gradient
    weight: Tensor

    def never_changed(self) -> bool:
        """Return whether the element, which has a gradient, is unchanged, so that no optimizer updates it."""
        weights = local_shard(self.parameter).detach().flatten()
        is_known = bool(self.gradient) and len(weights) > int(self.place)
        return is_known and bool(weights[self.place] == self.weight)


def left_out_parameters(model: nn.Module, updated: list[Tensor]) -> list[LeftOut]:
    """Return the parameters of `model` that have a gradient and are not `updated`. Sparse gradients do not count."""
    updated_ids = set(map(id, updated))
    left_out = []
    for parameter in model.parameters():
        if id(parameter) in updated_ids:
            continue
        if parameter.grad is None or parameter.grad.layout != torch.strided:
            continue
        sizes = local_shard(parameter.grad).flatten().abs()
        if len(sizes):
            place = sizes.argmax()
            weight = local_shard(parameter).detach().flatten()[place].clone()
            left_out.append(LeftOut(parameter=parameter, place=place, gradient=sizes[place], weight=weight))
    return left_out
