"""The CUDA devices of this machine as NVML sees them, before any rank has started. Imports no torch."""

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Gpu:
    name: str
    uuid: str
    memory: int  # bytes
    capability: tuple[int, int]  # compute capability


def cuda_devices() -> list[Gpu]:
    """The devices that ranks will see; none where there is no driver, or where the installed torch has no CUDA."""
    if not torch_has_cuda():
        return []
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        found = [_describe(pynvml, pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())]
    finally:
        pynvml.nvmlShutdown()
    return _visible(found, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _describe(pynvml: Any, handle: object) -> Gpu:
    name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
    memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    return Gpu(str(name), str(uuid), memory, tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle)))


def _visible(found: list[Gpu], variable: str | None) -> list[Gpu]:
    """CUDA_VISIBLE_DEVICES: indices or (beginnings of) UUIDs; everything after an unknown entry is hidden."""
    if variable is None:
        return found
    visible = []
    for entry in filter(None, (e.strip() for e in variable.split(","))):
        if entry.isdigit():
            match = [found[int(entry)]] if int(entry) < len(found) else []
        else:
            match = [g for g in found if g.uuid.startswith(entry)]
        if len(match) != 1:
            break
        visible += match
    return visible


def torch_has_cuda() -> bool:
    """Whether the installed torch was built with CUDA; read from its version file, since importing it takes seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    version = (Path(spec.origin).parent / "version.py").read_text()
    return bool(re.search(r"^cuda\b[^=]*= *['\"]", version, re.MULTILINE))
