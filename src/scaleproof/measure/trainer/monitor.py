"""What the GPUs did during the window: load, clocks, throttling, power, energy. Starts and ends with it."""

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
import torch

from scaleproof.measure.machine.accelerator import is_accelerator
from scaleproof.measure.machine.gpus import driver_library

PERIOD = 0.1  # seconds between samples; each takes about a millisecond of the host, outside of the GIL
POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT, in milliwatts
AGREEMENT = 0.1  # relative difference that energy by the counter and by the integral of power may have
# Throttle reasons of NVML that make a device slower than it could be (not idle, not application clocks).
REASONS = {0x4: "power_cap", 0x8: "hardware", 0x20: "thermal_software", 0x40: "thermal_hardware", 0x80: "power_brake"}


@dataclass
class GpuSamples:
    """The readings of one GPU so far; power in watts, clock in MHz."""

    times: list[float] = field(default_factory=list)
    power: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)
    reasons: list[float] = field(default_factory=list)  # bits; NaN where the GPU does not say


class GpuMonitor:
    """Samples GPUs, named by UUID, in a thread, and reads their energy counters at both ends."""

    def __init__(self, nvml: Any, uuids: list[str], period: float = PERIOD) -> None:
        """Begin with no sample. `nvml`: the module pynvml, initialised, or a stand-in. `period`: seconds."""
        self.nvml = nvml
        self.period = period
        self.handles = [nvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
        self.samples = [GpuSamples() for _ in uuids]
        self.done = threading.Event()

    def __enter__(self) -> "GpuMonitor":
        """Read the energy counters, take a first sample, and start the thread that takes the others."""
        self.before = [self._energy_j(handle) for handle in self.handles]
        self._add_sample()
        self.thread = threading.Thread(target=self._sample_until_closed, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        """End the thread, take a last sample, and read the energy counters again."""
        self.done.set()
        self.thread.join()
        self._add_sample()
        self.after = [self._energy_j(handle) for handle in self.handles]

    def _sample_until_closed(self) -> None:
        """Take a sample every `period` seconds until the window is over: the thread's function."""
        while not self.done.wait(self.period):
            self._add_sample()

    def _add_sample(self) -> None:
        """Add one reading to the series of each GPU."""
        for handle, samples in zip(self.handles, self.samples, strict=True):
            samples.times.append(time.perf_counter())
            samples.power.append(self._power_w(handle))
            samples.clock.append(self._nvml_answer("nvmlDeviceGetClockInfo", handle, 1))  # 1: streaming multiprocessors
            samples.load.append(self._utilization(handle))
            samples.reasons.append(self._nvml_answer("nvmlDeviceGetCurrentClocksThrottleReasons", handle))

    def _nvml_answer(self, name: str, *arguments: Any) -> float:
        """Return the answer of the NVML function `name`. Returns NaN where the device does not give it."""
        try:
            return getattr(self.nvml, name)(*arguments)
        except self.nvml.NVMLError:
            return float("nan")

    def _power_w(self, handle: Any) -> float:
        """Return the watts that the device draws now, NaN where unknown.

        nvmlDeviceGetPowerUsage would be the mean of the last second on Hopper and Ada (NVML's documentation).
        """
        try:
            (value,) = self.nvml.nvmlDeviceGetFieldValues(handle, [POWER_INSTANT])
            if value.nvmlReturn == 0:
                return value.value.uiVal / 1e3
        except (self.nvml.NVMLError, AttributeError):  # drivers and libraries before 530
            pass
        return self._nvml_answer("nvmlDeviceGetPowerUsage", handle) / 1e3

    def _utilization(self, handle: Any) -> float:
        """Return the share of the last moments in which a kernel ran, 0 to 1, NaN where unknown."""
        try:
            return self.nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        except self.nvml.NVMLError:
            return float("nan")

    def _energy_j(self, handle: Any) -> float | None:
        """Return the device's energy counter in joules. Returns None where it has none, as before Volta."""
        return _none_for_nan(self._nvml_answer("nvmlDeviceGetTotalEnergyConsumption", handle) / 1e3)

    def result(self) -> list[dict[str, Any]]:
        """Return the entry of each GPU in the record: means of its readings, throttling, and energy."""
        readings = zip(self.samples, self.before, self.after, strict=True)
        return [self._gpu_entry(samples, before_j, after_j) for samples, before_j, after_j in readings]

    def _gpu_entry(self, samples: GpuSamples, before_j: float | None, after_j: float | None) -> dict[str, Any]:
        """Return the entry of one GPU. `before_j`, `after_j`: its energy counter in joules, None where it has none.

        `energy_j` is None where the counter is missing or contradicts the integral of power.
        """
        counter_j = None if before_j is None or after_j is None else after_j - before_j
        integral_j = float(np.trapezoid(samples.power, samples.times))
        agree = counter_j is not None and abs(counter_j - integral_j) <= AGREEMENT * max(counter_j, integral_j)
        return {
            "samples": len(samples.times),
            "utilization_mean": _mean_or_none(samples.load),
            "sm_clock_mhz_mean": _mean_or_none(samples.clock),
            "sm_clock_mhz_min": _none_for_nan(min(samples.clock)),
            "power_w_mean": _mean_or_none(samples.power),
            "throttled": _throttled_shares(samples),
            "energy_j": counter_j if agree else None,
            "energy_counter_j": counter_j,
            "energy_integral_j": _none_for_nan(integral_j),
        }


class Monitor(ExitStack):
    """Watches this rank's GPUs and memory during the `with` block."""

    def __init__(self, device: torch.device, uuids: list[str]) -> None:
        """Begin with no sample. `uuids`: the UUIDs of this rank's GPUs."""
        super().__init__()
        self.gpus = _gpu_monitor(device, uuids)

    def __enter__(self) -> "Monitor":
        """Start to watch the GPUs, if there are any."""
        if self.gpus:
            self.enter_context(self.gpus)
        return self

    def result(self) -> dict[str, Any]:
        """Return the resident memory, and the entry of each GPU in `gpus`, None without GPUs."""
        return {"rss_bytes": psutil.Process().memory_info().rss, "gpus": self.gpus.result() if self.gpus else None}


def _gpu_monitor(device: torch.device, uuids: list[str]) -> GpuMonitor | None:
    """Return a monitor of this rank's GPUs, None on a CPU and where NVML does not answer."""
    if not is_accelerator(device):
        return None
    nvml = driver_library()
    try:
        nvml.nvmlInit()
        return GpuMonitor(nvml, uuids)
    except nvml.NVMLError:
        return None


def _throttled_shares(samples: GpuSamples) -> dict[str, float] | None:
    """Return reason -> share of the samples that it slowed the GPU down in; None where the GPU does not say so."""
    reasons = [int(bits) for bits in samples.reasons if bits == bits]  # NaN is not equal to itself
    if not reasons:
        return None
    shares = {name: sum(1 for bits in reasons if bits & bit) / len(samples.times) for bit, name in REASONS.items()}
    return {name: share for name, share in shares.items() if share}


def _none_for_nan(value: float) -> float | None:
    """Replace NaN, which JSON does not have, by None."""
    return value if value == value else None  # NaN is not equal to itself


def _mean_or_none(values: list[float]) -> float | None:
    """Return the mean of all values, None where any is NaN."""
    return _none_for_nan(sum(values) / len(values))
