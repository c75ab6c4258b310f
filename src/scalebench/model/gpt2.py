"""GPT-2 from a configuration of `transformers`, wrapped so that it maps tokens to a loss."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

from scalebench.campaign.cells import Cell
from scalebench.campaign.config import shape_of
from scalebench.campaign.shapes import ModelShape


class LanguageModel(nn.Module):
    """Next-token training: tokens in, mean cross-entropy out; in evaluation mode the scores of each sample.

    It returns one tensor, because that is what every wrapper (DDP, FSDP2, DeepSpeed, DataParallel) can follow.
    """

    def __init__(
        self, shape: ModelShape, vocab_size: int, attention: str = "sdpa", checkpointing: bool = False
    ) -> None:
        super().__init__()
        self.gpt2 = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=vocab_size,
                n_positions=shape.context,
                n_embd=shape.width,
                n_layer=shape.layers,
                n_head=shape.heads,
                # Without dropout the same samples make the same step at every world size, which is what proves equal work.
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                use_cache=False,
                bos_token_id=None,
                eos_token_id=None,
                attn_implementation=attention,
            )
        )
        if checkpointing:
            self.gpt2.gradient_checkpointing_enable({"use_reentrant": False})

    def forward(self, tokens: Tensor) -> Tensor:
        """Mean loss over all predicted tokens; `tokens` is int64 of shape (samples, seq_len + 1).

        In evaluation mode `scores`, of shape (samples, 3).
        """
        logits, targets = self.gpt2(input_ids=tokens[:, :-1]).logits, tokens[:, 1:]
        if not self.training:
            return scores(logits, targets)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def scores(logits: Tensor, targets: Tensor) -> Tensor:
    """What is counted of each sample: its summed loss, its targets, those of them with the highest logit.

    `logits` (samples, targets, classes), `targets` (samples, targets); returns float32 of shape (samples, 3).
    """
    losses = functional.cross_entropy(logits.float().transpose(1, 2), targets, reduction="none")
    right = logits.argmax(-1) == targets
    return torch.stack([losses.sum(1), torch.ones_like(losses).sum(1), right.float().sum(1)], dim=1)


def build(cell: Cell) -> LanguageModel:
    """The model of a cell, with weights that depend on its seed alone, so that all ranks and strategies start alike."""
    torch.manual_seed(cell.work.seed)
    execution = cell.execution
    shape = shape_of(cell.workload.model)
    return LanguageModel(shape, cell.vocab_size, execution.attention, execution.activation_checkpointing)
