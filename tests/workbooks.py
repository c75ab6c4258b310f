"""Workbooks whose content was changed behind the back of their writer."""

import zipfile
from pathlib import Path
from typing import NamedTuple

import openpyxl


class Workbooks(NamedTuple):
    """A workbook as it was written, and its changed copy."""

    sound: Path
    changed: Path


def changed_workbook(folder: Path, rows: tuple[tuple[object, ...], ...], old: bytes, new: bytes) -> Workbooks:
    """Write a workbook of `rows`, and a copy with `new` for `old` in all parts of its archive."""
    books = Workbooks(folder / "sound.xlsx", folder / "changed.xlsx")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(books.sound)
    with zipfile.ZipFile(books.sound) as sound, zipfile.ZipFile(books.changed, "w") as changed:
        for name in sound.namelist():
            changed.writestr(name, sound.read(name).replace(old, new))
    return books
