"""Opening files that may be anything: huge, cut off, binary, in another encoding. All are streamed."""

import codecs
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scaleproof.auditor.read.reported import UnreadKind

HEAD = 1 << 16  # bytes that tell what a file is
LARGEST_PARSED = 64 << 20  # bytes of the largest file that must be parsed as one piece
LARGEST_TEXT = 4 << 20  # bytes of a text for people; a larger one is a log, or all there is to say is at its beginning
LONGEST_LINE = 1 << 20  # characters; bars of several ranks that overwrite each other make long ones
SQLITE = b"SQLite format 3\0"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours


class UnreadableFile(Exception):
    """Why a file was not read, as a sentence without its name; only `damaged` says something against it."""

    def __init__(self, reason: str, kind: UnreadKind = "damaged") -> None:
        super().__init__(reason)
        self.kind = kind


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
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in start:
        return _utf16_without_mark(start)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last character may be cut
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _utf16_without_mark(start: bytes) -> str | None:
    """Return the kind of UTF-16 of a text without its mark, which PowerShell may leave out; None for a binary file."""
    sample = start[:2000]
    for name, zeros, others in (("utf-16-le", sample[1::2], sample[0::2]), ("utf-16-be", sample[0::2], sample[1::2])):
        # Every second byte of English text is 0, and no other one.
        if len(sample) >= 20 and zeros.count(0) > 0.9 * len(zeros) and 0 not in others:
            return name
    return None


def decoded(start: bytes, name: str) -> str:
    """Return the text of a file's first bytes, without colours."""
    return CONTROL.sub("", start.decode(name, errors="replace"))


def full_text(path: Path, name: str) -> str:
    """Return the text of a file that must be read as one piece. Raises UnreadableFile where it is too large."""
    size = path.stat().st_size
    if size > LARGEST_PARSED:
        limit = f"files of this kind are parsed in one piece, up to {LARGEST_PARSED >> 20} MiB"
        raise UnreadableFile(f"it has {size / 2**20:,.0f} MiB; {limit}", "limit")
    try:
        with path.open(encoding=name, errors="replace") as file:
            return file.read()
    except (OSError, UnicodeError) as error:
        raise UnreadableFile(str(error)) from None


def beginning(path: Path, encoding: str) -> str:
    """Return the text of a file up to some LARGEST_TEXT characters, in whole lines."""
    with path.open(encoding=encoding, errors="replace") as file:
        text = file.read(LARGEST_TEXT)
    if len(text) < LARGEST_TEXT:
        return text
    whole_lines = text[: text.rfind("\n") + 1]
    return whole_lines or text


def lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a file of any size, without colour codes; each state of a progress bar is a line."""
    with path.open(encoding=encoding, errors="replace", newline=None) as file:
        while line := file.readline(LONGEST_LINE):
            line = line.rstrip("\n")
            yield CONTROL.sub("", line) if "\x1b" in line else line


JSON_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<scalar>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.-])|(?:true|false|null|NaN|"
    r"-?Infinity)(?!\w))|(?P<mark>[\[\]{},:]))"
)
KEY_OF_JSON = re.compile(r'\s*(?:\[\s*)?\{\s*"[^"\n]{0,200}"\s*:')
CUT_TOKEN = re.compile(r'\s*(?:"[^"\n]*|-?[\d.]*|[a-zA-Z]{0,8})')  # at the end of what was read
FEW_TOKENS, MOST_TOKENS = 8, 2_000  # of JSON, after which a text that goes on otherwise is damaged JSON
# Kind of a token -> kinds that may stand behind it; "" is the beginning, "value" a string, a number or a word.
VALUES = ("value", "[", "{")
FOLLOWING = {"": ("[", "{"), "[": (*VALUES, "]"), "{": ("value", "}"), ",": VALUES, ":": VALUES}
BEHIND_VALUE = (",", ":", "]", "}")  # and behind closing brackets


def begins_like_json(text: str) -> bool:
    """Whether a text that begins with a bracket goes on as JSON does, unlike "[rank0] step 1" and "{'loss': 2.1}"."""
    end = tokens = depth = 0  # end of the tokens so far, their number, brackets that are open
    before = ""
    while tokens < MOST_TOKENS and (m := JSON_TOKEN.match(text, end)):
        kind = m["mark"] or "value"
        is_key = before == "{" and kind == "value"
        if kind not in FOLLOWING.get(before, BEHIND_VALUE) or (is_key and not m["string"]):
            break
        depth += (kind in "[{") - (kind in "]}")
        tokens += 1
        end, before = m.end(), kind
        if not depth:  # all of a value: other lines of JSON may follow, and no other text
            rest = text[end:].lstrip(" \t")
            return not rest.strip() or (rest[0] in "\r\n" and rest.lstrip()[:1] in ("{", "["))
    is_cut_off = tokens > 0 and CUT_TOKEN.fullmatch(text, end) is not None
    return is_cut_off or tokens >= FEW_TOKENS or KEY_OF_JSON.match(text) is not None


def parse_json(text: str) -> tuple[Any, str]:
    """Return the value of a JSON text, and what is wrong with it: "", or where it is cut off.

    A text that is cut off is read up to its last complete entry. Raises ValueError where it is no JSON.
    """
    try:
        return json.loads(text), ""
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        if (completed := _close_json(text)) is None:
            raise
        try:
            data = json.loads(completed)
        except (ValueError, RecursionError):
            raise error from None
        return data, f"it is cut off in line {text.count(chr(10)) + 1}; what stands before was read"


STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.S)


def _close_json(text: str) -> str | None:
    """Return a JSON text that ends early, closed behind its last complete entry; None where it does not end early."""
    to_close: list[str] = []  # brackets, the innermost last
    last: tuple[int, list[str]] | None = None  # where an entry ended, and what was open then
    for m in STRING_OR_BRACKET.finditer(text):
        if m[0] in ("{", "["):
            to_close.append("}" if m[0] == "{" else "]")
        elif m[0] in ("}", "]"):
            if not to_close or to_close.pop() != m[0] or not to_close:
                return None  # brackets of no JSON, or all of a value with something behind it
            last = (m.end(), to_close.copy())
    if not to_close or last is None:
        return None
    end, still_open = last
    return text[:end] + "".join(reversed(still_open))


def printable(name: str) -> str:
    """Return a name of at most 200 characters, all of which can be printed: a tab becomes "\\x09"."""
    safe = name.encode("utf-8", "backslashreplace").decode("utf-8")
    safe = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in safe)
    return safe if len(safe) <= 200 else f"{safe[:120]}...{safe[-60:]}"
