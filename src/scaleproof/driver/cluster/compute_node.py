"""`python -m scaleproof.driver.cluster.compute_node TOKEN`: the report of a node to `scaleproof cluster check`."""

import json
import os
import socket
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from scaleproof.measure.machine.allocation import expand_node_list
from scaleproof.measure.machine.applicable import arch_problem, build_problem
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, torch_cuda_version, usable_gpus
from scaleproof.measure.machine.network import interface_to, short_host


def report_node(token: Path) -> None:
    """Print a report on this node, as one line of JSON: versions, devices, network.

    `token`: a file of the login node whose text is its own name. If it can be read here, the file TOKEN.HOST is made
    beside it, which shows the login node that both nodes share the folder.
    """
    host = short_host(socket.gethostname())
    can_read_token = token.is_file() and token.read_text() == token.name
    if can_read_token:
        token.with_name(f"{token.name}.{host}").touch()

    torch_version, torch_error = _torch_version()
    gpus, problem = usable_gpus(cuda_devices)
    if not problem and torch_version:
        problem = device_problem(gpus) or ""
    report = {
        "host": host,
        "reads": can_read_token,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "torch": torch_version,
        "error": torch_error,
        "devices": [gpu.name for gpu in gpus],
        "device_problem": problem or None,
        "interface": interface_to(expand_node_list(os.environ.get("SLURM_JOB_NODELIST", host))),
    }
    sys.stdout.write(json.dumps(report) + "\n")  # a single write, as other nodes write to the same pipe


def device_problem(gpus: Sequence[Gpu]) -> str | None:
    """Return why torch cannot use this node's GPUs. Returns None where it can, or where no GPU is visible."""
    if not gpus:
        return None
    cuda = import_module("torch").cuda
    oldest = min(gpus, key=lambda gpu: gpu.capability)
    if problem := build_problem(oldest, torch_cuda_version()):
        return problem
    if not cuda.is_available():
        return f"torch cannot use {oldest.name}: cuda.is_available() is false"
    return arch_problem(oldest.name, oldest.capability, cuda.get_arch_list())


def _torch_version() -> tuple[str | None, str]:
    """Import torch, as a library of it may be missing; return its version and "", else None and the error."""
    try:
        return str(import_module("torch").__version__), ""
    except Exception as error:
        return None, " ".join(str(error).split())[:200]


if __name__ == "__main__":
    report_node(Path(sys.argv[1]))
