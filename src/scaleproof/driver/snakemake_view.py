"""Snakemake, started by a command of ours: for files, or for what it sees of results."""

import base64
import contextlib
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

from scaleproof.driver.cluster.profile import check_profile_of_call
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import scrub, write_atomic, write_json
from scaleproof.ground.records.failed_runs import EXIT_CODE as FAILED_RUNS
from scaleproof.ground.snakemake_command import NOTE, ON_CLUSTER, PROFILE, SNAKEFILE

HEADING = "output_file\tdate\trule\tlog-file(s)\tstatus\tplan"  # of `snakemake --summary`
INCOMPLETE = Path(".snakemake/incomplete")  # Snakemake's marks of files that it has begun to make
SNAKEFILES = ("Snakefile", "workflow/Snakefile")
OWN_SNAKEFILE = "from scaleproof import workflow_file\n\n\ninclude: workflow_file()\n"
HERE = ("--cores", "all")
GRACE_S = 5  # between asking Snakemake to end and killing it; a Snakemake that is killed leaves its lock
LAST_CHARACTERS = 1500  # of the output of a Snakemake that fails
FAILED_LOG = re.compile(r"^ *log: (\S+) \(check log file\(s\) for error details\)$", re.MULTILINE)

IMPORT_FAULT = re.compile(r"(?:^|\()(?:ImportError|ModuleNotFoundError): (.*?)\)?$", re.MULTILINE)
PROTECTED = re.compile(r"^ProtectedOutputException .*?affected files:\s+(\S.*?)$", re.MULTILINE | re.DOTALL)
FILE_FAULT = re.compile(r"^\w*Error: \[Errno (\d+)\] ([^:\n]+): '([^'\n]+)'$", re.MULTILINE)


class OutOfTime(Exception):
    """Snakemake was ended because it took longer than it may."""


@dataclass(frozen=True)
class Seen:
    """Snakemake's view of an output of the workflow."""

    rule: str  # its name in the workflow that uses this one as a module
    pending: bool  # whether Snakemake would make it again
    recorded: bool  # whether Snakemake remembers having made it, or having begun to
    cut_off: bool = False  # whether Snakemake ended before its job was done: it makes the file again, as incomplete
    cause: str = ""  # why it is out of date, in Snakemake's words: "updated input files"; "" where others cause that


def ask_snakemake(targets: Collection[Path]) -> dict[Path, Seen] | None:
    """Ask Snakemake how it sees `targets` and what they need; None where no rule makes them, or it fails."""
    here = Path.cwd()
    is_below = all(target.absolute().is_relative_to(here) for target in targets)
    if not is_below or not _has_snakefile():
        return None
    summary = _snakemake("--summary", "--", *map(str, targets))
    if summary.returncode or HEADING not in summary.stdout:
        return None
    _, _, table = summary.stdout.partition(HEADING)
    rows = [line.split("\t") for line in table.splitlines() if line.count("\t") == HEADING.count("\t")]
    incomplete = incomplete_files()  # of which the summary says nothing
    view = {}
    for path, _, rule, log, status, plan in rows:  # log "-": Snakemake has no record of the file
        cut_off = Path(path) in incomplete and Path(path).is_file()
        is_pending = plan == "update pending" or cut_off
        cause = status if is_pending and status != "ok" else ""
        view[Path(path)] = Seen(rule, is_pending, recorded=log != "-" or cut_off, cut_off=cut_off, cause=cause)
    return view


def incomplete_files() -> set[Path]:
    """Return the files whose jobs Snakemake has begun and not seen end: its marks are named after them in base64."""
    # A long name is cut into parts; all but the last are folders, with "@" before them.
    names = ("".join(mark.relative_to(INCOMPLETE).parts).replace("@", "") for mark in INCOMPLETE.rglob("*"))
    files = set()
    for name in names:
        with contextlib.suppress(ValueError):  # a folder of parts, or a file that is no mark
            files.add(Path(base64.urlsafe_b64decode(name).decode()))
    return files


def _has_snakefile() -> bool:
    """Return whether `snakemake` finds a workflow in this folder, ours or another."""
    return any(Path(name).is_file() for name in SNAKEFILES)


def mark_up_to_date(targets: Collection[Path]) -> None:
    """Have Snakemake note that `targets` and their inputs are up to date. Raises UserError."""
    _run_or_raise("--cores", "1", "--touch", "--force", "--", *map(str, targets))


def make_files(targets: Collection[Path]) -> None:
    """Have Snakemake make the `targets` that are missing or out of date. Raises UserError."""
    _run_or_raise(*HERE, "--", *map(str, targets))


def run_snakemake(
    campaign: Path, targets: Sequence[Path], options: Sequence[str] = HERE, limit_s: float | None = None
) -> None:
    """Run this package's workflow for `targets`, files of the campaign. Raises UserError where it fails.

    A folder without a Snakefile gets one that includes the workflow, so that `snakemake`, as results advise, works
    there. On Ctrl-C, prints that the finished runs stay. Raises OutOfTime after `limit_s` seconds.
    """
    check_profile_of_call(options)
    if not _has_snakefile():
        write_atomic(Path(SNAKEFILES[0]), OWN_SNAKEFILE)
    # --rerun-incomplete: a job that an earlier call ended at its limit is made again.
    words = ("--snakefile", str(SNAKEFILE), "--rerun-incomplete", *options, "--", *map(str, targets))
    try:
        _run_or_raise(*words, of=f"{campaign}: ", limit_s=limit_s)
    except KeyboardInterrupt:
        print(f"scaleproof: {campaign} and its finished runs stay; the same command goes on", file=sys.stderr)
        raise


def note_options(campaign: Path, profile: str | None, executor: str, jobs: object) -> None:
    """Write the Snakemake options by which jobs are sent, into the folder `campaign`. `profile`: its path or name."""
    if profile:
        options = f"--profile {_quote_path(scrub(profile))}"
    elif executor in (PROFILE, "scaleproof"):  # a cluster's executor without a profile: advise the usual profile
        options = ON_CLUSTER
    else:
        options = f"--executor {executor} --jobs {jobs}"
    with contextlib.suppress(OSError):  # advice that cannot be written must not stop a campaign
        write_json(campaign / NOTE, {"options": options})


def _quote_path(path: str) -> str:
    """Quote `path` for a shell. A ~ in front stays outside of the quotes, inside of which it is no home folder."""
    home, rest = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    return home + shlex.quote(rest)


def last_words_of_failed_stage(output: str) -> str | None:
    """Return the end of the first failed stage's log, which Snakemake's `output` names. Returns None without a log."""
    for log in map(Path, FAILED_LOG.findall(output)):
        text = log.read_text("utf-8", "replace").strip() if log.is_file() else ""
        if text:
            _, own_prefix, message = f"\n{text}".rpartition("\nscaleproof: ")  # our own last message
            return f"{message if own_prefix else text[-LAST_CHARACTERS:]}\n  (log: {log})"
    return None


def _run_or_raise(*words: str, of: str = "", limit_s: float | None = None) -> None:
    """Run Snakemake. Raises UserError where a stage fails, not where a run does, and OSError where it cannot write.

    `of`: beginning of the message.
    """
    process = _snakemake(*words, limit_s=limit_s)
    if process.returncode in (0, FAILED_RUNS):  # runs that fail are rows of the results
        return
    output = process.stdout + process.stderr
    if "LockException" in output:
        raise UserError(f"{of}Snakemake runs here, or was killed: then type snakemake -s {SNAKEFILE} --unlock")
    stage_text = last_words_of_failed_stage(output)
    if not stage_text and (fault := FILE_FAULT.search(output)):  # of the disk, not of what Snakemake was asked for
        raise OSError(int(fault[1]), fault[2], fault[3])
    if not stage_text and (fault := IMPORT_FAULT.search(output)):
        raise ImportError(fault[1], name="snakemake")
    if fault := PROTECTED.search(output):
        raise UserError(f"{of}{fault[1]} is closed to changes: its folder is read-only, or its disk is")
    banner = f"snakemake {' '.join(words[:5])} ended with exit code {process.returncode}:\n"
    _, _, output = output.rpartition("__main__.py: error: ")  # drops the usage of all options
    raise UserError(of + (stage_text or banner + output.strip()[-LAST_CHARACTERS:]))


def _snakemake(*words: str, limit_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run Snakemake. Raises ModuleNotFoundError without it.

    On Ctrl-C, which may have reached this process alone, ends it with all that it has started. After `limit_s` seconds,
    ends it as well, removes the lock that a killed Snakemake leaves, and raises OutOfTime.
    """
    if find_spec("snakemake") is None:
        raise ModuleNotFoundError("No module named 'snakemake'", name="snakemake")
    command = [sys.executable, "-m", "snakemake", *words]
    pipe, no_input = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=no_input, stdout=pipe, stderr=pipe, text=True, errors="replace")
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

    Returns whether `process` itself had to be killed.
    """
    alive = [process, *process.children(recursive=True)]
    was_killed = False
    for number in (signal.SIGINT, signal.SIGKILL):
        was_killed = number == signal.SIGKILL and process in alive
        for member in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(number)
        _, alive = psutil.wait_procs(alive, GRACE_S)
    return was_killed
