"""Documents for people (Markdown, reST, LaTeX, HTML, plain reports): tables, sentences, sections."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby

from scaleproof.auditor.read import grids
from scaleproof.auditor.read.grids import Grid, Line
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.markup_tables import html_tables, latex_tables
from scaleproof.auditor.read.pivoted_tables import RATIOS
from scaleproof.auditor.read.printed_figures import RESULTS, plain_text
from scaleproof.auditor.read.report_blocks import report_blocks
from scaleproof.auditor.read.reported import Evidence, Unread
from scaleproof.auditor.read.reported_tables import SETTINGS, ReportedTable, gave_no_figures
from scaleproof.auditor.read.run_fields import figure
from scaleproof.auditor.read.sentences import ALONE, DIGIT, stated_figures
from scaleproof.auditor.read.stated_results import MARK_OF_RESULT, stated_results
from scaleproof.auditor.read.typed_tables import is_profile, read_table, typed_table
from scaleproof.ground.errors import plural

_NO_CELL = re.compile(r"<!--.*|\[\^?\w{1,3}\]")  # comments and marks of footnotes
COMMENTED_OUT = re.compile(r"<!--(?s:.*?)-->")  # no reader sees it
HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")
LATEX_HEADING = re.compile(r"\\(chapter|section|subsection|subsubsection|paragraph)\*?\{([^}]*)\}")
UNDERLINE = re.compile(r"([=\-~^\"'*+#])\1{2,}\s*$")
FENCE = re.compile(r"\s*(```+|~~~+)\s*(\w*)")
BOLD_LINE = re.compile(r"\s*(?:\*\*|__)([^*_]{3,120})(?:\*\*|__):?\s*$")
CAPTION = re.compile(r"(?i)\s*(?:\*\*|_|\*)?(?:table|figure|fig\.)\s*\d*[.:].{3,}")
WHOLE_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+|\d+")
SHELL_LANGUAGES = ("bash", "sh", "shell", "console")  # commands, often with what they printed
PROGRAM_LANGUAGES = (
    *("python", "yaml", "json", "cpp", "c", "cuda", "dockerfile", "toml", "ini", "javascript", "diff"),
    *SHELL_LANGUAGES,
)
LIST_ITEM = r"(?:[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?=[|>]))?"
QUOTE_MARKS = re.compile(rf"{LIST_ITEM}(?:[ \t]*> ?)*{LIST_ITEM}")
COMMENT = re.compile(r"(?:^|\s)(?:#+|//) (.*)")
SECTION_LINES = 20  # above a table that may state its unit
LATEX_LEVELS = {"chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}


@dataclass(slots=True)
class Document:
    """What is in a document: grids with their sections, and lines of prose."""

    grids: list[Grid] = field(default_factory=list)
    prose: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)  # line, text, sections above it
    comments: list[Line] = field(default_factory=list)  # in program text

    def __iadd__(self, part: "Document") -> "Document":
        self.grids += part.grids
        self.prose += part.prose
        return self


def unquoted(text: str) -> str:
    """Return a line without marks of quotes, or of an item that quotes: "- > | 8 | 6.9 |" -> "| 8 | 6.9 |"."""
    marks = QUOTE_MARKS.match(text)
    return text[marks.end() :] if marks else text


def read_document(lines: list[Line], kind: str = "markdown") -> Document:
    """Return tables and prose of a text with their sections. `kind`: "markdown", "latex", "html" or "text"."""
    printed = lines  # with the marks of quotes, which begin paragraphs of prose
    if kind in ("markdown", "text"):
        lines = [(number, unquoted(raw)) for number, raw in lines]
    document = Document(_all_tables(lines, kind))
    if kind == "html":
        return document

    sections = list(_sections(lines, kind))
    lines_of_tables = {number for grid in document.grids for number, _ in grid.rows}
    index_of = {number: k for k, (number, _) in enumerate(lines)}
    for grid in document.grids:
        k = index_of.get(grid.line, 0)
        grid.section = list(sections[k])
        grid.caption = grid.caption or _caption(lines, k)
        grid.above = _paragraph_above(lines, k)
        grid.before = _paragraphs_before(lines, k, lines_of_tables)

    for (number, raw), is_code in zip(printed, _code_lines(lines), strict=True):
        text = raw.strip()
        if is_code and (comment := COMMENT.search(text)):
            document.comments.append((number, comment[1]))
        # A bar within a line makes it a row of a table that was not understood.
        is_printed_pair = kind == "text" and ALONE.fullmatch(text)  # of a program, and no sentence
        if text and not (is_code or is_printed_pair or number in lines_of_tables or "|" in text[1:-1]):
            document.prose.append((number, text, sections[index_of[number]]))
    return document


def _all_tables(lines: list[Line], kind: str) -> list[Grid]:
    """Return the tables of a text of any kind, with the line numbers of its file, not yet with their sections."""
    text = "\n".join(line for _, line in lines)
    if kind == "latex":
        marked_up = list(latex_tables(text))
    else:
        marked_up = html_tables(text) if kind == "html" or "<table" in text.lower() else []
    _renumber(marked_up, lines)
    return marked_up if kind in ("latex", "html") else _text_tables(lines) + marked_up


def _text_tables(lines: list[Line]) -> list[Grid]:
    """Return the tables of a text. A line is of the first kind that takes it: with pipes, drawn or ruled, aligned."""
    pipes = list(grids.pipe_tables(lines))
    taken = _lines_of(pipes)
    beside_pipes = [(number, text) for number, text in lines if number not in taken]
    drawn = (grids.box_tables, grids.ruled_tables, grids.tables_of_words)
    boxes = [grid for tables_in in drawn for grid in tables_in(beside_pipes)]
    taken |= _lines_of(boxes)
    # An aligned table ends at a gap: what stands above and below a box must not become one table.
    blanked = [(number, "" if number in taken else text) for number, text in beside_pipes]
    return [*pipes, *boxes, *grids.aligned_tables(blanked)]


def _lines_of(tables: list[Grid]) -> set[int]:
    """Return the numbers of the lines that the headings and rows of tables stand on."""
    return {number for grid in tables for number, _ in grid.rows} | {grid.line for grid in tables}


def _renumber(tables: list[Grid], lines: list[Line]) -> None:
    """Replace line numbers of the text, 1-based, by those of the file (`lines`), in place."""
    for grid in tables:
        grid.line = lines[min(grid.line, len(lines)) - 1][0] if lines else grid.line
        grid.rows = [(lines[min(number, len(lines)) - 1][0], cells) for number, cells in grid.rows]


def _fences(lines: list[Line]) -> Iterator[tuple[int, int, str]]:
    """Yield first and last index and language of each fenced block, (3, 9, "bash"); last: `len(lines)` if open."""
    fence = ""
    for k, (_, text) in enumerate(lines):
        m = FENCE.match(text)
        if m and not fence:
            start = k
            fence, language = m[1], m[2].lower()
        elif m and text.strip().startswith(fence) and not m[2]:
            yield start, k, language
            fence = ""
    if fence:
        yield start, len(lines), language


def _code_lines(lines: list[Line]) -> list[bool]:
    """Return for each line whether it is a fence or program text; blocks without a language are not marked."""
    marks = [False] * len(lines)
    for start, end, language in _fences(lines):
        for k in range(start, min(end + 1, len(lines))):
            marks[k] = k in (start, end) or language in PROGRAM_LANGUAGES
    return marks


def quoted_blocks(lines: list[Line]) -> Iterator[list[Line]]:
    """Yield the lines between fences that may be a program's output, not its text or its configuration."""
    lines = [(number, unquoted(raw)) for number, raw in lines]
    for start, end, language in _fences(lines):
        is_output = language not in PROGRAM_LANGUAGES or language in SHELL_LANGUAGES
        if is_output and start + 1 < end < len(lines):  # not empty, and closed
            yield lines[start + 1 : end]


def _sections(lines: list[Line], kind: str) -> Iterator[tuple[str, ...]]:
    """Yield for each line the headings that it stands below, outermost first: ("Results", "8 GPUs")."""
    stack: list[tuple[int, str]] = []
    in_fence = False
    previous = ""
    for _, text in lines:
        in_fence ^= FENCE.match(text) is not None
        level, title = 0, ""
        if kind == "latex":
            if m := LATEX_HEADING.search(text):
                level, title = LATEX_LEVELS[m[1]], m[2]
        elif in_fence:
            pass  # "# ..." is a comment of a program
        elif m := HEADING.match(text):
            level, title = len(m[1]), m[2]
        elif UNDERLINE.match(text) and previous and len(previous) <= 80 and "|" not in previous:
            level, title = (1 if text[0] == "=" else 2), previous
        elif m := BOLD_LINE.match(text):
            level, title = 6, m[1]  # below all headings

        if level:
            stack = [(upper, heading) for upper, heading in stack if upper < level] + [(level, title.strip())]
        previous = text.strip()
        yield tuple(heading for _, heading in stack)


def _paragraph_above(lines: list[Line], k: int) -> str:
    """Return the paragraph above a table at `lines[k]`, up to one empty line away. "" for a heading, list or table."""
    end = k - 1 if k and lines[k - 1][1].strip() else k - 2
    start = end
    while start >= 0 and k - start < 8 and (text := lines[start][1].strip()):
        if HEADING.match(text) or FENCE.match(text) or text.startswith(("|", "+", "<", "!", "- ", "* ")):
            break
        start -= 1
    return " ".join(text.strip() for _, text in lines[start + 1 : end + 1])[:400]


def _paragraphs_before(lines: list[Line], k: int, lines_of_tables: set[int]) -> list[str]:
    """Return the paragraphs from a table at `lines[k]` up to a heading or another table, the nearest first."""
    paragraphs: list[list[str]] = [[]]
    for number, raw in reversed(lines[max(k - SECTION_LINES, 0) : k]):
        text = raw.strip()
        if HEADING.match(text) or FENCE.match(text) or number in lines_of_tables:
            break
        if text:
            paragraphs[-1].insert(0, text)
        elif paragraphs[-1]:
            paragraphs.append([])
    return [" ".join(paragraph)[:400] for paragraph in paragraphs if paragraph]


def _caption(lines: list[Line], k: int) -> str:
    """Return the caption above or below a table at `lines[k]`: "Table 1: ..."; "" where neither line reads like one."""
    above = next((text.strip() for _, text in reversed(lines[max(k - 3, 0) : k]) if text.strip()), "")
    is_markup = HEADING.match(above) or FENCE.match(above) or above.startswith(("|", "+", "-", "<", "!"))
    if not is_markup and (CAPTION.match(above) or above.endswith(":") or BOLD_LINE.match(above)):
        return above[:300]
    end = k + 1  # of the table
    while end < len(lines) and lines[end][1].strip():
        end += 1
    below = next((text.strip() for _, text in lines[end : end + 2] if text.strip()), "")
    return below[:300] if CAPTION.match(below) else ""


def fitting_table(grid: Grid, name: str) -> tuple[ReportedTable | None, list[Unread]]:
    """Return the typed table of the rows that fit the headings of a grid, and notes on those that do not.

    Of a row with more or fewer cells nobody can say which cell is below which heading. Where no others have figures,
    all of them stay, in a CSV file with the notes.
    """
    width = len(grid.header)  # words behind the last cell ("base") move no figure
    longer = [row for row in grid.rows if DIGIT.search(_NO_CELL.sub("", " ".join(row[1][width:])))]
    shorter = [row for row in grid.rows if _lacks_a_value(row[1], grid.header, is_first=row is grid.rows[0])]
    if len(shorter) == len(grid.rows):
        shorter = []  # the heading has names to spare
    doubtful = {id(cells) for _, cells in longer + shorter}  # several rows may be of one line
    fitting = [row for row in grid.rows if id(row[1]) not in doubtful]
    if any(sum(map(bool, cells)) > 1 and DIGIT.search(" ".join(cells)) for _, cells in fitting):
        grid.rows = fitting
    elif grid.form != "CSV":  # only titles fit ("A100" above rows of three): the headings are too few
        return typed_table(grid, name), []

    cases = ((longer, "more", "commas in numbers need quotes"), (shorter, "fewer", "a missing one needs its delimiter"))
    fault = "values than the heading has names, not read"
    return typed_table(grid, name), [
        Unread(f"{name}:{rows[0][0]}", f"{plural(len(rows), 'line')} with {how_many} {fault}; {cure}")
        for rows, how_many, cure in cases
        if rows
    ]


def _lacks_a_value(row: list[str], header: list[str], *, is_first: bool) -> bool:
    """Whether figures of a row may stand below other headings than theirs: "2,1900,1.9" below four headings.

    A row may leave its last remarks out, the first one its ratios, or say that it has no figures ("8,OOM").
    """
    missing_kinds = {column_of(heading).kind for heading in header[len(row) :]}
    if missing_kinds <= {None, "text", *(RATIOS if is_first else ())}:
        return False
    is_of_other_delimiter = len(row) == 1 and figure(row[0]) is None
    cells = re.split(r"[,;\t|]", row[0]) if is_of_other_delimiter else row
    return sum(figure(cell) is not None for cell in cells) > 1 and not any(map(gave_no_figures, cells))


def take_grids(evidence: Evidence, grids: Iterable[Grid], name: str) -> int:
    """Add tables of results; note other tables with figures as unread. Return how many have results or settings."""
    added = 0
    for grid in grids:
        table, notes = fitting_table(grid, name)
        if table is not None and table.kinds() & RESULTS:
            evidence.tables.append(table)
            evidence.unread += notes
            added += 1
            continue
        if table is not None:
            evidence.other_tables.append(table)
        if table is not None and table.states_settings:
            added += 1
        elif _has_figures(grid) and not is_profile(grid.header):
            headings = ", ".join(heading[:30] for heading in filter(None, map(plain_text, grid.header[:6])))
            what = "figures" if any(column_of(heading).kind in RESULTS for heading in grid.header) else "headings"
            reason = f"a table whose {what} are not understood: {headings}"
            evidence.unread.append(Unread(f"{name}:{grid.line}", reason, "unknown form"))
    return added


def _has_figures(grid: Grid) -> bool:
    """Whether more than half of the cells beside the first column begin with a digit."""
    cells = [cell for _, row in grid.rows[:50] for cell in row[1:]]
    return sum(cell[:1].isdigit() for cell in cells) * 2 > max(len(cells), 3)


def _settings_of_lists(document: Document, name: str) -> Iterator[ReportedTable]:
    """Yield each list of settings ("- GPUs: 8") as a table, unless the value of one is more than a number."""
    items = [(line, text.lstrip("-*+• ")) for line, text, _ in document.prose if text.startswith(("-", "*", "+", "•"))]
    # In a list, the number of a line less its place is the same.
    for _, group in groupby(enumerate(items), lambda item: item[1][0] - item[0]):
        for grid in report_blocks([item for _, item in group], least=0):
            pairs = [pair for _, cells in grid.rows for pair in zip(grid.header, cells, strict=True) if pair[1]]
            values = [value for name, value in pairs if column_of(name).kind in SETTINGS]
            table = typed_table(grid, name) if all(map(WHOLE_NUMBER.fullmatch, values)) else None
            if table is not None and table.states_settings and not table.kinds() & (RESULTS | {"nodes", "tokens"}):
                yield table


def take_document(evidence: Evidence, document: Document, name: str) -> int:
    """Add the stated figures, marked results and tables of a document. Return how many figures and tables it has."""
    has_digits = any(DIGIT.search(text) for _, text, _ in document.prose)
    figures = stated_figures(document.prose, name) if has_digits else []
    evidence.stated_figures += figures
    cells = ((line, cell) for grid in document.grids for line, row in grid.rows for cell in row)
    lines = chain(((line, text) for line, text, _ in document.prose), document.comments, cells)
    if marked := [(line, text) for line, text in lines if MARK_OF_RESULT.search(text)]:
        evidence.stated_results += stated_results(marked, name)
    settings = [*_settings_of_lists(document, name)]
    evidence.other_tables += settings
    return take_grids(evidence, document.grids, name) + len(figures) + len(settings)


def read_document_file(evidence: Evidence, text: str, name: str, kind: str) -> bool:
    """Read a document for people. Return whether a table of results or a stated figure was in it."""
    if kind == "markdown":
        text = COMMENTED_OUT.sub(lambda m: "\n" * m[0].count("\n"), text)
    lines: list[Line] = list(enumerate(text.splitlines(), start=1))
    document = read_document(lines, kind)
    added = take_document(evidence, document, name)
    if not document.grids and kind != "html":
        added += _take_short_blocks(evidence, [(number, text) for number, text, _ in document.prose], name)
    return added > 0


# Tables of forms that are not read, and results that no table has.
OTHER_TABLES = {
    r"\|={3,}\s*$": "a table of AsciiDoc",
    r"[ \t]*\.\. list-table::": "a list-table of reStructuredText",
    r"\{\| ?\w*": "a table of MediaWiki",
    r"\^ [^^\n]+ \^.*\^[ \t]*$": "a table of DokuWiki",
    r".*\|[^|\n]*\d[^|\n]*<br */?>[^|\n]*\d[^|\n]*\|": "a table with several figures in a cell",
}


LONG_LINE = re.compile(r"(?m)^.{1000,}$")  # an image or data; searched for figures it takes hours


def tables_not_read(text: str, name: str) -> list[Unread]:
    """Return a note on the first table whose form is not read, "a table of AsciiDoc". [] where there is none."""
    text = LONG_LINE.sub("", text)
    matches = [(m.start(), form) for pattern, form in OTHER_TABLES.items() if (m := re.search(f"(?m)^{pattern}", text))]
    reason = "which is not read: give a row a line, as Markdown or CSV"
    places = ((f"{name}:{text.count(chr(10), 0, start) + 1}", form) for start, form in sorted(matches)[:1])
    return [Unread(place, f"{form}, {reason}", "unknown form") for place, form in places]


def _take_short_blocks(evidence: Evidence, lines: list[Line], name: str) -> int:
    """Add blocks without a table, e.g. "4 GPUs" above "Throughput: 390 img/s". Return how many tables were added."""
    added = 0
    for grid in report_blocks(lines, least=1):
        table = read_table(grid, name)
        # Two numbers of devices show that the blocks are results; those without one may be settings.
        if table is not None and len({row.devices for row in table.rows if row.devices}) > 1:
            table.rows = [row for row in table.rows if row.devices]
            evidence.tables.append(table)
            added += 1
    return added
