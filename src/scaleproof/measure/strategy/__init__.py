"""How ranks share the work: one small class per strategy behind one interface."""

from scaleproof.measure.strategy.base import Strategy


def strategy_class(name: str) -> type[Strategy]:
    """The class behind a strategy's name. Raises ValueError for an unknown one.

    Imported on demand: DeepSpeed alone takes longer than a demo's window.
    """
    if name == "single":
        from scaleproof.measure.strategy.single import Single

        return Single
    if name == "dp":
        from scaleproof.measure.strategy.dp import DP

        return DP
    if name == "ddp":
        from scaleproof.measure.strategy.ddp import DDP

        return DDP
    if name in ("fsdp", "hsdp"):
        from scaleproof.measure.strategy.fsdp import FSDP

        return FSDP
    if name.startswith("zero"):
        from scaleproof.measure.strategy.zero import Zero

        return Zero
    raise ValueError(f"no class for the strategy {name}")


__all__ = ["Strategy", "base", "strategy_class"]
