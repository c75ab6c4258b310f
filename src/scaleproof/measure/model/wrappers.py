"""Models of `transformers`, wrapped so that they map one tensor of samples to a loss."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from scaleproof.measure.model import attention as own_attention
from scaleproof.measure.model.architecture import blocks_of
from scaleproof.measure.model.attention import MASKED
from scaleproof.measure.model.loss import Kind, LossHead, score_samples


class _Wrapper(nn.Module):
    """What decoders and classifiers of transformers have in common."""

    def __init__(self, network: PreTrainedModel, attention: str, checkpointing: bool) -> None:
        """Wrap `network`, which is changed. `attention`: its name in transformers; `checkpointing`: of activations."""
        super().__init__()
        self.network = network
        network.config._attn_implementation = attention
        if checkpointing:
            network.gradient_checkpointing_enable({"use_reentrant": False})

    @property
    def blocks(self) -> nn.ModuleList:
        """The blocks, each of which is sharded by itself."""
        return blocks_of(self.network)


class LanguageModel(_Wrapper):
    """Next-token training: tokens in, mean cross-entropy out, or, in evaluation mode, the scores of each sample.

    It returns one tensor, because that is what every wrapper (DDP, FSDP2, DeepSpeed, DataParallel) can handle.
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
        """Wrap `network`, which is changed. `attention`, `loss`: as in `execution`; `compiled_loss`: compile it."""
        super().__init__(network, own_attention.attention_name(network, seq_len, attention), checkpointing)
        own_attention.allow_kernels(attention)
        head = LossHead(cast(nn.Linear, network.get_output_embeddings()), loss)
        if compiled_loss:  # the method alone: hooks that gather weights around the module stay outside of the graph
            head.mean_loss = torch.compile(head.mean_loss)  # type: ignore[method-assign]
        self.network.set_output_embeddings(head)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss over all predicted tokens, or, in evaluation mode, the scores of each sample.

        `tokens` is int64 of shape (samples, seq_len + 1). For scores see `score_samples`.
        """
        hidden = self.network.base_model(input_ids=tokens[:, :-1]).last_hidden_state
        loss_head = self.network.get_output_embeddings()  # put there by __init__
        return loss_head(hidden, tokens[:, 1:])


class TransformersClassifier(_Wrapper):
    """An encoder with the classifier that transformers gives it. Padding takes no part."""

    def __init__(self, network: PreTrainedModel, checkpointing: bool = False) -> None:
        """Wrap `network`, which is changed. `checkpointing`: the backward pass computes activations again."""
        super().__init__(network, MASKED, checkpointing)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the mean loss over the samples, or, in evaluation mode, their scores (see `score_samples`).

        `samples` is int64 of shape (samples, seq_len + 1): token ids, negative for padding, then the label.
        """
        tokens, labels = samples[:, :-1], samples[:, -1]
        logits = self.network(input_ids=tokens.clamp(min=0), attention_mask=(tokens >= 0).long()).logits
        if not self.training:
            return score_samples(logits[:, None], labels[:, None])
        return functional.cross_entropy(logits.float(), labels)
