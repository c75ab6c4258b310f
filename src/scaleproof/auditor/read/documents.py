"""Documents for people (Markdown, reST, LaTeX, HTML, plain reports) and notebooks: tables, sentences, sections."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaleproof.auditor.read.grids import (
    MOST_ROWS,
    WIDEST,
    Grid,
    Line,
    aligned_tables,
    box_tables,
    pipe_tables,
    right_aligned_tables,
    ruled_tables,
)
from scaleproof.auditor.read.markup_tables import html_tables, latex_tables

HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
LATEX_HEADING = re.compile(r"\\(chapter|section|subsection|subsubsection|paragraph)\*?\{([^}]*)\}")
UNDERLINE = re.compile(r"([=\-~^\"'*+#])\1{2,}\s*$")
FENCE = re.compile(r"\s*(```+|~~~+)\s*(\w*)")
BOLD_LINE = re.compile(r"\s*(?:\*\*|__)([^*_]{3,120})(?:\*\*|__):?\s*$")
CAPTION = re.compile(r"(?i)\s*(?:\*\*|_|\*)?(?:table|figure|fig\.)\s*\d*[.:].{3,}")
CODE = (
    "python",
    "bash",
    "sh",
    "yaml",
    "json",
    "cpp",
    "c",
    "cuda",
    "dockerfile",
    "toml",
    "ini",
    "javascript",
    "shell",
    "console",
    "diff",
)
ITEM = r"(?:[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=[|>]))?"
QUOTED = re.compile(rf"{ITEM}(?:[ \t]*> ?)*{ITEM}")
SECTION_LINES = 20  # above a table that may state its unit
SHELLS = ("bash", "sh", "shell", "console")  # commands, often with what they printed
LEVELS = {"chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}


@dataclass(slots=True)
class Document:
    """What is in a document: grids with their sections, and lines of prose."""

    grids: list[Grid] = field(default_factory=list)
    prose: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)  # line, text, sections above it


def unquoted(text: str) -> str:
    """A line without the marks of quotes (`> `, `> > `), nor that of a list item with a quote or a table in it."""
    marks = QUOTED.match(text)
    return text[marks.end() :] if marks else text


def read_document(lines: list[Line], kind: str = "markdown") -> Document:
    """Return the tables and the prose of a text, with the sections that they stand in. `kind` is "markdown", "latex",
    "html" or "text".
    """
    document = Document()
    printed = lines
    if kind in ("markdown", "text"):
        lines = [(number, unquoted(raw)) for number, raw in lines]
    text = "\n".join(line_text for _, line_text in lines)
    if kind == "html":
        document.grids = html_tables(text)
        _renumber(document.grids, lines)
        return document
    sections = list(_sections(lines, kind))
    in_code = _code_lines(lines)
    plain = [line for line, code in zip(printed, in_code, strict=True) if not code]
    if kind == "latex":
        document.grids += list(latex_tables(text))
        _renumber(document.grids, lines)
    else:
        document.grids += _text_tables(lines)
        if "<table" in text.lower():
            html_grids = html_tables(text)
            _renumber(html_grids, lines)
            document.grids += html_grids
    below = {number for grid in document.grids for number, _ in grid.rows}
    numbers = {number: k for k, (number, _) in enumerate(lines)}
    for grid in document.grids:
        k = numbers.get(grid.line, 0)
        grid.section = list(sections[k])
        grid.caption = grid.caption or _caption(lines, k)
        grid.above = _paragraph_above(lines, k)
        grid.before = _paragraphs_before(lines, k, below)
    for number, raw in plain:
        stripped = raw.strip()
        if stripped and number not in below and "|" not in stripped[1:-1]:
            document.prose.append((number, stripped, sections[numbers[number]]))
    return document


def _text_tables(lines: list[Line]) -> list[Grid]:
    """Return the tables of Markdown or a plain text. A line belongs to the first form that takes it."""
    pipes = list(pipe_tables(lines))
    taken = _lines_of(pipes)
    free = [(number, text) for number, text in lines if number not in taken]
    boxes = [*box_tables(free), *ruled_tables(free), *right_aligned_tables(free)]
    taken |= _lines_of(boxes)
    free = [(number, "" if number in taken else text) for number, text in free]
    return [*pipes, *boxes, *aligned_tables(free)]


def _lines_of(grids: list[Grid]) -> set[int]:
    """Return the numbers of the lines that the headings and rows of tables stand on."""
    return {number for grid in grids for number, _ in grid.rows} | {grid.line for grid in grids}


def _renumber(grids: list[Grid], lines: list[Line]) -> None:
    """Replace line numbers of the text, 1-based, by those of the file (`lines`), in place."""
    for grid in grids:
        grid.line = lines[min(grid.line, len(lines)) - 1][0] if lines else grid.line
        grid.rows = [(lines[min(n, len(lines)) - 1][0], cells) for n, cells in grid.rows]


def _code_lines(lines: list[Line]) -> list[bool]:
    """Return for each line whether it stands in a fence of program text; one without a language may hold anything."""
    marks = []
    fence = ""
    code = False
    for _, text in lines:
        m = FENCE.match(text)
        if m and not fence:
            fence, code = m[1], m[2].lower() in CODE
            marks.append(True)
        elif m and text.strip().startswith(fence) and not m[2]:
            fence, code = "", False
            marks.append(True)
        else:
            marks.append(bool(fence) and code)
    return marks


def quoted_blocks(lines: list[Line]) -> Iterator[list[Line]]:
    """Yield the lines between fences that may be a program's output: program texts and configurations are left out."""
    fence = ""
    block: list[Line] = []
    for number, text in ((number, unquoted(raw)) for number, raw in lines):
        m = FENCE.match(text)
        if m and not fence:
            fence, output = m[1], m[2].lower() not in CODE or m[2].lower() in SHELLS
            block = []
        elif m and text.strip().startswith(fence) and not m[2]:
            fence = ""
            if output and block:
                yield block
        elif fence:
            block.append((number, text))


def _sections(lines: list[Line], kind: str) -> Iterator[tuple[str, ...]]:
    """For each line the headings that it stands below, outermost first."""
    stack: list[tuple[int, str]] = []
    in_fence = False
    previous = ""
    for _, text in lines:
        in_fence ^= FENCE.match(text) is not None
        level, title = 0, ""
        if kind == "latex":
            if m := LATEX_HEADING.search(text):
                level, title = LEVELS[m[1]], m[2]
        elif in_fence:
            pass  # "# ..." is a comment of a program
        elif m := HEADING.match(text):
            level, title = len(m[1]), m[2]
        elif UNDERLINE.match(text) and previous and len(previous) <= 80 and "|" not in previous:
            level, title = (1 if text[0] == "=" else 2), previous
        elif m := BOLD_LINE.match(text):
            level, title = 6, m[1]
        if level:
            stack = [(upper, heading) for upper, heading in stack if upper < level] + [(level, title.strip())]
        previous = text.strip()
        yield tuple(heading for _, heading in stack)


def _paragraph_above(lines: list[Line], k: int) -> str:
    """Return the paragraph right above line `k`, counted from 0, where a table begins; "" for a heading, a list,
    another table, or a gap of two lines.
    """
    end = k - 1 if k and lines[k - 1][1].strip() else k - 2
    start = end
    while start >= 0 and k - start < 8 and (text := lines[start][1].strip()):
        if HEADING.match(text) or FENCE.match(text) or text.startswith(("|", "+", "<", "!", "- ", "* ")):
            break
        start -= 1
    return " ".join(text.strip() for _, text in lines[start + 1 : end + 1])[:400]


def _paragraphs_before(lines: list[Line], k: int, of_tables: set[int]) -> list[str]:
    """Return the paragraphs between a table (from line `k`, counted from 0) and the heading or the other table above
    it, the nearest first. `of_tables` are the numbers of lines in tables.
    """
    paragraphs: list[list[str]] = [[]]
    for number, raw in reversed(lines[max(k - SECTION_LINES, 0) : k]):
        text = raw.strip()
        if HEADING.match(text) or FENCE.match(text) or number in of_tables:
            break
        if text:
            paragraphs[-1].insert(0, text)
        elif paragraphs[-1]:
            paragraphs.append([])
    return [" ".join(paragraph)[:400] for paragraph in paragraphs if paragraph]


def _caption(lines: list[Line], k: int) -> str:
    """Return the line right above a table (from line `k`, counted from 0) where it reads like its caption, or the one
    right below that says "Table 1: ..."; else "".
    """
    above = next((text.strip() for _, text in reversed(lines[max(k - 3, 0) : k]) if text.strip()), "")
    is_markup = HEADING.match(above) or FENCE.match(above) or above.startswith(("|", "+", "-", "<", "!"))
    if not is_markup and (CAPTION.match(above) or above.endswith(":") or BOLD_LINE.match(above)):
        return above[:300]
    end = k + 1
    while end < len(lines) and lines[end][1].strip():
        end += 1
    below = next((text.strip() for _, text in lines[end : end + 2] if text.strip()), "")
    return below[:300] if CAPTION.match(below) else ""


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
