"""`python -m scaleproof.driver.cluster.compute_node TOKEN`: what a node reports to `scaleproof cluster check`."""

import json
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from scaleproof.measure.machine.allocation import host_names
from scaleproof.measure.machine.applicable import arch_problem, build_problem
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, torch_cuda_version, usable_gpus
from scaleproof.measure.machine.network import interface_to, short_host


def main(token: Path) -> None:
    """Print what this node is as one line of JSON: versions, devices, network.

    `token`: a file whose text is its name. Where it can be read here, a file of this node is written beside it, which
    shows that the folder is shared.
    """
    here = short_host(socket.gethostname())
    reads = token.is_file() and token.read_text() == token.name
    if reads:
        token.with_name(f"{token.name}.{here}").touch()
    torch, error = _torch()
    gpus, lost = usable_gpus(cuda_devices)
    report = {
        "host": here,
        "reads": reads,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "torch": torch,
        "error": error,
        "devices": [gpu.name for gpu in gpus],
        "device_problem": lost or (device_problem(gpus) if torch else None),
        "interface": interface_to(host_names(os.environ.get("SLURM_JOB_NODELIST", here))),
    }
    sys.stdout.write(json.dumps(report) + "\n")  # in one piece: other nodes write to the same pipe


def device_problem(gpus: Sequence[Gpu]) -> str | None:
    """Why torch cannot use this node's devices; None where it can, and where none is visible."""
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


def _torch() -> tuple[str | None, str]:
    """Return torch's version and "", or None and why torch cannot be imported: missing libraries show only then."""
    from importlib import import_module

    try:
        return str(import_module("torch").__version__), ""
    except Exception as error:
        return None, " ".join(str(error).split())[:200]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
