"""AMD's devices in the words of pynvml, answered by amdsmi: who asks need not know whose devices they are.

Which devices there are, how one does at the moment, and which cores are near it. What amdsmi does not know is an
NVMLError, as with NVIDIA's devices; what AMD's do not have (a compute mode) has no function here. Tried with
stand-ins of amdsmi 7.0 alone. Imports no torch, which loads a library of its own below the same module: in a rank
torch comes first.
"""

import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

NODES = Path("/sys/devices/system/node")
# Violations of limits (amdsmi_get_violation_status) -> NVML's bits of what slows a device down.
VIOLATIONS = {"ppt_pwr": 0x4, "prochot_thrm": 0x8, "socket_thrm": 0x40, "vr_thrm": 0x40, "hbm_thrm": 0x40}


class NVMLError(Exception):
    """Raised where amdsmi is missing, or gives no answer."""


def _library() -> ModuleType:
    """Return the module amdsmi. Raises NVMLError where it is not installed."""
    try:
        import amdsmi
    except Exception as error:  # it is installed with ROCm, and looks for its libraries when it is imported
        raise NVMLError(f"amdsmi cannot be imported ({error})") from None
    return amdsmi


def _call(name: str, *arguments: Any) -> Any:
    """Call amdsmi_{name} and return its result. Errors become NVMLError: this module stands in for pynvml."""
    library = _library()
    try:
        return getattr(library, f"amdsmi_{name}")(*arguments)
    except (library.AmdSmiException, AttributeError) as error:  # no function of that name in another version
        raise NVMLError(f"{name}: {error}") from None


def _first_number(answer: dict[str, Any], *names: str) -> float:
    """Return the first field of `names` that is a number in `answer`. Raises NVMLError if all are missing, or text."""
    for name in names:
        if isinstance(answer.get(name), int | float):
            return answer[name]
    raise NVMLError(f"no {names[0]}")


def serial_of_uuid(uuid: str) -> str:
    """Return a device's serial number as amdsmi writes it, from torch's `uuid`: its characters in hexadecimal."""
    codes = bytes.fromhex(uuid.replace("-", ""))
    return codes.decode().lower() if re.fullmatch(rb"[0-9A-Fa-f]{16}", codes) else uuid


def nvmlInit() -> None:
    _call("init")


def nvmlShutdown() -> None:
    """Do nothing: torch uses the same session."""


def nvmlDeviceGetCount() -> int:
    return len(_call("get_processor_handles"))


def nvmlDeviceGetHandleByIndex(index: int) -> Any:
    return _call("get_processor_handles")[index]


def nvmlDeviceGetHandleByUUID(uuid: str) -> Any:
    handles = [handle for handle in _call("get_processor_handles") if nvmlDeviceGetUUID(handle) == uuid]
    if not handles:
        raise NVMLError(f"no device {uuid}")
    return handles[0]


def nvmlDeviceGetUUID(handle: Any) -> str:
    return f"GPU-{_call('get_gpu_asic_info', handle)['asic_serial'].removeprefix('0x').lower()}"


def nvmlDeviceGetName(handle: Any) -> str:
    return str(_call("get_gpu_asic_info", handle)["market_name"])


def nvmlDeviceGetCudaComputeCapability(handle: Any) -> tuple[int, int]:
    """Return major and minor version as torch has them: gfx942 is (9, 4)."""
    version = re.match(r"gfx(\d+)([0-9a-f])[0-9a-f]$", _call("get_gpu_asic_info", handle)["target_graphics_version"])
    if not version:
        raise NVMLError("no version of its instructions")
    return int(version[1]), int(version[2], 16)


def nvmlDeviceGetMemoryInfo(handle: Any) -> SimpleNamespace:
    return SimpleNamespace(total=_call("get_gpu_memory_total", handle, _library().AmdSmiMemoryType.VRAM))


def nvmlSystemGetDriverVersion() -> str:
    return str(_call("get_gpu_driver_info", nvmlDeviceGetHandleByIndex(0))["driver_version"])


def nvmlDeviceGetCpuAffinity(handle: Any, words: int) -> list[int]:
    """Return a bit for each core of the device's NUMA node, in words of 64."""
    try:
        listed = (NODES / f"node{_call('topo_get_numa_node_number', handle)}/cpumap").read_text()
    except OSError as error:
        raise NVMLError(str(error)) from None
    mask = int(listed.replace(",", ""), 16)  # the list has groups of 32 bits, the highest first
    return [(mask >> (64 * word)) & ((1 << 64) - 1) for word in range(words)]


def nvmlDeviceGetPowerUsage(handle: Any) -> float:
    """Return milliwatts."""
    power = _call("get_power_info", handle)
    return 1e3 * _first_number(power, "socket_power", "current_socket_power", "average_socket_power")


def nvmlDeviceGetTotalEnergyConsumption(handle: Any) -> float:
    """Return millijoules; the counter is in units of `counter_resolution` microjoules."""
    count = _call("get_energy_count", handle)
    return _first_number(count, "energy_accumulator") * _first_number(count, "counter_resolution") / 1e3


def nvmlDeviceGetClockInfo(handle: Any, kind: int) -> float:
    return _first_number(_call("get_clock_info", handle, _library().AmdSmiClkType.GFX), "clk")


def nvmlDeviceGetUtilizationRates(handle: Any) -> SimpleNamespace:
    return SimpleNamespace(gpu=_first_number(_call("get_gpu_activity", handle), "gfx_activity"))


def nvmlDeviceGetCurrentClocksThrottleReasons(handle: Any) -> int:
    """Return NVML's bits of the limits that slow the device down now. Raises NVMLError where they are unknown."""
    status = _call("get_violation_status", handle)
    active = {name: status.get(f"active_{name}") for name in VIOLATIONS}
    if not any(isinstance(value, bool) for value in active.values()):
        raise NVMLError("it does not say what slows it down")
    return sum({VIOLATIONS[name] for name, value in active.items() if value is True})  # a set: each bit once
