"""NVML of devices that are not there, which answers as pynvml does. Imports no torch."""

import os
import time
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

NAME, MEMORY, CAPABILITY, DRIVER = "NVIDIA H200", 141 * 10**9, (9, 0), "580.65.06"
WATTS, MEGAHERTZ = 600, 1785


def uuid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


class Nvml(ModuleType):
    """Power is constant, and the energy counter follows from it."""

    class NVMLError(Exception):
        pass

    def __init__(self, devices: int) -> None:
        super().__init__("pynvml")
        self.uuids = [f"GPU-{uuid(number)}" for number in range(devices)]
        self.began = time.perf_counter()

    def refuse(self, *names: str) -> None:
        """From now on these functions answer that they may not, as in a container or under another user."""

        def refused(*arguments: object) -> None:
            raise self.NVMLError("Insufficient Permissions")

        for name in names:
            setattr(self, name, refused)

    def refuse_one(self, uuid: str, name: str) -> None:
        """From now on one device does not answer this function."""
        answer = getattr(self, name)

        def answered(handle: str, *arguments: object) -> object:
            if handle == uuid:
                raise self.NVMLError("Unknown Error")
            return answer(handle, *arguments)

        setattr(self, name, answered)

    def nvmlInit(self) -> None:
        pass

    nvmlShutdown = nvmlInit

    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:
        if name not in self.uuids:
            raise self.NVMLError("Not Found")
        return name

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        return NAME

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(total=MEMORY, free=MEMORY, used=0)

    def nvmlSystemGetDriverVersion(self) -> str:
        return DRIVER

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return CAPABILITY

    def nvmlDeviceGetCpuAffinity(self, handle: str, words: int) -> list[int]:
        return [sum(1 << core for core in os.sched_getaffinity(0) if core // 64 == word) for word in range(words)]

    def nvmlDeviceGetComputeMode(self, handle: str) -> int:
        return 0

    def nvmlDeviceGetFieldValues(self, handle: str, fields: Sequence[int]) -> list[SimpleNamespace]:
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=WATTS * 1000))]

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return WATTS * 1000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return int((time.perf_counter() - self.began) * WATTS * 1000)

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        return MEGAHERTZ

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(gpu=97)
