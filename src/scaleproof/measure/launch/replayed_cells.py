"""Which cell stands for all that train one workload, where it is replayed. Imports no numpy, as workflows read it."""

from collections.abc import Sequence

from scaleproof.ground.campaign.cells import Cell
from scaleproof.measure.reference.schema import workload_name


def cells_by_workload(cells: Sequence[Cell]) -> dict[str, Cell]:
    """Return the workloads that are replayed: name -> the cell that trains it on the fewest devices."""
    trained = [cell for cell in cells if cell.command is None]
    largest_first = sorted(trained, key=lambda cell: cell.execution.geometry.n_devices, reverse=True)
    return {workload_name(cell.config): cell for cell in largest_first}  # of equal names the last one stays
