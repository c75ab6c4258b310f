"""What a measurement on this machine's GPUs depends on: devices, driver, torch, what NVML answers."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

QUERY = "name,driver_version,compute_mode,mig.mode.current,power.limit"
OPTIONAL = ("transformers", "triton", "deepspeed", "nvtx", "accelerate", "snakemake")
READINGS = ("PowerUsage", "TotalEnergyConsumption", "CurrentClocksThrottleReasons", "UtilizationRates", "ComputeMode")


def told(name: str, ask: Callable[[], object]) -> None:
    """One line; what cannot be asked is a fact too."""
    try:
        print(f"{name}: {ask()}", flush=True)
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}", flush=True)


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def device(index: int) -> str:
    import torch

    properties = torch.cuda.get_device_properties(index)
    return f"{properties.name}, {properties.total_memory:,} bytes, {properties.major}.{properties.minor}"


def main() -> None:
    import torch

    if shutil.which("nvidia-smi"):
        for words in (["-L"], [f"--query-gpu={QUERY}", "--format=csv"], ["topo", "-m"]):
            subprocess.run(["nvidia-smi", *words])
    commands = {name: bool(shutil.which(name)) for name in ("gcc", "nvcc", "nsys", "nvidia-smi")}
    told("commands", lambda: ", ".join(f"{name} {'yes' if there else 'no'}" for name, there in commands.items()))
    told("cores", lambda: len(os.sched_getaffinity(0)))
    told("python", lambda: sys.version.split()[0])
    told("torch", lambda: f"{torch.__version__}, CUDA {torch.version.cuda}")
    for package in OPTIONAL:
        told(package, partial(version, package))
    if not torch.cuda.is_available():
        print("torch.cuda.is_available() is false")
        return
    told("cuDNN", torch.backends.cudnn.version)
    told("NCCL", torch.cuda.nccl.version)
    told("kernels for", torch.cuda.get_arch_list)
    from scaleproof.measure.machine.gpus import driver_library
    from scaleproof.measure.trainer.session import nvml_uuid

    nvml = driver_library()
    nvml.nvmlInit()
    for index in range(torch.cuda.device_count()):
        told(f"device {index}", partial(device, index))
        handle = nvml.nvmlDeviceGetHandleByUUID(nvml_uuid(torch.cuda.get_device_properties(index)))
        for reading in READINGS:
            told(f"  {reading}", partial(getattr(nvml, f"nvmlDeviceGet{reading}"), handle))


if __name__ == "__main__":
    main()
