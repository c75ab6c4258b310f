"""Runs of the stage same_allocation, put where a run of its own would be."""

import shutil
from pathlib import Path

from scalebench.errors import UserError
from scalebench.files import whole_file
from scalebench.record.run import COMPLETE, LAUNCHER, LOG, METRICS, STEPS


def copy(source: Path, out: Path) -> None:
    """Copy the run in `source` to `out`, its metrics last: a run is there as a whole or not at all.

    Raises UserError where there is no run in `source`.
    """
    if not (source / METRICS).is_file():
        raise UserError(f"{source / METRICS}: no such file; there is no run in this folder")
    out.mkdir(parents=True, exist_ok=True)
    for name in (METRICS, COMPLETE):
        (out / name).unlink(missing_ok=True)
    for name in (LOG, STEPS, LAUNCHER, COMPLETE, METRICS):
        if (source / name).exists():
            with whole_file(out / name) as part:
                shutil.copyfile(source / name, part)
