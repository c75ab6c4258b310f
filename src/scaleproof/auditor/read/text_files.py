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

from scaleproof.auditor.read.line_wrappers import unwrapped
from scaleproof.auditor.read.reported import Evidence, Unread, UnreadKind
from scaleproof.ground import errors
from scaleproof.ground.errors import UserError, link_fault, path_fault
from scaleproof.ground.file_kinds import KINDS
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.progress import show_bytes
from scaleproof.ground.records.comparison_report import read_comparison
from scaleproof.ground.records.run import BEGIN_OF_METRICS, LAUNCHER, MANIFEST, METRICS, METRICS_SEAL, STEPS
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.records.steps import COLUMNS

HEAD = 1 << 16  # bytes that tell what a file is
LARGEST_PARSED = 64 << 20  # bytes of the largest file that must be parsed as one piece
LARGEST_TEXT = 4 << 20  # bytes of a text for people; a larger one is a log, or all there is to say is at its beginning
SLOW = 16 << 20  # bytes of a file that takes seconds, the reading of which is shown
LONGEST_LINE = 1 << 20  # characters; bars of several ranks that overwrite each other make long ones
BLOCK = 1 << 16  # characters that are read at once
CONFLICT = re.compile(r"(?ms)^<<<<<<< .*^=======$.*^>>>>>>> ")
# Colours, titles and links of a terminal, bytes of value 0, and characters of no width.
CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\0\ufeff\u200b-\u200d\u2060]"
)
LOST_DIGITS = re.compile(r"(?<=\d)\0+")  # bytes of value 0 in place of what may have been further digits
BINARY = re.compile(rb"[\x01-\x06\x0e-\x1a\x1c-\x1f\x7f]")  # bytes that no text has


class UnreadableFile(Exception):
    """Why a file was not read, as a sentence without its name; only `damaged` says something against it."""

    def __init__(self, reason: str, kind: UnreadKind = "damaged") -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text to read: where it is, what reports call it, and how it begins."""

    path: Path
    name: str
    encoding: str
    opening: str  # its first HEAD bytes, without colours
    is_whole: bool  # `opening` is all of it
    was_given: bool  # its path was given to the audit
    is_named: bool  # its path was given, or its name is that of a result

    def lines(self, start: int = 0) -> Iterator[str]:
        """Yield the lines from line `start` on, counted from 0."""
        return islice(lines(self.path, self.encoding), start, None)


def is_nsys_export(path: Path, start: bytes) -> bool:
    """Whether a file that begins with `start` is an export of Nsight Systems: an SQLite file with its StringIds."""
    if not start.startswith(b"SQLite format 3"):
        return False
    with path.open("rb") as file:
        return b"TABLE StringIds" in file.read(1 << 20)  # SQLite may move the list of tables off the first page


def head(path: Path) -> bytes:
    """Return the first HEAD bytes of a regular file. Raises UnreadableFile for all else."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableFile("it is not a regular file", "special")
        with path.open("rb") as file:
            return file.read(HEAD)
    except PermissionError as error:
        raise UnreadableFile(error.strerror or str(error), "permission") from None
    except OSError as error:
        raise UnreadableFile(error.strerror or str(error), "special") from None


def encoding(start: bytes) -> str | None:
    """Return how a file that begins so is encoded: "utf-8". None for a binary one."""
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # before UTF-16, whose mark begins it
        return "utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start.startswith(tuple(KINDS)):
        return None
    evens, odds = (start[k::2].count(0) for k in (0, 1))
    if 4 * max(evens, odds) > len(start) and not min(evens, odds):  # Latin letters of UTF-16 that does not say so
        return "utf-16-le" if odds else "utf-16-be"
    if b"\0" in start and (BINARY.search(start) or not start.strip(b"\0")):
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last character may be cut
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def fault_of_bytes(path: Path, encoding: str) -> str:
    """Return what is doubtful in the bytes of a text, in words. "" where nothing is."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data[:HEAD]
        zero = -1 if encoding.startswith(("utf-16", "utf-32")) else data.find(b"\0")
        conflict = data.find(b"\n<<<<<<< ")
        is_conflict = conflict >= 0 and data.find(b"\n>>>>>>> ", conflict) >= 0
        line = data[: (zero if zero >= 0 else conflict) + 1].count(b"\n") + 1
    if zero >= 0:
        return f"bytes of value 0 in line {line}: a part of it was lost; the rest was read"
    if is_conflict:
        return f"a merge conflict of git begins in line {line}; both of its versions were read"
    letters = re.findall(rb"[\x80-\xff]+", start) if encoding == "latin-1" else []
    if 2 * sum(len(word) == 1 and word >= b"\xa0" for word in letters) < len(letters):  # those of Latin-1 stand alone
        return "it is not UTF-8, and its words may be of another encoding than Latin-1; save it as UTF-8"
    return ""


def cleaned(text: str) -> str:
    """Return a text without wrappers, colours and characters of no width; a hyphen that does not break is "-"."""
    text = unwrapped(text) if text.startswith("{") else text
    if _is_plain(text):
        return text
    return CONTROL.sub("", LOST_DIGITS.sub("\ufffd", text)).replace("\u2011", "-")


def _is_plain(text: str) -> bool:
    return text.isascii() and "\x1b" not in text and "\0" not in text


def full_text(path: Path, name: str) -> str:
    """Return the text of a file that must be read as one piece. Raises UnreadableFile where it is too large."""
    size = path.stat().st_size
    if size > LARGEST_PARSED:
        limit = f"files of this kind are parsed in one piece, up to {LARGEST_PARSED >> 20} MiB"
        raise UnreadableFile(f"it has {size / 2**20:,.0f} MiB; {limit}", "limit")
    try:
        with path.open(encoding=name, errors="replace") as file:
            return cleaned(file.read())
    except (OSError, UnicodeError) as error:
        raise UnreadableFile(str(error)) from None


def beginning(path: Path, encoding: str) -> str:
    """Return the text of a file up to some LARGEST_TEXT characters, in whole lines."""
    with path.open(encoding=encoding, errors="replace") as file:
        text = cleaned(file.read(LARGEST_TEXT))
    return text if len(text) < LARGEST_TEXT else text[: text.rfind("\n") + 1] or text


def lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a file of any size, without colour codes; each state of a progress bar is a line."""
    size = path.stat().st_size
    with (
        path.open(encoding=encoding, errors="replace", newline=None) as file,
        show_bytes(size, printable(path.name)) if size > SLOW else contextlib.nullcontext() as note_bytes,
    ):
        rest = ""  # of a line that does not end in the block
        while block := file.read(BLOCK):
            if note_bytes:
                note_bytes(len(block))
            text = rest + block
            *whole, rest = text.split("\n")
            if len(rest) >= LONGEST_LINE:
                whole.append(rest)
                rest = ""
            yield from whole if _is_plain(text) and "{" not in text else map(cleaned, whole)
        if rest:
            yield cleaned(rest)


def printable(name: str) -> str:
    """Return a name of at most 200 characters, all of which can be printed: a tab becomes "\\t"."""
    safe = errors.printable(name)
    return safe if len(safe) <= 200 else f"{safe[:120]}...{safe[-60:]}"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SKIPPED_FOLDERS = _words("node_modules __pycache__ site-packages dist-packages venv env .venv")
SYSTEM_FOLDERS = ("/proc", "/sys", "/dev", "/run")
SOURCES = _words(
    ".py .pyx .pyi .sh .bash .zsh .c .cc .cpp .cxx .h .hpp .cu .cuh .js .mjs .ts .tsx .jsx .go .rs .java "
    ".kt .scala .rb .pl .lua .jl .r .m .swift .f90 .cs .php .sql .css .scss .cmake .mk .patch .diff .j2 "
    ".jinja .jinja2 .tmpl .template .tpl .in .ps1 .bat .asm .s .proto .ptx .mako .dockerfile .bib .bst "
    ".cls .sty .lock .pot .po"
)
SOURCE_NAMES = ("Dockerfile", "Makefile", "Snakefile", "CMakeLists.txt", "LICENSE", "requirements.txt")
# Sources that a run's settings are read from.
SCRIPTS = _words(".sh .bash .slurm .sbatch .sub .pbs .job .lsf")
PICTURES = _words(".png .jpg .jpeg .gif .svg .webp .bmp .tif .tiff .ico .eps .mp4 .mov .avi .webm .ai")
PACKED = _words(".zst .xz .bz2 .7z .rar")
WITH_TABLES = _words(
    ".parquet .arrow .feather .h5 .hdf5 .docx .doc .pptx .ppt .xls .odt .ods .db .wandb .gsheet .numbers .xlsb "
    ".npz .npy .pkl .pickle .mat .rds"
)
BINARIES = PACKED | WITH_TABLES
BINARIES |= _words(
    ".pt .pth .bin .safetensors .ckpt .whl .so .o .a .dll .exe .onnx .pb .tflite .lmdb .idx .model .gguf .ggml .mdb "
    ".class .jar .pyc .ttf .woff .woff2 .otf .mp3 .wav .flac .npk .rec .tfrecord .ncu-rep .qdstrm"
)
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".gz")
# Folders whose files are examples of what a program reads or prints, not results.
NO_RESULTS = _words(
    "tests test fixtures fixture testdata test_data test-data __tests__ unittests unit_tests templates "
    "golden mocks mock"
)
TEST_FILE = re.compile(
    r"(?i)(?:test_.*|.*_test|conftest)\.(?:py|json|txt|log|csv|ya?ml)|.*\.(?:example|sample|template)(?:\.\w+)?"
)


def check_root(root: Path) -> None:
    """Check a path to audit. Raises UserError where it is missing, a broken link, or the operating system's own."""
    if not os.path.exists(root):
        raise UserError(f"{printable(str(root))}{path_fault(root)}")
    resolved = os.path.realpath(root)
    if resolved == "/" or f"{resolved}/".startswith(tuple(f"{folder}/" for folder in SYSTEM_FOLDERS)):
        name = printable(str(root))
        raise UserError(f"{name}: this is a part of the operating system; name the folder of the results")


def folder_of(path: Path) -> str:
    """Return the folder of a file, in one spelling however the file was named."""
    return str(path.parent.resolve())


def check_some_text(roots: list[Path]) -> None:
    """Check that some file has a byte. Raises UserError where all that was named are empty files."""
    if all(root.is_file() and not root.stat().st_size for root in roots):
        names = ", ".join(printable(str(root)) for root in roots)
        verb = "is" if len(roots) == 1 else "are"
        raise UserError(f"{names} {verb} empty; a table, a log or a record of results is expected (docs/audit.md)")


def files_below(
    root: Path, unread: list[Unread], own_run: Callable[[Path, list[str]], bool], name_of: Callable[[Path], str]
) -> Iterator[Path]:
    """Yield the files below the folder `root` in order; `root` itself where it is a file.

    Links to folders are not followed; hidden folders, SKIPPED_FOLDERS and virtual environments are passed over, and so
    are the files of a folder for which `own_run` is true: it is called with the folder and the names of its files. What
    cannot be read is noted in `unread`, as `name_of` names it.
    """
    if not root.is_dir():
        yield root
        return

    def note(path: Path, reason: str, kind: UnreadKind = "special") -> None:
        """Note why a file or folder is not read."""
        unread.append(Unread(name_of(path), reason, kind))

    def note_closed_folder(error: OSError) -> None:
        """Note a folder that this user may not open."""
        note(Path(error.filename), error.strerror or str(error), "permission")

    for folder, folders_below, names in os.walk(root, onerror=note_closed_folder):
        here = Path(folder)
        visible = sorted(name for name in folders_below if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        # In place, as os.walk goes on with this list. Without virtual environments, which hold packages of others.
        folders_below[:] = [name for name in visible if not os.path.isfile(here / name / "pyvenv.cfg")]
        for name in folders_below:
            # A folder below `root` is read under its own name.
            if (here / name).is_symlink() and root.resolve() not in (here / name).resolve().parents:
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
START_OF_OWN_SERIES = ",".join(COLUMNS[:3])
OWN_PAGE = re.compile(
    r"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta[^>]*>\n<meta http-equiv=\"Content-Security-Policy\""
)


OWN_AUDIT = "an audit; what it was made of is audited"
START_OF_OWN_AUDIT = re.compile(r"(?:## Audit of .+\n\n\*\*)?found: (?:nothing|\d).*\n\n?read: ")


def note_own_run(evidence: Evidence, folder: Path, names: list[str]) -> bool:
    """Note a folder that is a run of this program, damaged or not. Return whether it is. `names`: of its files."""
    # Metrics that are missing or damaged do not hide a run: the launcher's file has their hash (METRICS_SEAL).
    has_files = METRICS in names and STEPS in names
    has_metrics = has_files and _head_matches(folder / METRICS, BEGIN_OF_METRICS)
    has_launcher = LAUNCHER in names and not has_metrics and _head_matches(folder / LAUNCHER, METRICS_SEAL.encode())
    if is_own := has_metrics or has_launcher:
        evidence.own_runs.append(str(folder))
    return is_own


def _head_matches(path: Path, pattern: bytes) -> bool:
    """Whether `pattern` is in the beginning of a file. False where the file cannot be read."""
    try:
        return bool(re.search(pattern, head(path)))
    except UnreadableFile:
        return False


def check_own_report(file: TextFile) -> None:
    """Check a report of a campaign. Raises UnreadableFile for a page, the text of an audit and a damaged report."""
    path = file.path
    if OWN_PAGE.match(file.opening):
        raise UnreadableFile("a page of scaleproof; what it was made of is audited", "not a result")
    if START_OF_OWN_AUDIT.match(file.opening):
        raise UnreadableFile(OWN_AUDIT, "not a result")
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
