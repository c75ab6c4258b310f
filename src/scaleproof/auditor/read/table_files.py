"""Tables in CSV files, plain text, notebooks and workbooks."""

import csv
import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.csv_logs import DELIMITERS
from scaleproof.auditor.read.documents import Document, read_document, take_document, take_grids
from scaleproof.auditor.read.grids import MOST_ROWS, WIDEST, Grid, Line
from scaleproof.auditor.read.report_blocks import report_blocks
from scaleproof.auditor.read.reported import Evidence, Unread
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.auditor.read.typed_tables import read_table
from scaleproof.ground.errors import plural

RANK_PREFIX = re.compile(r"(?:\[1,(?=\d))?\[?(?:rank ?)?(?P<rank>\d{1,5})(?:\]<std(?:out|err)>: ?|\]?: )")
REPORT_LINES = 2_000  # at either end of a long text


def read_plain_text(evidence: Evidence, path: Path, name: str, encoding: str) -> bool:
    """Read a report in plain text: tables, and blocks of `name: figure`. Return whether it is one; logs are none."""
    if path.stat().st_size > text_files.LARGEST_TEXT:
        return False
    numbered = enumerate(text_files.full_text(path, encoding).splitlines(), start=1)
    lines = _both_ends(of_first_rank(list(numbered)))
    grids = [*read_document(lines, "text").grids, *report_blocks(lines)]
    tables = [table for grid in grids if (table := read_table(grid, name)) and not _is_log(table)]
    evidence.tables += tables
    return bool(tables)


def _both_ends(lines: list[Line]) -> list[Line]:
    """Return the first and the last REPORT_LINES, an empty line between them: of a log a report is at either end."""
    if len(lines) <= 2 * REPORT_LINES:
        return lines
    cut_at, _ = lines[REPORT_LINES]
    return [*lines[:REPORT_LINES], (cut_at, ""), *lines[-REPORT_LINES:]]


def of_first_rank(lines: list[Line]) -> list[Line]:
    """Return the lines of the first rank without its prefix "[1,0]<stdout>: "; all lines where few have a prefix."""
    opening = [RANK_PREFIX.match(text) for _, text in lines[:REPORT_LINES] if text.strip()]
    if len(opening) < 3 or sum(m is not None for m in opening) < 0.9 * len(opening):
        return lines
    if 2 * len({m["rank"] for m in opening if m is not None}) > len(opening):
        return lines  # the prefixes are numbers of lines
    matched = [(number, text, RANK_PREFIX.match(text)) for number, text in lines]
    first_rank = next(m["rank"] for _, _, m in matched if m is not None)
    return [(number, text[m.end() :]) for number, text, m in matched if m is not None and m["rank"] == first_rank]


def _is_log(table: ReportedTable) -> bool:
    """Whether the rows of a table are steps or epochs of one run: figures along a run, not results."""
    places = [row.value("step") or row.value("epoch") for row in table.rows]
    return sum(place is not None for place in places) * 2 > len(places) and len({*places} - {None, 0}) > 2


def read_csv_table(evidence: Evidence, path: Path, name: str, encoding: str, steps: bool = False) -> bool:
    """Read a CSV file with a row for each result. Return whether it is one; a log of steps or epochs is none.

    `steps`: its steps or epochs are known to be lengths of runs, one a row.
    """
    rows: list[tuple[int, list[str]]] = []
    lines = text_files.lines(path, encoding)
    opening = list(islice(lines, 20))  # in which the headings must be, below comments
    heading = next((k for k, line in enumerate(opening) if line.strip() and not _is_comment(opening, k)), None)
    if heading is None:
        return False
    delimiter = max(DELIMITERS, key=opening[heading].count)
    for number, line in enumerate([*opening[heading:], *islice(lines, MOST_ROWS + 1)], start=heading + 1):
        if line.strip():
            rows.append((number, next(csv.reader([line.replace("\0", "")], delimiter=delimiter), [])))
    line_number, header = rows[0]
    if len(rows) < 2 or len(header) < 2:
        return False
    grid = Grid("CSV", line_number, header, rows[1:], cut_off=len(rows) > MOST_ROWS)
    table = read_table(grid, name)
    if table is None or (not steps and _is_log(table)):
        return False
    evidence.tables.append(table)
    too_long = [number for number, row in rows[1:] if any(value.strip() for value in row[len(header) :])]
    if too_long:
        reason = (
            f"{plural(len(too_long), 'line')} with more values than the heading has names; decimal commas need quotes"
        )
        evidence.unread.append(Unread(f"{name}:{too_long[0]}", reason))
    return True


def _is_comment(lines: list[str], k: int) -> bool:
    """Whether line `k` is a comment. "# GPUs,Batch,..." is a heading, if the next line has as many cells."""
    if not lines[k].startswith("#"):
        return False
    following = next((line for line in lines[k + 1 :] if line.strip()), "")
    is_heading = any(0 < following.count(delimiter) == lines[k].count(delimiter) for delimiter in DELIMITERS)
    return not is_heading


def read_notebook_file(evidence: Evidence, text: str, name: str) -> tuple[bool, list[list[Line]]]:
    """Read a notebook. Return whether a result was in it, and what each cell printed. Raises UnreadableFile."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"it is no notebook: {str(error)[:100]}") from None
    document = Document()
    printed: list[list[Line]] = []
    finder = _LineFinder(text)
    cells = data.get("cells", []) if isinstance(data, dict) else []
    if not isinstance(cells, list):
        raise UnreadableFile("it is no notebook: its cells are no list")
    for cell in (cell for cell in cells if isinstance(cell, dict)):
        if cell.get("cell_type") == "markdown":
            document += read_document(finder.lines(_joined(cell.get("source"))))
        printed_by_cell: list[Line] = []
        printed.append(printed_by_cell)
        for output in (output for output in cell.get("outputs") or [] if isinstance(output, dict)):
            html, plain = _texts_of_output(output)
            if "<table" in html:
                document += read_document(finder.lines(html), "html")
            elif plain:
                lines = finder.lines(plain)
                printed_by_cell += lines
                document += read_document(lines, "text")
    added = take_document(evidence, document, name)
    for lines in printed:
        added += take_grids(evidence, report_blocks(lines), name)
    return added > 0, printed


def _texts_of_output(output: dict[str, Any]) -> tuple[str, str]:
    """Return the HTML and the plain text of an output, each "" where it has none."""
    data = output.get("data")
    by_type = data if isinstance(data, dict) else {}
    return _joined(by_type.get("text/html")), _joined(by_type.get("text/plain")) or _joined(output.get("text"))


def _joined(source: Any) -> str:
    """Return a text of a notebook, which is a string or a list of lines: ["a\\n", "b"] -> "a\\nb"."""
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


class _LineFinder:
    """Finds the lines of a notebook's texts in its file, from the top down."""

    def __init__(self, text: str) -> None:
        self._file = text.splitlines()
        self._found_at = 0  # index of the line of the file that was found last

    def lines(self, text: str) -> list[Line]:
        """Return the lines of a text with their numbers in the file; one that is not found has that of the last one."""
        lines = []
        for line in text.splitlines():
            encoded = json.dumps(line)[1:-1].strip()
            if len(encoded) >= 3:  # a shorter one may be found anywhere
                nearby = range(self._found_at, min(self._found_at + 400, len(self._file)))
                self._found_at = next((k for k in nearby if encoded in self._file[k]), self._found_at)
            lines.append((self._found_at + 1, line))
        return lines


LARGEST_WORKBOOK_BYTES = 32 << 20


def read_spreadsheet(evidence: Evidence, path: Path, name: str) -> bool:
    """Read an .xlsx file: each block of filled rows in a sheet. Return whether a table of results was in it.

    Raises UnreadableFile.
    """
    import openpyxl  # takes a tenth of a second, and few folders have a workbook

    fault = "the workbook cannot be opened:"
    if path.stat().st_size > LARGEST_WORKBOOK_BYTES:
        raise UnreadableFile(f"{fault} more than {LARGEST_WORKBOOK_BYTES >> 20} MiB")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception:  # openpyxl raises whatever its zip and XML readers raise
        raise UnreadableFile(f"{fault} it is damaged, encrypted, or not what its name says") from None
    grids: list[Grid] = []
    for sheet in book.worksheets:
        block: list[tuple[int, list[str]]] = []
        for number, values in enumerate(sheet.iter_rows(values_only=True, max_row=MOST_ROWS, max_col=WIDEST), start=1):
            cells = ["" if value is None else str(value) for value in values]
            if any(cells):
                block.append((number, cells))
            else:
                grids += _grid_of_block(block, sheet.title)
                block = []
        grids += _grid_of_block(block, sheet.title)
    book.close()
    return take_grids(evidence, grids, name) > 0


def _grid_of_block(rows: list[tuple[int, list[str]]], sheet: str) -> list[Grid]:
    """Return the grid of rows that follow each other; [] unless there are headings and at least one row below them."""
    caption = ""
    if rows and len(filled := [cell for cell in rows[0][1] if cell]) == 1:
        caption, rows = filled[0], rows[1:]
    if len(rows) < 2:
        return []
    line, header = rows[0]
    return [Grid("spreadsheet", line, header, rows[1:], caption=caption, section=[sheet])]
