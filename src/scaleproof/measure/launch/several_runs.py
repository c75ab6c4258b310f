"""Several runs one after the other in one job: A/B pairs, repeats; and what is kept of a job that was cut off."""

import random
from collections.abc import Callable
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Comparison
from scaleproof.ground.campaign.shared_jobs import SharedJob
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_json
from scaleproof.ground.records.metrics import Failed, Timed
from scaleproof.ground.records.run import LAUNCHER, METRICS, STEPS, read_run
from scaleproof.measure.launch.run import LOST

PAIRS = "pairs.json"


def plan(comparison: Comparison) -> list[dict]:
    """All pairs in the order in which they run: `null` for an A/A pair; `first` is the arm ("a" or "b") that starts.

    Null pairs are spread among the others, so that both see the same machine; the order depends on the name alone.
    """
    dice = random.Random(comparison.name)
    nulls = [False] * comparison.pairs + [True] * comparison.null_pairs
    dice.shuffle(nulls)
    # As many pairs start with A as with B (to within one): a machine that warms up favours neither.
    firsts: dict[bool, list[str]] = {}  # null pairs or others -> the arm that starts each of them
    for null, count in ((False, comparison.pairs), (True, comparison.null_pairs)):
        firsts[null] = ["b" if number % 2 else "a" for number in range(count)]
        dice.shuffle(firsts[null])
    return [{"pair": number, "null": null, "first": firsts[null].pop()} for number, null in enumerate(nulls, start=1)]


def first_pair(comparison: Comparison) -> int:
    """The number of the first pair of A and B, whose runs are witnessed."""
    return next(int(entry["pair"]) for entry in plan(comparison) if not entry["null"])


def run_pairs(
    comparison: Comparison, a: Cell, b: Cell, out: Path, run: Callable[[Cell, int, Path], Timed | Failed]
) -> list[dict]:
    """Make all pairs and write `out`/pairs.json; returns its entries, with the folders of both runs.

    `a`, `b`: the cells of the arms A and B; `run(cell, repeat, folder)` makes one run. A pair that an earlier,
    interrupted attempt has finished is kept as long as cell and code are the same.
    """
    entries = plan(comparison)
    for entry in entries:
        cells = {"a": a, "b": a if entry["null"] else b}
        folders = {arm: out / f"pair{entry['pair']}" / arm for arm in cells}
        if not all(_kept(folders[arm], cells[arm]) for arm in cells):
            order = ("a", "b") if entry["first"] == "a" else ("b", "a")
            for arm in order:
                run(cells[arm], entry["pair"], folders[arm])
        entry |= {arm: str(folder) for arm, folder in folders.items()}
        print(f"pair {entry['pair']} of {len(entries)}{' (A against A)' if entry['null'] else ''}: done", flush=True)
    write_json(out / PAIRS, {"comparison": comparison.name, "pairs": entries})
    return entries


def _kept(folder: Path, cell: Cell) -> bool:
    """Whether the run of an arm is there from an earlier job, with numbers."""
    metrics = finished_run(folder, cell)
    return metrics is not None and metrics.status == "ok"


def run_shared_job(
    job: SharedJob,
    folder_of: Callable[[Cell, int], Path],
    run: Callable[[Cell, int, Path], Timed | Failed],
    record: Path,
) -> int:
    """Make the runs of `job` that are not there, then write the file `record`; returns how many were made.

    `folder_of(cell, repeat)`: where a run is published; `run(cell, repeat, folder)` makes one. Runs of an earlier job
    that was cut off are kept as long as cell and code are the same, failed ones among them; where runs must share their
    nodes, whole rounds are.
    """
    made = 0
    for repeat, cells in job.rounds:
        folders = {cell.slug: folder_of(cell, repeat) for cell in cells}
        missing = [cell for cell in cells if not _is_kept(folders[cell.slug], cell)]
        if missing and job.same_nodes:
            missing = list(cells)
            for folder in folders.values():  # a job that ends within this round leaves no round of two jobs
                (folder / METRICS).unlink(missing_ok=True)
        for cell in missing:
            print(f"{cell.slug}/rep{repeat}", flush=True)
            run(cell, repeat, folders[cell.slug])
            made += 1
    write_json(record, {"job": job.name, "runs": [f"{cell.slug}/rep{repeat}" for cell, repeat in job.runs]})
    return made


def _is_kept(folder: Path, cell: Cell) -> bool:
    """Whether the run is there from an earlier job: finished or failed by itself, not for a node that was lost."""
    if not all((folder / name).is_file() for name in (METRICS, STEPS, LAUNCHER)):
        return False
    metrics = finished_run(folder, cell)
    return metrics is not None and not (metrics.failure and metrics.failure.failure_class in LOST)


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
