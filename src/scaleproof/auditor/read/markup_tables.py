"""Tables in LaTeX and HTML."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from scaleproof.auditor.read.grids import MOST_ROWS, WIDEST, Grid

TABULAR = re.compile(r"\\begin\{(tabularx?\*?|longtable|tabulary|tblr)\}(.*?)\\end\{\1\}", re.S)
RULES = re.compile(
    r"\\(?:toprule|midrule|bottomrule|hline|addlinespace|endhead|endfirsthead|endfoot|endlastfoot|centering|small|"
    r"footnotesize)\b(?:\[[^\]]*\])?|\\(?:cmidrule|cline)(?:\([^)]*\))?\{[^}]*\}|"
    r"\\specialrule(?:\{[^}]*\}){3}|\\rowcolor(?:\[[^\]]*\])?\{[^}]*\}"
)
SPAN = re.compile(r"\s*\\multicolumn\{(\d{1,2})\}\{[^}]*\}\{(.*)\}\s*", re.S)
DOWN = re.compile(r"\s*\\multirow(?:\[[^\]]*\])?\{(\d{1,3})\}\{[^}]*\}\{(.*)\}\s*", re.S)


def latex_tables(text: str) -> Iterator[Grid]:
    """Yield each `tabular`, or one of its kin, with the caption of the float around it."""
    # Generated tables often have "%" where "\\%" is meant: behind a figure it is read as percent, not as a comment.
    text = re.sub(r"(?m)^[ \t]*%.*$|(?<![\\\d ])%$", "", text)
    for m in TABULAR.finditer(text):
        body_at = m.start(2) + len(_column_argument(m[2]))
        rows = _latex_rows(text, body_at, m.end(2))
        if len(rows) < 2:
            continue
        header_at = next((k for k, (_, cells) in enumerate(rows) if sum(map(bool, cells)) > 1), 0)
        line, header = rows[header_at]
        rest = rows[header_at + 1 :]
        if len(rest) > 1:
            _, second = rest[0]
            if not any(re.search(r"\d", cell) for cell in second):  # headings of two lines
                header = [f"{upper} {lower}".strip() for upper, lower in zip(header, second, strict=False)]
                rest = rest[1:]
        yield Grid("LaTeX table", line, header, rest[:MOST_ROWS], caption=_latex_caption(text, m.start(), m.end()))


def _latex_caption(text: str, start: int, end: int) -> str:
    """Return the first caption in the float around `text[start:end]`; "" without one nearby."""
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
    """Return the arguments behind \\begin{tabular}: optional position, width, columns."""
    m = re.match(r"(?:\s*\[[^\]]*\])?(?:\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}){1,2}?", text)
    return m[0] if m else ""


def _latex_rows(text: str, start: int, end: int) -> list[tuple[int, list[str]]]:
    """Return (line, cells) of the rows in `text[start:end]`; cells over several columns or rows are repeated."""
    line = text.count("\n", 0, start) + 1
    rows: list[tuple[int, list[str]]] = []
    carried: dict[int, tuple[int, str]] = {}  # column -> rows below that a cell still fills, and its text
    for part in re.split(r"\\\\(?:\[[^\]]*\])?|\\tabularnewline", text[start:end]):
        leading = len(part) - len(part.lstrip())
        at = line + part.count("\n", 0, leading)
        line += part.count("\n")
        body = RULES.sub("", part)
        if not body.strip():
            continue
        at += part.count("\n", leading, max(leading, part.find(body.strip()[:20])))  # lines of rules above the cells
        cells: list[str] = []
        for raw in re.split(r"(?<!\\)&", body)[:WIDEST]:
            cell, width = raw.strip(), 1
            if m := SPAN.fullmatch(cell):
                cell, width = m[2].strip(), min(int(m[1]), 20)
            if m := DOWN.fullmatch(cell):
                cell = m[2].strip()
                carried[len(cells)] = (int(m[1]) - 1, cell)
            elif not cell and carried.get(len(cells), (0, ""))[0] > 0:
                left, cell = carried[len(cells)]
                carried[len(cells)] = (left - 1, cell)
            cells += [cell] * width
        rows.append((at, cells))
    return rows


class _Tables(HTMLParser):
    """Collects the rows of every <table>, spans filled in."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.grids: list[Grid] = []
        self._rows: list[tuple[int, list[str], bool]] | None = None
        self._cells: list[str] = []
        self._text: list[str] | None = None  # of the cell that is open
        self._spans = (1, 1)  # columns and rows of this cell
        self._down: dict[int, tuple[int, str]] = {}  # column -> rows below that a cell still fills, and its text
        self._heads = 0  # cells of the row that are headings
        self._line, self._start = 0, 0  # of the table, of the row
        self._caption: list[str] | None = None
        self._caption_text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table, row, cell or caption; what was open before it ends."""
        if tag == "table":
            self._finish()
            self._rows = []
            self._down = {}
            self._caption_text = ""
            self._line = self.getpos()[0]
        elif self._rows is None:
            return
        elif tag == "tr":
            self._row()
            self._start = self.getpos()[0]
        elif tag in ("td", "th"):
            self._cell()
            attributes = dict(attrs)
            self._text = []
            self._heads += tag == "th"
            self._spans = (_span(attributes.get("colspan")), _span(attributes.get("rowspan")))
        elif tag == "caption":
            self._caption = []
        elif tag == "br" and self._text is not None:
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        """End a cell, row, table or caption."""
        if tag in ("td", "th"):
            self._cell()
        elif tag == "tr":
            self._row()
        elif tag == "table":
            self._finish()
        elif tag == "caption" and self._caption is not None:
            self._caption_text, self._caption = "".join(self._caption), None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)
        elif self._caption is not None:
            self._caption.append(data)

    def _cell(self) -> None:
        """End the open cell, if any: add its text to the row, once for each column that it spans."""
        if self._text is None:
            return
        self._fill()
        text = " ".join("".join(self._text).split())
        columns, rows = self._spans
        for _ in range(columns):
            if rows > 1:
                self._down[len(self._cells)] = (rows - 1, text)
            self._cells.append(text)
        self._text = None

    def _fill(self) -> None:
        """Add the cells of rows above that reach down to this place of the row."""
        while len(self._cells) < WIDEST and self._down.get(len(self._cells), (0, ""))[0] > 0:
            left, text = self._down[len(self._cells)]
            self._down[len(self._cells)] = (left - 1, text)
            self._cells.append(text)

    def _row(self) -> None:
        """End the open row, if any."""
        self._cell()
        if self._rows is not None and self._cells and len(self._rows) < MOST_ROWS:
            self._fill()
            self._rows.append((self._start, self._cells[:WIDEST], self._heads > len(self._cells) / 2))
        self._cells, self._heads = [], 0

    def _finish(self) -> None:
        """End the open table, if any: its first rows of headings are joined, one is taken where there are none."""
        self._row()
        if self._rows and len(self._rows) > 1:
            heads = 0
            while heads < len(self._rows) - 1 and self._rows[heads][2]:
                heads += 1
            heads = max(heads, 1)
            top = [cells for _, cells, _ in self._rows[:heads]]
            width = max(map(len, top))
            header = [" ".join(dict.fromkeys(c[k] for c in top if k < len(c) and c[k])) for k in range(width)]
            rows = [(line, cells) for line, cells, _ in self._rows[heads:]]
            self.grids.append(Grid("HTML table", self._line, header, rows, caption=self._caption_text.strip()))
        self._rows = None


def _span(text: str | None) -> int:
    return min(int(text), 50) if text and text.isdigit() and int(text) else 1


def html_tables(text: str) -> list[Grid]:
    """Return the tables of an HTML page or of HTML inside Markdown; those inside another table are left out."""
    parser = _Tables()
    parser.feed(text)
    parser.close()
    return parser.grids
