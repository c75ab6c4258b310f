"""Next-token training of a decoder of `transformers`, wrapped so that it maps tokens to a loss."""

from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from scaleproof.measure.model import attention as own_attention
from scaleproof.measure.model.architecture import blocks_of
from scaleproof.measure.model.loss import Kind, LossHead


class LanguageModel(nn.Module):
    """Next-token training: tokens in, mean cross-entropy out; in evaluation mode the scores of each sample.

    It returns one tensor, because that is what every wrapper (DDP, FSDP2, DeepSpeed, DataParallel) can follow.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        seq_len: int,
        attention: str = "sdpa",
        checkpointing: bool = False,
        loss: Kind = "plain",
        compiled_loss: bool = False,
    ) -> None:
        """`network` is changed in place; `attention`, `loss`: as in `execution`; `compiled_loss`: by torch.compile."""
        super().__init__()
        self.network = network
        network.config._attn_implementation = own_attention.name_for(network, seq_len, attention)
        own_attention.allow_kernels(attention)
        head = LossHead(cast(nn.Linear, network.get_output_embeddings()), loss)
        if compiled_loss:  # the method alone: hooks that gather weights around the module stay outside of the graph
            head.mean_loss = torch.compile(head.mean_loss)  # type: ignore[method-assign]
        self.network.set_output_embeddings(head)
        if checkpointing:
            network.gradient_checkpointing_enable({"use_reentrant": False})

    @property
    def blocks(self) -> nn.ModuleList:
        """What is sharded by itself where parameters are."""
        return blocks_of(self.network)

    def forward(self, tokens: Tensor) -> Tensor:
        """Mean loss over all predicted tokens; `tokens` is int64 of shape (samples, seq_len + 1).

        In evaluation mode `scores`, of shape (samples, 3).
        """
        hidden = self.network.base_model(input_ids=tokens[:, :-1]).last_hidden_state
        return self.network.get_output_embeddings()(hidden, tokens[:, 1:])
