"""What a file is by its suffix, or, without one, by how it begins."""

import csv
import re
from itertools import accumulate
from pathlib import Path

from scaleproof.auditor.read import logs
from scaleproof.auditor.read.csv_logs import DELIMITERS, layout_of
from scaleproof.auditor.read.documents import FENCE, HEADING, unquoted
from scaleproof.auditor.read.grids import is_separator
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.json_text import begins_like_json
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.ground.file_kinds import kind_of
from scaleproof.ground.files import HTML_PAGE

DOCUMENTS = {".tex": "latex", ".html": "html", ".htm": "html"}
DOCUMENTS |= dict.fromkeys((".md", ".markdown", ".mdx", ".rmd", ".qmd", ".rst", ".org"), "markdown")
SETTINGS = (".yaml", ".yml", ".toml", ".ini", ".cfg")
PLAIN = (".txt", ".text", ".dat", ".out", ".log", ".err", "")
NOTEBOOK = re.compile(r'"(?:nbformat|cell_type)"\s*:')
LATEX = re.compile(r"\\begin\{(?:document|table\*?|tabular[xy]?\*?|longtable|tblr)\}|\\documentclass")
PART_OF_PAGE = re.compile(r"(?i)\s*<(?:table|div|h\d)\b")
LINES_LOOKED_AT = 400
# Group of a kind of file that is not read -> what to do with it.
CURES = {
    "archive": "; name it .zip or .xlsx",
    "packed": "; unpack it",
    "table": "; export its tables as CSV",
    "document": "; its source (LaTeX, Markdown, CSV) is read",
    "picture": "",
}
FORMS_BY_NAME = {".xlsx": "a workbook", ".tfevents.": "an event file of TensorBoard"}


def suffix_by_contents(opening: str) -> str:
    """Return the suffix that a text would have by how it begins: "# Results" -> ".md". "" for plain text and logs."""
    if begins_like_json(opening) and not logs.reader_of(opening[:20_000]):
        return ".ipynb" if NOTEBOOK.search(opening) else ".json"
    if HTML_PAGE.match(opening) or PART_OF_PAGE.match(opening):
        return ".html"
    if LATEX.search(opening):
        return ".tex"
    lines = opening.splitlines()[:LINES_LOOKED_AT]
    if _is_markdown(lines):
        return ".md"
    return ".csv" if _is_csv(lines) and not (logs.reader_of(opening) or logs.guessing_reader_of(opening)) else ""


def _is_markdown(lines: list[str]) -> bool:
    """Whether a text has headings, fences or tables of Markdown, and is not a log with a few lines like them."""
    plain = [unquoted(line) for line in lines]
    fences = [FENCE.match(line) is not None for line in plain]
    below_bars = [False, *("|" in line for line in plain)]  # whether the line above has bars
    marks = sum(
        is_fence or HEADING.match(line) is not None or (is_below_bars and is_separator(line))
        for line, is_fence, is_below_bars in zip(plain, fences, below_bars, strict=False)
    )
    if not marks or 5 * marks > len(plain):  # none, or more than a log would have
        return marks > 0
    fences_so_far = accumulate(fences)  # an odd number within a block
    text = "\n".join(line for line, count in zip(plain, fences_so_far, strict=True) if count % 2 == 0)
    return not (logs.reader_of(text) or logs.guessing_reader_of(text))


def _is_csv(lines: list[str]) -> bool:
    """Whether lines are rows of equal length below a heading that is a log's, or of which half is understood."""
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


def fault_of_binary(path: Path, start: bytes) -> UnreadableFile:
    """Return why a file that is no text was not read: by its first bytes it is "gzip data; name it .gz"."""
    kind = kind_of(start)
    form = None if kind else next((form for word, form in FORMS_BY_NAME.items() if word in path.name.lower()), None)
    if form:
        return UnreadableFile(f"it does not begin like {form}: it is damaged, or not what its name says")
    if kind is None:
        return UnreadableFile(f"it is binary (byte {start.index(0)} of it is 0)", "binary")
    cure = "; name it .gz" if kind.name == "gzip data" else CURES[kind.group]  # which is unpacked here
    return UnreadableFile(f"by its first bytes it is {kind.name}{cure}", "binary")
