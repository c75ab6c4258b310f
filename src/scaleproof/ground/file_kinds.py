"""What a file that is no text is, by its first bytes, and how one that a library cannot read is damaged."""

import re
from pathlib import Path
from typing import Literal, NamedTuple


class Kind(NamedTuple):
    """A kind of file: what it is called, and what one does with its group."""

    name: str
    group: Literal["archive", "packed", "table", "document", "picture"]


# How files of a kind begin, whatever they are called.
KINDS = {
    b"\x1f\x8b": Kind("gzip data", "packed"),
    b"PK\x03\x04": Kind("a zip archive or an Office document", "archive"),
    b"7z\xbc\xaf": Kind("a 7z archive", "packed"),
    b"Rar!\x1a\x07": Kind("a rar archive", "packed"),
    b"\x28\xb5\x2f\xfd": Kind("zstd data", "packed"),
    b"\xfd7zXZ": Kind("xz data", "packed"),
    b"\x04\x22\x4d\x18": Kind("lz4 data", "packed"),
    b"BZh": Kind("bzip2 data", "packed"),
    b"PAR1": Kind("Parquet", "table"),
    b"PARE": Kind("encrypted Parquet", "table"),
    b"ARROW1": Kind("Arrow", "table"),
    b"\xff\xff\xff\xff": Kind("a stream of Arrow", "table"),
    b"Obj\x01": Kind("Avro", "table"),
    b"SQLite format 3": Kind("an SQLite database", "table"),
    b"\x89HDF": Kind("HDF5", "table"),
    b"\x93NUMPY": Kind("an array of NumPy", "table"),
    b"\xd0\xcf\x11\xe0": Kind("an old or encrypted Office document", "document"),
    b"%PDF": Kind("a PDF", "document"),
    b"{\\rtf": Kind("RTF", "document"),
    b"\x89PNG": Kind("a picture", "picture"),
    b"\xff\xd8\xff": Kind("a picture", "picture"),
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # with which a text in UTF-16 begins
OF_TEXT = {"packed": "unpack it", "archive": "unpack it, or save its text"}  # group -> what to do, to have its text
TESTS = {".gz": "gzip -t", ".bz2": "bzip2 -t", ".zst": "zstd -t"}  # suffix -> the command that tests such a file
# What a library says of packed data -> what is wrong with them.
DAMAGES = {
    "runcated|nded before": "is cut off: its packed data do not come to their end",
    "header|magic|descriptor": "has more behind the end of its packed data, which is not packed",
    "": "is damaged: its packed data have faults",
}


def kind_of(start: bytes) -> Kind | None:
    """Return the kind of a file that begins with `start`. None for a text, and for a kind that is not known."""
    return next((kind for magic, kind in KINDS.items() if start.startswith(magic)), None)


def no_utf_8_fault(data: bytes) -> str:
    """Return that `data` are no text in UTF-8: "it is not UTF-8 text, but gzip data", if their first bytes tell."""
    kind = kind_of(data)
    name = kind.name if kind else "UTF-16" * data.startswith(UTF_16)
    return "it is not UTF-8 text" + f", but {name}" * bool(name)


def no_text_fault(start: bytes) -> str:
    """Return what a file is that begins so and is no text: "is gzip data, not text; unpack it". "" for others."""
    kind = kind_of(start)
    return f"is {kind.name}, not text; {OF_TEXT.get(kind.group, 'a text belongs here')}" if kind else ""


def damage_of(path: Path, problem: str) -> str:
    """Return how a Parquet file, or one that is packed, is damaged, to be said after its name, and how to test it.

    `problem`: what the library that reads it says; returned as it is for a file of another kind.
    """
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1"
        file.seek(max(path.stat().st_size - 4, 4))
        end = file.read()
    if is_parquet:
        fault = "damaged: its parts do not fit together" if end == b"PAR1" else "cut off: it ends without PAR1"
        return f"is {fault}; copy or write it again"
    if path.suffix in TESTS:
        return f"{damage_of_packed(problem)}; copy it again, and test it: {TESTS[path.suffix]} {path}"
    return problem


def damage_of_packed(problem: str) -> str:
    """Return what is wrong with packed data, by what the library that unpacks them says."""
    return next(damage for words, damage in DAMAGES.items() if re.search(words, problem))
