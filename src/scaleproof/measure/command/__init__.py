"""Commands as the workload: which program is started, and what it printed."""

__all__ = ["figures", "program", "watched"]
