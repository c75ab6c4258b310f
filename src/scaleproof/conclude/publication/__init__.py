"""A verified campaign for others: packed to be cited, and held against earlier results."""

__all__ = ["gate", "history", "publish"]
