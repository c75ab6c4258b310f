"""`python -m scaleproof.driver.cluster.compute_node TOKEN`: what a node reports to `scaleproof cluster check`."""

import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from scaleproof.measure.machine.allocation import expand_node_list
from scaleproof.measure.machine.applicable import arch_problem, build_problem
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, torch_cuda_version, usable_gpus
from scaleproof.measure.machine.network import interface_to, short_host


def report_node(token: Path) -> None:
    """Print one line of JSON on this node: versions, devices, network.

    `token`: a file whose text is its own name. A node that can read it writes a file beside it, which shows the driver
    that the folder is shared.
    """
    here = short_host(socket.gethostname())
    reads = token.is_file() and token.read_text() == token.name
    if reads:
        token.with_name(f"{token.name}.{here}").touch()
    torch, error = _torch_version()
    gpus, lost = usable_gpus(cuda_devices)
    report = {
        "host": here,
        "reads": reads,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "torch": torch,
        "error": error,
        "devices": [gpu.name for gpu in gpus],
        "device_problem": lost or (device_problem(gpus) if torch else None),
        "interface": interface_to(expand_node_list(os.environ.get("SLURM_JOB_NODELIST", here))),
    }
    sys.stdout.write(json.dumps(report) + "\n")  # in one piece: other nodes write to the same pipe


def device_problem(gpus: Sequence[Gpu]) -> str | None:
    """Return why torch cannot use this node's devices; None where it can, or none is visible."""
    from importlib import import_module

    if not gpus:
        return None
    cuda = import_module("torch").cuda
    oldest = min(gpus, key=lambda gpu: gpu.capability)
    problem = build_problem(oldest, torch_cuda_version())
    if problem:
        return problem
    if not cuda.is_available():
        return f"torch cannot use {oldest.name}: cuda.is_available() is false"
    return arch_problem(oldest.name, oldest.capability, cuda.get_arch_list())


def _torch_version() -> tuple[str | None, str]:
    """Return ("2.9.1", ""), or (None, error) where importing torch fails: only an import shows missing libraries."""
    from importlib import import_module

    try:
        return str(import_module("torch").__version__), ""
    except Exception as error:
        return None, " ".join(str(error).split())[:200]


if __name__ == "__main__":
    report_node(Path(sys.argv[1]))
