"""What a rank asks of its device besides computing, in torch's words for accelerators of all vendors.

On a CPU there is nothing to wait for, to release or to look up, so that callers need not ask which device they have.
"""

import time
from collections.abc import Callable

import torch
from torch import accelerator


def is_accelerator(device: torch.device) -> bool:
    """Return whether the device works beside the host, with memory of its own, as all but a CPU do."""
    return device.type != "cpu"


def use_device(device: torch.device) -> None:
    """Make `device` the current one of this thread."""
    if is_accelerator(device):
        accelerator.set_device_index(device)


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished all that it was given."""
    if is_accelerator(device):
        accelerator.synchronize(device)


def release_memory(device: torch.device) -> None:
    """Give the memory that torch caches back to the device."""
    if is_accelerator(device):
        accelerator.empty_cache()


def reset_peaks(device: torch.device) -> None:
    """Reset peaks of memory, and the count of the allocator's retries."""
    if is_accelerator(device):
        accelerator.reset_peak_memory_stats(device)
        accelerator.reset_accumulated_memory_stats(device)


def memory_peaks(device: torch.device) -> dict[str, int] | None:
    """Return peak bytes of tensors and of torch's cache, and the allocator's retries. Returns None on a CPU."""
    if not is_accelerator(device):
        return None
    return {
        "allocated": accelerator.max_memory_allocated(device),
        "reserved": accelerator.max_memory_reserved(device),
        "retries": accelerator.memory_stats(device).get("num_alloc_retries", 0),
    }


def mark_event(device: torch.device) -> torch.Event:
    """Put an event into the device's queue, which takes the time when the device reaches it, and return it."""
    event = torch.Event(device, enable_timing=True)
    event.record()
    return event


def seconds_of(call: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    """Return the seconds that the device takes for `calls` calls of `call` in a row."""
    if not is_accelerator(device):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - began
    synchronize(device)
    first = mark_event(device)
    for _ in range(calls):
        call()
    last = mark_event(device)
    synchronize(device)
    return float(first.elapsed_time(last)) / 1e3
