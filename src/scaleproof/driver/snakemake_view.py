"""Snakemake, started by a command of ours: for files, or for what it sees of results."""

import contextlib
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import scrub, write_atomic, write_json
from scaleproof.ground.records.failed_runs import EXIT_CODE as FAILED_RUNS
from scaleproof.ground.snakemake_command import NOTE, ON_CLUSTER, PROFILE, SNAKEFILE

HEADING = "output_file\tdate\trule\tlog-file(s)\tstatus\tplan"  # of `snakemake --summary`
SNAKEFILES = ("Snakefile", "workflow/Snakefile")
OWN_SNAKEFILE = "from scaleproof import workflow_file\n\n\ninclude: workflow_file()\n"
HERE = ("--cores", "all")
GRACE_S = 5  # between asking it to end and ending it; a Snakemake that is ended leaves its lock
LAST_CHARACTERS = 1500  # of what Snakemake says when it cannot
FAILED_LOG = re.compile(r"^ *log: (\S+) \(check log file\(s\) for error details\)$", re.MULTILINE)


class OutOfTime(Exception):
    """Snakemake was ended, as it took longer than it may."""


@dataclass(frozen=True)
class Seen:
    """An output of the workflow: whether Snakemake would make it again, and whether it remembers having made it."""

    rule: str  # as the workflow that uses this one as a module calls it
    pending: bool
    recorded: bool


def ask_snakemake(targets: Collection[Path]) -> dict[Path, Seen] | None:
    """Return how Snakemake sees each file behind `targets`: its rule, and whether it is recorded and made again.

    None where the workflow in this folder does not make `targets`, or Snakemake fails.
    """
    here = Path.cwd()
    is_below = all(target.absolute().is_relative_to(here) for target in targets)
    if not is_below or not _has_snakefile():
        return None
    summary = _snakemake("--summary", "--", *map(str, targets))
    if summary.returncode or HEADING not in summary.stdout:
        return None
    _, _, table = summary.stdout.partition(HEADING)
    rows = [line.split("\t") for line in table.splitlines() if line.count("\t") == HEADING.count("\t")]
    return {Path(path): Seen(rule, plan == "update pending", log != "-") for path, _, rule, log, _, plan in rows}


def _has_snakefile() -> bool:
    """Return whether this folder has a workflow, ours or another, that `snakemake` finds."""
    return any(Path(name).is_file() for name in SNAKEFILES)


def mark_up_to_date(targets: Collection[Path]) -> None:
    """Have Snakemake note that `targets` and what they were made from are up to date. Raises UserError."""
    _run_or_raise("--cores", "1", "--touch", "--force", "--", *map(str, targets))


def make_files(targets: Collection[Path]) -> None:
    """Have Snakemake make those of `targets` that are missing or out of date. Raises UserError."""
    _run_or_raise(*HERE, "--", *map(str, targets))


def run_snakemake(
    campaign: Path, targets: Sequence[Path], options: Sequence[str] = HERE, limit_s: float | None = None
) -> None:
    """Run this package's workflow for `targets`, files of the campaign. Raises UserError where it fails.

    A folder without a Snakefile gets one that includes it, so that `snakemake`, as results advise, works there.
    If Ctrl-C stops it, prints that the finished runs stay. Raises OutOfTime after `limit_s` seconds.
    """
    # A job that an earlier call ended at its limit is made again: its files count as incomplete.
    if not _has_snakefile():
        write_atomic(Path(SNAKEFILES[0]), OWN_SNAKEFILE)
    words = ("--snakefile", str(SNAKEFILE), "--rerun-incomplete", *options, "--", *map(str, targets))
    try:
        _run_or_raise(*words, of=f"{campaign}: ", limit_s=limit_s)
    except KeyboardInterrupt:
        print(f"scaleproof: {campaign} and its finished runs stay; the same command goes on", file=sys.stderr)
        raise


def note_options(campaign: Path, profile: str | None, executor: str, jobs: object) -> None:
    """Write the Snakemake options by which jobs are sent into the folder `campaign`. `profile`: as Snakemake has it."""
    if profile:
        options = f"--profile {_quote_path(scrub(profile))}"
    elif executor in (PROFILE, "scaleproof"):  # that of the profile
        options = ON_CLUSTER
    else:
        options = f"--executor {executor} --jobs {jobs}"
    with contextlib.suppress(OSError):  # advice, which must not stop a campaign
        write_json(campaign / NOTE, {"options": options})


def _quote_path(path: str) -> str:
    """Return `path` quoted for a shell; a ~ in front, which is a home folder only outside of quotes, stays outside."""
    home, rest = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + shlex.quote(rest)


def _last_words_of_failed_stage(output: str) -> str | None:
    """Return the end of the first failed stage's log, named in Snakemake's `output`; None without one."""
    for log in map(Path, FAILED_LOG.findall(output)):
        if log.is_file() and (text := log.read_text("utf-8", "replace").strip()):
            _, own, message = f"\n{text}".rpartition("\nscaleproof: ")
            return f"{message if own else text[-LAST_CHARACTERS:]}\n  (log: {log})"
    return None


def _run_or_raise(*words: str, of: str = "", limit_s: float | None = None) -> None:
    """Run Snakemake. Raises UserError, its text after `of`, where a stage fails; failed runs are rows of results."""
    done = _snakemake(*words, limit_s=limit_s)
    if done.returncode not in (0, FAILED_RUNS):
        output = done.stdout + done.stderr
        if "LockException" in output:
            raise UserError(f"{of}Snakemake runs here, or was killed: then type snakemake -s {SNAKEFILE} --unlock")
        banner = f"snakemake {' '.join(words[:5])} ended with exit code {done.returncode}:\n"
        output = output.rpartition("__main__.py: error: ")[2]  # without how all of its options are used
        raise UserError(of + (_last_words_of_failed_stage(output) or banner + output.strip()[-LAST_CHARACTERS:]))


def _snakemake(*words: str, limit_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run Snakemake. On Ctrl-C, or where we alone are told to stop, end it with all that it has started.

    So after `limit_s` seconds, without the lock that a killed Snakemake leaves; then raises OutOfTime.
    """
    command = [sys.executable, "-m", "snakemake", *words]
    pipe, nobody = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nobody, stdout=pipe, stderr=pipe, text=True, errors="replace")
    try:
        output, errors = process.communicate(timeout=limit_s)
    except (KeyboardInterrupt, subprocess.TimeoutExpired) as stop:
        was_killed = False
        with contextlib.suppress(psutil.Error):
            was_killed = _end_with_children(psutil.Process(process.pid))
        if isinstance(stop, KeyboardInterrupt):
            raise
        if was_killed:
            _snakemake("--unlock", *words)
        raise OutOfTime from None
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _end_with_children(process: psutil.Process) -> bool:
    """End `process` and all its children: SIGINT first, as Ctrl-C may not have reached them, SIGKILL after GRACE_S.

    Return whether `process` itself had to be killed.
    """
    family = [process, *process.children(recursive=True)]
    was_killed = False
    for number in (signal.SIGINT, signal.SIGKILL):
        was_killed = number == signal.SIGKILL and process in family
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(number)
        _, family = psutil.wait_procs(family, GRACE_S)
    return was_killed
