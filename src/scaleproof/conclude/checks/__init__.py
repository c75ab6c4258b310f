"""Validity checks of our own runs."""

__all__ = ["all_checks", "arms", "comparability", "memory", "traces", "watched"]
