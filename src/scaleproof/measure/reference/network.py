"""The networks of the replay, in plain torch and transformers: rows of tokens in, the loss of each row out.

**Initial weights.** `torch.manual_seed(seed)`, then the modules are made in the order below, each with torch's or
transformers' own initialisation, on the CPU in fp32.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Gpt2(nn.Module):
    """Next-token prediction by the GPT-2 of transformers, with plain attention and no dropout."""

    def __init__(self, shape: dict[str, int], vocab_size: int) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=vocab_size,
            n_positions=shape["context"],
            n_embd=shape["width"],
            n_layer=shape["layers"],
            n_head=shape["heads"],
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
            bos_token_id=None,
            eos_token_id=None,
        )
        config._attn_implementation = "eager"
        self.network = GPT2LMHeadModel(config)

    def forward(self, rows: Tensor) -> Tensor:
        """Mean loss of the targets of each row; float32 of shape (rows,)."""
        logits = self.network(input_ids=rows[:, :-1]).logits
        losses = functional.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")
        return losses.mean(dim=1)


class Encoder(nn.Module):
    """A classifier: embeddings, pre-norm encoder layers, the mean of the real tokens, one linear layer.

    The embeddings are tables of tokens and of positions. Made in this order: both tables, layers, final norm,
    classifier; then both tables again from a normal distribution with a standard deviation of 0.02.
    """

    def __init__(self, shape: dict[str, int], vocab_size: int, classes: int) -> None:
        super().__init__()
        torch.backends.mha.set_fastpath_enabled(False)
        width = shape["d_model"]
        self.token_table = nn.Embedding(vocab_size, width)
        self.position_table = nn.Embedding(shape["context"], width)
        layers = [
            nn.TransformerEncoderLayer(
                width,
                shape["heads"],
                shape["feed_forward"],
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(shape["layers"])
        ]
        self.layers = nn.ModuleList(layers)
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.token_table.weight, std=0.02)
        nn.init.normal_(self.position_table.weight, std=0.02)

    def forward(self, rows: Tensor) -> Tensor:
        """Loss of each row; float32 of shape (rows,)."""
        tokens, labels = rows[:, :-1], rows[:, -1]
        absent = tokens < 0
        places = torch.arange(tokens.shape[1], device=rows.device)
        hidden = self.token_table(tokens.clamp(min=0)) + self.position_table(places)
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=absent)
        present = (~absent).unsqueeze(-1).to(hidden.dtype)
        mean = (self.final_norm(hidden) * present).sum(dim=1) / present.sum(dim=1)
        return functional.cross_entropy(self.head(mean), labels, reduction="none")


def build(workload: dict[str, Any], seed: int, classes: int) -> nn.Module:
    """The network of the effective `workload`, with the weights that `seed` gives it."""
    shape = workload["model_shape"]
    torch.manual_seed(seed)
    if "d_model" in shape:
        return Encoder(shape, workload["vocab_size"], classes)
    return Gpt2(shape, workload["vocab_size"])
