"""The GPUs of this machine as NVML (or amdsmi) sees them, before any rank has started. Imports no torch."""

import importlib.util
import math
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError

MIG = "MIG-"  # how the UUID of a MIG instance, a part of a device, begins
# Variables that hide devices: ROCr's first, then, from the devices left, HIP's or else CUDA's.
AMD_MASKS = (("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"))


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a MIG instance of one, as NVML describes it."""

    name: str
    uuid: str
    memory: int | None  # bytes; None where NVML does not say (some MIG instances, unified memory)
    capability: tuple[int, int]  # compute capability
    driver: str = ""


class LostDevice(UserError):
    """Raised where a device that ranks would see has stopped answering."""


def usable_gpus(look: Callable[[], list[Gpu]]) -> tuple[list[Gpu], str]:
    """Return the devices that `look` finds and "", or [] and the reason where a device is lost.

    `look`: the caller's `cuda_devices`; passed, not imported here, so that tests can replace it in the caller's module.
    """
    try:
        return look(), ""
    except LostDevice as lost:
        return [], str(lost)


def cuda_devices() -> list[Gpu]:
    """Return the devices that ranks will see, none without a driver or with a torch that has no CUDA.

    Raises LostDevice where a device does not answer: without it `device: auto` would mean the CPU.
    """
    if not torch_has_cuda():
        return []
    # CUDA puts the fastest device first, NVML the device on the first bus: ranks shall count as NVML does.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    nvml = driver_library()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []

    try:
        visible = [_gpu_of_index(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        masks = AMD_MASKS if torch_has_rocm() else (("CUDA_VISIBLE_DEVICES",),)
        for names in masks:  # each group hides more devices, by the first of its variables that is set
            mask = next((os.environ[name] for name in names if name in os.environ), None)
            visible = _visible_gpus(visible, mask, lambda uuid: _mig_instance_by_uuid(nvml, uuid))
        visible = [_first_mig_instance(nvml, gpu) for gpu in visible]
    except nvml.NVMLError as error:
        raise LostDevice(f"the GPUs of this machine do not answer ({error}); nvidia-smi says more") from None
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()

    # `_gpu_of_index` gives a device that does not answer a name and no uuid.
    if lost := [gpu.name for gpu in visible if not gpu.uuid]:
        raise LostDevice(f"{', '.join(lost)}; nvidia-smi says more, CUDA_VISIBLE_DEVICES can leave it out")
    return visible


def _gpu_of_index(nvml: Any, index: int) -> Gpu:
    """Return the device with this `index`. A lost device has no UUID, and the reason as its name."""
    try:
        return _gpu_of_handle(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
    except nvml.NVMLError as error:
        reason = f"GPU {index} of this machine does not answer ({error})"
        return Gpu(name=reason, uuid="", memory=None, capability=(0, 0))


def _gpu_of_handle(nvml: Any, handle: object, parent: object | None = None) -> Gpu:
    """Return the device of NVML's `handle`.

    `parent`: for a MIG instance the handle of its whole GPU, as NVML tells the compute capability of that alone.
    """
    try:
        memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError:
        memory = None
    try:
        driver = str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        driver = ""
    whole_gpu = handle if parent is None else parent
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(whole_gpu)

    return Gpu(
        name=str(nvml.nvmlDeviceGetName(handle)),
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        memory=memory,
        capability=(major, minor),
        driver=driver,
    )


def _mig_instance_by_uuid(nvml: Any, uuid: str) -> Gpu | None:
    """Return the MIG instance with this UUID. Returns None where NVML does not know it."""
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return _gpu_of_handle(nvml, handle, nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle))
    except nvml.NVMLError:
        return None


def _first_mig_instance(nvml: Any, gpu: Gpu) -> Gpu:
    """Return what CUDA sees of `gpu`: its first MIG instance if it is cut into instances, else `gpu` itself."""
    if gpu.uuid.startswith(MIG):
        return gpu
    with suppress(nvml.NVMLError, AttributeError):  # AMD's devices have no such mode
        handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
        is_cut, _ = nvml.nvmlDeviceGetMigMode(handle)  # now, and after the next reset
        if is_cut:
            return _gpu_of_handle(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0), handle)
    return gpu


def _visible_gpus(
    devices: list[Gpu], mask: str | None, find_instance: Callable[[str], Gpu | None] = lambda uuid: None
) -> list[Gpu]:
    """Return the `devices` that programs see with `mask` as CUDA_VISIBLE_DEVICES: all where it is None (not set).

    Entries of the mask are indices, beginnings of UUIDs, or UUIDs of MIG instances, which `find_instance` looks up. As
    in CUDA, an unknown entry hides itself and all that follow: "0,9,1" on two devices shows the first.
    """
    if mask is None:
        return devices
    visible = []
    entries = [entry.strip() for entry in mask.split(",")]

    for entry in filter(None, entries):
        if entry.isdigit():
            matches = devices[int(entry) : int(entry) + 1]  # empty beyond the last device
        elif entry.startswith(MIG):
            instance = find_instance(entry)
            matches = [instance] if instance else []
        else:
            matches = [gpu for gpu in devices if gpu.uuid.startswith(entry)]
        if len(matches) != 1:
            break
        visible += matches

    return visible


def cores_near(uuid: str) -> list[int]:
    """Return the logical CPUs of a device's NUMA node that this process may use, [] where they are unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    nvml = driver_library()
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        # A bit for each CPU of the machine, in words of 64 bits.
        word_count = math.ceil((os.cpu_count() or 1) / 64)
        words = list(nvml.nvmlDeviceGetCpuAffinity(handle, word_count))
    except nvml.NVMLError:
        return []
    on_node = {64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1}
    return sorted(on_node & os.sched_getaffinity(0))


def driver_library() -> Any:
    """Return the module pynvml, or, for a torch built for AMD's devices, `amd`, which answers as pynvml does."""
    if torch_has_rocm():
        from scaleproof.measure.machine import amd

        return amd
    import pynvml

    return pynvml


def torch_has_cuda() -> bool:
    """Return whether the installed torch was built with CUDA, or with ROCm, which torch calls cuda as well."""
    return torch_cuda_version() is not None or torch_has_rocm()


def torch_has_rocm() -> bool:
    """Return whether the installed torch was built for AMD's devices."""
    return _torch_built_for("hip") is not None


def torch_cuda_version() -> str | None:
    """Return the CUDA version that torch was built with ("13.0"). Returns None for a build without CUDA."""
    return _torch_built_for("cuda")


def unsupported_vendor() -> str | None:
    """Return the vendor of the GPUs that torch was built for, if they cannot be measured, else None."""
    return "Intel" if _torch_built_for("xpu") else None


def _torch_built_for(name: str) -> str | None:
    """Return the version of `name` (cuda, hip, xpu) that torch was built with; None where it was built without.

    It is read from torch's version file, since importing torch takes seconds.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "version.py"
    text = file.read_text() if file.is_file() else ""  # something else of torch's name, which no import survives
    version = re.search(rf"^{name}\b[^=]*= *['\"]([^'\"]+)", text, re.MULTILINE)
    return version[1] if version else None
