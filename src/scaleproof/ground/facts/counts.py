"""What a network is made of, and from it the parameters and FLOPs of a token. Imports no torch."""

from dataclasses import dataclass

from pydantic import BaseModel, Field

from scaleproof.ground.campaign.model_shapes import EncoderShape, ModelShape, Shape

FLOPS_SOURCE = (
    "6 x matmul parameters + 12 x layers x width x seq_len (PaLM, appendix B: forward and backward, full attention, "
    "no rematerialisation); causal attention counts half of the second term"
)
ENCODER_SOURCE = (
    "6 x matmul parameters of the layers + 12 x layers x d_model x mean tokens of a sample + the classifier, "
    "once a sample (as PaLM, appendix B, counts), per real token: padding is no work"
)


class Inventory(BaseModel, extra="forbid", frozen=True):
    """The tensors of a network, as far as formulas of work, traffic and memory need them. Numbers are elements."""

    blocks: list[int] = Field(description="Parameters of each block, biases and norms included.")
    root: int = Field(description="Parameters outside of all blocks; a tied head counts once, as the token table.")
    block_weights: int = Field(description="Of the weights in all blocks that multiply each token.")
    token_weights: int = Field(description="Of the weights outside that multiply each token: the head.")
    sample_weights: int = Field(description="Of the weights outside that multiply once a sample: a classifier.")
    attention_width: int = Field(description="Sum over the layers of heads x width of a head.")
    largest_tensor: int

    @property
    def parameters(self) -> int:
        return sum(self.blocks) + self.root

    @property
    def is_encoder(self) -> bool:
        """Whether the network has no head that multiplies each token: it classifies samples."""
        return self.token_weights == 0


@dataclass(frozen=True)
class Counts:
    """Parameters (numbers) and FLOPs of one token's forward and backward pass."""

    parameters: int
    matmul_parameters: int
    flops_per_token: int
    flops_per_token_causal: int | None  # an encoder attends to all tokens
    source: str = FLOPS_SOURCE


def count_parameters_and_flops(inventory: Inventory, tokens_per_sample: float) -> Counts:
    """Count a network's parameters, and the FLOPs of training on one token of a sample of `tokens_per_sample` tokens.

    GPT-2 small: 124,439,808 parameters, of which 123,532,032 take part in matrix products. Padding does not count. For
    an encoder `tokens_per_sample` is a mean, which gives the least FLOPs that samples of this mean take.
    """
    weights = inventory.block_weights + inventory.token_weights
    attention = 12 * inventory.attention_width * tokens_per_sample
    if inventory.is_encoder:
        flops = 6 * weights + attention + 6 * inventory.sample_weights / tokens_per_sample
        matmul = weights + inventory.sample_weights
        return Counts(inventory.parameters, matmul, round(flops), None, ENCODER_SOURCE)
    full, causal = 6 * weights + int(attention), 6 * weights + int(attention) // 2
    return Counts(inventory.parameters, weights, full, causal)


def inventory_of_shape(shape: Shape, vocab_size: int, classes: int = 0) -> Inventory:
    """Return the inventory of a GPT-2 with tied embeddings, or of an encoder with a classifier for `classes` classes.

    A block of a GPT-2 of width d has 12 d^2 weights and 13 d biases and norms; an encoder layer 4 d^2 + 2 d f weights
    and 9 d + f biases and norms, with f the width of its feed-forward net. The last norm, outside of blocks, has 2 d.
    """
    d, layers = shape.width, shape.layers  # d as in the formulas above
    tables = (vocab_size + shape.context) * d  # embeddings of tokens and of positions
    if isinstance(shape, EncoderShape):
        weights = 4 * d * d + 2 * d * shape.feed_forward
        return Inventory(
            blocks=[weights + shape.feed_forward + 9 * d] * layers,
            root=tables + 2 * d + d * classes + classes,
            block_weights=layers * weights,
            token_weights=0,
            sample_weights=d * classes,
            attention_width=layers * d,
            largest_tensor=d * max(vocab_size, shape.context, shape.feed_forward, 3 * d),  # 3 d: query, key, value
        )
    return Inventory(
        blocks=[12 * d * d + 13 * d] * layers,
        root=tables + 2 * d,
        block_weights=layers * 12 * d * d,
        token_weights=vocab_size * d,
        sample_weights=0,
        attention_width=layers * d,
        largest_tensor=d * max(vocab_size, shape.context, 4 * d),  # 4 d: the feed-forward net
    )


def count_gpt2(shape: ModelShape, vocab_size: int, seq_len: int) -> Counts:
    """Count parameters and FLOPs of a GPT-2 with tied embeddings."""
    return count_parameters_and_flops(inventory_of_shape(shape, vocab_size), seq_len)
