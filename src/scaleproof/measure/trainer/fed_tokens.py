"""The tokens of every micro-batch, noted where they enter the model, in the window too."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

MULTIPLIER = 0x9E3779B97F4A7C15  # odd; the rule is in scaleproof.measure.reference.samples
MODULUS = 2**64


class FedTokens:
    """Hashes each row of tokens that enters a module, by two operations on the device, without waiting for it."""

    def __init__(self, rows: int, length: int, device: torch.device) -> None:
        """Hash `rows` rows of `length` zeros, the expected size: this loads the device's kernels before the window."""
        self.sums: list[Tensor] = []  # int64 of shape (rows,), one for each forward pass
        self._powers = {length: powers_of_multiplier(length).to(device)}
        self._hash_rows(torch.zeros(rows, length, dtype=torch.int64, device=device))

    def _hash_rows(self, rows: Tensor) -> Tensor:
        """Return the hash of each row of tokens, its polynomial in MULTIPLIER modulo 2^64: int64 of shape (rows,)."""
        length = rows.shape[1]
        if length not in self._powers:
            self._powers[length] = powers_of_multiplier(length).to(rows.device)
        return (rows * self._powers[length]).sum(dim=1)

    def _note_rows(self, module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        """Hash the rows of tokens in the first of the `arguments`: torch's hook before a forward pass."""
        self.sums.append(self._hash_rows(arguments[0]))

    @contextmanager
    def record(self, module: nn.Module) -> Iterator["FedTokens"]:
        """Record the tokens that enter `module` within the `with` block."""
        hook = module.register_forward_pre_hook(self._note_rows)
        try:
            yield self
        finally:
            hook.remove()

    def chained_checksum(self, first_step: int, accumulation: int) -> str:
        """Return the chain of tokens of all forward passes, 16 hexadecimal digits (rule: measure/reference/samples.py).

        `accumulation`: passes in a step. `first_step`: the number of the first step.
        """
        total = 0
        for place, sums in enumerate(self.sums):
            hashes = sums.cpu().numpy().view(np.uint64) ** 2
            total += (first_step + place // accumulation + 1) * int(hashes.sum(dtype=np.uint64))
        return f"{total % MODULUS:016x}"


class TokensInside:
    """Counts the tokens that reach a model's first embedding, its table of tokens: those that it computes with.

    They may be fewer than those that enter the model, which FedTokens watches.
    """

    def __init__(self, model: nn.Module | None) -> None:
        """Find the table of `model`. Without a table, or a model (hooks would be compiled), `tokens` stays None."""
        modules = model.modules() if model else ()
        self._table = next((module for module in modules if isinstance(module, nn.Embedding)), None)
        self.tokens: int | None = 0 if self._table else None

    def _count(self, module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        """Count the tokens in the first of the `arguments`: torch's hook before they are looked up in the table."""
        assert self.tokens is not None
        self.tokens += arguments[0].numel()

    def __enter__(self) -> "TokensInside":
        """Start to count, if the model has a table of tokens."""
        self._hook = self._table.register_forward_pre_hook(self._count) if self._table else None
        return self

    def __exit__(self, *failure: object) -> None:
        """Stop counting."""
        if self._hook:
            self._hook.remove()


def powers_of_multiplier(length: int) -> Tensor:
    """Return MULTIPLIER to the powers 1 to `length`, modulo 2^64, as int64."""
    powers = np.cumprod(np.full(length, MULTIPLIER, dtype=np.uint64), dtype=np.uint64)
    return torch.from_numpy(powers.view(np.int64))
