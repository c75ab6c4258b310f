"""Where the time of a step goes: captures of separate, short runs, read into one form and summarised."""

__all__ = ["capture", "diff", "readers", "summarise"]
