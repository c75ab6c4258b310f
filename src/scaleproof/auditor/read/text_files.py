"""Which files below a folder are looked into, opening them in any encoding, and which are of this program."""

import codecs
import contextlib
import errno
import mmap
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath

from scaleproof.auditor.read.reported import Evidence, Unread, UnreadKind
from scaleproof.ground.errors import UserError, link_fault, path_fault
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.progress import show_bytes
from scaleproof.ground.records.comparison_report import read_comparison
from scaleproof.ground.records.run import LAUNCHER, METRICS, METRICS_SEAL, STEPS
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.records.steps import COLUMNS

HEAD = 1 << 16  # bytes that tell what a file is
LARGEST_PARSED = 64 << 20  # bytes of the largest file that must be parsed as one piece
LARGEST_TEXT = 4 << 20  # bytes of a text for people; a larger one is a log, or all there is to say is at its beginning
SLOW = 16 << 20  # bytes of a file that takes seconds, the reading of which is shown
LONGEST_LINE = 1 << 20  # characters; bars of several ranks that overwrite each other make long ones
CONFLICT = re.compile(r"(?ms)^    """Check a path to audit. Raises UserError where it is missing, a broken link, or the operating system's own."""
    if not os.path.exists(root):
        raise UserError(f"{printable(str(root))}{path_fault(root)}")
    resolved = os.path.realpath(root)
    if resolved == "/" or f"{resolved}/".startswith(tuple(f"{folder}/" for folder in SYSTEM_FOLDERS)):
        name = printable(str(root))
        raise UserError(f"{name}: this is a part of the operating system; name the folder of the results")


def check_some_text(roots: list[Path]) -> None:
    """Check that some file has a byte. Raises UserError where all that was named are empty files."""
    if all(root.is_file() and not root.stat().st_size for root in roots):
        names = ", ".join(printable(str(root)) for root in roots)
        verb = "is" if len(roots) == 1 else "are"
        raise UserError(f"{names} {verb} empty; a table, a log or a record of results is expected (docs/audit.md)")


def files_below(root: Path, unread: list[Unread], own_run: Callable[[Path, list[str]], bool]) -> Iterator[Path]:
    """Yield the files below the folder `root` in order; `root` itself where it is a file.

    Links to folders are not followed; hidden folders, SKIPPED_FOLDERS and virtual environments are passed over, and so
    are the files of a folder for which `own_run` is true: it is called with the folder and the names of its files. What
    cannot be read is noted in `unread`.
    """
    if not root.is_dir():
        yield root
        return

    def note(path: Path, reason: str, kind: UnreadKind = "special") -> None:
        """Note why a file or folder is not read."""
        name = str(root) if path == root else os.path.relpath(path, root)
        unread.append(Unread(printable(name), reason, kind))

    def note_closed_folder(error: OSError) -> None:
        """Note a folder that this user may not open."""
        note(Path(error.filename), error.strerror or str(error), "permission")

    for folder, folders_below, names in os.walk(root, onerror=note_closed_folder):
        here = Path(folder)
        visible = sorted(name for name in folders_below if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        # In place, as os.walk goes on with this list. Without virtual environments, which hold packages of others.
        folders_below[:] = [name for name in visible if not os.path.isfile(here / name / "pyvenv.cfg")]
        for name in folders_below:
            if (here / name).is_symlink():
                note(here / name, "a link to a folder; it is not followed")

        # A run in a folder of tests is an example: its files are yielded as all others there.
        if not _is_of_tests(here.relative_to(root)) and own_run(here, names):
            continue
        for name in sorted(names):
            if reason := _why_no_file(here / name):
                note(here / name, reason)
            else:
                yield here / name


def _why_no_file(path: Path) -> str | None:
    """Return why a path is no file to read: a FIFO, a device, a link that leads nowhere. None for a file."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            mode = path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT) and path.is_symlink():
            return link_fault(path).removeprefix(" is ")
        return f"a link that cannot be followed: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "a link to a folder; it is not followed"
    return "it is not a regular file (a FIFO, a socket or a device)"


def unread_by_name(path: Path, relative: PurePath) -> tuple[UnreadKind, str] | None:
    """Return the kind of a file that its name excludes ("a.png"), and why. None for a file to read."""
    suffix = "" if ".tfevents." in path.name else path.suffix.lower()  # TensorBoard's end with a host's name: "gpu7.cs"
    if suffix in PICTURES:
        return "picture", "figures in pictures are not read"
    if suffix == ".pdf":
        return "PDF", "PDF is not read; its source (LaTeX, Markdown) is"
    if suffix in BINARIES:
        cure = "; unpack it" if suffix in PACKED else "; export its table as CSV" if suffix in WITH_TABLES else ""
        return "binary", f"a {suffix} file{cure}"
    if suffix in SOURCES - SCRIPTS or path.name in SOURCE_NAMES:
        return "not a result", "program text"
    if _is_of_tests(relative.parent) or TEST_FILE.fullmatch(path.name):
        return "not a result", "in a folder of tests, fixtures or templates, or named like one"
    return None


def _is_of_tests(folder: PurePath) -> bool:
    return any(part.lower() in NO_RESULTS for part in folder.parts)


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES)


# The reports of a campaign, which stand beside its MANIFEST.
OWN_REPORTS: dict[str, Callable[[Path], object]] = {
    "findings.json": read_findings,
    "scaling_report.json": read_scaling_report,
    "comparison.json": read_comparison,
}
MANIFEST = "manifest.json"
START_OF_OWN_SERIES = ",".join(COLUMNS[:3])


def note_own_run(evidence: Evidence, folder: Path, names: list[str]) -> bool:
    """Note a folder that is a run of this program, damaged or not. Return whether it is. `names`: of its files."""
    # Metrics that are missing or damaged do not hide a run: the launcher's file has their hash (METRICS_SEAL).
    has_metrics = METRICS in names and STEPS in names and _head_matches(folder / METRICS, rb'"schema_version": *"3\.')
    has_launcher = LAUNCHER in names and not has_metrics and _head_matches(folder / LAUNCHER, METRICS_SEAL.encode())
    is_own = has_metrics or has_launcher
    if is_own:
        evidence.own_runs.append(str(folder))
    return is_own


def _head_matches(path: Path, pattern: bytes) -> bool:
    """Whether `pattern` is in the beginning of a file. False where the file cannot be read."""
    try:
        return bool(re.search(pattern, head(path)))
    except UnreadableFile:
        return False


def check_own_report(path: Path) -> None:
    """Check a report of a campaign. Raises UnreadableFile for a damaged one, which may still be JSON."""
    if path.name not in OWN_REPORTS or not (path.parent / MANIFEST).is_file():
        return
    try:
        OWN_REPORTS[path.name](path)
    except UserError as error:
        raise UnreadableFile(f"it{str(error).removeprefix(str(path))}") from None


def check_conflict(file: TextFile) -> None:
    """Check that a text is not two versions of itself, as git leaves it. Raises UnreadableFile."""
    if m := CONFLICT.search(file.opening):
        line = file.opening.count("\n", 0, m.start()) + 1
        raise UnreadableFile(f"a merge conflict of git begins in line {line}")


def is_own_series(file: TextFile) -> bool:
    """Whether a file begins as the steps.csv of a run of this program does.

    Such a file is not read by itself. Raises UnreadableFile where its folder has no METRICS any more, or where the
    audit was given this file instead of the folder.
    """
    if not file.opening.startswith(START_OF_OWN_SERIES):
        return False
    path = file.path
    if not (path.parent / METRICS).is_file():
        raise UnreadableFile(f"the series of a run whose {METRICS} is not here: the run was lost or taken away")
    if file.was_given and path.name != METRICS:  # the caller refuses a file called METRICS that has steps
        raise UnreadableFile(f"the series of a run; name the run's folder, {path.parent}", "not a result")
    return True
