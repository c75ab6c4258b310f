"""Tables in LaTeX and HTML."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import zip_longest

from scaleproof.auditor.read.grids import MOST_ROWS, WIDEST, Grid

TABULAR = re.compile(r"\\begin\{(tabularx?\*?|longtable|tabulary|tblr)\}(.*?)\\end\{\1\}", re.S)
RULES = re.compile(
    r"\\(?:toprule|midrule|bottomrule|hline|addlinespace|endhead|endfirsthead|endfoot|endlastfoot|centering|small|"
    r"footnotesize)\b(?:\[[^\]]*\])?|\\(?:cmidrule|cline)(?:\([^)]*\))?\{[^}]*\}|"
    r"\\specialrule(?:\{[^}]*\}){3}|\\rowcolor(?:\[[^\]]*\])?\{[^}]*\}"
)
CELL_OF_COLUMNS = re.compile(r"\s*\\multicolumn\{(\d{1,2})\}\{[^}]*\}\{(.*)\}\s*", re.S)
CELL_OF_ROWS = re.compile(r"\s*\\multirow(?:\[[^\]]*\])?\{(\d{1,3})\}\{[^}]*\}\{(.*)\}\s*", re.S)


def latex_tables(text: str) -> Iterator[Grid]:
    """Yield each `tabular`, or one of its kin, with the caption of the float around it."""
    # Generated tables often have "%" where "\\%" is meant: behind a figure it is read as percent, not as a comment.
    text = re.sub(r"(?m)^[ \t]*%.*$|(?<![\\\d ])%$", "", text)
    for m in TABULAR.finditer(text):
        rows = _latex_rows(text, m.start(2) + len(_column_argument(m[2])), m.end(2))
        if len(rows) < 2:
            continue
        k = next((k for k, (_, cells) in enumerate(rows) if sum(map(bool, cells)) > 1), 0)
        line, header = rows[k]
        body = rows[k + 1 :]
        _, second_row = body[0] if body else (0, [])
        if len(body) > 1 and not any(re.search(r"\d", cell) for cell in second_row):  # two lines of headings
            header = [f"{upper} {lower}".strip() for upper, lower in zip(header, second_row, strict=False)]
            body = body[1:]
        yield Grid("LaTeX table", line, header, body[:MOST_ROWS], caption=_latex_caption(text, m.start(), m.end()))


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
    """Return the arguments behind \\begin{tabular}, optional position, width, columns: "[t]{lrr}"."""
    m = re.match(r"(?:\s*\[[^\]]*\])?(?:\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}){1,2}?", text)
    return m[0] if m else ""


def _latex_rows(text: str, start: int, end: int) -> list[tuple[int, list[str]]]:
    """Return (line, cells) of each row in `text[start:end]`; cells over several columns or rows are repeated."""
    line = text.count("\n", 0, start) + 1
    rows: list[tuple[int, list[str]]] = []
    carried: dict[int, tuple[int, str]] = {}  # column -> rows below that a cell still fills, and its text
    for part in re.split(r"\\\\(?:\[[^\]]*\])?|\\tabularnewline", text[start:end]):
        first_line = line
        line += part.count("\n")
        body = RULES.sub("", part)
        if not body.strip():
            continue
        # Empty lines, and lines of rules, may stand above the cells: the row is where the first cell begins.
        leading = len(part) - len(part.lstrip())
        first_line += part.count("\n", 0, max(leading, part.find(body.strip()[:20])))

        cells: list[str] = []
        for raw in re.split(r"(?<!\\)&", body)[:WIDEST]:
            cell, width = raw.strip(), 1
            if m := CELL_OF_COLUMNS.fullmatch(cell):
                cell, width = m[2].strip(), min(int(m[1]), 20)
            rows_left, cell_above = carried.get(len(cells), (0, ""))
            if m := CELL_OF_ROWS.fullmatch(cell):
                cell = m[2].strip()
                carried[len(cells)] = (int(m[1]) - 1, cell)
            elif not cell and rows_left > 0:
                cell = cell_above
                carried[len(cells)] = (rows_left - 1, cell)
            cells += [cell] * width
        rows.append((first_line, cells))
    return rows


class _TableParser(HTMLParser):
    """Collects the rows of every <table>. A cell over several columns or rows is repeated."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.grids: list[Grid] = []
        self._rows: list[tuple[int, list[str], bool]] | None = None  # line, cells, whether most of these are <th>
        self._cells: list[str] = []
        self._text: list[str] | None = None  # of the cell that is open
        self._spans = (1, 1)  # columns and rows of this cell
        self._carried: dict[int, tuple[int, str]] = {}  # column -> rows below that a cell still fills, and its text
        self._headings = 0  # cells of the row that are <th>
        self._line_of_table, self._line_of_row = 0, 0
        self._caption: list[str] | None = None  # that is open
        self._caption_text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table, row, cell or caption; what was open before it ends."""
        if tag == "table":
            self._end_table()
            self._rows = []
            self._carried = {}
            self._caption_text = ""
            self._line_of_table, _ = self.getpos()
        elif self._rows is None:
            return
        elif tag == "tr":
            self._end_row()
            self._line_of_row, _ = self.getpos()
        elif tag in ("td", "th"):
            self._end_cell()
            attributes = dict(attrs)
            self._text = []
            self._headings += tag == "th"
            self._spans = (_span(attributes.get("colspan")), _span(attributes.get("rowspan")))
        elif tag == "caption":
            self._caption = []
        elif tag == "br" and self._text is not None:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        """End a cell, row, table or caption."""
        if tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag == "table":
            self._end_table()
        elif tag == "caption" and self._caption is not None:
            self._caption_text, self._caption = "".join(self._caption), None

    def handle_data(self, data: str) -> None:
        """Add a text to the cell or caption that is open."""
        if self._text is not None:
            self._text.append(data)
        elif self._caption is not None:
            self._caption.append(data)

    def _end_cell(self) -> None:
        """End the open cell, if any: add its text to the row, once for each column that it spans."""
        if self._text is None:
            return
        self._add_carried_cells()
        text = " ".join("".join(self._text).split())
        columns, rows = self._spans
        for _ in range(columns):
            if rows > 1:
                self._carried[len(self._cells)] = (rows - 1, text)
            self._cells.append(text)
        self._text = None

    def _add_carried_cells(self) -> None:
        """Add the cells of rows above that reach down to this place of the row."""
        while len(self._cells) < WIDEST and self._carried.get(len(self._cells), (0, ""))[0] > 0:
            left, text = self._carried[len(self._cells)]
            self._carried[len(self._cells)] = (left - 1, text)
            self._cells.append(text)

    def _end_row(self) -> None:
        """End the open row, if any."""
        self._end_cell()
        if self._rows is not None and self._cells and len(self._rows) < MOST_ROWS:
            self._add_carried_cells()
            self._rows.append((self._line_of_row, self._cells[:WIDEST], self._headings > len(self._cells) / 2))
        self._cells, self._headings = [], 0

    def _end_table(self) -> None:
        """End the open table, if any. Its first rows of headings, at least one row, are joined: "A100 img/s"."""
        self._end_row()
        rows, self._rows = self._rows, None
        if not rows or len(rows) < 2:
            return
        first_body_row = next((k for k, (_, _, is_heading) in enumerate(rows[:-1]) if not is_heading), len(rows) - 1)
        lines_of_headings = max(first_body_row, 1)
        by_column = zip_longest(*(cells for _, cells, _ in rows[:lines_of_headings]), fillvalue="")
        header = [" ".join(dict.fromkeys(filter(None, headings))) for headings in by_column]  # a repeated cell once
        body = [(line, cells) for line, cells, _ in rows[lines_of_headings:]]
        self.grids.append(Grid("HTML table", self._line_of_table, header, body, caption=self._caption_text.strip()))


def _span(text: str | None) -> int:
    """Return the number in an attribute such as colspan="2": 1 without one, at most 50."""
    return min(int(text), 50) if text and text.isdigit() and int(text) else 1


def html_tables(text: str) -> list[Grid]:
    """Return the tables of an HTML page, or of HTML inside Markdown. Those inside another table are left out."""
    parser = _TableParser()
    parser.feed(text)
    parser.close()
    return parser.grids
