"""Which cell to use: the simplest of those that nothing tells from the fastest."""

from typing import Any

# From simple to involved: what must be understood, configured and debugged before it runs.
SIMPLICITY = ("single", "dp", "ddp", "fsdp", "zero0", "zero1", "zero2", "zero3")


def recommend(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The recommendation among cells of one size that do the same work, fastest first; entries of scaling_report.json.

    A cell that ran fits the memory. `within_noise`: cells whose interval relative to the fastest includes 1. Without an
    interval there is no recommendation; among cells of equal simplicity the faster one is taken.
    """
    related = [e for e in entries[1:] if e["relative_to_fastest"]]
    if not related or any(e["relative_to_fastest"]["low"] is None for e in related):
        return None
    level = [entries[0], *(e for e in related if e["relative_to_fastest"]["high"] >= 1)]
    chosen = min(level, key=lambda e: (_place(e["strategy"]), entries.index(e)))
    next_best = next(e for e in [entries[0], *related] if e is not chosen)
    return {
        "cell": chosen["cell"],
        "fastest": entries[0]["cell"],
        "within_noise": [e["cell"] for e in level if e is not chosen],
        "runner_up": next_best["cell"],
    }


def _place(strategy: str) -> tuple[int, bool]:
    return SIMPLICITY.index(strategy.removesuffix("-offload")), strategy.endswith("-offload")
