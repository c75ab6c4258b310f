"""Text classification by an encoder of `transformers`, wrapped so that it maps documents and labels to a loss."""

from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from scaleproof.measure.model.architecture import blocks_of
from scaleproof.measure.model.attention import MASKED
from scaleproof.measure.model.scores import scores


class TransformersClassifier(nn.Module):
    """An encoder with the classifier that transformers gives it. Padding takes no part."""

    def __init__(self, network: PreTrainedModel, checkpointing: bool = False) -> None:
        """`network` is changed in place; `checkpointing`: activations are computed again in the backward pass."""
        super().__init__()
        self.network = network
        network.config._attn_implementation = MASKED
        if checkpointing:
            network.gradient_checkpointing_enable({"use_reentrant": False})

    @property
    def blocks(self) -> nn.ModuleList:
        """What is sharded by itself where parameters are."""
        return blocks_of(self.network)

    def forward(self, samples: Tensor) -> Tensor:
        """Mean loss over the samples; in evaluation mode `scores`, of shape (samples, 3).

        `samples` is int64 of shape (samples, seq_len + 1): token ids, negative where there is none, then the label.
        """
        tokens, labels = samples[:, :-1], samples[:, -1]
        logits = self.network(input_ids=tokens.clamp(min=0), attention_mask=(tokens >= 0).long()).logits
        if not self.training:
            return scores(logits[:, None], labels[:, None])
        return functional.cross_entropy(logits.float(), labels)
