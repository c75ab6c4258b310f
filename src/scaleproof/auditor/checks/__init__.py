"""Checks on the neutral form of other people's results."""

__all__ = ["baselines", "comparability", "context", "overview"]
