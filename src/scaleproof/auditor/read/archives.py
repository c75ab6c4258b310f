"""Unpacking archives: up to a size, and no file out of its folder."""

import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from scaleproof.auditor.read.text_files import UnreadableFile

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
    reasons: list[str] = []
    try:
        for reason in _copy_members(archive, folder):
            reasons.append(reason)  # one by one: the archive may break later
    except ARCHIVE_ERRORS as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's fault (it is full), not the archive's
            raise
        fault = _fault_of_archive(error)
        has_contents = any(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        if not has_contents:
            raise UnreadableFile(f"the archive cannot be opened: {fault}") from None
        reasons.append(f"the archive cannot be read to its end: {fault}; what stands before was read")
    return reasons


def _copy_members(archive: Path, folder: Path) -> Iterator[str]:
    """Copy an archive's files below `folder`, and yield why some were left out. Raises ARCHIVE_ERRORS."""
    bytes_left = MOST_ARCHIVE_BYTES
    for count, (name, size, stream) in enumerate(_members(archive)):
        if count >= MOST_MEMBERS:
            yield f"more than {MOST_MEMBERS:,} files; the rest was left out"
            return
        if fault := _fault_of_path(name):
            yield f"{name[:100]}: {fault}"
            continue
        if size > MOST_MEMBER_BYTES:
            yield f"{name[:100]}: larger than {MOST_MEMBER_BYTES >> 20} MiB"
            continue

        target = folder.joinpath(*_safe_parts(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        written = _copy(stream, target, min(MOST_MEMBER_BYTES, bytes_left))
        if written == MOST_MEMBER_BYTES and stream.read(1):  # a .gz does not say how large it is
            yield f"{name[:100]}: more than {MOST_MEMBER_BYTES >> 20} MiB unpacked; the rest was left out"
        bytes_left -= written
        if bytes_left <= 0:
            yield f"more than {MOST_ARCHIVE_BYTES >> 20} MiB unpacked; the rest was left out"
            return


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
    """Yield name, stated size (0 for .gz, without one) and contents of each regular file. No links and devices."""
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
            if info.is_dir() or file_type not in (0, 0o100000):  # the second: a regular file
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
