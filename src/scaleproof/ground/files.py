"""Writing results: whole files or none, and nothing private in them."""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from glob import escape
from operator import methodcaller
from pathlib import Path
from typing import TypeVar

from scaleproof.ground.errors import (
    UserError,
    damaged_file,
    describe_first_fault,
    missing_file,
    nearest_path,
    path_fault,
)
from scaleproof.ground.number_format import integer

Parsed = TypeVar("Parsed")
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
LEAST_FREE = 1 << 20  # bytes; with less free a disk is full
# What the system says of a path -> what it means for whoever gave it, to be said after the path.
PATH_FAULTS = {
    errno.EBADF: " is closed",
    errno.EISDIR: " is a folder; a file is expected",
    errno.EEXIST: " is a file; a folder is expected",
    errno.ENOTDIR: " leads through a file as if it were a folder",
    errno.EACCES: ": this user may not read or write it (ls -ld shows who may)",
    errno.EPERM: ": this user may not read or write it (ls -ld shows who may)",
    errno.ELOOP: " is a link that leads back to itself",
    errno.ENAMETOOLONG: ": the name is longer than a file system takes",
    errno.EROFS: " is on a disk that cannot be written",
    errno.EFBIG: " would be larger than this shell allows (ulimit -f)",
    errno.ENXIO: " is a device or a socket, not a regular file",
}
STALE_S = 600  # a part that nobody has written to for so long was left by a process that was killed
MOST_LOOKED_AT = 100_000  # bytes, to see what a file is instead of a result
# Begins a page; a comment, or the declaration of XML, may stand before it.
HTML_PAGE = re.compile(r"(?is)\s*(?:(?:<!--.*?-->|<\?xml.*?>)\s*)*+<(?:!doctype html|html|head|body)\b")
STEP_IN_LINE = re.compile(r"^.*?\b(?<!/)(?:step|iter|iteration)\b\W{0,3}(\d+)", re.IGNORECASE | re.MULTILINE)
FEWEST_STEPS = 3  # lines
MOST_BYTES = 1 << 30  # of a file that is read as a whole; a steps.csv of 15 million rows
AT_ONCE = 1 << 20  # bytes of a file that is read as a whole for its checksum


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Write `path` as a whole: yield a path beside it to write to, which gets its name at the end of the block.

    So nobody sees a part of the file. If the block fails, the part is removed, and an OSError without a file name (a
    full disk) gets that of `path`. Parts that killed processes left are removed, too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        _remove_stale(path)
        yield part
        part.replace(path)
    except OSError as error:
        with suppress(OSError):  # on a disk that cannot be written
            part.unlink(missing_ok=True)
        if error.filename in (None, str(part)) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _remove_stale(path: Path) -> None:
    """Remove the parts of `path` that nobody has written to for STALE_S seconds."""
    for part in path.parent.glob(f".{escape(path.name)}.*.part"):
        try:
            if time.time() - part.stat().st_mtime > STALE_S:
                part.unlink(missing_ok=True)
        except OSError:  # removed by another process meanwhile
            continue


def write_atomic(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never a part.

    What is not Unicode in it (half a surrogate pair, of a file name or of foreign JSON) becomes U+FFFD.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    with whole_file(path) as part:
        part.write_bytes(data)


def write_json(path: Path, data: object) -> None:
    """Write `data`, which may hold models, as JSON. Raises ValueError for NaN and infinity."""
    fields = methodcaller("model_dump", mode="json")  # of a model of pydantic, which json does not know
    write_atomic(path, json.dumps(data, indent=2, allow_nan=False, default=fields) + "\n")


def content_fault(path: Path) -> str:
    """Return why a file holds no result, to be said after its path. Returns "" where its content shows no fault.

    Example: ` is an HTML page, whatever its name says`, for the answer of a server that wanted a sign-in.
    """
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        text = file.read(MOST_LOOKED_AT).decode("utf-8", "replace")
    if HTML_PAGE.match(text) and path.suffix not in (".html", ".htm"):
        return " is an HTML page, whatever its name says: name it .html. Or is it a server's sign-in or error page?"
    steps = STEP_IN_LINE.findall(text)
    if len(steps) >= FEWEST_STEPS and len(set(steps)) == 1:
        return f" says step {steps[0]} in all of {len(steps)} lines: a series needs steps that rise"
    return ""


def read_regular(path: Path) -> bytes:
    """Return the bytes of a regular file.

    Raises FileNotFoundError where there is none; UserError for a folder, a pipe or a device, which might never end, for
    a link that leads nowhere, and for a file that is larger than any that the workflow writes.
    """
    try:
        # Without waiting: a pipe that nobody writes to is opened at once, as a file is.
        with open(path, "rb", buffering=0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > MOST_BYTES:
                amount, limit = integer(status.st_size), integer(MOST_BYTES)
                raise UserError(f"{path} has {amount} bytes; no file of results has more than {limit}")
            if stat.S_ISREG(status.st_mode):
                return file.read()
    except OSError as error:
        is_broken_link = path.is_symlink() and error.errno in (errno.ENOENT, errno.ELOOP)
        if error.errno not in (errno.EISDIR, errno.ENXIO) and not is_broken_link:  # a folder, a socket
            raise
    # Opened, but no regular file; or a folder, socket or link, which cannot be opened.
    raise UserError(f"{path}{path_fault(path) or ' is a folder; a file is expected'}")


def read_record(path: Path, parse: Callable[[bytes], Parsed]) -> Parsed:
    """Return the record in a file that the workflow wrote, as `parse` makes it of the file's bytes.

    Raises UserError, with the command that makes the file again, where it is missing or not what was written.
    """
    if not path.exists():
        raise missing_file(path)
    try:
        return parse(read_regular(path))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise damaged_file(path, describe_first_fault(error)) from None


def os_fault(error: OSError) -> str:
    """Return an OSError in words: the path that was read or written, and why that failed."""
    if error.filename is None and error.errno == errno.ENOENT:  # os.getcwd alone says so
        return "the folder that this shell is in was removed, or replaced by another one: cd to it again"
    if error.filename is None:
        return f"output{_fault_after_path(error)}"
    is_full = error.errno in DISK_FULL
    is_of_writing = is_full or error.errno in (errno.EFBIG, errno.EROFS)
    name = (is_of_writing and error.filename2) or error.filename  # a copy is written to `filename2`
    path = Path(os.fsdecode(name)) if isinstance(name, str | bytes | os.PathLike) else Path("output")
    if is_full:
        return full_disk_text(path)
    if error.errno == errno.ENOENT:
        return f"{path}: no such file or folder.{nearest_path(path)}"
    if error.errno in (errno.EACCES, errno.EPERM):  # of a folder that is closed, rather than of what may be in it
        path = next((place for place in (path, *path.parents) if os.path.lexists(place)), path)
        path = Path.cwd() if path == Path() else path
    return f"{path}{_fault_after_path(error)}"


def _fault_after_path(error: OSError) -> str:
    return PATH_FAULTS.get(error.errno or 0, f": {error.strerror or error}")


def sha256_of_library() -> str:
    """Return a hash over paths and sizes of the standard library's modules; two builds of one version differ in it."""
    root = Path(sysconfig.get_path("stdlib"))
    modules = [path for path in root.rglob("*.py") if {"site-packages", "dist-packages"}.isdisjoint(path.parts)]
    sizes = sorted(f"{path.relative_to(root)} {path.stat().st_size}" for path in modules)
    return hashlib.sha256("\n".join(sizes).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the checksum of a file, in hexadecimal digits."""
    with open(path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size <= AT_ONCE:  # twice as fast as `file_digest`
            return hashlib.sha256(file.read()).hexdigest()
        return hashlib.file_digest(file, "sha256").hexdigest()


REMEDY = (
    "results/downloads and results/*/traces/*/raw, which are made again when they are needed; or let results be a link "
    "to a larger disk"
)


def full_disk_text(path: Path) -> str:
    """Return the message for a write to `path` on a full disk, with what may be deleted.

    How much is free is not in it: a part of a file, which is removed by then, has taken more.
    """
    place = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    results = Path("results") if Path("results").is_dir() else Path()
    remedy = f". What may be deleted: {REMEDY}" if place.stat().st_dev == results.stat().st_dev else ""
    return f"{path}: the disk is full. Make room, then run the same command again{remedy}"


def disk_is_full(folder: Path) -> bool:
    """Return whether the disk of `folder` has no room for a result."""
    return shutil.disk_usage(folder).free < LEAST_FREE


def disk_filled_up(lines: Iterable[str], folder: Path) -> bool:
    """Return whether a program that printed `lines` failed because the disk of `folder`, and no other, is full."""
    text = "\n".join(lines)
    return os.strerror(errno.EDQUOT) in text or (os.strerror(errno.ENOSPC) in text and disk_is_full(folder))


def now_utc() -> str:
    """Return the time now, ISO 8601 to the second."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def scrub(text: str) -> str:
    """Replace the places of this machine: the repository, the Python environment and the home directory."""
    for place, name in _machine_paths(os.getcwd(), sys.prefix, sys.base_prefix, str(Path.home())):
        text = text.replace(place, name)
    return text


@lru_cache
def _machine_paths(folder: str, environment: str, python: str, home: str) -> list[tuple[str, str]]:
    """Return (path, what replaces it) of these four places: ("/home/ann", "~").

    The longest come first, so that a folder inside another is replaced before it. Each stands as called and with links
    resolved: a home is often a link into a file system whose paths name the user, too.
    """
    names = {folder: ".", environment: "<env>", python: "<python>", home: "~"}
    resolved = {str(Path(path).resolve()): name for path, name in reversed(names.items())}  # the first name wins
    names = resolved | names
    # "/" stays: as a home directory it would be replaced in every path.
    return [(path, names[path]) for path in sorted(names, key=len, reverse=True) if len(path) > 1]
