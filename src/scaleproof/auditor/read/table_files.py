"""Files with tables and prose, from text to evidence; in plain text, blocks of `Name: figure unit` below a title."""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.csv_logs import DELIMITERS
from scaleproof.auditor.read.documents import Document, read_document, read_notebook, read_workbook
from scaleproof.auditor.read.grids import MOST_ROWS, Grid, Line
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of
from scaleproof.auditor.read.printed_figures import figures_of, plain_text
from scaleproof.auditor.read.reported import Evidence, Unread
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.sentences import stated_figures, stated_results
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.auditor.read.typed_tables import is_profile, read_table, typed_table
from scaleproof.auditor.read.units import RESULTS
from scaleproof.ground.errors import plural

RANK_PREFIX = re.compile(r"(?:\[1,(?=\d))?\[?(?:rank ?)?(?P<rank>\d{1,5})(?:\]<std(?:out|err)>: ?|\]?: )")
# Kinds of settings that others follow from: a table with three or more is read.
OF_BATCHES = {
    "micro_batch",
    "batch",
    "accumulation",
    "global_batch",
    "global_batch_tokens",
    "seq_len",
    "steps",
    "tokens",
}
REPORT_LINES = 2_000  # at either end of a long text


def _take_grids(evidence: Evidence, grids: Iterable[Grid], name: str) -> int:
    """Add the tables of results, and note those whose headings are not understood. Return how many were added."""
    added = 0
    for grid in grids:
        table = typed_table(grid, name)
        if table is not None and table.kinds() & RESULTS:
            evidence.tables.append(table)
            added += 1
        elif table is not None and len(table.kinds() & OF_BATCHES) >= 3:
            evidence.settings.append(table)
            added += 1
        elif _has_figures(grid) and not is_profile(grid.header):
            headings = ", ".join(heading[:30] for heading in grid.header[:6])
            reason = f"a table whose headings are not understood: {headings}"
            evidence.unread.append(Unread(f"{name}:{grid.line}", reason, "unknown form"))
    return added


def _has_figures(grid: Grid) -> bool:
    """Whether more than half of the cells beside the first column begin with a digit."""
    cells = [cell for _, row in grid.rows[:50] for cell in row[1:]]
    return sum(cell[:1].isdigit() for cell in cells) * 2 > max(len(cells), 3)


def _take_document(evidence: Evidence, document: Document, name: str) -> int:
    """Add the figures of sentences and the tables of a document. Return how many were added."""
    figures = stated_figures(document.prose, name)
    evidence.stated_figures += figures
    cells = [(line, cell) for grid in document.grids for line, row in grid.rows for cell in row]
    evidence.stated_results += stated_results([*((line, text) for line, text, _ in document.prose), *cells], name)
    return _take_grids(evidence, document.grids, name) + len(figures)


def read_document_file(evidence: Evidence, text: str, name: str, kind: str) -> bool:
    """Read a document for people. Return whether a table of results or a stated figure was in it."""
    lines: list[Line] = list(enumerate(text.splitlines(), start=1))
    document = read_document(lines, kind)
    added = _take_document(evidence, document, name)
    if not document.grids and kind != "html":
        added += _take_short_blocks(evidence, [(number, text) for number, text, _ in document.prose], name)
    return added > 0


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


def read_plain_text(evidence: Evidence, path: Path, name: str, encoding: str) -> bool:
    """Read a report in plain text: tables, and blocks of `name: figure`. Return whether it is one; logs are none."""
    if path.stat().st_size > text_files.LARGEST_TEXT:
        return False
    lines: list[Line] = list(enumerate(text_files.full_text(path, encoding).splitlines(), start=1))
    lines = of_first_rank(lines)
    if len(lines) > 2 * REPORT_LINES:  # a log: a report is at one of its ends, which an empty line parts
        cut_at, _ = lines[REPORT_LINES]
        lines = [*lines[:REPORT_LINES], (cut_at, ""), *lines[-REPORT_LINES:]]
    grids = [*read_document(lines, "text").grids, *report_blocks(lines)]
    tables = [table for grid in grids if (table := read_table(grid, name)) and not _is_log(table)]
    evidence.tables += tables
    return bool(tables)


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
    """Read a notebook. Return whether a result was in it, and what its cells printed. Raises UnreadableFile."""
    try:
        document, printed = read_notebook(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(f"it is no notebook: {str(error)[:100]}") from None
    added = _take_document(evidence, document, name)
    for lines in printed:
        added += _take_grids(evidence, report_blocks(lines), name)
    return added > 0, printed


def read_spreadsheet(evidence: Evidence, path: Path, name: str) -> bool:
    """Read the sheets of a workbook. Return whether a table of results was in them. Raises UnreadableFile."""
    try:
        grids = read_workbook(path)
    except ValueError as error:
        raise UnreadableFile(f"the workbook cannot be opened: {error}") from None
    return _take_grids(evidence, grids, name) > 0


NAME_AND_FIGURE = re.compile(
    r"[\s>*+\-•✓✅|]*(?:\*\*)?([A-Za-z][\w /().%#-]{1,60}?)(?:\*\*)?\s*(?::|=|\.{3,})\s*(?:\*\*)?\s*(\S.{0,100}?)\s*$"
)
NAMES_AND_FIGURES = re.compile(
    r"([A-Za-z][\w /().%#-]{1,50}?)\s*[:=]\s*([~≈<>]?[-+]?\d[\d.,]*(?:e[-+]?\d+)?\s*(?:%|"
    r"[A-Za-zµ×][\w/×]{0,18})?)(?=[,;|\s]|$)"
)
RULE = re.compile(r"\s*([=\-*#~_─━═])\1{3,}\s*")
MAY_HAVE_PAIRS = re.compile(r"[:=.].*\S")
# What was run for the figures below it.
COMMAND = re.compile(r"(?:\$ ?)?(?:\w+=\S+ )*(?:python3?|torchrun|bash|sh|srun|sbatch|accelerate|deepspeed|mpirun) \S")
LEAST_RESULTS = 2  # results in a block
LONGEST_TITLE, MOST_TITLE_WORDS = 120, 14


def report_blocks(lines: list[Line], least: int = LEAST_RESULTS) -> list[Grid]:
    """Return the blocks of `name: figure` in a text as one grid, a row a block and a column a name.

    Blocks with fewer than `least` results are left out; [] without any other.
    """
    blocks = [block for block in _blocks_of_pairs(lines) if block.number_of_results >= least]
    if not blocks:
        return []
    names = list(dict.fromkeys(name for block in blocks for name in block.values))
    rows = [(block.line, [block.title, *(block.values.get(name, "") for name in names)]) for block in blocks]
    return [Grid("report text", blocks[0].line, ["Configuration", *names], rows)]


@dataclass
class Block:
    """Names and values below a title."""

    line: int
    title: str
    values: dict[str, str] = field(default_factory=dict)

    @property
    def number_of_results(self) -> int:
        return sum(column_of(name).kind in RESULTS and bool(figures_of(value)) for name, value in self.values.items())


def _blocks_of_pairs(lines: list[Line]) -> list[Block]:
    """Return the blocks of a text. A title, a configuration ("run: a"), or a name that a block has begins the next."""
    blocks = [Block(1, "")]
    for number, raw in lines:
        text = raw.strip()
        if not text or RULE.fullmatch(text):
            continue
        pairs = _pairs(text)
        if not pairs:
            if (title := _title(text)) is not None:
                blocks.append(Block(number, title))
            continue
        first_name, first_value = pairs[0]
        if column_of(first_name).kind == "run" and not figures_of(first_value):  # "Configuration: 4 GPUs"
            blocks.append(Block(number, first_value))
        elif any(name in blocks[-1].values for name, _ in pairs):
            blocks.append(Block(number, blocks[-1].title))
        if not blocks[-1].values:
            blocks[-1].line = number
        for name, value in pairs:
            blocks[-1].values.setdefault(name, value)
    return blocks


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a line that are understood: ("gpus", "8"), ("loss", "2.3") of "gpus=8; loss=2.3"."""
    if len(text) > 400 or not MAY_HAVE_PAIRS.search(text) or "|" in text.strip("|"):
        return []
    cleaned = plain_text(text.lstrip("-•*+> ").rstrip(" \\"))  # a backslash at the end breaks the line in Markdown
    understood: list[tuple[str, str]] = []
    has_separator = ":" in cleaned or "=" in cleaned
    if has_separator:  # few lines have one, and the pattern is slow
        pairs = [(m[1].strip(), m[2].strip()) for m in NAMES_AND_FIGURES.finditer(cleaned)]
        understood = [(name, value) for name, value in pairs if column_of(name).kind is not None]
    if len(understood) >= 2:
        return understood
    # The line may be one pair, whose value is more than a figure: "GPUs: 8 x A100"
    m = NAME_AND_FIGURE.fullmatch(cleaned) if has_separator or "..." in cleaned else None
    if m is None:
        return understood
    kind = column_of(m[1]).kind
    if kind is None or (kind not in NOT_FIGURES and not figures_of(m[2]) and not re.match(r"[~≈<>]?[-+]?\d", m[2])):
        return understood
    return [(m[1].strip(), m[2])]


def _title(text: str) -> str | None:
    """Return what a line says that names what follows: "4 GPUs" of "### 4 GPUs:".

    None for a sentence, an item, a command, a figure, or a line that is too long for a title.
    """
    cleaned = plain_text(text).strip("#=-*[] :")
    if COMMAND.match(cleaned) or re.search(r"[:=]\s*[~<>]?\d", cleaned):
        return None
    if cleaned.endswith((".", "!", ",", ";")) or text.startswith(("- ", "* ", "|", "$")):
        return None
    return cleaned if cleaned and len(cleaned) <= LONGEST_TITLE and len(cleaned.split()) <= MOST_TITLE_WORDS else None
