"""Cells with more processes than this machine has cores: they run, but what they show is no scaling."""

from collections.abc import Iterable, Sequence

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import shortened
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, usable_gpus


def shares_cores(cell: Cell, gpus: Sequence[Gpu]) -> bool:
    """Return whether the processes of a cell that can run here are more than this machine's cores allow."""
    execution = cell.execution
    cores = execution.geometry.devices_per_node * execution.threads_per_device
    return not gpus and cores > available_cores()


def shared_cores_text(cells: Iterable[Cell]) -> str:
    """Return a line on those of the `cells` that can run on this machine, and share its cores; "" for none."""
    gpus, _ = usable_gpus(cuda_devices)
    slugs = [cell.slug for cell in cells if shares_cores(cell, gpus) and not unsupported_reason(cell, gpus)]
    names = shortened(", ".join(sorted(slugs)))
    return f"these share {available_cores()} cores, which is no scaling: {names}" if slugs else ""
