"""GPT-2 from a configuration of `transformers`, wrapped so that it maps tokens to a loss."""

from torch import Tensor, nn
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

from scalebench.campaign.model_shapes import ModelShape
from scalebench.model.scores import scores


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

    @property
    def blocks(self) -> nn.ModuleList:
        """What is sharded by itself where parameters are."""
        return self.gpt2.transformer.h

    def forward(self, tokens: Tensor) -> Tensor:
        """Mean loss over all predicted tokens; `tokens` is int64 of shape (samples, seq_len + 1).

        In evaluation mode `scores`, of shape (samples, 3).
        """
        logits, targets = self.gpt2(input_ids=tokens[:, :-1]).logits, tokens[:, 1:]
        if not self.training:
            return scores(logits, targets)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
