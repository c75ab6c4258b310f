"""What a text is whose name does not say so: JSON, CSV, LaTeX, HTML, Markdown, or a program's output."""

import csv
import re
from pathlib import Path

from scaleproof.auditor.read import logs, text_files
from scaleproof.auditor.read.csv_layout import DELIMITERS, layout_of
from scaleproof.auditor.read.documents import FENCE, HEADING, unquoted
from scaleproof.auditor.read.grids import SEPARATOR
from scaleproof.auditor.read.headings import column_of

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
