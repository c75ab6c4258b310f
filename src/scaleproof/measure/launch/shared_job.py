"""Several runs one after the other in one job, and what is kept of a job that was cut off."""

import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.command import existing_files
from scaleproof.ground.campaign.shared_jobs import SharedJob
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, write_json
from scaleproof.ground.records.kept_code import is_same_code
from scaleproof.ground.records.metrics import Failed, Printed, Timed
from scaleproof.ground.records.run import LAUNCHER, METRICS, STEPS, read_run
from scaleproof.measure.command.program import files_of_command
from scaleproof.measure.launch.run import LOST_CLASSES
from scaleproof.measure.machine.allocation import scheduler_record


def run_shared_job(
    job: SharedJob,
    folder_of: Callable[[Cell, int], Path],
    make_run: Callable[[Cell, int, Path], Timed | Failed],
    record: Path,
) -> None:
    """Make the runs of `job` that are missing, then write the file `record`.

    `folder_of(cell, repeat)`: where a run is published; `make_run(cell, repeat, folder)` makes it there. If the job has
    `same_nodes`, the runs of an unfinished round that were made on other nodes are made again as well.
    """
    here = _place(scheduler_record({}), socket.gethostname())
    for repeat, cells in job.rounds:
        folders = {cell.slug: folder_of(cell, repeat) for cell in cells}
        places = {cell.slug: _place_of_run(folders[cell.slug], cell) for cell in cells}
        is_whole = None not in places.values() and (len(set(places.values())) == 1 or not job.same_nodes)
        for cell in cells:
            place = places[cell.slug]
            if place is None or (job.same_nodes and not is_whole and place != here):
                make_run(cell, repeat, folders[cell.slug])  # its result is on disk
    write_json(record, {"job": job.name, "runs": [f"{cell.slug}/rep{repeat}" for cell, repeat in job.runs]})


def _place_of_run(folder: Path, cell: Cell) -> str | None:
    """Return where an earlier job with this code has made the run, else None.

    A failed run counts, unless a node was lost.
    """
    if not all((folder / name).is_file() for name in (METRICS, STEPS, LAUNCHER)):
        return None
    metrics = finished_run(folder, cell)
    if metrics is None or (metrics.failure and metrics.failure.failure_class in LOST_CLASSES):
        return None
    return _place(metrics.scheduler, metrics.host["hostname"])


def _place(scheduler: Mapping[str, str] | None, hostname: str) -> str:
    """Return a name for the nodes of a run or job. Of a queue that does not name them, no two jobs have the same."""
    of_queue = scheduler or {}
    return of_queue.get("nodelist") or of_queue.get("job_id") or hostname


def finished_run(folder: Path, cell: Cell) -> Timed | Failed | None:
    """Return the metrics of the run in `folder`; None if it is of another cell, program or code that was not kept."""
    if not (folder / METRICS).exists():
        return None
    try:
        metrics = read_run(folder).metrics
    except UserError:
        return None
    is_planned = metrics.fingerprint == cell.fingerprint
    is_current = is_planned and is_same_code(metrics.code_sha256, code_sha256(*MEASURING), folder)
    return metrics if is_current and not changed_files(metrics, cell, folder / METRICS) else None


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
