"""Tables in LaTeX and HTML."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import zip_longest
from typing import NamedTuple

from scaleproof.auditor.read.grids import MOST_ROWS, WIDEST, Grid, below_titles

TABULAR = re.compile(r"\\begin\{(tabularx?\*?|longtable|tabulary|tblr)\}(.*?)(?:\\end\{\1\}|\Z)", re.S)
RULES = re.compile(
    r"\\(?:toprule|midrule|bottomrule|hline|addlinespace|endhead|endfirsthead|endfoot|endlastfoot|centering|small|"
    r"footnotesize)\b(?:\[[^\]]*\])?|\\(?:cmidrule|cline)(?:\([^)]*\))?\{[^}]*\}|"
    r"\\specialrule(?:\{[^}]*\}){3}|\\rowcolor(?:\[[^\]]*\])?\{[^}]*\}"
)
CUT_CELL = re.compile(r"(</t[dhr]>\s*(?:<tr[^<>]*>\s*)?)<t[dh]\b[^<]*\Z", re.IGNORECASE)
CELL_OF_COLUMNS = re.compile(r"\s*\\multicolumn\{(\d{1,2})\}\{[^}]*\}\{(.*)\}\s*", re.S)
CELL_OF_ROWS = re.compile(r"\s*\\multirow(?:\[[^\]]*\])?\{(\d{1,3})\}\{[^}]*\}\{(.*)\}\s*", re.S)


class TallCell(NamedTuple):
    """A cell over several rows: how many rows below it still fills, and its text."""

    rows_below: int = 0
    text: str = ""


def latex_tables(text: str) -> Iterator[Grid]:
    """Yield each `tabular` and each table of its kin, with the caption of the float around it."""
    # Generated tables often have "%" where "\\%" is meant: behind a figure "%" is read as percent, not as a comment.
    text = re.sub(r"(?m)^[ \t]*%.*$|(?<![\\\d ])%$", "", text)
    for m in TABULAR.finditer(text):
        end = m.end(2) if m.end() > m.end(2) else text.rfind("\\\\")  # of a text that is cut off, the last whole row
        rows = _latex_rows(text, m.start(2) + len(_column_argument(m[2])), end)
        yield from below_titles("LaTeX table", rows, _latex_caption(text, m.start(), m.end()))


def _latex_caption(text: str, start: int, end: int) -> str:
    """Return the first caption in the float around `text[start:end]`. "" without one nearby."""
    first = max(0, start - 1500)
    around = text[first : end + 1500]
    opening = around.rfind("\\begin{table", 0, start - first)
    closing = around.find("\\end{table", start - first)
    captions = re.findall(
        r"\\caption(?:\[[^\]]*\])?\{((?:[^{}]|\{[^{}]*\})*)\}",
        around[max(opening, 0) : closing if closing > 0 else None],
    )
    return captions[0] if captions else ""


def _column_argument(text: str) -> str:
    """Return the arguments behind \\begin{tabular}: an optional position, the width, the columns: "[t]{lrr}"."""
    m = re.match(r"(?:\s*\[[^\]]*\])?(?:\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}){1,2}?", text)
    return m[0] if m else ""


def _latex_rows(text: str, start: int, end: int) -> list[tuple[int, list[str]]]:
    """Return (line, cells) of each row in `text[start:end]`. Cells over several columns or rows are repeated."""
    line = text.count("\n", 0, start) + 1
    rows: list[tuple[int, list[str]]] = []
    tall_cells: dict[int, TallCell] = {}  # by column
    for part in re.split(r"\\\\(?:\[[^\]]*\])?|\\tabularnewline", text[start:end]):
        first_line = line
        line += part.count("\n")
        body = RULES.sub("", part)
        if not body.strip():
            continue
        # Empty lines, and lines of rules, may stand above the cells: the row is where the first cell begins.
        leading = len(part) - len(part.lstrip())
        first_line += part.count("\n", 0, max(leading, part.find(body.strip()[:20])))
        rows.append((first_line, _latex_cells(body, tall_cells)))
    return rows


def _latex_cells(body: str, tall_cells: dict[int, TallCell]) -> list[str]:
    """Return the cells of a row. `tall_cells`: cells above that reach down; updated for the rows below."""
    cells: list[str] = []
    for raw in re.split(r"(?<!\\)&", body)[:WIDEST]:
        cell, width = raw.strip(), 1
        if m := CELL_OF_COLUMNS.fullmatch(cell):
            cell, width = m[2].strip(), min(int(m[1]), 20)

        column = len(cells)
        above = tall_cells.get(column, TallCell())
        if m := CELL_OF_ROWS.fullmatch(cell):
            cell = m[2].strip()
            tall_cells[column] = TallCell(int(m[1]) - 1, cell)
        elif not cell and above.rows_below > 0:
            cell = above.text
            tall_cells[column] = TallCell(above.rows_below - 1, cell)
        cells += [cell] * width
    return cells


class _Row(NamedTuple):
    """A row of an HTML table. `is_heading`: most of its own cells are <th>."""

    line: int
    cells: list[str]
    is_heading: bool


class _TableParser(HTMLParser):
    """Collects the rows of every <table>. A cell over several columns or rows is repeated."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.grids: list[Grid] = []
        self._rows: list[_Row] | None = None  # None outside a table
        self._cells: list[str] = []  # of the open row
        self._heading_surplus = 0  # cells of the open row that are <th>, less those that are <td>
        self._texts_of_cell: list[str] | None = None  # None where no cell is open
        self._column_span = self._row_span = 1  # of the open cell
        self._tall_cells: dict[int, TallCell] = {}  # by column
        self._line_of_table = self._line_of_row = 0
        self._texts_of_caption: list[str] | None = None  # None where no caption is open
        self._caption = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table, row, cell or caption, and end the table, row or cell that was open."""
        if tag == "table":
            self._end_table()
            self._rows = []
            self._tall_cells = {}
            self._caption = ""
            self._line_of_table, _ = self.getpos()
        elif self._rows is None:
            return
        elif tag == "tr":
            self._end_row()
            self._line_of_row, _ = self.getpos()
        elif tag in ("td", "th"):
            self._end_cell()
            attributes = dict(attrs)
            self._texts_of_cell = []
            self._heading_surplus += 1 if tag == "th" else -1
            self._column_span = _span(attributes.get("colspan"))
            self._row_span = _span(attributes.get("rowspan"))
        elif tag == "caption":
            self._texts_of_caption = []
        elif tag == "br" and self._texts_of_cell is not None:
            self._texts_of_cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        """End a cell, row, table or caption."""
        if tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag == "table":
            self._end_table()
        elif tag == "caption" and self._texts_of_caption is not None:
            self._caption = "".join(self._texts_of_caption)
            self._texts_of_caption = None

    def handle_data(self, data: str) -> None:
        """Add a text to the cell or caption that is open."""
        if self._texts_of_cell is not None:
            self._texts_of_cell.append(data.replace("\u2011", "-"))
        elif self._texts_of_caption is not None:
            self._texts_of_caption.append(data)

    def close(self) -> None:
        """End a table that the end of the page cuts off."""
        super().close()
        self._end_table()

    def _end_cell(self) -> None:
        """End the open cell, if any: add its text to the row, once for each column that it spans."""
        if self._texts_of_cell is None:
            return
        self._add_tall_cells()
        text = " ".join("".join(self._texts_of_cell).split())
        for _ in range(self._column_span):
            if self._row_span > 1:
                self._tall_cells[len(self._cells)] = TallCell(self._row_span - 1, text)
            self._cells.append(text)
        self._texts_of_cell = None

    def _add_tall_cells(self) -> None:
        """Add the cells of rows above that reach down to this place of the row."""
        while len(self._cells) < WIDEST:
            column = len(self._cells)
            above = self._tall_cells.get(column, TallCell())
            if above.rows_below <= 0:
                return
            self._tall_cells[column] = TallCell(above.rows_below - 1, above.text)
            self._cells.append(above.text)

    def _end_row(self) -> None:
        self._end_cell()
        if self._rows is not None and self._cells and len(self._rows) < MOST_ROWS:
            self._add_tall_cells()
            is_heading = self._heading_surplus > 0 and len({*self._cells}) > 1
            self._rows.append(_Row(self._line_of_row, self._cells[:WIDEST], is_heading))
        self._cells = []
        self._heading_surplus = 0

    def _end_table(self) -> None:
        """End the open table, if any. Its first rows of headings, at least one row, are joined: "A100 img/s"."""
        self._end_row()
        rows, self._rows = self._rows or [], None
        while len(rows) > 2 and len({*rows[0].cells}) == 1:  # one cell over all columns, above the headings
            self._caption = " ".join([self._caption, rows.pop(0).cells[0]])
        if len(rows) < 2:
            return
        first_body_row = next((k for k, row in enumerate(rows[:-1]) if not row.is_heading), len(rows) - 1)
        header_rows = rows[: max(first_body_row, 1)]
        headings_by_column = zip_longest(*(row.cells for row in header_rows), fillvalue="")
        header = [" ".join(dict.fromkeys(filter(None, headings))) for headings in headings_by_column]
        body = [(row.line, row.cells) for row in rows[len(header_rows) :]]
        self.grids.append(Grid("HTML table", self._line_of_table, header, body, caption=self._caption.strip()))


def _span(text: str | None) -> int:
    """Return the number in an attribute such as colspan="2", at most 50. 1 where there is none above 0."""
    return max(min(int(text), 50), 1) if text and text.isdecimal() else 1


def html_tables(text: str) -> list[Grid]:
    """Return the tables of an HTML page, or of HTML inside Markdown. A table inside another ends that one.

    A cell that the end of the page cuts off is left out, where others have their end tags.
    """
    parser = _TableParser()
    parser.feed(CUT_CELL.sub(r"\1", text))
    parser.close()
    return parser.grids
