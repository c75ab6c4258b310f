"""The language model's head with its loss: three ways to compute the same cross-entropy over the vocabulary.

`plain` keeps the logits of all tokens, in the precision of the product and in fp32. `chunked` makes them for some
tokens at a time and again in the backward pass. `fused` makes them once, some tokens at a time, and turns them into
gradients at once (as Liger Kernel, arXiv:2410.10989, does): nothing of their size is kept, nothing is computed twice.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from scaleproof.ground.errors import UserError

CHUNK_TOKENS = 4096  # logits of so many tokens are alive at once: 0.8 GB in fp32 with GPT-2's vocabulary
Kind = Literal["plain", "chunked", "fused"]


class LossHead(nn.Linear):
    """A linear head that returns the mean loss, or, in evaluation mode, the scores of each sample.

    It is one module, so that sharding (ZeRO-3, FSDP2) gathers its weight around all that uses it.
    """

    def __init__(self, head: nn.Linear, kind: Kind, chunk: int = CHUNK_TOKENS) -> None:
        """Take over the parameters of `head` themselves, so that tied weights stay tied.

        `kind`: how the loss is computed; `chunk`: tokens whose logits are alive at once. Raises UserError where the
        head has a bias, whose gradient `fused` does not make.
        """
        super().__init__(head.in_features, head.out_features, bias=False, device="meta")
        self.weight = head.weight
        self.bias = head.bias
        self.kind = kind
        self.chunk = chunk
        if kind == "fused" and self.bias is not None:
            raise UserError("execution.loss: fused makes no gradient of a bias, and this model's head has one")

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:  # type: ignore[override]  # a head with its loss
        """Return the mean loss over all tokens, or, in evaluation mode, the scores of each sample (`score_samples`).

        `hidden` is of shape (samples, tokens, width), `targets` int64 of shape (samples, tokens).
        """
        if not self.training:
            # A sample at a time: the whole batch in fp32 would be several times what training takes.
            scores = []
            for h, t in zip(hidden, targets, strict=True):
                logits = super().forward(h[None])
                scores.append(score_samples(logits, t[None]))
            return torch.cat(scores)
        return self.mean_loss(hidden.flatten(0, 1), targets.flatten())

    def mean_loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of `hidden` (tokens, width) for `targets` (tokens,)."""
        if self.kind == "plain":
            return functional.cross_entropy(functional.linear(hidden, self.weight, self.bias).float(), targets)
        if self.kind == "fused":
            return FusedCrossEntropy.apply(hidden, self.weight, targets, self.chunk)
        total = hidden.new_zeros((), dtype=torch.float32)
        for h, t in zip(hidden.split(self.chunk), targets.split(self.chunk), strict=True):
            total = total + checkpoint(self._summed_loss, h, t, use_reentrant=False)
        return total / len(targets)

    def _summed_loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return the summed loss of one chunk of tokens: `hidden` (tokens, width), `targets` (tokens,)."""
        logits = functional.linear(hidden, self.weight, self.bias)
        return functional.cross_entropy(logits.float(), targets, reduction="sum")


class FusedCrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of `hidden @ weight.T`, whose forward pass already computes both gradients.

    Until the backward pass gradients are kept without the factors of the mean and of a loss scale, with which the terms
    of rare tokens would underflow in fp16. Their sum over chunks is in fp32.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int) -> Tensor:
        """Return the mean loss of `hidden` (tokens, width) for `targets` (tokens,), `chunk` tokens at a time.

        `weight` has the shape (vocabulary, width). The gradient of a token's logits (the residual) is their softmax,
        less 1 at its target. The gradients that are kept are those of the sum of the losses, not of the mean.
        """
        device_type = hidden.device.type
        dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else weight.dtype

        with torch.autocast(device_type, enabled=False):
            low, matrix = hidden.to(dtype), weight.to(dtype)
            total = hidden.new_zeros((), dtype=torch.float32)
            weight_gradient = torch.zeros_like(weight, dtype=torch.float32)
            hidden_gradients = []
            for h, t in zip(low.split(chunk), targets.split(chunk), strict=True):
                log_probabilities = torch.log_softmax((h @ matrix.t()).float(), dim=-1)
                total = total - log_probabilities.gather(1, t[:, None]).sum()
                if torch.compiler.is_compiling():
                    # The compiler makes one kernel of this; a scatter would be a second, which reads a matrix in fp32.
                    is_target = torch.arange(log_probabilities.shape[1], device=log_probabilities.device) == t[:, None]
                    residual = (log_probabilities.exp() - is_target.to(log_probabilities.dtype)).to(dtype)
                else:  # without a compiler in place, which saves a matrix: the logarithms are not needed any more
                    residual = (
                        log_probabilities.exp_()
                        .scatter_add_(1, t[:, None], log_probabilities.new_full((len(t), 1), -1.0))
                        .to(dtype)
                    )
                hidden_gradients.append(residual @ matrix)
                weight_gradient += residual.t() @ h

        ctx.save_for_backward(torch.cat(hidden_gradients), weight_gradient)
        ctx.dtypes = (hidden.dtype, weight.dtype)
        ctx.count = len(targets)
        return total / len(targets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients that `forward` kept, times the mean loss's own gradient (`gradient`, a scalar)."""
        hidden_gradient, weight_gradient = ctx.saved_tensors
        hidden_dtype, weight_dtype = ctx.dtypes
        factor = gradient / ctx.count
        return (hidden_gradient * factor).to(hidden_dtype), (weight_gradient * factor).to(weight_dtype), None, None


def score_samples(logits: Tensor, targets: Tensor) -> Tensor:
    """Return summed loss, number of targets and of correct targets of each sample: float32 of shape (samples, 3).

    A target is correct if it has the highest logit. `logits` is of shape (samples, targets, classes), `targets` of
    shape (samples, targets).
    """
    losses = functional.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none")
    correct = logits.argmax(-1) == targets
    return torch.stack([losses.sum(1), torch.ones_like(losses).sum(1), correct.float().sum(1)], dim=1)
