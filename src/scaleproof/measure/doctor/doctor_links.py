"""Are copies between host and devices as fast as the links that join them? Checks of `scaleproof doctor`."""

import re
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

from scaleproof.ground.verdict import Verdict, judged, not_here

MIN_H2D_GB_S = 5.0  # from pinned memory: PCIe 3.0 gives 12 with 16 lanes, 6 with 8
# One link in one direction, NVLink 2 to 4 (NVIDIA V100, A100, H100 data sheets). Programs get 75 to 90 % of it
# (NVIDIA's sample p2pBandwidthLatencyTest).
NVLINK_GB_S = 25.0
MIN_PAIR_GB_S = 2.0  # without NVLink: copies through the host's memory cross its PCIe twice
COPIED_BYTES = 1 << 28
CALLS = 10  # copies whose mean time counts


def check_copies() -> Verdict:
    """Judge whether copies from pinned host memory are fast enough. Copies within the device are measured too."""
    import torch

    on_host = torch.empty(COPIED_BYTES, dtype=torch.uint8, pin_memory=True)
    on_device, other = (torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2))
    from_host_gb_s = _measure_copy_gb_s(lambda: on_device.copy_(on_host, non_blocking=True))
    in_device_gb_s = 2 * _measure_copy_gb_s(lambda: other.copy_(on_device))  # each byte is read and written
    return judge_copies(from_host_gb_s, in_device_gb_s)


def _measure_copy_gb_s(copy: Callable[[], Any]) -> float:
    """Return the mean rate of CALLS copies of COPIED_BYTES, in GB/s."""
    copy()
    return CALLS * COPIED_BYTES / 1e9 / time_on_device_s(copy, CALLS)


def time_on_device_s(call: Callable[[], Any], calls: int = 1) -> float:
    """Return the seconds that torch's current device takes for `calls` calls of `call`."""
    import torch

    from scaleproof.measure.machine.accelerator import seconds_of

    return seconds_of(call, torch.device("cuda", torch.cuda.current_device()), calls)


def judge_copies(from_host_gb_s: float, in_device_gb_s: float) -> Verdict:
    """Judge the rate of copies from the host. The rate of copies within the device is reported, not judged."""
    advice = "the link to the host is slow (nvidia-smi -q | grep -A3 'Link Width'): offload and input will be, too"
    evidence = f"{from_host_gb_s:.1f} GB/s from the host, {in_device_gb_s:.0f} GB/s in device memory (read and written)"
    is_fast = from_host_gb_s >= MIN_H2D_GB_S
    return judged(is_fast, evidence, advice, h2d_gb_s=from_host_gb_s, d2d_gb_s=in_device_gb_s)


def check_pairs() -> Verdict:
    """Judge whether each two devices copy as fast as the link between them."""
    import torch

    from scaleproof.measure.machine.provenance import links_between
    from scaleproof.measure.trainer.session import nvml_uuid

    count = torch.cuda.device_count()
    if count < 2:
        return not_here("one device has no pair")
    devices = [torch.device("cuda", index) for index in range(count)]
    buffers = [torch.empty(COPIED_BYTES, dtype=torch.uint8, device=device) for device in devices]
    rates = {}
    for first, second in combinations(range(count), 2):
        with torch.cuda.device(first):  # the copy runs on its stream, for which events of another device do not wait
            rates[first, second] = _measure_copy_gb_s(partial(buffers[second].copy_, buffers[first]))
    uuids = [nvml_uuid(torch.cuda.get_device_properties(index)) for index in range(count)]
    return judge_pairs(rates, links_between(uuids))


def judge_pairs(rates: dict[tuple[int, int], float], links: dict[tuple[int, int], str]) -> Verdict:
    """Judge whether pairs copy (`rates`: GB/s) as fast as their `links`, by nvidia-smi's names."""
    slow_pairs = []
    for (first, second), rate in rates.items():
        link = links.get((first, second), "unknown link")
        least = least_rate(link)
        if rate < least:
            slow_pairs.append(
                f"{rate:.1f} GB/s between devices {first} and {second} ({link}), which give {least:g} or more"
            )
    span = f"{min(rates.values()):.1f} to {max(rates.values()):.1f} GB/s between {len(rates)} pairs"
    link_names = ", ".join(sorted(set(links.values()))) or "unknown"
    evidence = "; ".join(slow_pairs) or f"{span}, joined by {link_names}"
    advice = "look at nvidia-smi nvlink -s, and at access control services of the PCIe bridges (ACS)"
    values = {f"{first}-{second}": rate for (first, second), rate in rates.items()}
    return judged(not slow_pairs, evidence, advice, gb_s=values)


def least_rate(link: str) -> float:
    """Return the least GB/s of a sound link in one direction: for "NV4" half the rate of 4 NVLinks."""
    nvlinks = re.fullmatch(r"NV(\d+)", link)
    return NVLINK_GB_S * int(nvlinks[1]) / 2 if nvlinks else MIN_PAIR_GB_S
