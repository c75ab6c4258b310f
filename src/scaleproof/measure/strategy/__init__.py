"""How ranks share the work: one small class per strategy behind one interface."""

from scaleproof.ground.campaign.strategies import is_deepspeed
from scaleproof.measure.strategy.base import Strategy


def strategy_class(name: str) -> type[Strategy]:
    """Return the class behind a strategy's name. Raises ValueError for an unknown one.

    Imported on demand: DeepSpeed alone takes longer than a demo's window.
    """
    if is_deepspeed(name):
        from scaleproof.measure.strategy.zero import Zero

        return Zero
    from scaleproof.measure.strategy.native import STRATEGIES

    if name not in STRATEGIES:
        raise ValueError(f"no class for the strategy {name}")
    return STRATEGIES[name]


__all__ = ["Strategy", "base", "strategy_class"]
