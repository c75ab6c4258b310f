"""Checks on the neutral form of other people's results."""

__all__ = ["all_checks", "baselines", "comparability", "context", "rows"]
