"""The networks and their exact parameter and FLOP counts."""

__all__ = ["build", "fetch", "inventory"]
