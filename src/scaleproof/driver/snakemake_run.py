"""Snakemake, started by a command of ours for files of one campaign."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scaleproof.ground.code_dependencies import PACKAGE
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.failed_runs import EXIT_CODE as FAILED_RUNS

SNAKEFILE = (PACKAGE / "workflow_files/workflow/Snakefile").resolve()
HERE = ("--cores", "all")
LAST_LINES = 12  # that are shown where it fails


def run_snakemake(campaign: Path, targets: Sequence[Path], options: Sequence[str] = HERE) -> None:
    """Run Snakemake for `targets`, files of the campaign. Raises UserError, with its last lines, where it fails."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(SNAKEFILE), *options, "--quiet", "all", "--"]
    done = subprocess.run([*command, *map(str, targets)], capture_output=True, text=True, errors="replace")
    if done.returncode not in (0, FAILED_RUNS):
        last = "\n".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
        raise UserError(f"{campaign}: snakemake ended with exit code {done.returncode}:\n{last}")
