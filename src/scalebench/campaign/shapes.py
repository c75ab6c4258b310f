"""The GPT-2 family by name, and free shapes. Only numbers: the networks themselves are in `scalebench.model`."""

from scalebench.campaign.keys import Section, key


class ModelShape(Section):
    """A GPT-2 shape that has no name of its own."""

    layers: int = key(2, "Transformer blocks.", "blocks", ge=1)
    width: int = key(128, "Width of the residual stream (n_embd); a multiple of `heads`.", "features", ge=1)
    heads: int = key(4, "Attention heads per block.", "heads", ge=1)
    context: int = key(1024, "Rows of the position table; `seq_len` may not exceed it.", "tokens", ge=1)

    def slug(self) -> str:
        return f"l{self.layers}w{self.width}h{self.heads}c{self.context}"


# Sizes of the GPT-2 release (Radford et al. 2019, table 2); `gpt2-tiny` is ours, for laptops and tests.
SHAPES: dict[str, ModelShape] = {
    "gpt2-tiny": ModelShape(layers=2, width=128, heads=4),
    "gpt2-small": ModelShape(layers=12, width=768, heads=12),
    "gpt2-medium": ModelShape(layers=24, width=1024, heads=16),
    "gpt2-large": ModelShape(layers=36, width=1280, heads=20),
    "gpt2-xl": ModelShape(layers=48, width=1600, heads=25),
}
