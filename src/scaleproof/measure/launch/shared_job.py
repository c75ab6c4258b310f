"""Several runs one after the other in one job, and what is kept of a job that was cut off."""

from collections.abc import Callable
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.command import existing_files
from scaleproof.ground.campaign.shared_jobs import SharedJob
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, write_json
from scaleproof.ground.records.metrics import Failed, Printed, Timed
from scaleproof.ground.records.run import LAUNCHER, METRICS, STEPS, read_run
from scaleproof.measure.command.program import files_of_command
from scaleproof.measure.launch.run import LOST_CLASSES


def run_shared_job(
    job: SharedJob,
    folder_of: Callable[[Cell, int], Path],
    make_run: Callable[[Cell, int, Path], Timed | Failed],
    record: Path,
) -> None:
    """Make the runs of `job` that are missing, then write the file `record`.

    `folder_of(cell, repeat)`: where a run is published; `make_run(cell, repeat, folder)` makes it there. If the job has
    `same_nodes`, a round that is not complete is made again as a whole.
    """
    for repeat, cells in job.rounds:
        folders = {cell.slug: folder_of(cell, repeat) for cell in cells}
        missing = [cell for cell in cells if not _is_made(folders[cell.slug], cell)]
        if missing and job.same_nodes:
            missing = list(cells)
            # If this job is cut off as well, the round must not have runs of it beside runs of an earlier job.
            for folder in folders.values():
                (folder / METRICS).unlink(missing_ok=True)
        for cell in missing:
            make_run(cell, repeat, folders[cell.slug])  # its result is on disk
    write_json(record, {"job": job.name, "runs": [f"{cell.slug}/rep{repeat}" for cell, repeat in job.runs]})


def _is_made(folder: Path, cell: Cell) -> bool:
    """Return whether an earlier job with this code has made the run. A failed run counts, unless a node was lost."""
    if not all((folder / name).is_file() for name in (METRICS, STEPS, LAUNCHER)):
        return False
    metrics = finished_run(folder, cell)
    return metrics is not None and not (metrics.failure and metrics.failure.failure_class in LOST_CLASSES)


def finished_run(folder: Path, cell: Cell) -> Timed | Failed | None:
    """Return the metrics of the run in `folder` if it is of this very cell, code and program, else None."""
    if not (folder / METRICS).exists():
        return None
    try:
        metrics = read_run(folder).metrics
    except UserError:
        return None
    is_same = metrics.fingerprint == cell.fingerprint and metrics.code_sha256 == code_sha256(*MEASURING)
    return metrics if is_same and not changed_files(metrics, cell, folder / METRICS) else None


def changed_files(
    metrics: Timed | Failed, cell: Cell, record: Path, sha256: Callable[[Path], str] = sha256_of
) -> list[str]:
    """Return the files of a cell's command that are not as they were in its run. A cell without a command has none.

    If the run failed, these are the files newer than `record`, the file of the run's metrics. `sha256`: the function
    that hashes a file.
    """
    if isinstance(metrics, Printed):
        files = files_of_command(cell.words, sha256)
        recorded_files = metrics.program.files
        return [name for name, recorded in recorded_files.items() if files.get(name, recorded) != recorded]
    written = record.stat().st_mtime
    return [word for word in existing_files(cell.words) if Path(word).stat().st_mtime > written]
