"""Bytes that an optimizer step exchanges between devices, by strategy. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from scaleproof.ground.campaign.strategies import FSDP, LOW, without_offload

Range = tuple[float, float]  # the least and the most bytes
TOLERANCE = 0.02  # padding of shards, norms and flags beside the tensors that the formulas count
SLACK_BYTES = 4096  # of small messages beside them
KINDS = {"reduced": ("allreduce",), "gathered": ("allgather",), "scattered": ("reduce_scatter",)}


def step_traffic(
    strategy: str,
    precision: str,
    accumulation: int,
    parameters: int,
    block_parameters: int,
    *,
    nodes: int = 1,
    devices_per_node: int = 1,
    reshards: bool = True,
    reduce_dtype: str = "fp32",
) -> dict[str, Range]:
    """Return the least and the most logical bytes of one optimizer step, for each kind of KINDS.

    `accumulation`: micro-batches of a step; `block_parameters`: the parameters of all blocks together. `nodes` and
    `devices_per_node` matter to hsdp, `reshards` (`execution.fsdp_reshard`) to fsdp and hsdp, `reduce_dtype`
    (`execution.reduce_dtype`) to these two and ddp. Raises ValueError for an unknown strategy.
    """
    weights = parameters * (2 if precision in LOW else 4)  # bytes of all parameters, as they are gathered
    weights_of_blocks = block_parameters * (2 if precision in LOW else 4)
    gradients = parameters * (2 if reduce_dtype == "bf16" else 4)  # bytes of all gradients, as ddp and fsdp reduce them
    micro_batches = accumulation
    name = without_offload(strategy)

    if name in ("single", "dp"):  # dp copies between devices, without collectives
        return _ranges()
    if name == "ddp":
        return _ranges(reduced=(gradients, gradients))
    if name == "zero0":
        return _ranges(reduced=(4 * parameters, 4 * parameters))  # 4 bytes of a gradient, in any precision
    if name in ("zero1", "zero2"):
        # DeepSpeed's default all-reduces where the paper scatters; stage 2 does so after each micro-batch.
        all_reduced = weights * micro_batches if name == "zero2" else weights
        return _ranges(reduced=(all_reduced, all_reduced), gathered=(weights, weights))
    if name == "zero3":
        # Gathered between once (everything stays until the backward pass) and three times a micro-batch (Rajbhandari
        # et al. 2020, section 7).
        scattered = micro_batches * weights
        return _ranges(gathered=(weights, 3 * micro_batches * weights), scattered=(scattered, scattered))
    if name in FSDP:
        # Of hsdp, gathers and scatters are within a node; each device's part of the gradients is reduced over nodes.
        between_nodes = gradients / devices_per_node if name == "hsdp" and nodes > 1 else 0
        reduced = (between_nodes, between_nodes)
        if between_nodes and devices_per_node == 1:  # whole on each node: nothing to gather or scatter
            return _ranges(reduced=reduced)
        # Every micro-batch gathers the blocks twice and the rest once or twice (by version of torch); without
        # resharding, all once.
        least = weights + weights_of_blocks if reshards else weights
        most = 2 * weights if reshards else weights
        gathered = (micro_batches * least, micro_batches * most)
        return _ranges(reduced=reduced, gathered=gathered, scattered=(gradients, gradients))
    raise ValueError(f"no traffic formula for the strategy {strategy}")


def _ranges(reduced: Range = (0, 0), gathered: Range = (0, 0), scattered: Range = (0, 0)) -> dict[str, Range]:
    """Return the bytes by kind, by the names of KINDS."""
    return {"reduced": reduced, "gathered": gathered, "scattered": scattered}


def moved_bytes(collectives: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the logical bytes of one step by kind, from what a probe counted: {collective: {"bytes": ...}}."""
    return {
        kind: sum(counted["bytes"] for name, counted in collectives.items() if name.startswith(prefixes))
        for kind, prefixes in KINDS.items()
    }


def fits_formula(moved: float, expected: Range) -> bool:
    """Return whether a count of bytes is within the range of its formula, to within TOLERANCE and SLACK_BYTES."""
    low, high = expected
    return low * (1 - TOLERANCE) - SLACK_BYTES <= moved <= high * (1 + TOLERANCE) + SLACK_BYTES
