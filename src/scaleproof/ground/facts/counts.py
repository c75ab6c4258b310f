"""Exact parameter and FLOP counts of a GPT-2 or an encoder, from its shape. Imports no torch."""

from dataclasses import dataclass

from scaleproof.ground.campaign.model_shapes import EncoderShape, ModelShape, Shape

FLOPS_SOURCE = (
    "6 x matmul parameters + 12 x layers x width x seq_len (PaLM, appendix B: forward and backward, full attention, "
    "no rematerialisation); causal attention counts half of the second term"
)
ENCODER_SOURCE = (
    "6 x matmul parameters of the layers + 12 x layers x d_model x mean tokens of a sample + the classifier, "
    "once a sample (as PaLM, appendix B, counts), per real token: padding is no work"
)


@dataclass(frozen=True)
class Counts:
    """Parameters (numbers) and FLOPs of one token's forward and backward pass."""

    parameters: int
    matmul_parameters: int
    flops_per_token: int
    flops_per_token_causal: int | None  # an encoder attends to all tokens
    source: str = FLOPS_SOURCE


def count(shape: ModelShape, vocab_size: int, seq_len: int) -> Counts:
    """Counts of a GPT-2 with tied embeddings.

    A block has 12 d^2 matmul weights and 13 d biases and norms; the head is the token table, so it is counted once as a
    parameter and once as a matmul. GPT-2 small with 50,257 entries has 124,439,808 parameters, of which
    123,532,032 take part in matrix products.
    """
    d, layers = shape.width, shape.layers
    matmul = 12 * layers * d * d + vocab_size * d
    parameters = matmul + 13 * layers * d + shape.context * d + 2 * d
    attention = 12 * layers * d * seq_len
    return Counts(parameters, matmul, 6 * matmul + attention, 6 * matmul + attention // 2)


def count_encoder(shape: EncoderShape, vocab_size: int, classes: int, tokens_per_sample: float) -> Counts:
    """Counts of an encoder with a classifier, of one real token: padding is not work.

    A layer has 4 d^2 + 2 d f matmul weights. The table of tokens is looked up, not multiplied; the classifier is one
    product per sample. Attention by the mean sample of `tokens_per_sample` tokens, the least for samples of that mean.
    """
    d, layers = shape.d_model, shape.layers
    matmul = layers * (4 * d * d + 2 * d * shape.feed_forward)
    tables = (vocab_size + shape.context) * d
    parameters = layers * block_parameters(shape) + tables + 2 * d + d * classes + classes
    flops = 6 * matmul + 12 * layers * d * tokens_per_sample + 6 * d * classes / tokens_per_sample
    return Counts(parameters, matmul + d * classes, round(flops), None, ENCODER_SOURCE)


def block_parameters(shape: Shape) -> int:
    """Parameters of one block or layer, biases and norms included."""
    d = shape.width
    if isinstance(shape, EncoderShape):
        return 4 * d * d + 2 * d * shape.feed_forward + shape.feed_forward + 9 * d
    return 12 * d * d + 13 * d
