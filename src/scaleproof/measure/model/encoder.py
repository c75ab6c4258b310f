"""A transformer encoder with a classifier, wrapped so that it maps documents and their labels to a loss."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from scaleproof.ground.campaign.model_shapes import EncoderShape
from scaleproof.measure.model.loss import score_samples


class Classifier(nn.Module):
    """Text classification by an encoder: the mean of the encoded tokens, without padding, and one linear layer.

    Input and output are one tensor each, as every wrapper (DDP, FSDP2, ...) can handle them: see `forward`.
    """

    def __init__(self, shape: EncoderShape, vocab_size: int, classes: int, checkpointing: bool = False) -> None:
        """Make an encoder of this shape with random weights. `checkpointing`: blocks run again in backward passes."""
        super().__init__()
        # The fused layer of evaluation reads weights past the modules that own them, which sharding cannot follow.
        torch.backends.mha.set_fastpath_enabled(False)
        self.checkpointing = checkpointing
        self.tokens = nn.Embedding(vocab_size, shape.d_model)
        self.positions = nn.Embedding(shape.context, shape.d_model)
        # Without dropout the same samples make the same step at every world size, which is what proves equal work.
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                shape.d_model,
                shape.heads,
                shape.feed_forward,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(shape.layers)
        )
        self.norm = nn.LayerNorm(shape.d_model)
        self.classifier = nn.Linear(shape.d_model, classes)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the mean loss over the samples, or, in evaluation mode, their scores (see `score_samples`).

        `samples` is int64 of shape (samples, seq_len + 1): token ids, negative for padding, then the label.
        """
        tokens, labels = samples[:, :-1], samples[:, -1]
        is_padding = tokens < 0
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.tokens(tokens.clamp(min=0)) + self.positions(places)  # (samples, seq_len, width)
        for block in self.blocks:
            hidden = self._run_block(block, hidden, is_padding)
        is_token = (~is_padding).unsqueeze(-1)
        mean = (self.norm(hidden) * is_token).sum(1) / is_token.sum(1)
        logits = self.classifier(mean.to(self.classifier.weight.dtype))
        if not self.training:
            return score_samples(logits[:, None], labels[:, None])
        return functional.cross_entropy(logits.float(), labels)

    def _run_block(self, block: nn.Module, hidden: Tensor, padding: Tensor) -> Tensor:
        """Return a block's output for `hidden`, of the same shape. `padding`: True where there is no token."""
        if self.checkpointing and self.training:
            return checkpoint(block, hidden, src_key_padding_mask=padding, use_reentrant=False)
        return block(hidden, src_key_padding_mask=padding)
