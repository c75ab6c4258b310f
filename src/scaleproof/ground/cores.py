"""The cores that this process may use."""

import os


def cores_of_this_process() -> list[int]:
    """The numbers of the cores that this process may use; empty where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def available_cores() -> int:
    """Logical CPUs that this process may use: its affinity where the system has one, else all of the machine."""
    return len(cores_of_this_process()) or os.cpu_count() or 1
