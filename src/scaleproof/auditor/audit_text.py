"""The audit as text for a console and as Markdown for an issue, and the pages of its findings."""

import re
import textwrap
from collections.abc import Iterator
from itertools import takewhile
from operator import attrgetter

from tabulate import tabulate

from scaleproof.auditor.audit import Audit
from scaleproof.auditor.checks.context import listed
from scaleproof.auditor.overview import OverviewLine, ScalingLine
from scaleproof.auditor.read.text_files import printable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings import pages
from scaleproof.ground.findings.catalog import anybodys_codes, meaning_of, own_only_codes, pages_by_code
from scaleproof.ground.findings.finding import SEVERITIES, Finding, count_text
from scaleproof.ground.number_format import integer, significant
from scaleproof.ground.records.grouping import group_by

WIDTH = 110
MOST_HEADINGS = 12  # that were not understood
MOST_NAMES = 3  # of runs in the heading of a finding
MOST_ROWS = 40  # of what was read
MOST_FINDINGS = 12  # of one kind
CELL_WIDTH = 34  # characters, on a console
LONG_DECIMALS = re.compile(r"(?<![\w.])\d[\d,]*\.\d{6,}(?![\w.])")
SCALING = ("configuration", "devices", "rate", "speed-up", "efficiency", "over", "beside", "mark")
HEADINGS = ("run or row", "devices", "work", "rate", "published", "recomputed", "corrected", "mark")


def audit_text(audit: Audit, width: int = WIDTH, waived: int = 0) -> str:
    """Return the audit as text, `width` wide: verdict, findings (worst first), scaling, what was read and what not.

    `waived`: number of findings that it is without.
    """
    lines = [verdict(audit, waived), reading_sentence(audit)]
    for (severity, code), findings in grouped(audit.findings).items():
        lines += ["", *_lines_on_code(severity, code, findings, min(width, WIDTH))]

    if scaling := scaling_read(audit):
        lines += ["", "scaling:", *_table(SCALING, scaling, width)]
    telling, others = rows_read(audit)  # rows with a figure, and the number of rows without one
    if telling:
        lines += ["", "read:", *_table(HEADINGS, telling, width)]
    elif others:
        lines.append("")
    if others:
        reason = "none is stated or understood, or the devices are unknown: --world-size N"
        lines.append(f"{plural(others, 'run or row', 'runs or rows')} without a rate: {reason} (--json has all)")
    if not_read := list(_lines_not_read(audit)):
        lines += ["", "not read:", *not_read]
    return "\n".join(lines)


def _table(headings: tuple[str, ...], rows: list[list[str]], width: int) -> list[str]:
    """Return the table of the first MOST_ROWS rows, as one text, and a line that counts the others, if any.

    Empty columns are left out; the first column, of names, takes what the others leave of `width`.
    """
    first = rows[:MOST_ROWS]
    used = [k for k in range(len(headings)) if any(row[k] for row in first)]  # indices of columns with any text
    width_of_others = sum(min(CELL_WIDTH, max(len(row[k]) for row in first)) + 2 for k in used[1:])
    names = shortened_names([row[0] for row in first], max(CELL_WIDTH, width - width_of_others))
    cut_rows = [[cell if len(cell) <= CELL_WIDTH else f"{cell[: CELL_WIDTH - 3]}..." for cell in row] for row in first]
    body = [[name, *(row[k] for k in used[1:])] for name, row in zip(names, cut_rows, strict=True)]
    texts = [tabulate(body, [headings[k] for k in used], tablefmt="simple", disable_numparse=True)]
    if len(rows) > MOST_ROWS:
        texts.append(f"and {len(rows) - MOST_ROWS:,} more (--json has all)")
    return texts


def shortened_names(names: list[str], width: int) -> list[str]:
    """Return paths of at most `width` characters, without their common folders and cut: "ddp_r...eeds/n4.json".

    Where cutting would make two of them equal, none is cut, and names may be longer than `width`.
    """
    start = 0  # length of the common folders, which all paths begin with
    if len(set(names)) > 1 and max(map(len, names)) > width:
        levels = zip(*(name.split("/")[:-1] for name in names), strict=False)
        common = takewhile(lambda folders: len(set(folders)) == 1, levels)
        start = sum(len(folders[0]) + 1 for folders in common)
    without_common = [name[start:] for name in names]
    head = (width - 3) // 3
    cut = [name if len(name) <= width else f"{name[:head]}...{name[head + 3 - width :]}" for name in without_common]
    return cut if len(set(cut)) == len(set(names)) else without_common


def _lines_on_code(severity: str, code: str, findings: list[Finding], width: int) -> Iterator[str]:
    """Yield lines on the findings of one code: the evidence of each, then why it matters and what to do."""
    yield f"{severity} {code}" + (f" ({len(findings)} times)" if len(findings) > 1 else "")
    for finding in findings[:MOST_FINDINGS]:
        yield from _labelled(names_of(finding), finding.evidence, 4, width)
        if finding.corrected:
            yield from _labelled("corrected", str(finding.corrected), 4, width)
    if len(findings) > MOST_FINDINGS:
        yield f"    and {len(findings) - MOST_FINDINGS:,} more like these"
    if what := meaning_of(code):
        yield from _labelled("why", what, 2, width)
    yield from _labelled("do", findings[0].advice, 2, width)


def audit_markdown(audit: Audit, waived: int = 0) -> str:
    """Return the audit as Markdown for an issue: verdict, findings, scaling, what was read, what was not."""
    sentences = (f"**{verdict(audit, waived)}**", "", reading_sentence(audit))
    lines = [f"## Audit of `{one_line(audit.source)}`", "", *sentences, ""]
    for (severity, code), findings in grouped(audit.findings).items():
        why = one_line(meaning_of(code))
        lines += [f"### {severity}: `{code}`", "", why, ""]
        for finding in findings[:MOST_FINDINGS]:
            corrected = f" **Corrected: {one_line(finding.corrected)}.**" if finding.corrected else ""
            lines.append(f"- `{names_of(finding)}`: {one_line(finding.evidence)}.{corrected}")
        if len(findings) > MOST_FINDINGS:
            lines.append(f"- and {len(findings) - MOST_FINDINGS:,} more like these")
        lines += ["", f"What to do: {one_line(findings[0].advice)}", ""]

    telling, _ = rows_read(audit)
    for title, headings, rows in (("Scaling", SCALING, scaling_read(audit)), ("Read", HEADINGS, telling)):
        if rows:
            escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows[:MOST_ROWS]]
            lines += [f"### {title}", "", tabulate(escaped, headings, tablefmt="github", disable_numparse=True), ""]
    if not_read := list(_lines_not_read(audit)):
        items = (f"- {line.strip()}" for line in not_read)
        lines += ["<details><summary>Not read</summary>", "", *items, "", "</details>"]
    return "\n".join(lines).rstrip() + "\n"


def cells(line: OverviewLine) -> list[str]:
    """Return a row of the table of what was read, in the order of HEADINGS: ["ddp", "4", "bf16", "390 tok/s", ...]."""
    devices = "" if line.devices is None else str(line.devices)
    texts = (line.work, rounded(line.rate), rounded(line.published), line.recomputed, line.corrected, line.mark)
    return [one_line(line.name), devices, *map(one_line, texts)]


def rows_read(audit: Audit) -> tuple[list[list[str]], int]:
    """Return the `cells` of rows that have more than a name and devices, each once, and how many rows have no more."""
    rows = [cells(line) for line in audit.readings]
    telling = [row for row in rows if any(row[2:])]
    return _distinct(telling), len(rows) - len(telling)


def scaling_read(audit: Audit) -> list[list[str]]:
    """Return the cells of the rows of the table of scaling that have a rate or another figure, each once."""
    return _distinct([row for row in map(scaling_cells, audit.scaling) if any(row[2:])])


def _distinct(rows: list[list[str]]) -> list[list[str]]:
    """Return each row once: documents repeat their tables."""
    return [list(row) for row in dict.fromkeys(map(tuple, rows))]


def rounded(text: str) -> str:
    """Return a text with long decimals, which only --json has, rounded: "6.93471823 tok/s" -> "6.93472 tok/s"."""

    def shorter(long: re.Match[str]) -> str:
        value = float(long[0].replace(",", ""))
        return integer(value) if value >= 1e5 else significant(value, 6, grouped=True)

    return LONG_DECIMALS.sub(shorter, text)


def scaling_cells(line: ScalingLine) -> list[str]:
    """Return the cells of one row of the table of scaling, in the order of SCALING."""
    figures = (rounded(line.rate), line.speedup, line.efficiency, line.baseline, line.beside, line.mark)
    return [one_line(line.configuration), str(line.devices), *map(one_line, figures)]


def _lines_not_read(audit: Audit) -> Iterator[str]:
    """Yield lines on what was not read: one for each kind of reason, with its first files."""
    for kind, files in sorted(audit.not_read.items()):
        yield _line_of_files(kind, files)
    if audit.traces:
        yield _line_of_files("traces (see scaleproof trace)", audit.traces)
    if audit.columns_not_understood:
        yield _line_of_files("columns of tables that were not understood", audit.columns_not_understood)
    if audit.not_recognised:
        yield _line_of_files("files of no known form", audit.not_recognised)


def _line_of_files(kind: str, files: list[str]) -> str:
    return one_line(f"{kind} ({len(files):,}): {listed(files, MOST_NAMES, '; ')}", indent="  ")


def grouped(findings: list[Finding]) -> dict[tuple[str, str], list[Finding]]:
    """Return (severity, code) -> findings, in their order. Findings that differ in runs only become one with all."""
    words = attrgetter("severity", "code", "evidence", "advice")
    merged = []
    for same in group_by(findings, lambda finding: (*words(finding), str(finding.corrected))).values():
        runs = list(dict.fromkeys(run for finding in same for run in finding.runs))
        merged.append(same[0].model_copy(update={"runs": runs}))
    return group_by(merged, lambda finding: (finding.severity, finding.code))


def names_of(finding: Finding) -> str:
    """Return the first runs of a finding: "a.log, b.log, c.log and 5 more"."""
    return listed(finding.runs, MOST_NAMES)


def _labelled(label: str, text: str, indent: int, width: int) -> list[str]:
    """Return the lines of "label: text", wrapped: `indent` spaces before the first, two more before the others."""
    line, further = " " * indent, " " * (indent + 2)
    return textwrap.wrap(one_line(f"{label}: {text}"), width, initial_indent=line, subsequent_indent=further)


def one_line(text: object, indent: str = "") -> str:
    """Return one line without control characters, whatever a file had in it: "a\\tb" -> "a\\\\x09b"."""
    return indent + "".join(c if c.isprintable() else printable(c) for c in str(text)).strip()


def verdict(audit: Audit, waived: int = 0) -> str:
    """Return how many findings of which severity there are: "found: 1 invalid, 2 notes", and how many are `waived`."""
    texts = [count_text(count, word) for word in SEVERITIES if (count := audit.count(word))] or ["nothing"]
    return "found: " + ", ".join([*texts, *([f"{waived} waived"] if waived else [])])


def reading_sentence(audit: Audit) -> str:
    """Return what was read, and how much was understood: "read: CSV (2); figures read: 8 of 9, 1 not ...: x"."""
    formats = ", ".join(f"{name} ({count:,})" for name, count in audit.formats.items())
    text = f"read: {formats or 'nothing'}"
    figures = audit.figures
    if not figures.not_understood:
        return text
    total = figures.read + figures.not_understood
    headings = ", ".join(figures.headings[:MOST_HEADINGS])
    if len(figures.headings) > MOST_HEADINGS:
        headings += ", ..."
    text += f"; figures read: {figures.read:,} of {total:,}, {figures.not_understood:,} not understood: "
    return text + one_line(headings)


HEADER = """# Findings

One entry for each finding of `scaleproof audit` and of a campaign: what is wrong and why it matters, how it is
detected, where it was seen, how to repair it. This page is `scaleproof explain --all`; one entry of it is
`scaleproof explain CODE`. First what is found in anybody's results, then what only runs of scaleproof itself can show.
[audit.md](audit.md) says what is read and how to use it.

Severities: `invalid`, the number is wrong or answers another question; `suspect`, it may be; `note`, worth knowing.
A code has its usual severity; a finding may have another where the files prove more or less.
"""

OURS = f"""{pages.OURS}

They know more than any file says: the samples of each rank, the traffic and dtypes of a step, every step of every rank.
"""


def explained() -> str:
    """Return all pages: docs/findings.md."""
    parts = [HEADER, *map(page_text, anybodys_codes()), OURS, *map(page_text, own_only_codes())]
    return "\n".join(parts).rstrip() + "\n"


def page_text(code: str) -> str:
    """Return the page of a code in Markdown: what it means, how it is detected, where it was seen, what to do."""
    page = pages_by_code()[code]
    entries = {"Detected by": page.detected, "Seen in": page.seen, "What to do": page.repair}
    listed = "\n".join(_markdown(f"- {label}: {text}") for label, text in entries.items() if text)
    return f"## {code}\n\n{_markdown(page.what)}\n\n{listed}\n"


def _markdown(text: str) -> str:
    """Return a paragraph, or an entry of a list, in lines of at most 120 characters."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
