"""Runs that an earlier, interrupted job has finished: they are not made again."""

from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.metrics import Failed, Timed
from scaleproof.ground.records.run import METRICS, read_run


def finished_run(folder: Path, cell: Cell) -> Timed | Failed | None:
    """The metrics of the run in `folder` if it is one of this very cell, made by the code of today; else None."""
    if not (folder / METRICS).exists():
        return None
    try:
        metrics = read_run(folder).metrics
    except UserError:
        return None
    same = metrics.fingerprint == cell.fingerprint and metrics.code_sha256 == code_sha256(*MEASURING)
    return metrics if same else None
