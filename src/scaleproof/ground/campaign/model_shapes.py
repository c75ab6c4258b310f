"""The GPT-2 family and the text classifiers by name, and free shapes.

Numbers only: the networks are in `scaleproof.measure.model`.
"""

from pydantic import Field

from scaleproof.ground.campaign.field import Section, key


class ModelShape(Section):
    """A GPT-2 shape that has no name of its own."""

    layers: int = key(2, "Transformer blocks.", "blocks", ge=1, le=10_000)
    width: int = key(128, "Width of the residual stream (n_embd); a multiple of `heads`.", "features", ge=1, le=10**6)
    heads: int = key(4, "Attention heads per block.", "heads", ge=1, le=10_000)
    context: int = key(1024, "Rows of the position table; `seq_len` may not exceed it.", "tokens", ge=1, le=10**7)

    def slug(self) -> str:
        """Return the shape in the name of a cell."""
        return f"l{self.layers}w{self.width}h{self.heads}c{self.context}"


class EncoderShape(Section):
    """A transformer encoder with a classifier that has no name of its own."""

    d_model: int = Field(
        description="Width of the encoder; a multiple of `heads`. This key says that the shape is an encoder's.",
        json_schema_extra={"unit": "features"},
        ge=1,
        le=10**6,
    )
    heads: int = key(4, "Attention heads per layer.", "heads", ge=1, le=10_000)
    layers: int = key(2, "Encoder layers.", "layers", ge=1, le=10_000)
    feed_forward: int = key(256, "Width of the hidden layer between attentions.", "features", ge=1, le=10**7)
    context: int = key(512, "Rows of the position table; `seq_len` may not exceed it.", "tokens", ge=1, le=10**7)

    @property
    def width(self) -> int:
        """`d_model`, by the name that a GPT-2 has for it."""
        return self.d_model

    def slug(self) -> str:
        """Return the shape in the name of a cell."""
        return f"l{self.layers}d{self.d_model}h{self.heads}f{self.feed_forward}c{self.context}"


Shape = ModelShape | EncoderShape

# Sizes of the GPT-2 release (Radford et al. 2019, table 2); `gpt2-tiny` is ours, for laptops and tests. The encoders
# are those of a published table of AG News (config/campaigns/ag_news_ddp.yaml).
SHAPES: dict[str, Shape] = {
    "gpt2-tiny": ModelShape(layers=2, width=128, heads=4),
    "gpt2-small": ModelShape(layers=12, width=768, heads=12),
    "gpt2-medium": ModelShape(layers=24, width=1024, heads=16),
    "gpt2-large": ModelShape(layers=36, width=1280, heads=20),
    "gpt2-xl": ModelShape(layers=48, width=1600, heads=25),
    "encoder-small": EncoderShape(layers=2, d_model=128, heads=4, feed_forward=256),
    "encoder-large": EncoderShape(layers=4, d_model=256, heads=8, feed_forward=1024),
}
