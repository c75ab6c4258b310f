"""Where a run was made, from which code, with what: everything that can be known without starting it."""

import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.cores import available_cores
from scaleproof.ground.files import scrub
from scaleproof.measure.machine.allocation import scheduler_record
from scaleproof.measure.machine.hardware import inventory

PACKAGES = ("scaleproof", "torch", "transformers", "deepspeed", "numpy", "tokenizers", "tiktoken", "snakemake")
# The only variables that results may repeat. They steer the measurement; none of them holds a secret.
VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "TORCH_DISTRIBUTED_DEBUG",
    "CUDA_LAUNCH_BLOCKING",
    "CUBLAS_WORKSPACE_CONFIG",
    "DS_ACCELERATOR",
)
# Which instructions products are made of: another set of them is several times slower.
OF_ARITHMETIC = ("MKL_", "DNNL_", "ONEDNN_", "ATEN_", "NVIDIA_TF32_OVERRIDE", "LD_PRELOAD")
VARIABLE_PREFIXES = ("NCCL_", "TORCH_NCCL_", "GLOO_", *OF_ARITHMETIC)


def provenance(command_line: str, job: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The fields git_commit, git_dirty, code_sha256, command_line, env, host, hardware and scheduler of the metrics.

    `job`: what the scheduler says of the job around this process, where it was asked.
    """
    return {
        "git_commit": _git("rev-parse", "HEAD") or "unknown",
        "git_dirty": _dirty(),
        "code_sha256": code_sha256(*MEASURING),
        "command_line": scrub(command_line),
        "env": {"python_version": platform.python_version(), **_versions(), **variables()},
        "host": {"hostname": socket.gethostname(), "os": platform.platform()},
        "hardware": hardware(),
        "scheduler": scheduler_record(job or {}),
    }


def hardware() -> dict[str, Any]:
    """This machine's CPU, cores, memory, and what `inventory` finds; on a cluster each node says it of itself."""
    return {
        "cpu_model": cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_allowed": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        **inventory(),
    }


def variables() -> dict[str, str]:
    """Environment variables that results may repeat (VARIABLES), their values without paths of this machine."""
    return {
        name: scrub(value)
        for name, value in sorted(os.environ.items())
        if name in VARIABLES or name.startswith(VARIABLE_PREFIXES)
    }


def _versions() -> dict[str, str]:
    """Version of each of PACKAGES, as `<package>_version`; "unknown" where it is not installed."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[f"{package}_version"] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[f"{package}_version"] = "unknown"
    return versions


def _git(*arguments: str) -> str | None:
    """Output of git about this source tree; None where there is no repository or no git."""
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, cwd=Path(__file__).parent, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _dirty() -> bool | None:
    """Whether files that git tracks have changes that are in no commit; None where there is no repository or no git."""
    status = _git("status", "--porcelain", "--untracked-files=no")
    return None if status is None else bool(status)


def cpu_model() -> str:
    """The CPU's name as Linux gives it, else as Python does."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine() or sys.platform
