"""How ranks share the work: one small class per strategy behind one interface."""

from scalebench.strategy.base import Strategy
from scalebench.strategy.ddp import DDP

STRATEGIES: dict[str, type[Strategy]] = {"ddp": DDP}

__all__ = ["STRATEGIES", "Strategy"]
