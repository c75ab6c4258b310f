"""Which files below a folder are looked into, what those are whose name does not say so, and what an archive holds."""

import csv
import errno
import gzip
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from scaleproof.auditor.read import logs, text_files
from scaleproof.auditor.read.csv_logs import DELIMITERS, layout_of
from scaleproof.auditor.read.documents import FENCE, HEADING, unquoted
from scaleproof.auditor.read.grids import SEPARATOR
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.reported import Unread, UnreadKind
from scaleproof.auditor.read.text_files import UnreadableFile, printable
from scaleproof.ground.errors import UserError, link_fault, path_fault

DOCUMENTS = {".tex": "latex", ".html": "html", ".htm": "html"}
DOCUMENTS |= dict.fromkeys((".md", ".markdown", ".mdx", ".rst", ".org"), "markdown")
SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg")
PLAIN = (".txt", ".text", ".out", ".log", ".err", "")
NOTEBOOK = re.compile(r'"(?:nbformat|cell_type)"\s*:')
LATEX = re.compile(r"\\begin\{(?:document|table\*?|tabular[xy]?\*?|longtable|tblr)\}|\\documentclass")
HTML = re.compile(r"(?i)\s*<(?:!doctype html|html|head|body|table|div|h\d)\b")
LINES_LOOKED_AT = 400


def suffix_of(path: Path, opening: str) -> str:
    """Return the suffix of a file in lower case, or the one that its opening should have. "" is plain text."""
    return path.suffix.lower() or _suffix_by_contents(opening)


def _suffix_by_contents(opening: str) -> str:
    """Return the suffix that a text would have by how it begins: "# Results" -> ".md". "" for plain text and logs."""
    if text_files.begins_like_json(opening) and not logs.reader_of(opening[:20_000]):
        return ".ipynb" if NOTEBOOK.search(opening) else ".json"
    if HTML.match(opening):
        return ".html"
    if LATEX.search(opening):
        return ".tex"
    lines = opening.splitlines()[:LINES_LOOKED_AT]
    if _is_markdown(lines):
        return ".md"
    if logs.reader_of(opening) or logs.guessing_reader_of(opening):
        return ""
    return ".csv" if _is_csv(lines) else ""


def _is_markdown(lines: list[str]) -> bool:
    """Whether headings, fences or tables of Markdown stand in a text that is not mostly a log."""
    plain = [unquoted(line) for line in lines]
    are_marks = (HEADING.match(line) or FENCE.match(line) or _is_separator(plain, k) for k, line in enumerate(plain))
    marks = sum(map(bool, are_marks))
    if not marks:
        return False
    outside: list[str] = []  # of fences
    in_fence = False
    for line in plain:
        in_fence ^= FENCE.match(line) is not None
        if not in_fence:
            outside.append(line)
    text = "\n".join(outside)
    return 5 * marks > len(plain) or not (logs.reader_of(text) or logs.guessing_reader_of(text))


def _is_separator(lines: list[str], k: int) -> bool:
    """Whether line `k`, counted from 0, is the row of dashes below the heading of a table: "|---|---|"."""
    return k > 0 and "|" in lines[k] and "|" in lines[k - 1] and SEPARATOR.fullmatch(lines[k].strip()) is not None


def _is_csv(lines: list[str]) -> bool:
    """Whether lines are rows of equal length below a heading that is a log's, or of which half is understood."""
    rows = [line for line in lines if line.strip() and not line.startswith("#")][:20]
    if len(rows) < 2:
        return False
    delimiter = max(DELIMITERS, key=rows[0].count)
    cells = list(csv.reader(rows, delimiter=delimiter))
    header = cells[0]
    if len(header) < 2 or any(len(row) != len(header) for row in cells[:-1]):  # the last one may be cut off
        return False
    understood = sum(column_of(heading.strip()).kind is not None for heading in header)
    return layout_of(rows[0]) is not None or 2 * understood >= len(header)


MOST_MEMBERS = 10_000
MOST_MEMBER_BYTES = 256 << 20
MOST_ARCHIVE_BYTES = 1 << 30  # of all members
MOST_FOLDERS = 40  # within each other
CHUNK_BYTES = 1 << 20
ARCHIVE_ERRORS = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile),
    *(EOFError, NotImplementedError, RuntimeError, ValueError, OSError),
)


def unpack(archive: Path, folder: Path) -> list[str]:
    """Copy an archive's files below `folder`. Return what was left out, and why. Raises UnreadableFile."""
    left_out: list[str] = []
    bytes_left = MOST_ARCHIVE_BYTES
    try:
        for count, (name, size, stream) in enumerate(_members(archive)):
            if count >= MOST_MEMBERS:
                left_out.append(f"more than {MOST_MEMBERS:,} files; the rest was left out")
                break
            if fault := _fault_of_path(name):
                left_out.append(f"{name[:100]}: {fault}")
                continue
            if size > MOST_MEMBER_BYTES:
                left_out.append(f"{name[:100]}: larger than {MOST_MEMBER_BYTES >> 20} MiB")
                continue
            target = folder.joinpath(*_safe_parts(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            bytes_left -= _copy(stream, target, min(MOST_MEMBER_BYTES, bytes_left))
            if bytes_left <= 0:
                left_out.append(f"more than {MOST_ARCHIVE_BYTES >> 20} MiB unpacked; the rest was left out")
                break
    except ARCHIVE_ERRORS as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's fault (it is full), not the archive's
            raise
        if not any(file.stat().st_size for file in folder.rglob("*") if file.is_file()):
            raise UnreadableFile(f"the archive cannot be opened: {_fault_of_archive(error)}") from None
        fault = _fault_of_archive(error)
        left_out.append(f"the archive cannot be read to its end: {fault}; what stands before was read")
    return left_out


def _fault_of_archive(error: Exception) -> str:
    """Return why an archive cannot be read, in words."""
    if isinstance(error, EOFError):
        return "it is cut off"
    if isinstance(error, NotImplementedError):
        return "it is packed by a method that is not known here"
    if isinstance(error, RuntimeError) and "password" in str(error):
        return "it is encrypted"
    return "it is damaged, or not what its name says"


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield name, stated size and contents of the regular files of an archive. Links and devices are left out."""
    name = archive.name.lower()
    if name.endswith(".zip"):
        yield from _members_of_zip(archive)
    elif name.endswith((".tar", ".tar.gz", ".tgz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isreg() and (file := tar.extractfile(member)) is not None:
                    yield member.name, member.size, file
    else:
        with gzip.open(archive) as stream:
            yield archive.name[: -len(".gz")] or "contents", 0, stream  # type: ignore[misc]  # GzipFile reads like IO[bytes]


def _members_of_zip(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield name, stated size and contents of the regular files of a .zip file."""
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            file_type = (info.external_attr >> 16) & 0o170000  # of the Unix mode; 0 where none is stated
            if info.is_dir() or file_type not in (0, 0o100000):
                continue
            with opened.open(info) as stream:
                yield info.filename, info.file_size, stream


def _fault_of_path(name: str) -> str:
    """Return why the member `name` is not copied, in words. "" where its path is sound."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")):
        return "its path leads out of the archive"
    if "\0" in name or not _safe_parts(name):
        return "its name is none that a file can have"
    return f"it lies more than {MOST_FOLDERS} folders deep" if len(parts) > MOST_FOLDERS else ""


def _safe_parts(name: str) -> list[str]:
    """Return the parts of a member's path as names of files: "runs/a:b.csv" -> ["runs", "a_b.csv"]."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return [re.sub(r"[^\w.+=@,()# -]", "_", part)[:120] for part in parts if part != "."]


def _copy(stream: IO[bytes], target: Path, most: int) -> int:
    """Copy up to `most` bytes, and return how many. A member that unpacks to more than it said is cut there."""
    written = 0
    with target.open("wb") as out:
        while written < most and (chunk := stream.read(min(CHUNK_BYTES, most - written))):
            out.write(chunk)
            written += len(chunk)
    return written


SKIPPED_FOLDERS = {"node_modules", "__pycache__", "site-packages", "dist-packages", "venv", "env", ".venv"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
BINARIES = _words(
    ".pt .pth .bin .safetensors .npz .npy .pkl .pickle .h5 .hdf5 .ckpt .whl .so .o .a .dll .exe .onnx .pb "
    ".tflite .parquet .arrow .feather .lmdb .idx .model .gguf .ggml .mdb .class .jar .pyc .ttf .woff "
    ".woff2 .otf .mp3 .wav .flac .docx .pptx .doc .ppt .xls .odt .npk .rec .tfrecord .zst .xz .bz2 .7z "
    ".rar .ncu-rep .qdstrm"
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
    """Check a folder or file that is to be audited.

    Raises UserError for what is missing, a link that leads nowhere, and for the file system itself: nobody's results
    are all of `/`.
    """
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
    """Yield files below a folder in order, not of links nor of an `own_run`; note in `unread` what is unreadable."""
    if not root.is_dir():
        yield root
        return

    def note(path: Path, reason: str, kind: UnreadKind = "special") -> None:
        name = str(root) if path == root else os.path.relpath(path, root)
        unread.append(Unread(printable(name), reason, kind))

    def note_closed_folder(error: OSError) -> None:
        note(Path(error.filename), error.strerror or str(error), "permission")

    for folder, folders_below, names in os.walk(root, onerror=note_closed_folder):
        here = Path(folder)
        visible = sorted(name for name in folders_below if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        # In place: os.walk goes on with these. A virtual environment has packages of others.
        folders_below[:] = [name for name in visible if not (here / name / "pyvenv.cfg").is_file()]
        for name in folders_below:
            if (here / name).is_symlink():
                note(here / name, "a link to a folder; it is not followed")
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
    """Return the kind of a file that its name excludes ("a.png"), and why; None for a file to read.

    `relative`: its path below the folder that was named.
    """
    suffix = path.suffix.lower()
    if suffix in PICTURES:
        return "picture", "figures in pictures are not read"
    if suffix == ".pdf":
        return "PDF", "PDF is not read; its source (LaTeX, Markdown) is"
    if suffix in BINARIES:
        return "binary", f"a {suffix} file"
    if suffix in SOURCES - SCRIPTS or path.name in SOURCE_NAMES:
        return "not a result", "program text"
    if _is_of_tests(relative.parent) or TEST_FILE.fullmatch(path.name):
        return "not a result", "in a folder of tests, fixtures or templates, or named like one"
    return None


def _is_of_tests(folder: PurePath) -> bool:
    return any(part.lower() in NO_RESULTS for part in folder.parts)


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES)
