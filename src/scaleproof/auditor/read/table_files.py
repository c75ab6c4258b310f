"""Tables in CSV files, plain text, notebooks and workbooks."""

import contextlib
import csv
import json
import re
import zipfile
from collections.abc import Iterable
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.csv_logs import DELIMITERS
from scaleproof.auditor.read.documents import Document, fitting_table, read_document, take_document, take_grids
from scaleproof.auditor.read.grids import MOST_ROWS, WIDEST, Grid, Line, Row, below_titles
from scaleproof.auditor.read.json_results import DURATION
from scaleproof.auditor.read.printed_figures import RESULTS
from scaleproof.auditor.read.report_blocks import report_blocks
from scaleproof.auditor.read.reported import Evidence, Unread
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.run_fields import figure
from scaleproof.auditor.read.text_files import TextFile, UnreadableFile
from scaleproof.ground.errors import describe_first_fault, plural

ROWS_LEFT_OUT = f"only its first {MOST_ROWS:,} rows were read"
MOST_LINES_OF_ROW = 200  # of a CSV file
MOST_LINES_OF_TEXTS = 20_000  # in quotes, beyond one a row
LEAST_LINES_OF_LOG = 10
STEP = re.compile(r"(?i)(?:\b|_)(?:step|epoch|iter\w*)[ =:]+\d+")
REPORT_LINES = 2_000  # at either end of a long text


def read_plain_text(evidence: Evidence, file: TextFile) -> bool:
    """Read a report in plain text: tables, and blocks of `name: figure`. Return whether it is one; logs are none."""
    if file.path.stat().st_size > text_files.LARGEST_TEXT:
        return False
    text = text_files.full_text(file.path, file.encoding)
    lines = _both_ends(list(enumerate(text.splitlines(), start=1)))
    blocks = [grid for grid in report_blocks(lines) if not _is_log_of_pairs(grid, dict(lines))]
    grids = [*read_document(lines, "text").grids, *blocks]
    has_results = False
    for table, notes in [fitting_table(grid, file.name) for grid in grids]:
        if table is not None and table.kinds() & RESULTS and not _is_log(table):
            evidence.tables.append(table)
            evidence.unread += notes
            has_results = True
    return has_results


def _both_ends(lines: list[Line]) -> list[Line]:
    """Return the first and the last REPORT_LINES, with an empty line between: a log has its report at either end."""
    if len(lines) <= 2 * REPORT_LINES:
        return lines
    cut_at, _ = lines[REPORT_LINES]
    return [*lines[:REPORT_LINES], (cut_at, ""), *lines[-REPORT_LINES:]]


def _is_log_of_pairs(grid: Grid, lines: dict[int, str]) -> bool:
    """Whether the blocks of a report are the lines of a run, one below the other: "step 7 loss=2.1 tokens/s=4567"."""
    numbers = [line for line, _ in grid.rows]
    is_line_by_line = numbers[-1] - numbers[0] == len(numbers) - 1
    if len(numbers) < LEAST_LINES_OF_LOG or not is_line_by_line:
        return False
    steps = [tuple(STEP.findall(lines[n])) for n in numbers]
    return all(steps) and len(set(steps)) > 2  # not "iters=100" in each


def _is_log(table: ReportedTable) -> bool:
    """Whether the rows of a table are steps or epochs of one run: figures along a run, not results."""
    numbers = [row.value("step") or row.value("epoch") for row in table.rows]
    numbered_count = sum(number is not None for number in numbers)
    return numbered_count * 2 > len(numbers) and len(set(numbers) - {None, 0}) > 2


def read_csv_table(evidence: Evidence, file: TextFile, has_lengths_of_runs: bool = False) -> bool:
    """Read a CSV file with a row for each result. Return whether it is one; a log of steps or epochs is none.

    `has_lengths_of_runs`: its steps or epochs are lengths of runs, one a row.
    """
    rows, odd_lines = _csv_rows(file)
    is_cut_off, rows = len(rows) > MOST_ROWS + 1, rows[: MOST_ROWS + 1]
    if len(rows) < 2:
        return False
    header_line, header = rows[0]
    if len(header) < 2:
        return False
    cells_by_line = [(number, cells[:WIDEST]) for number, cells in rows[1:]]
    grid = Grid("CSV", header_line, header[:WIDEST], cells_by_line, cut_off=is_cut_off)
    table, notes = fitting_table(grid, file.name)
    if table is None or not table.kinds() & RESULTS or not _is_of_benchmark(table):
        if len(header) > WIDEST and file.is_named:
            raise UnreadableFile(f"it has {len(header):,} columns, of which the first {WIDEST} hold no result", "limit")
        return False
    if not has_lengths_of_runs and _is_log(table):
        return False
    evidence.unread += notes
    if notes and grid.rows is cells_by_line:  # doubtful rows alone: a file of results is reported as broken
        return False
    evidence.tables.append(table)

    names = [column.heading for column in table.columns if column.kind in RESULTS]
    if len(set(names)) < len(names):
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        reason = f"columns of one name: {', '.join(twice[:5])}; give each a name of its own"
        evidence.unread.append(Unread(f"{file.name}:{header_line}", reason, "unknown form"))
    if odd_lines:
        reason = f"{plural(len(odd_lines), 'line')} with a quote that opens or closes alone; each was read by itself"
        evidence.unread.append(Unread(f"{file.name}:{odd_lines[0]}", reason))
    if is_cut_off:
        evidence.unread.append(Unread(file.name, ROWS_LEFT_OUT, "limit"))
    if len(header) > WIDEST:
        evidence.unread.append(Unread(file.name, f"only its first {WIDEST} columns were read", "limit"))
    return True


def _is_of_benchmark(table: ReportedTable) -> bool:
    """Whether a CSV file has devices or results: "time" without a unit may be an index, a "duration" of anything."""
    figures = [f for row in table.rows for f in row.figures if not DURATION.fullmatch(f.heading)]
    results = {f.kind for f in figures if f.kind in RESULTS and (f.unit_stated or f.heading.lower() != "time")}
    names_rows = any("strategy" in row.words for row in table.rows)
    names_rows |= any(column.heading.lower() in ("threads", "cores", "cpus") for column in table.columns)
    return bool(results) or names_rows or bool(table.kinds() & {"devices", "processes", "nodes"})


def _csv_rows(file: TextFile) -> tuple[list[Row], list[int]]:
    """Return (line, cells) of each row of a CSV file from its headings on, and lines where a quote stands alone.

    Both are [] where only comments begin it.
    """
    lines = file.lines()  # an iterator: what `opening` takes is gone from it
    opening = list(islice(lines, 20))  # in which the headings must be, below a title and comments
    places = [k for k, line in enumerate(opening) if set(line) & {*DELIMITERS} and not _is_comment(opening, k)]
    if not places:
        return [], []
    first = next((k for k in places if _is_heading(opening, k)), places[0])
    delimiter = max(DELIMITERS, key=opening[first].count)

    numbered = enumerate([*opening[first:], *islice(lines, MOST_ROWS + MOST_LINES_OF_TEXTS)], start=first + 1)
    filled_lines = [(number, line) for number, line in numbered if line.strip()]
    rows: list[Row] = []
    odd_lines: list[int] = []
    k = 0
    while k < len(filled_lines) and len(rows) < MOST_ROWS + 2:
        number, line = filled_lines[k]
        line_count, cells = _row_from([text for _, text in filled_lines[k : k + MOST_LINES_OF_ROW]], delimiter)
        if line_count > 1 and rows and len(cells) != len(rows[0][1]):  # a quote that is never closed, or an inch
            line_count, cells = _row_from([line], delimiter)
        if line_count == 1 and line.count('"') % 2:
            odd_lines.append(number)
        rows.append((number, cells))
        k += line_count
    return rows, odd_lines


def _row_from(lines: list[str], delimiter: str) -> tuple[int, list[str]]:
    """Return how many lines the first row of a CSV file takes, and its cells: a text in quotes may have line breaks."""
    quotes = accumulate(line.count('"') for line in lines)
    line_count = next((k for k, count in enumerate(quotes, start=1) if count % 2 == 0), 1)
    return line_count, _cells(" ".join(map(str.strip, lines[:line_count])), delimiter)


def _cells(text: str, delimiter: str) -> list[str]:
    return next(csv.reader([text], delimiter=delimiter), [])


def _is_heading(lines: list[str], k: int) -> bool:
    """Whether line `k` has names alone, as many as the row below it has cells. A title with commas has not."""
    following = next((line for line in lines[k + 1 :] if line.strip()), "")
    delimiter = max(DELIMITERS, key=lines[k].count)
    names, cells = _cells(lines[k], delimiter), _cells(following, delimiter)
    return 1 < len(names) == len(cells) and not any(figure(name) is not None for name in names)


def _is_comment(lines: list[str], k: int) -> bool:
    """Whether line `k` is a comment, or says a delimiter to Excel; "# GPUs,Batch,..." before as many cells is none."""
    if lines[k].startswith("sep="):
        return True
    if not lines[k].startswith("#"):
        return False
    following = next((line for line in lines[k + 1 :] if line.strip()), "")
    is_heading = any(0 < following.count(delimiter) == lines[k].count(delimiter) for delimiter in DELIMITERS)
    return not is_heading


def read_notebook_file(evidence: Evidence, text: str, name: str) -> tuple[bool, list[list[Line]]]:
    """Read a notebook. Return whether a result was in it, and what each cell printed. Raises UnreadableFile.

    In a file of fewer lines than cells, cells are numbered instead of lines: "a.ipynb#cell:3".
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"it is no notebook: {describe_first_fault(error)}") from None
    cells = data.get("cells") if isinstance(data, dict) else None
    if not isinstance(cells, list):
        raise UnreadableFile("it is no notebook of format 4, which has a list of cells: save it with a newer Jupyter")

    document = Document()
    finder = _LineFinder(text)
    is_packed = text.count("\n") < len(cells)
    lines_by_cell: list[list[Line]] = []
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict):
            continue
        finder.cell = number if is_packed else None
        if cell.get("cell_type") == "markdown":
            document += read_document(finder.lines(_joined(cell.get("source"))))
        lines_by_cell.append(_read_outputs(cell, document, finder))

    if is_packed:
        name += "#cell"
    added = take_document(evidence, document, name)
    for lines in lines_by_cell:
        added += take_grids(evidence, report_blocks(lines), name)
    return added > 0, lines_by_cell


def _read_outputs(cell: dict[str, Any], document: Document, finder: "_LineFinder") -> list[Line]:
    """Add the outputs of a cell of a notebook to `document`. Return the lines of text that it printed."""
    printed_lines: list[Line] = []
    for output in cell.get("outputs") or []:
        if not isinstance(output, dict):
            continue
        html, plain = _texts_of_output(output)
        if "<table" in html:
            document += read_document(finder.lines(html), "html")
        elif plain:
            lines = finder.lines(plain)
            printed_lines += lines
            document += read_document(lines, "text")
    return printed_lines


def _texts_of_output(output: dict[str, Any]) -> tuple[str, str]:
    """Return the HTML and the plain text of an output of a notebook, or "" for what it lacks."""
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
        self._lines_of_file = text.splitlines()
        self._last_index = 0  # of the line of the file that was found last
        self.cell: int | None = None  # the number that all lines get; None: that of their line in the file

    def lines(self, text: str) -> list[Line]:
        """Return the lines of a text with their numbers in the file. A line that is not found has the number before."""
        if self.cell is not None:
            return [(self.cell, line) for line in text.splitlines()]
        lines = []
        for line in text.splitlines():
            encoded = json.dumps(line)[1:-1].strip()
            if len(encoded) >= 3:  # a shorter one may be found anywhere
                nearby = range(self._last_index, min(self._last_index + 400, len(self._lines_of_file)))
                self._last_index = next((k for k in nearby if encoded in self._lines_of_file[k]), self._last_index)
            lines.append((self._last_index + 1, line))
        return lines


NO_NUMBER = re.compile(r"(?i)'[-+]?(?:nan|inf)'$")  # a figure that openpyxl stops at
LARGEST_WORKBOOK_BYTES = 32 << 20
# A text may be "" by its formula.
FORMULA_ALONE = re.compile(rb'<c\b(?![^>]*\bt="str")[^>]*><f\b[^>]*>[^<]*</f>(?:<v */>|<v></v>)?</c>')


def read_spreadsheet(evidence: Evidence, path: Path, name: str) -> bool:
    """Read each block of filled rows of an .xlsx file. Return whether one has results. Raises UnreadableFile."""
    import openpyxl  # takes a tenth of a second, and few folders have a workbook

    fault = "the workbook cannot be opened:"
    if path.stat().st_size > LARGEST_WORKBOOK_BYTES:
        raise UnreadableFile(f"{fault} more than {LARGEST_WORKBOOK_BYTES >> 20} MiB")
    rows_by_sheet: dict[str, list[tuple[Any, ...]]] = {}
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        for sheet in book.worksheets:
            rows_by_sheet[sheet.title] = [*sheet.iter_rows(values_only=True, max_row=MOST_ROWS + 1, max_col=WIDEST)]
        book.close()
    except Exception as error:  # openpyxl raises whatever its zip and XML readers raise
        if NO_NUMBER.search(str(error)):
            raise UnreadableFile("a cell of the workbook is NaN or infinite; give it as CSV", "limit") from None
        raise UnreadableFile(f"{fault} it is damaged, encrypted, or not what its name says") from None
    with zipfile.ZipFile(path) as parts, contextlib.suppress(Exception):  # a part that is in no sheet may be damaged
        sheets = (parts.read(part) for part in parts.namelist() if part.startswith("xl/worksheets/sheet"))
        if any(FORMULA_ALONE.search(sheet) for sheet in sheets):
            reason = "formulas without their values were not read; open the workbook, and save it again"
            evidence.unread.append(Unread(name, reason, "limit"))
    table_count = 0
    for title, rows in rows_by_sheet.items():
        place = f"{name}#{title}" if len(rows_by_sheet) > 1 else name  # each sheet has a row 5
        if len(rows) > MOST_ROWS:
            evidence.unread.append(Unread(place, ROWS_LEFT_OUT, "limit"))
        grids: list[Grid] = []
        for block in _blocks_of_filled_rows(rows[:MOST_ROWS]):
            grids += below_titles("spreadsheet", block, section=(title,))
        table_count += take_grids(evidence, grids, place)
    return table_count > 0


def _blocks_of_filled_rows(rows: Iterable[tuple[Any, ...]]) -> list[list[Row]]:
    """Return the (number, cells) of rows, in blocks: cut at empty rows, and where most headings come again."""
    blocks: list[list[Row]] = [[]]
    for number, values in enumerate(rows, start=1):
        cells = ["" if value is None else str(value) for value in values]
        headings = blocks[-1][0][1] if blocks[-1] else []
        repeated = sum(bool(re.search("[A-Za-z]", cell)) and cell in headings for cell in cells)
        if not any(cells) or 2 * repeated > sum(map(bool, cells)):
            blocks.append([])
        if any(cells):
            blocks[-1].append((number, cells))
    return blocks
