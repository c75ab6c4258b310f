"""Bytes that an optimizer step exchanges between devices, by strategy. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from scaleproof.ground.campaign.strategies import FSDP, LOW, without_offload

Range = tuple[float, float]  # least, most
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
    """Least and most logical bytes of one optimizer step by kind: "reduced", "gathered" and "scattered".

    `accumulation`: micro-batches of a step; `block_parameters`: parameters in all blocks together. `nodes` and
    `devices_per_node` matter to hsdp, `reshards` (`execution.fsdp_reshard`) to fsdp and hsdp, `reduce_dtype`
    (`execution.reduce_dtype`) to these two and ddp. Raises ValueError for an unknown strategy.
    """
    a, p = accumulation, parameters
    b = 2 if precision in LOW else 4  # bytes of a parameter
    traffic: dict[str, Range] = {"reduced": (0, 0), "gathered": (0, 0), "scattered": (0, 0)}
    name = without_offload(strategy)
    exchanged = p * (2 if reduce_dtype == "bf16" else 4)  # all gradients, once
    if name == "zero0":
        return traffic | {"reduced": (4 * p, 4 * p)}
    if name == "ddp":
        return traffic | {"reduced": (exchanged, exchanged)}
    if name in FSDP:
        # Every micro-batch gathers the blocks twice and the rest once or twice (by version of torch); without
        # resharding all once. Of hsdp this is within a node; over nodes each device's part of gradients is reduced.
        gathered = (a * b * (p + block_parameters), 2 * a * b * p) if reshards else (a * b * p, a * b * p)
        between_nodes = exchanged / devices_per_node if name == "hsdp" and nodes > 1 else 0
        if between_nodes and devices_per_node == 1:  # whole on each node: nothing to gather or scatter
            return traffic | {"reduced": (between_nodes, between_nodes)}
        return {"reduced": (between_nodes, between_nodes), "gathered": gathered, "scattered": (exchanged, exchanged)}
    if name in ("zero1", "zero2"):
        times = a if name == "zero2" else 1  # DeepSpeed's default all-reduces where the paper scatters
        return traffic | {"reduced": (b * p * times, b * p * times), "gathered": (b * p, b * p)}
    if name == "zero3":
        # Gathered between once (everything stays until the backward pass) and three times a micro-batch (Rajbhandari
        # et al. 2020, section 7).
        return traffic | {"gathered": (b * p, 3 * a * b * p), "scattered": (a * b * p, a * b * p)}
    if name in ("single", "dp"):  # dp copies between devices, without collectives
        return traffic
    raise ValueError(f"no traffic formula for the strategy {strategy}")


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
