"""GPT-2 from a configuration of `transformers`, wrapped so that it maps tokens to a loss."""

from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from scaleproof.ground.campaign.model_shapes import ModelShape
from scaleproof.measure.model import attention as own_attention
from scaleproof.measure.model.loss import Kind, LossHead


class LanguageModel(nn.Module):
    """Next-token training: tokens in, mean cross-entropy out; in evaluation mode the scores of each sample.

    It returns one tensor, because that is what every wrapper (DDP, FSDP2, DeepSpeed, DataParallel) can follow.
    """

    def __init__(
        self,
        shape: ModelShape,
        vocab_size: int,
        attention: str = "sdpa",
        checkpointing: bool = False,
        loss: Kind = "plain",
    ) -> None:
        super().__init__()
        config = GPT2Config(
            vocab_size=vocab_size,
            n_positions=shape.context,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            # The function of GPT-2's own `gelu_new`, as one kernel instead of eight.
            activation_function="gelu_pytorch_tanh",
            # Without dropout the same samples make the same step at every world size: that is what proves equal work.
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
            bos_token_id=None,
            eos_token_id=None,
        )
        config._attn_implementation = own_attention.NAMES[attention]
        self.gpt2 = GPT2LMHeadModel(config)
        head = LossHead(shape.width, vocab_size, loss)
        head.weight = self.gpt2.lm_head.weight  # tied to the token table
        self.gpt2.lm_head = head
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
        hidden = self.gpt2.transformer(input_ids=tokens[:, :-1]).last_hidden_state
        return self.gpt2.lm_head(hidden, tokens[:, 1:])
