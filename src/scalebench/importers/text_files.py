"""Opening files that may be anything: huge, cut off, binary, in another encoding."""

import codecs
import re
import stat
from collections.abc import Iterator
from pathlib import Path

HEAD = 1 << 16  # bytes that tell what a file is
WHOLE = 32 << 20  # bytes of the largest file that is read as one piece
LINES = 64 << 20  # bytes of a log that are read
LONGEST = 1 << 14  # characters of a line
SQLITE = b"SQLite format 3\0"
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # colours


class Unreadable(Exception):
    """Why a file cannot be read, as a sentence without its name."""


def head(path: Path) -> bytes:
    """The first bytes of a regular file. Raises Unreadable for all else."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unreadable("it is not a regular file")
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


def encoding(start: bytes) -> str | None:
    """How a file that begins so is encoded; None for a binary one."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if start.startswith(mark):
            return name
    if b"\0" in start:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last character may be cut
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def whole(path: Path, name: str) -> str:
    """The text of a file that must be read as one piece."""
    size = path.stat().st_size
    if size > WHOLE:
        raise Unreadable(f"it has {size / 2**20:,.0f} MiB; files of this kind are read up to {WHOLE >> 20} MiB")
    try:
        with path.open(encoding=name, errors="replace") as file:
            return file.read()
    except (OSError, UnicodeError) as error:
        raise Unreadable(str(error)) from None


def lines(path: Path, name: str) -> Iterator[str]:
    """Lines without colours; a progress bar's states are lines of their own. What is beyond the limit is left out."""
    left = LINES
    with path.open(encoding=name, errors="replace", newline=None) as file:
        while left > 0 and (line := file.readline(LONGEST)):
            left -= len(line)
            yield CONTROL.sub("", line.rstrip("\n")) if "\x1b" in line else line.rstrip("\n")


def printable(name: str) -> str:
    """A name that can be printed: no control characters, no broken ones, not endless."""
    safe = name.encode("utf-8", "backslashreplace").decode("utf-8")
    safe = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in safe)
    return safe if len(safe) <= 200 else f"{safe[:120]}...{safe[-60:]}"
