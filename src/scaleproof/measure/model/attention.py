"""Causal attention without a mask, for transformers' models.

transformers makes a mask for the attention functions that it knows, and to do so looks for documents packed into one
sample: a read of the device by the host in every forward pass. Under torch.compile it makes that mask always, which
excludes the flash kernels. For a function that is registered without a mask function it does neither
(`masking_utils._preprocess_mask_arguments`, transformers 5.17 to 5.23).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

NAMES = {"sdpa": "scaleproof_sdpa", "eager": "scaleproof_eager"}


def sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """torch's fused attention with its causal flag; all of shape (samples, heads, tokens, width of a head)."""
    _refuse(attention_mask)
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    return mixed.transpose(1, 2), None


def eager(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Plain matrix products. The triangle is made on the device; nothing is read back."""
    _refuse(attention_mask)
    tokens = query.shape[-2]
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    future = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).triu(1)
    weights = scores.masked_fill(future, torch.finfo(scores.dtype).min).softmax(-1).to(value.dtype)
    return (weights @ value).transpose(1, 2), weights


def _refuse(mask: Tensor | None) -> None:
    """Samples are full windows of tokens. A mask would be ignored here, so that its presence is an error."""
    if mask is not None:
        raise ValueError(
            "transformers made an attention mask, although none was asked for: its version is not supported"
        )


AttentionInterface.register(NAMES["sdpa"], sdpa)
AttentionInterface.register(NAMES["eager"], eager)
