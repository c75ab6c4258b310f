"""Exact parameter and FLOP counts of a GPT-2, from its shape alone. Imports no torch."""

from dataclasses import dataclass

from scalebench.campaign.shapes import ModelShape

FLOPS_SOURCE = (
    "6 x matmul parameters + 12 x layers x width x seq_len (PaLM, appendix B: forward and backward, full attention, "
    "no rematerialisation); causal attention counts half of the second term"
)


@dataclass(frozen=True)
class Counts:
    """Parameters (numbers) and FLOPs of one token's forward and backward pass."""

    parameters: int
    matmul_parameters: int
    flops_per_token: int
    flops_per_token_causal: int


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
