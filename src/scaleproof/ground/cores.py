"""The cores that this process may use."""

import os


def available_cores() -> int:
    """Logical CPUs that this process may use: its affinity where the system has one, else those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
