"""What a text is whose name does not say so (JSON, CSV, LaTeX, a program's output), and what an archive holds."""

import csv
import gzip
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from scaleproof.auditor.read import logs, text_files
from scaleproof.auditor.read.csv_layout import DELIMITERS, layout_of
from scaleproof.auditor.read.documents import FENCE, HEADING, unquoted
from scaleproof.auditor.read.grids import SEPARATOR
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.text_files import UnreadableFile

DOCUMENTS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".rst": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".htm": "html",
    ".org": "markdown",
}
SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg")
PLAIN = (".txt", ".text", ".out", ".log", ".err", "")
NOTEBOOK = re.compile(r'"(?:nbformat|cell_type)"\s*:')
LATEX = re.compile(r"\\begin\{(?:document|table\*?|tabular[xy]?\*?|longtable|tblr)\}|\\documentclass")
HTML = re.compile(r"(?i)\s*<(?:!doctype html|html|head|body|table|div|h\d)\b")
LOOKED_AT = 400  # lines


def suffix_of(path: Path, opening: str) -> str:
    """The suffix of a file in lower case; of a file without one, that of what it begins with. "" is plain text."""
    return path.suffix.lower() or _by_contents(opening)


def _by_contents(opening: str) -> str:
    """Return the suffix that a text would have by how it begins; "" for plain text and logs."""
    if text_files.begins_like_json(opening) and not logs.reader_of(opening[:20_000]):
        return ".ipynb" if NOTEBOOK.search(opening) else ".json"
    if HTML.match(opening):
        return ".html"
    if LATEX.search(opening):
        return ".tex"
    lines = opening.splitlines()[:LOOKED_AT]
    if _is_markdown(lines):
        return ".md"
    if logs.reader_of(opening) or logs.guessing_reader_of(opening):
        return ""
    return ".csv" if _is_csv(lines) else ""


def _is_markdown(lines: list[str]) -> bool:
    """Whether headings, fences or tables of Markdown stand in a text that is not mostly a log."""
    plain = [unquoted(line) for line in lines]
    marks = [n for n, line in enumerate(plain) if HEADING.match(line) or FENCE.match(line) or _is_rule(plain, n)]
    if not marks:
        return False
    outside: list[str] = []
    fenced = False
    for line in plain:
        if FENCE.match(line):
            fenced = not fenced
        if not fenced:
            outside.append(line)
    printed = "\n".join(outside)
    return not (logs.reader_of(printed) or logs.guessing_reader_of(printed)) or 5 * len(marks) > len(plain)


def _is_rule(lines: list[str], n: int) -> bool:
    """Whether line `n`, counted from 0, is the row of dashes below the heading of a table."""
    return n > 0 and "|" in lines[n] and "|" in lines[n - 1] and SEPARATOR.fullmatch(lines[n].strip()) is not None


def _is_csv(lines: list[str]) -> bool:
    """Whether a text is rows of equally many cells below headings of which one is understood."""
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
LARGEST_MEMBER = 256 << 20
DEEPEST = 40  # folders
LARGEST_WHOLE = 1 << 30
CHUNK = 1 << 20
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    EOFError,
    zlib.error,
    gzip.BadGzipFile,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


def unpack(archive: Path, folder: Path) -> list[str]:
    """Copy an archive's files below `folder`; return what was left out, and why. Raises UnreadableFile."""
    left_out: list[str] = []
    room = LARGEST_WHOLE
    try:
        for count, (name, size, stream) in enumerate(_members(archive)):
            if count >= MOST_MEMBERS:
                left_out.append(f"more than {MOST_MEMBERS:,} files; the rest was left out")
                break
            if fault := _fault_of_path(name):
                left_out.append(f"{name[:100]}: {fault}")
                continue
            target = folder.joinpath(*_safe_parts(name))
            if size > LARGEST_MEMBER:
                left_out.append(f"{name[:100]}: larger than {LARGEST_MEMBER >> 20} MiB")
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            room -= _copy(stream, target, min(LARGEST_MEMBER, room))
            if room <= 0:
                left_out.append(f"more than {LARGEST_WHOLE >> 20} MiB unpacked; the rest was left out")
                break
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's fault (it is full), not the archive's
            raise
        if not any(file.stat().st_size for file in folder.rglob("*") if file.is_file()):
            raise UnreadableFile(f"the archive cannot be opened: {_fault(error)}") from None
        left_out.append(f"the archive cannot be read to its end: {_fault(error)}; what stands before was read")
    return left_out


def _fault(error: Exception) -> str:
    """Why an archive cannot be read, in words."""
    if isinstance(error, EOFError):
        return "it is cut off"
    if isinstance(error, NotImplementedError):
        return "it is packed by a method that is not known here"
    if isinstance(error, RuntimeError) and "password" in str(error):
        return "it is encrypted"
    return "it is damaged, or not what its name says"


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Name, stated size and contents of the regular files of an archive. Links and devices are left out."""
    name = archive.name.lower()
    if name.endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                file_type = (info.external_attr >> 16) & 0o170000  # of the Unix mode; 0 where none is stated
                if not info.is_dir() and file_type in (0, 0o100000):
                    with opened.open(info) as stream:
                        yield info.filename, info.file_size, stream
    elif name.endswith((".tar", ".tar.gz", ".tgz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isreg() and (file := tar.extractfile(member)) is not None:
                    yield member.name, member.size, file
    else:
        with gzip.open(archive) as stream:
            yield archive.name[: -len(".gz")] or "contents", 0, stream  # type: ignore[misc]  # GzipFile reads like IO[bytes]


def _fault_of_path(name: str) -> str:
    """Why the member `name` is not copied, in words; "" where its path is sound."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")):
        return "its path leads out of the archive"
    if "\0" in name or not _safe_parts(name):
        return "its name is none that a file can have"
    return f"it lies more than {DEEPEST} folders deep" if len(parts) > DEEPEST else ""


def _safe_parts(name: str) -> list[str]:
    """The parts of a member's path, without characters that mean something to a shell or a file system."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return [re.sub(r"[^\w.+=@,()# -]", "_", part)[:120] for part in parts if part != "."]


def _copy(stream: IO[bytes], target: Path, most: int) -> int:
    """Copy up to `most` bytes; return how many. A member that unpacks to more than it said is cut there."""
    written = 0
    with target.open("wb") as out:
        while written < most and (chunk := stream.read(min(CHUNK, most - written))):
            out.write(chunk)
            written += len(chunk)
    return written


def remove(folder: Path) -> None:
    """Remove an unpacked archive."""
    shutil.rmtree(folder, ignore_errors=True)
