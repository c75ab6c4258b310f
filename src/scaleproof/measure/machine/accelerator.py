"""What a rank asks of its device besides computing, in torch's words for accelerators of all vendors.

On a CPU there is nothing to wait for, to release or to look up, so that callers need not ask which device they have.
"""

import time
from collections.abc import Callable

import torch
from torch import accelerator


def is_accelerator(device: torch.device) -> bool:
    """Whether the host runs ahead of this device, which has memory of its own."""
    return device.type != "cpu"


def backend(device: torch.device) -> str:
    """The library of collectives between such devices."""
    return torch.distributed.get_default_backend_for_device(device)


def use(device: torch.device) -> None:
    """Make this device the one that this thread works on."""
    if is_accelerator(device):
        accelerator.set_device_index(device)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if is_accelerator(device):
        accelerator.synchronize(device)


def release_memory(device: torch.device) -> None:
    """Give memory that torch keeps for later back to the device."""
    if is_accelerator(device):
        accelerator.empty_cache()


def forget_peaks(device: torch.device) -> None:
    """Let peaks of memory, and the count of the allocator's retries, begin anew."""
    if is_accelerator(device):
        accelerator.reset_peak_memory_stats(device)
        accelerator.reset_accumulated_memory_stats(device)


def memory(device: torch.device) -> dict[str, int] | None:
    """Peaks in bytes of what tensors took and of what torch kept, and the allocator's retries; None on a CPU."""
    if not is_accelerator(device):
        return None
    return {
        "allocated": accelerator.max_memory_allocated(device),
        "reserved": accelerator.max_memory_reserved(device),
        "retries": accelerator.memory_stats(device).get("num_alloc_retries", 0),
    }


def mark(device: torch.device) -> torch.Event:
    """An event in the device's queue of work: it notes the time when the device reaches it."""
    event = torch.Event(device, enable_timing=True)
    event.record()
    return event


def seconds_of(call: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    """Seconds that the device takes to run `call` as many times as `calls` says, one after the other."""
    if not is_accelerator(device):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - began
    synchronize(device)
    first = mark(device)
    for _ in range(calls):
        call()
    last = mark(device)
    synchronize(device)
    return float(first.elapsed_time(last)) / 1e3
