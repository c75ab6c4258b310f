"""Jupyter notebooks and spreadsheets: what their cells printed and say."""

import json
from pathlib import Path
from typing import Any

from scaleproof.auditor.read.documents import Document, read_document
from scaleproof.auditor.read.grids import MOST_ROWS, WIDEST, Grid, Line

LARGEST_SHEET = 32 << 20


def read_notebook(text: str) -> tuple[Document, list[list[Line]]]:
    """Return tables and prose of a notebook, and for each cell the lines that it printed, as lines of the .ipynb file.
    Raises ValueError.
    """
    data = json.loads(text)
    document = Document()
    printed: list[list[Line]] = []
    finder = _Finder(text)
    for cell in data.get("cells", []) if isinstance(data, dict) else []:
        if not isinstance(cell, dict):
            continue
        if cell.get("cell_type") == "markdown":
            _append(document, read_document(finder.lines(_text(cell.get("source")))))
        of_cell: list[Line] = []
        printed.append(of_cell)
        for output in cell.get("outputs") or []:
            if not isinstance(output, dict):
                continue
            by_type = output.get("data")
            if not isinstance(by_type, dict):
                by_type = {}
            html = _text(by_type.get("text/html"))
            plain = _text(by_type.get("text/plain")) or _text(output.get("text"))
            if "<table" in html:
                _append(document, read_document(finder.lines(html), "html"))
            elif plain:
                lines = finder.lines(plain)
                of_cell += lines
                _append(document, read_document(lines, "text"))
    return document, printed


def _append(document: Document, part: Document) -> None:
    document.grids += part.grids
    document.prose += part.prose


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(v for v in value if isinstance(v, str))
    return value if isinstance(value, str) else ""


class _Finder:
    """Finds the lines of a notebook's texts in its file, from the top down."""

    def __init__(self, text: str) -> None:
        self._file = text.splitlines()
        self._at = 0

    def lines(self, text: str) -> list[Line]:
        """Return the lines of a text, each with the number of the line of the file where it was last seen to stand."""
        lines = []
        for line in text.splitlines():
            encoded = json.dumps(line)[1:-1].strip()
            if len(encoded) >= 3:
                for k in range(self._at, min(self._at + 400, len(self._file))):
                    if encoded in self._file[k]:
                        self._at = k
                        break
            lines.append((self._at + 1, line))
        return lines


def read_workbook(path: Path) -> list[Grid]:
    """Return a grid for each block of filled rows in the sheets of an .xlsx file. Raises ValueError for others."""
    import openpyxl  # takes a tenth of a second, and few folders have a workbook

    if path.stat().st_size > LARGEST_SHEET:
        raise ValueError(f"more than {LARGEST_SHEET >> 20} MiB")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception:  # openpyxl raises whatever its zip and XML readers raise
        raise ValueError("it is damaged, encrypted, or not what its name says") from None
    grids: list[Grid] = []
    for sheet in book.worksheets:
        block: list[tuple[int, list[str]]] = []
        for number, values in enumerate(sheet.iter_rows(values_only=True, max_row=MOST_ROWS, max_col=WIDEST), start=1):
            cells = ["" if v is None else str(v) for v in values]
            if any(cells):
                block.append((number, cells))
            else:
                grids += _block(block, sheet.title)
                block = []
        grids += _block(block, sheet.title)
    book.close()
    return grids


def _block(rows: list[tuple[int, list[str]]], title: str) -> list[Grid]:
    """Return the grid of filled rows (a first one with one cell is its caption); none where only one row is left."""
    if len(rows) < 2:
        return []
    caption = ""
    line, header = rows[0]
    filled = [cell for cell in header if cell]
    if len(filled) == 1:
        caption = filled[0]
        rows = rows[1:]
        line, header = rows[0]
    if len(rows) < 2:
        return []
    return [Grid("spreadsheet", line, header, rows[1:], caption=caption, section=[title])]
