"""What this machine cannot run, known before a process is started."""

import importlib.util
import os
import shutil
from collections.abc import Sequence

from scalebench.campaign.cells import Cell
from scalebench.cores import available_cores
from scalebench.machine.gpus import Gpu

TENSOR_FORMATS = (8, 0)  # compute capability from which TF32 and bf16 exist (Ampere)


def unsupported_reason(cell: Cell, gpus: Sequence[Gpu], nodes: int = 1) -> str | None:
    """Why `cell` cannot run on `nodes` nodes with `gpus` each; None where nothing is known against it."""
    execution = cell.execution
    geometry, strategy, precision = execution.geometry, execution.strategy, execution.precision
    if geometry.nodes > nodes:
        return f"{geometry.nodes} nodes need a cluster; there is {nodes} here"
    on_cpu = execution.device == "cpu" or (execution.device == "auto" and not gpus)
    if not on_cpu and geometry.devices_per_node > len(gpus):
        needed = f"{geometry.devices_per_node} on each node"
        return f"geometry {geometry} asks for CUDA devices, {needed}; {len(gpus)} are visible"
    if strategy == "single" and geometry.world_size > 1:
        return f"single is one device without a wrapper; {geometry} has {geometry.world_size}"
    if strategy == "dp" and geometry.nodes > 1:
        return "nn.DataParallel works inside of one process, on one node"
    if strategy == "dp" and on_cpu:
        return "nn.DataParallel does nothing on a CPU: it calls the module as it is"
    if strategy == "dp" and geometry.devices_per_node == 1:
        return "nn.DataParallel does nothing with one device: it calls the module as it is"
    cores = available_cores()
    if on_cpu and execution.threads_per_device > cores:
        return f"{execution.threads_per_device} threads per device are asked for, this machine has {cores} cores"
    if on_cpu and precision in ("fp16", "tf32"):
        return f"{precision} training needs a CUDA device; this is a CPU"
    if not on_cpu and precision in ("bf16", "tf32"):
        old = [g for g in gpus if g.capability < TENSOR_FORMATS]
        if old:
            return (
                f"{old[0].name} has compute capability {'.'.join(map(str, old[0].capability))}; {precision} needs 8.0"
            )
    if execution.compile:
        return _against_compile(strategy, on_cpu)
    return None


def _against_compile(strategy: str, on_cpu: bool) -> str | None:
    if strategy == "dp":
        return "nn.DataParallel makes new replicas in every step, which torch.compile cannot follow"
    if on_cpu and not shutil.which(os.environ.get("CXX", "g++")):
        return "torch.compile needs a C++ compiler on a CPU, and g++ is not installed"
    if not on_cpu and importlib.util.find_spec("triton") is None:
        return "torch.compile needs triton on a CUDA device, and it is not installed"
    return None
