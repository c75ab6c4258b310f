"""zip, tar and gz files, opened within limits; members are copied under names of our own making."""

import gzip
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from scaleproof.auditor.read.text_files import UnreadableFile

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
