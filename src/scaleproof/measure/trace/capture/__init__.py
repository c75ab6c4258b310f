"""Take a trace: a short run of its own under a profiler."""

__all__ = ["capture", "capture_schema"]
