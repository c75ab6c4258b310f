"""Runs that were made together, put where a run of its own would be."""

import shutil
from pathlib import Path

from scalebench.record.run import COMPLETE, LAUNCHER, LOG, METRICS, STEPS


def adopt(made: Path, out: Path) -> None:
    """Copy the run in `made` to `out`, its metrics last: a run is there as a whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    for name in (METRICS, COMPLETE):
        (out / name).unlink(missing_ok=True)
    for name in (LOG, STEPS, LAUNCHER, COMPLETE, METRICS):
        if (made / name).exists():
            part = out / f".{name}.part"
            shutil.copyfile(made / name, part)
            part.replace(out / name)
