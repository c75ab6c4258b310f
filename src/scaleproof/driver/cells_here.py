"""What a cell is on this machine: one that cannot run, or that has more processes than cores, which is no scaling."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import shortened
from scaleproof.measure.command.program import absent_program
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, usable_gpus


def reason_here(cell: Cell, gpus: Sequence[Gpu]) -> str | None:
    """Return why a cell cannot run on this machine with these `gpus`; None if it can."""
    return unsupported_reason(cell, gpus) or (absent_program(cell.words) if cell.command else None)


def shares_cores(cell: Cell, gpus: Sequence[Gpu]) -> bool:
    """Return whether the processes of a cell that can run here are more than this machine's cores allow."""
    execution = cell.execution
    cores = execution.geometry.devices_per_node * execution.threads_per_device
    return not gpus and cores > available_cores()


def doubts_of_cells_here(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a line on those of the `cells` that share this machine's cores, and one for each reason that stops some."""
    gpus, _ = usable_gpus(cuda_devices)
    sharing = []
    slugs_by_reason = defaultdict(list)
    for cell in cells:
        if reason := reason_here(cell, gpus):
            slugs_by_reason[reason].append(cell.slug)
        elif shares_cores(cell, gpus):
            sharing.append(cell.slug)
    if sharing:
        yield f"these share {available_cores()} cores, which is no scaling: {shortened(', '.join(sorted(sharing)))}"
    for reason, slugs in slugs_by_reason.items():
        yield f"these cannot run here (each is a row that says why): {reason}: {shortened(', '.join(sorted(slugs)))}"
