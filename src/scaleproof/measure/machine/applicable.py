"""What this machine cannot run, known before a process is started."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.cores import available_cores
from scaleproof.measure.machine.gpus import Gpu, torch_cuda_version, torch_has_rocm, unsupported_vendor

LEAST_FOR_BF16 = (8, 0)  # compute capability from which TF32 and bf16 exist (Ampere)
LEAST_FOR_TRITON = (7, 5)  # the least compute capability that Triton generates code for
# CUDA's major version -> the least compute capability of its compilers, the least driver (CUDA toolkit release notes).
CUDA_SUPPORT = {13: ((7, 5), 580), 12: ((5, 0), 525)}
LEGACY_INDEX = "https://download.pytorch.org/whl/cu126"  # torch for CUDA 12.6: sm_50 to sm_90, drivers from 525
INSTALL_LEGACY = f"install torch from {LEGACY_INDEX} (PIP_EXTRA_INDEX_URL; docs/gpu.md)"
INSTALL_AMDSMI = "pip install /opt/rocm/share/amd_smi"
COMPILERS = ("cc", "gcc", "clang")
TORCH_ANSWER_S = 120.0  # by then torch must have said whether it can use a device


def unsupported_reason(cell: Cell, gpus: Sequence[Gpu], nodes: int = 1) -> str | None:
    """Return why `cell` cannot run on `nodes` nodes with `gpus` on each. Returns None where it can."""
    execution = cell.execution
    geometry = execution.geometry
    if cell.command is None and (reason := reason_anywhere(cell)):
        return reason
    if geometry.nodes > nodes:
        return f"{geometry.nodes} nodes need a cluster; there is {nodes} here"
    on_cpu = execution.device == "cpu" or (execution.device == "auto" and not gpus)
    if not on_cpu and geometry.devices_per_node > len(gpus):
        hint = ""
        if torch_has_rocm():
            hint = f"; this torch is built for AMD's, which amdsmi lists: {INSTALL_AMDSMI}"
        elif vendor := unsupported_vendor():
            hint = f"; this torch is built for GPUs of {vendor}, which are not supported"
        return (
            f"geometry {geometry} asks for CUDA devices, {geometry.devices_per_node} on each node; "
            f"{len(gpus)} are visible{hint}"
        )

    if cell.command is not None:  # only its program knows what else it needs
        return None
    if execution.strategy == "dp" and on_cpu:
        return "nn.DataParallel does nothing on a CPU: it calls the module as it is"
    return _cpu_problem(cell) if on_cpu else _gpu_problem(cell, gpus)


def reason_anywhere(cell: Cell) -> str | None:
    """Return why `cell` can run on no machine. Returns None where it depends on the machine."""
    execution, geometry = cell.execution, cell.execution.geometry
    if execution.strategy == "single" and geometry.n_devices > 1:
        return f"single is one device without a wrapper; {geometry} has {geometry.n_devices}"
    if execution.device == "cuda" and (reason := _attention_problem(execution)):  # a CPU has flash in fp32, too
        return reason
    if execution.strategy != "dp":
        return None
    if geometry.nodes > 1:
        return "nn.DataParallel works inside of one process, on one node"
    if geometry.devices_per_node == 1:
        return "nn.DataParallel does nothing with one device: it calls the module as it is"
    if execution.compile:
        return "nn.DataParallel makes new replicas in every step, which torch.compile cannot follow"
    return None


def reason_of_all(cells: Sequence[Cell]) -> str | None:
    """Return why the first cell can run on no machine, if that is so of all `cells`; else None."""
    reasons = [cell.command is None and reason_anywhere(cell) for cell in cells]
    return f"{cells[0].slug}: {reasons[0]}" if all(reasons) else None


def _cpu_problem(cell: Cell) -> str | None:
    """Return why `cell` cannot run on this machine's CPU. Returns None where it can."""
    execution = cell.execution
    cores = available_cores()
    if execution.threads_per_device > cores:
        return f"{execution.threads_per_device} threads per device are asked for, this machine has {cores} cores"
    if execution.precision in ("fp16", "tf32"):
        return f"{execution.precision} training needs a CUDA device; this is a CPU"
    if execution.attention == "cudnn":
        return "cuDNN's attention needs a CUDA device; this is a CPU"
    if execution.strategy == "ddp" and execution.reduce_dtype == "bf16":
        return "DDP reduces in bf16 by NCCL alone; this is a CPU"
    if execution.compile and not shutil.which(os.environ.get("CXX", "g++")):
        return "torch.compile needs a C++ compiler on a CPU, and g++ is not installed"
    return None


def _gpu_problem(cell: Cell, gpus: Sequence[Gpu]) -> str | None:
    """Return why `cell` cannot run on the oldest of its `gpus` with the installed torch; None where it can."""
    execution = cell.execution
    oldest = min(gpus[: execution.geometry.devices_per_node], key=lambda gpu: gpu.capability)
    if reason := build_problem(oldest, torch_cuda_version()):
        return reason

    is_before_ampere = oldest.capability < LEAST_FOR_BF16
    needs_nvidia = execution.precision == "tf32" or execution.attention == "cudnn"
    if needs_nvidia and torch_has_rocm():
        return f"{oldest.name} is AMD's, for which torch has neither tf32 nor cuDNN"
    if is_before_ampere and execution.precision in ("bf16", "tf32"):
        return f"{oldest.name} has compute capability {dotted(oldest.capability)}; {execution.precision} needs 8.0"
    if execution.attention in ("flash", "cudnn"):
        if reason := _attention_problem(execution):
            return reason
        if is_before_ampere:
            return f"{oldest.name} has compute capability {dotted(oldest.capability)}; {execution.attention} needs 8.0"
    return gpu_compile_problem(oldest) if execution.compile else None


def _attention_problem(execution: Execution) -> str | None:
    """Return why no GPU has the kernel of attention of `execution` in its precision. Returns None if some do."""
    if execution.attention not in ("flash", "cudnn") or execution.precision in ("bf16", "fp16"):
        return None
    return f"{execution.attention} attention is for bf16 and fp16; the precision is {execution.precision}"


def build_problem(gpu: Gpu, cuda: str | None) -> str | None:
    """Return why a torch built with CUDA `cuda` ("13.0") cannot use `gpu` or its driver. Returns None where it can."""
    support = CUDA_SUPPORT.get(int(cuda.split(".")[0])) if cuda else None
    if not support:
        return None
    least_capability, least_driver = support
    if gpu.capability < least_capability:
        return (
            f"{gpu.name} has compute capability {dotted(gpu.capability)}; this torch is built with CUDA {cuda}, "
            f"which starts at {dotted(least_capability)}: {INSTALL_LEGACY}"
        )

    major_version = re.match(r"\d+", gpu.driver)
    is_old_driver = major_version is not None and int(major_version[0]) < least_driver
    if is_old_driver and not torch_can_use_devices():
        return (
            f"the NVIDIA driver is {gpu.driver}; this torch is built with CUDA {cuda}, which needs {least_driver} or "
            f"newer, or NVIDIA's package for forward compatibility: update the driver or {INSTALL_LEGACY}"
        )
    return None


@cache
def torch_can_use_devices() -> bool:
    """Return whether torch finds a device, by a trial in another process.

    A driver that is older than torch's libraries may be too old for them, or may not.
    """
    program = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)"
    try:
        trial = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=TORCH_ANSWER_S)
    except subprocess.TimeoutExpired:
        return False
    return trial.returncode == 0


def arch_problem(name: str, capability: tuple[int, int], architectures: Sequence[str]) -> str | None:
    """Return why none of torch's kernels runs on the device called `name`. Returns None where one does.

    `architectures`: what torch.cuda.get_arch_list() returns.
    """
    if any(_runs_on(architecture, capability) for architecture in architectures):
        return None
    return (
        f"{name} has compute capability {dotted(capability)}, for which this torch has no kernels "
        f"(it has {', '.join(architectures)}): {INSTALL_LEGACY}"
    )


def _runs_on(architecture: str, capability: tuple[int, int]) -> bool:
    """Return whether kernels built for `architecture` run on a device of this compute capability.

    Binaries (sm_80) run on devices of the same major version and the same or a newer minor version. Intermediate code
    (compute_80) runs on any newer device, unless it is for one capability (compute_90a) or its family (compute_100f).
    """
    if amd_match := re.fullmatch(r"gfx(\d+)([0-9a-f])[0-9a-f]", architecture):
        return (int(amd_match[1]), int(amd_match[2], 16)) == capability
    match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", architecture)
    if not match:
        return False
    code_kind, suffix = match[1], match[4]
    built_for = int(match[2]), int(match[3])  # major and minor version
    if suffix == "a":
        return built_for == capability
    if code_kind == "compute" and not suffix:
        return built_for <= capability
    return built_for[0] == capability[0] and built_for <= capability  # sm_80, compute_100f


def dotted(version: tuple[int, int]) -> str:
    """Return a compute capability as text: "8.0"."""
    return ".".join(map(str, version))


def gpu_compile_problem(oldest: Gpu) -> str | None:
    """Return why torch.compile does not work on `oldest`, the oldest GPU. Returns None where it works.

    For each kernel Triton compiles a small launcher in C, which needs a compiler and Python's headers as well.
    """
    if oldest.capability < LEAST_FOR_TRITON:
        return f"torch.compile needs Triton, which starts at 7.5; {oldest.name} has {dotted(oldest.capability)}"
    if importlib.util.find_spec("triton") is None:
        return "torch.compile needs triton on a CUDA device, and it is not installed"
    if not shutil.which(os.environ.get("CC", "")) and not any(map(shutil.which, COMPILERS)):
        return "torch.compile needs a C compiler for Triton's launchers: install gcc, or set CC"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        return f"torch.compile needs Python's headers for Triton's launchers: {header} is missing (python3-dev)"
    return None
