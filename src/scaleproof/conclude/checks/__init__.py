"""Validity checks of our own runs."""

__all__ = ["all_checks", "campaign_parts", "comparability", "memory", "printed", "traces", "watched", "watched_work"]
