"""Read what profilers and communication libraries write."""

__all__ = ["interconnect", "nsys_stats", "open_trace"]
