"""The cores that this process may use."""

import os


def cores_of_this_process() -> list[int]:
    """Return the numbers of the cores that this process may use; [] where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def available_cores() -> int:
    """Return how many logical CPUs this process may use; where the system does not say, all of the machine."""
    return len(cores_of_this_process()) or os.cpu_count() or 1
