"""Checks on the neutral form of other people's results."""

__all__ = ["all_checks", "context", "copies", "overview", "scaling_lines", "speeds"]
