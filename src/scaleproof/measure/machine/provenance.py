"""Where a run was made, from which code, on which hardware: everything that can be known without starting it."""

import csv
import importlib.metadata
import os
import platform
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import psutil

from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.cores import available_cores
from scaleproof.ground.files import scrub
from scaleproof.measure.machine.allocation import run_command, scheduler_record

PACKAGES = ("scaleproof", "torch", "transformers", "deepspeed", "numpy", "tokenizers", "tiktoken", "snakemake")
# Packages that programs of others may use.
OF_PROGRAMS = ("torch", "transformers", "accelerate", "deepspeed", "lightning", "datasets", "numpy", "jax")
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
# These variables choose the instructions that products are made of: another set of them is several times slower.
OF_ARITHMETIC = ("MKL_", "DNNL_", "ONEDNN_", "ATEN_", "NVIDIA_TF32_OVERRIDE", "LD_PRELOAD")
VARIABLE_PREFIXES = ("NCCL_", "TORCH_NCCL_", "GLOO_", *OF_ARITHMETIC)
# Field of the record -> nvidia-smi's name of it.
GPU_FIELDS = {
    "index": "index",
    "name": "name",
    "uuid": "uuid",
    "driver": "driver_version",
    "memory": "memory.total",
    "clock_sm_max": "clocks.max.sm",
    "clock_sm_application": "clocks.applications.graphics",
    "power_cap": "power.limit",
    "power_cap_default": "power.default_limit",
    "ecc": "ecc.mode.current",
    "mig": "mig.mode.current",
    "bus": "pci.bus_id",
}
NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
# The first is for people who know their image's digest (docs/environments.md); the container's runtime sets the others.
CONTAINERS = ("SCALEPROOF_IMAGE", "APPTAINER_NAME", "SINGULARITY_NAME")


def provenance_fields(command_line: str, job: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the metrics' fields on code, command line, environment, host, hardware and scheduler (`job`)."""
    installed = versions_of(PACKAGES)
    versions = {f"{package}_version": installed.get(package, "unknown") for package in PACKAGES}
    return {
        **read_git_state(Path(__file__).parent),
        "code_sha256": code_sha256(*MEASURING),
        "command_line": scrub(command_line),
        "env": {"python_version": platform.python_version(), **versions, **variables_to_record()},
        "host": {"hostname": socket.gethostname(), "os": platform.platform()},
        "hardware": describe_hardware(),
        "scheduler": scheduler_record(job or {}),
    }


def describe_hardware() -> dict[str, Any]:
    """Return this node's CPU, cores and memory, and what its commands say of it."""
    return {
        "cpu_model": cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpu_allowed": available_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        **ask_node_commands(),
    }


def variables_to_record() -> dict[str, str]:
    """Return the environment variables that results may repeat (VARIABLES), without paths of this machine."""
    return {
        name: scrub(value)
        for name, value in sorted(os.environ.items())
        if name in VARIABLES or name.startswith(VARIABLE_PREFIXES)
    }


def versions_of(packages: Sequence[str]) -> dict[str, str]:
    """Return package -> version, for the `packages` that are installed."""
    versions = {}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def read_git_state(folder: Path | None = None) -> dict[str, Any]:
    """Return `git_commit` and `git_dirty` of the repository around `folder` (None: the working folder).

    Untracked files do not count. Without a repository, or git, they are "unknown" and None.
    """
    git = ("git", "-C", str(folder or Path.cwd()))
    # A line for the branch, then one for each change.
    status = run_command(*git, "status", "--porcelain", "--branch", "--untracked-files=no").splitlines()
    commit = run_command(*git, "rev-parse", "HEAD") or "unknown"
    return {"git_commit": commit, "git_dirty": len(status) > 1 if status else None}


def cpu_model() -> str:
    """Return the CPU's name as Linux gives it, else as Python does."""
    info = Path("/proc/cpuinfo")
    name = re.search(r"^model name[^:\n]*:(.*)", info.read_text(), re.MULTILINE) if info.exists() else None
    return name[1].strip() if name else platform.processor() or platform.machine() or sys.platform


def ask_node_commands() -> dict[str, Any]:
    """Return facts about this node that commands and variables tell: name -> fact, without unknown ones."""
    cuda_version = re.search(r"CUDA Version: ([0-9.]+)", run_command("nvidia-smi"))
    nccl_versions = list(versions_of(NCCL_PACKAGES).values())  # one such package was installed with torch
    images = [os.environ[name] for name in CONTAINERS if os.environ.get(name)]
    facts = {
        "gpus": ask_nvidia_smi(),
        "gpu_topology": parse_topology(run_command("nvidia-smi", "topo", "-m")),
        "cuda_driver": cuda_version[1] if cuda_version else None,
        "nccl": nccl_versions[0] if nccl_versions else None,
        "infiniband": parse_infiniband_ports(run_command("ibstat")),
        "networks": read_network_speeds(),
        "modules": [scrub(module) for module in os.environ.get("LOADEDMODULES", "").split(":") if module],
        "container": Path(images[0]).name if images else None,
    }
    return {name: fact for name, fact in facts.items() if fact}


def ask_nvidia_smi() -> list[dict[str, str]]:
    """Return nvidia-smi's description of each device: field -> value, without fields that this driver lacks.

    One unknown field (drivers drop them: `clocks.applications.*` is deprecated in 580) fails the whole query: then the
    fields are asked for one by one.
    """
    if text := _query_gpus(GPU_FIELDS):
        return parse_gpu_table(text, tuple(GPU_FIELDS))
    known_fields = {field: name for field, name in GPU_FIELDS.items() if _query_gpus({field: name})}
    return parse_gpu_table(_query_gpus(known_fields), tuple(known_fields)) if known_fields else []


def _query_gpus(fields: Mapping[str, str]) -> str:
    """Return nvidia-smi's table of `fields` (our name -> its name), a line for each device, "" where that fails."""
    return run_command("nvidia-smi", f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader")


def parse_gpu_table(text: str, fields: Sequence[str] = tuple(GPU_FIELDS)) -> list[dict[str, str]]:
    """Return the rows of nvidia-smi's table `text`: field -> value with unit. `fields`: our names of its columns."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [dict(zip(fields, map(str.strip, row), strict=True)) for row in rows if len(row) == len(fields)]


def parse_topology(text: str) -> list[str]:
    """Return the lines of the matrix in `text`, which `nvidia-smi topo -m` printed, without a terminal's colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    matrix, *_ = plain.split("\nLegend", 1)
    return [re.sub(r"\s+", " ", line).strip() for line in matrix.splitlines() if line.strip()]


def parse_link_matrix(text: str) -> list[list[str]]:
    """Return the matrix in `text`, which `nvidia-smi topo -m` printed: for each GPU its cells, without its name."""
    rows = [line.split() for line in parse_topology(text)]
    return [cells for name, *cells in rows if re.fullmatch(r"GPU\d+", name) and "X" in cells]  # the head has no X


def links_between(uuids: Sequence[str]) -> dict[tuple[int, int], str]:
    """Return the link between each two devices: their places in `uuids` -> NV18, PIX, SYS, .... {} if unknown."""
    # The row of a GPU in the matrix is its index.
    row_of_uuid = {device["uuid"]: int(device["index"]) for device in ask_nvidia_smi() if "uuid" in device}
    matrix = parse_link_matrix(run_command("nvidia-smi", "topo", "-m"))
    if len(matrix) < len(row_of_uuid) or not set(uuids) <= set(row_of_uuid):
        return {}
    rows = [row_of_uuid[uuid] for uuid in uuids]
    return {(a, b): matrix[rows[a]][rows[b]] for a, b in combinations(range(len(uuids)), 2)}


def parse_infiniband_ports(text: str) -> list[dict[str, str]]:
    """Return adapter, port, state, rate (Gb/s) and link layer of each port in `text`, which `ibstat` printed."""
    ports: list[dict[str, str]] = []
    adapter = ""
    for line in text.splitlines():
        if heading := re.match(r"CA '(\S+)'", line):
            adapter = heading[1]
        elif port := re.match(r"\s*Port (\d+):", line):
            ports.append({"adapter": adapter, "port": port[1]})
        elif ports and (value := re.match(r"\s*(State|Rate|Link layer): (.+)", line)):
            ports[-1][value[1].lower().replace(" ", "_")] = value[2].strip()
    return ports


def read_network_speeds(root: Path = Path("/sys/class/net")) -> dict[str, int]:
    """Return network interface -> speed in Mb/s, for those whose speed the system knows."""
    speeds = {}
    for path in sorted(root.glob("*/speed")):
        try:
            speed = int(path.read_text())
        except (OSError, ValueError):  # a link that is down, or has no speed
            continue
        if speed > 0:
            speeds[path.parent.name] = speed
    return speeds
