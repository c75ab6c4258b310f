"""Attention for transformers' models: causal without a mask, or over the real tokens with a mask in every step.

transformers makes a mask for the attention functions that it knows, and to do so looks for documents packed into one
sample: a read of the device by the host in every forward pass. Under torch.compile it makes that mask always, which
excludes the flash kernels. For a function that is registered without a mask function it does neither
(`masking_utils._preprocess_mask_arguments`, transformers 5.17 to 5.23).

For an encoder it reads the device as well, and leaves the mask out where no document of a micro-batch is padded: some
steps would then run other kernels than others. `MASKED` makes the mask always.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAMES = {"sdpa": "scaleproof_sdpa", "eager": "scaleproof_eager"}
MASKED = "scaleproof_masked"
WINDOWS = ("sliding_window", "attention_chunk_size", "local_attention")  # keys of how many tokens a token sees


def attention_name(network: PreTrainedModel, seq_len: int, kind: str) -> str:
    """Return the name by which a decoder finds its attention: one of ours (NAMES), or of transformers.

    `kind`: as `execution.attention`. Ours would be wrong for a model with attention in its own code, which looks up no
    name, and for a model whose tokens see fewer than `seq_len` tokens back.
    """
    function = "eager" if kind == "eager" else "sdpa"
    windows = [getattr(network.config, name, None) for name in WINDOWS]
    sees_all = all(window is None or window >= seq_len for window in windows)
    return NAMES[function] if network._supports_attention_backend and sees_all else function


def allow_kernels(kind: str) -> None:
    """Let torch's fused attention in this process use only the kernel `kind` (flash, cudnn), or all for other kinds."""
    only_kernel = kind if kind in ("flash", "cudnn") else None
    torch.backends.cuda.enable_flash_sdp(only_kernel in (None, "flash"))
    torch.backends.cuda.enable_cudnn_sdp(only_kernel in (None, "cudnn"))
    torch.backends.cuda.enable_mem_efficient_sdp(only_kernel is None)
    torch.backends.cuda.enable_math_sdp(only_kernel is None)


def sdpa(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Return torch's fused causal attention, of shape (samples, tokens, heads, head width), and None for its weights.

    transformers calls it. Query, key and value are (samples, heads, tokens, head width). Keys and values may have fewer
    heads, each of which then serves several of the queries'. Raises ValueError where there is a mask.
    """
    _refuse_mask(attention_mask)
    shared = key.shape[1] != query.shape[1]
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=shared)
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
    """Return causal attention by plain matrix products, and its weights, of shape (samples, heads, tokens, tokens).

    Arguments are those of `sdpa`. The causal mask is made on the device, so that the host never waits for it.
    """
    _refuse_mask(attention_mask)
    tokens = query.shape[-2]
    sharing = query.shape[1] // key.shape[1]
    if sharing > 1:
        key, value = key.repeat_interleave(sharing, 1), value.repeat_interleave(sharing, 1)
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    future = torch.ones(tokens, tokens, dtype=torch.bool, device=query.device).triu(1)
    weights = scores.masked_fill(future, torch.finfo(scores.dtype).min).softmax(-1).to(value.dtype)
    return (weights @ value).transpose(1, 2), weights


def _refuse_mask(mask: Tensor | None) -> None:
    """Raise ValueError where there is a mask, which would be ignored: samples are full windows of tokens."""
    if mask is not None:
        raise ValueError(
            "transformers made an attention mask, although none was asked for: its version is not supported"
        )


def make_mask_always(*arguments: Any, **options: Any) -> Tensor | None:
    """Return transformers' mask for torch's fused attention, even where each token sees all others."""
    return sdpa_mask(*arguments, **options | {"allow_is_bidirectional_skip": False})


AttentionInterface.register(NAMES["sdpa"], sdpa)
AttentionInterface.register(NAMES["eager"], eager)
AttentionInterface.register(MASKED, sdpa_attention_forward)
AttentionMaskInterface.register(MASKED, make_mask_always)
