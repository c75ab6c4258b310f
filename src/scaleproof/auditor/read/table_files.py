"""Files with tables and prose, from text to evidence; in plain text, blocks of `Name: figure unit` below a title."""

import csv
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.csv_layout import DELIMITERS
from scaleproof.auditor.read.documents import Document, read_document, read_notebook, read_workbook
from scaleproof.auditor.read.grids import MOST_ROWS, Grid, Line
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of
from scaleproof.auditor.read.printed_figures import figures_of, plain_text
from scaleproof.auditor.read.reported import Evidence, Unread
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.row_figures import Place
from scaleproof.auditor.read.sentences import stated_changes, stated_figures
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.auditor.read.typed_tables import is_profile, read_table
from scaleproof.auditor.read.units import RESULTS

RANK_PREFIX = re.compile(r"(?:\[1,(?=\d))?\[?(?:rank ?)?(?P<rank>\d{1,5})(?:\]<std(?:out|err)>: ?|\]?: )")
REPORT_LINES = 2_000  # at either end of a long text


def _take_grids(evidence: Evidence, grids: Iterable[Grid], name: str) -> int:
    """Add the tables of results, and note those whose headings are not understood; return how many were added."""
    taken = 0
    for grid in grids:
        table = read_table(grid, Place(name))
        if table is not None:
            evidence.tables.append(table)
            taken += 1
        elif _has_figures(grid) and not is_profile(grid.header):
            reason = f"a table whose headings are not understood: {', '.join(h[:30] for h in grid.header[:6])}"
            evidence.unread.append(Unread(f"{name}:{grid.line}", reason, "unknown form"))
    return taken


def _has_figures(grid: Grid) -> bool:
    cells = [c for _, row in grid.rows[:50] for c in row[1:]]
    return sum(c[:1].isdigit() for c in cells) * 2 > max(len(cells), 3)


def _take(evidence: Evidence, document: Document, name: str) -> int:
    figures = stated_figures(document.prose, name)
    evidence.stated_figures += figures
    cells = [(line, cell) for grid in document.grids for line, row in grid.rows for cell in row]
    evidence.stated_changes += stated_changes([*((line, text) for line, text, _ in document.prose), *cells], name)
    return _take_grids(evidence, document.grids, name) + len(figures)


def read_document_file(evidence: Evidence, text: str, name: str, kind: str) -> bool:
    """Read a document for people; return whether a table of results or a stated figure was in it."""
    lines: list[Line] = list(enumerate(text.splitlines(), start=1))
    document = read_document(lines, kind)
    taken = _take(evidence, document, name)
    if not document.grids and kind != "html":
        taken += _take_short_blocks(evidence, [(n, t) for n, t, _ in document.prose], name)
    return taken > 0


def _take_short_blocks(evidence: Evidence, lines: list[Line], name: str) -> int:
    """Add the blocks of a document without a table, which may have a heading for each configuration with a figure
    or two below it; return how many tables were added.
    """
    taken = 0
    for grid in report_blocks(lines, least=1):
        table = read_table(grid, Place(name))
        if table is not None and len({row.devices for row in table.rows if row.devices}) > 1:
            table.rows = [row for row in table.rows if row.devices]
            evidence.tables.append(table)
            taken += 1
    return taken


def read_plain_text(evidence: Evidence, path: Path, name: str, encoding: str) -> bool:
    """Read a report in plain text, tables and blocks of `name: figure`; return whether there was any. Logs are none."""
    if path.stat().st_size > text_files.LARGEST_TEXT:
        return False
    lines: list[Line] = list(enumerate(text_files.whole(path, encoding).splitlines(), start=1))
    lines = of_first_rank(lines)
    if len(lines) > 2 * REPORT_LINES:  # a log: a report is at one of its ends
        cut_at, _ = lines[REPORT_LINES]
        lines = [*lines[:REPORT_LINES], (cut_at, ""), *lines[-REPORT_LINES:]]
    document = read_document(lines, "text")
    taken = 0
    for grid in [*document.grids, *report_blocks(lines)]:
        table = read_table(grid, Place(name))
        if table is not None and not _is_log(table):
            evidence.tables.append(table)
            taken += 1
    return taken > 0


def of_first_rank(lines: list[Line]) -> list[Line]:
    """Return the lines of the first rank, where srun or mpirun put a prefix before nearly all lines; else all lines."""
    opening = [RANK_PREFIX.match(text) for _, text in lines[:REPORT_LINES] if text.strip()]
    if len(opening) < 3 or sum(m is not None for m in opening) < 0.9 * len(opening):
        return lines
    if 2 * len({m["rank"] for m in opening if m is not None}) > len(opening):
        return lines  # numbers of lines
    matched = [(number, text, RANK_PREFIX.match(text)) for number, text in lines]
    first = next(m["rank"] for _, _, m in matched if m is not None)
    return [(number, text[m.end() :]) for number, text, m in matched if m is not None and m["rank"] == first]


def _is_log(table: ReportedTable) -> bool:
    """Whether the rows of a table are steps or epochs of one run: figures along a run, not results."""
    places = [row.value("step") or row.value("epoch") for row in table.rows]
    return sum(p is not None for p in places) * 2 > len(places) and len({p for p in places if p}) > 2


def read_csv_table(evidence: Evidence, path: Path, name: str, encoding: str, steps: bool = False) -> bool:
    """Read a CSV file with a row for each result; return whether it is one. `steps`: its steps or epochs are
    known to be lengths of runs.
    """
    rows: list[tuple[int, list[str]]] = []
    lines = text_files.lines(path, encoding)
    opening = list(islice(lines, 20))
    heading = next((k for k, line in enumerate(opening) if line.strip() and not _is_comment(opening, k)), None)
    if heading is None:
        return False
    delimiter = max(DELIMITERS, key=opening[heading].count)
    for number, line in enumerate([*opening[heading:], *islice(lines, MOST_ROWS + 1)], start=heading + 1):
        if line.strip():
            rows.append((number, next(csv.reader([line.replace("\0", "")], delimiter=delimiter), [])))
    if len(rows) < 2:
        return False
    line_number, header = rows[0]
    if len(header) < 2:
        return False
    grid = Grid("CSV", line_number, header, rows[1:], cut_off=len(rows) > MOST_ROWS)
    table = read_table(grid, Place(name))
    if table is None or (not steps and _is_log(table)):
        return False
    evidence.tables.append(table)
    return True


def _is_comment(lines: list[str], k: int) -> bool:
    """Whether line `k` is a comment; "# GPUs,Batch,..." above as many cells is a heading."""
    following = next((line for line in lines[k + 1 :] if line.strip()), "")
    return lines[k].startswith("#") and not any(lines[k].count(d) == following.count(d) > 0 for d in DELIMITERS)


def read_notebook_file(evidence: Evidence, text: str, name: str) -> tuple[bool, list[list[Line]]]:
    """Read a notebook; return whether a result was in its texts and tables, and the lines that each of its cells
    printed. Raises UnreadableFile.
    """
    try:
        document, printed = read_notebook(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"it is no notebook: {str(error)[:100]}") from None
    taken = _take(evidence, document, name)
    for lines in printed:
        taken += _take_grids(evidence, report_blocks(lines), name)
    return taken > 0, printed


def read_spreadsheet(evidence: Evidence, path: Path, name: str) -> bool:
    """Read the sheets of a workbook; return whether a table of results was in them. Raises UnreadableFile."""
    try:
        grids = read_workbook(path)
    except ValueError as error:
        raise UnreadableFile(f"the workbook cannot be opened: {error}") from None
    return _take_grids(evidence, grids, name) > 0


PAIR = re.compile(
    r"[\s>*+\-•✓✅|]*(?:\*\*)?([A-Za-z][\w /().%#-]{1,60}?)(?:\*\*)?\s*(?::|=|\.{3,})\s*(?:\*\*)?\s*(\S.{0,100}?)\s*$"
)
INLINE = re.compile(
    r"([A-Za-z][\w /().%#-]{1,50}?)\s*[:=]\s*([~≈<>]?[-+]?\d[\d.,]*(?:e[-+]?\d+)?\s*(?:%|"
    r"[A-Za-zµ×][\w/×]{0,18})?)(?=[,;|\s]|$)"
)
RULE = re.compile(r"\s*([=\-*#~_─━═])\1{3,}\s*")
PLAUSIBLE = re.compile(r"[:=.].*\S")
# What was run for the figures below it.
COMMAND = re.compile(r"(?:\$ ?)?(?:\w+=\S+ )*(?:python3?|torchrun|bash|sh|srun|sbatch|accelerate|deepspeed|mpirun) \S")
LEAST_RESULTS = 2  # results in a block
LONGEST_TITLE = 120


def report_blocks(lines: list[Line], least: int = LEAST_RESULTS) -> list[Grid]:
    """Return one grid of a text's blocks: a row a block, a column a name. [] where no block has `least` results."""
    blocks: list[tuple[int, str, dict[str, str]]] = []
    current: dict[str, str] = {}
    title, start = "", 1
    for number, raw in lines:
        text = raw.strip()
        if not text or RULE.fullmatch(text):
            continue
        pairs = _pairs(text)
        if not pairs:
            if (heading := _title(text)) is not None:
                _close(blocks, start, title, current, least)
                current = {}
                title = heading
                start = number
            continue
        begins = _begins(pairs)
        if begins or any(name in current for name, _ in pairs):
            _close(blocks, start, title, current, least)
            current = {}
            if begins:
                _, title = pairs[0]
        if not current:
            start = number
        for name, value in pairs:
            current.setdefault(name, value)
    _close(blocks, start, title, current, least)
    if not blocks:
        return []
    names = list(dict.fromkeys(name for _, _, values in blocks for name in values))
    rows = [(line, [head, *(values.get(name, "") for name in names)]) for line, head, values in blocks]
    return [Grid("report text", blocks[0][0], ["Configuration", *names], rows)]


def _close(
    blocks: list[tuple[int, str, dict[str, str]]], line: int, title: str, values: dict[str, str], least: int
) -> None:
    """Add a block that ends, if it has `least` results."""
    results = [name for name, value in values.items() if column_of(name).kind in RESULTS and figures_of(value)]
    if len(results) >= least:
        blocks.append((line, title, values))


def _begins(pairs: list[tuple[str, str]]) -> bool:
    """Whether names and values begin a block, like `Configuration: 4 GPUs`."""
    name, value = pairs[0]
    return column_of(name).kind == "run" and not figures_of(value)


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the (name, value) of a line that are understood: one for `Name: figure`, several for `a=1, b=2`."""
    if len(text) > 400 or not PLAUSIBLE.search(text) or "|" in text.strip("|"):
        return []
    cleaned = plain_text(text.lstrip("-•*+> ").rstrip(" \\"))  # a backslash at the end breaks the line in Markdown
    separated = ":" in cleaned or "=" in cleaned
    several = [(m[1].strip(), m[2].strip()) for m in INLINE.finditer(cleaned)] if separated else []
    understood = [(name, value) for name, value in several if column_of(name).kind is not None]
    if len(understood) >= 2:
        return understood
    m = PAIR.fullmatch(cleaned) if separated or "..." in cleaned else None
    if m is None:
        return understood
    kind = column_of(m[1]).kind
    if kind is None or (kind not in NOT_FIGURES and not figures_of(m[2]) and not re.match(r"[~≈<>]?[-+]?\d", m[2])):
        return understood
    return [(m[1].strip(), m[2])]


def _title(text: str) -> str | None:
    """Return a line that names what follows, without markup; None for a sentence, a command or a line of a log."""
    cleaned = plain_text(text).strip("#=-*[] :")
    if COMMAND.match(cleaned):
        return None
    if re.search(r"[:=]\s*[~<>]?\d", cleaned):
        return None  # a figure of some other kind
    if cleaned.endswith((".", "!", ",", ";")) or text.startswith(("- ", "* ", "|", "$")):
        return None
    if not cleaned or len(cleaned) > LONGEST_TITLE:
        return None
    return cleaned if len(cleaned.split()) <= 14 else None
