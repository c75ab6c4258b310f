"""The command by which a campaign goes on: with the profile by which it was run, wherever it is asked for.

Without it, the advice below the results of a cluster would measure further repeats on the login node.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_regular, scrub

STARTED_AS = "SCALEPROOF_SNAKEMAKE"  # how the Snakemake around this process was started: "--profile slurm"
NOTE = "logs/snakemake.json"  # of a campaign's folder: the same, of the last Snakemake that sent its jobs elsewhere
HERE, SLURM = "--cores 2", "--profile slurm"


def snakemake_command(target: Path | str) -> str:
    """The command that makes `target`, a file below results/."""
    return f"snakemake {options_for(Path(target))} {target}"


def started_as(profiles: Sequence[str], executor: str | None, jobs: object) -> str | None:
    """The options of a Snakemake that sends its jobs elsewhere; None where it runs them on this machine."""
    if not executor or executor == "local":
        return None
    named = [f"--profile {_quoted(scrub(profile))}" for profile in profiles]
    return " ".join(named) or f"--executor {executor} --jobs {jobs}"


def _quoted(path: str) -> str:
    """As a shell takes it: ~ is a home folder only outside of quotes."""
    home, rest = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + shlex.quote(rest)


def options_for(target: Path) -> str:
    """Snakemake's options: of the campaign's runs, else of the Snakemake around this process, else of one machine."""
    for folder in (target, *target.parents):
        if options := _noted(folder) or _recorded(folder):
            return options
    return os.environ.get(STARTED_AS) or HERE


def _noted(campaign: Path) -> str | None:
    return _read(campaign / NOTE, lambda note: str(note["options"]))


def _recorded(campaign: Path) -> str | None:
    """What the first readable record of a run says; None where it was made without Slurm."""
    for path in (campaign / "runs").glob("*/*/training_metrics.json"):
        kind = _read(path, lambda record: str((record["scheduler"] or {}).get("type")))
        if kind:
            return options_of_runs([{"type": kind}])
    return None


def options_of_runs(schedulers: Iterable[Mapping[str, Any] | None]) -> str | None:
    """Snakemake's options by what the records of runs say of their scheduler; None where there was none."""
    return SLURM if any(scheduler and scheduler.get("type") == "slurm" for scheduler in schedulers) else None


def _read(path: Path, part: Callable[[Any], str]) -> str | None:
    """Part of a JSON file; None where it is missing or damaged, which whoever needs the file says."""
    try:
        return part(json.loads(read_regular(path)))
    except (OSError, UserError, ValueError, LookupError, TypeError, AttributeError):
        return None
