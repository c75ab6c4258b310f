"""All that knows a scheduler: what is asked for, how it is sent, how it is, how it ends, what is remembered of it."""

__all__ = ["check", "executor", "profile", "request", "site"]
