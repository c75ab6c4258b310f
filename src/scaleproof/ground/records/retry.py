"""Removing runs, so that Snakemake runs them again."""

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import PATH_FAULTS
from scaleproof.ground.json_faults import NEWER, read_part
from scaleproof.ground.records.run import CAPTURE, MANIFEST, has_record, read_run

ALL = "all"  # a word for all cells
# The files of a campaign that are computed from its runs, and made again. All others stay: measurements, forecasts (a
# forecast that is sealed after its runs proves nothing), and whatever anybody has put there.
COMPUTED = (
    *("tables", "charts", "looks", "runs.csv", "cells.csv", "losses.csv", "findings.json", "scaling_report.json"),
    *("comparison.json", "traces.json", "waterfall.json", "forecast.json", "claims.json"),
    *("report.html", "report.pdf", MANIFEST, f"{MANIFEST}.sig"),
)


def remove_failed(campaign: Path, runs: list[Path], anyway: bool = False, traces: Sequence[Path] = ()) -> list[Path]:
    """Remove the folders in `runs` and `traces` whose run or trace failed or is damaged. Return these folders.

    `campaign`: the folder of its results; `anyway`: remove sound folders, too. Everything computed from them goes as
    well, because Snakemake does not miss an input as long as the file made from it is there.
    """
    made_runs = [folder for folder in runs if has_record(folder)]
    made_traces = [folder for folder in traces if (folder / CAPTURE).exists()]
    removed = [folder for folder in made_runs if anyway or not _has_sound_run(folder)]
    removed += [folder for folder in made_traces if anyway or not _has_sound_trace(folder)]
    if not removed:
        return []

    for folder in removed:
        if folder.is_symlink():
            raise UserError(f"{folder} is a link: nothing was removed. Remove the link, or what it leads to, by hand")
        if not os.access(folder.parent, os.W_OK):
            if os.statvfs(folder.parent).f_flag & os.ST_RDONLY:
                raise UserError(f"{folder.parent}{PATH_FAULTS[errno.EROFS]}: nothing was removed")
            raise UserError(
                f"{folder.parent} is closed to this user's changes: nothing was removed; chmod u+w opens it"
            )
    for folder in removed:
        _remove(folder)
    # Without its record, a job of several runs is sent once more for the missing runs.
    names = {f"{folder.parent.name}/{folder.name}" for folder in removed}
    for record in campaign.glob("together/*.json"):
        if _has_made_one_of(record, names):
            record.unlink()
    for path in (campaign / name for name in COMPUTED):
        if path.is_dir():
            _remove(path)
        else:
            path.unlink(missing_ok=True)
    return removed


def _remove(folder: Path) -> None:
    """Remove a folder. Raises OSError with its path: shutil's own error may name a file inside."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from None


def _has_made_one_of(record: Path, runs: set[str]) -> bool:
    """Return whether one of `runs` was made by the job of this record. True where the record is damaged."""
    return not read_part(record, lambda content: runs.isdisjoint(content["runs"]))


def _has_sound_trace(folder: Path) -> bool:
    """Return whether the folder holds a trace that was taken without a fault."""
    return read_part(folder / CAPTURE, lambda capture: str(capture["status"])) == "ok"


def _has_sound_run(folder: Path) -> bool:
    """Return whether the folder holds a measured run, with the series that belongs to it."""
    try:
        run = read_run(folder)
        return run.ok and len(run.steps) > 0
    except (UserError, OSError, ValueError) as error:
        return NEWER in str(error)  # it may be sound, and this version cannot tell
