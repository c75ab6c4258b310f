"""The audit as text for a console and as Markdown for an issue, and the pages of its findings."""

import textwrap
from collections.abc import Iterator
from itertools import takewhile

from tabulate import tabulate

from scaleproof.auditor.audit import Audit
from scaleproof.auditor.checks.overview import OverviewLine
from scaleproof.auditor.checks.scaling_lines import ScalingLine
from scaleproof.auditor.read.text_files import printable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.catalog import anybodys, own_only, pages
from scaleproof.ground.findings.finding import Finding, counted

WIDTH = 110
NAMES = 3  # runs named in the heading of a finding
ROWS = 40  # of what was read
EACH = 12  # findings of one kind, and files of one kind
CELL = 34  # characters of a cell on a console
SCALING = ("configuration", "devices", "rate", "speed-up", "efficiency", "over", "beside", "mark")
HEADINGS = ("run or row", "devices", "work", "rate", "published", "recomputed", "corrected", "mark")


def audit_text(audit: Audit, width: int = WIDTH) -> str:
    """The verdict, then the findings, those of one kind together, most severe first; then scaling and what was read,
    in lines of `width` characters, and what was not read.
    """
    lines = [verdict(audit), reading(audit)]
    for (severity, code), findings in grouped(audit.findings).items():
        lines += ["", *_of_one_kind(severity, code, findings)]
    if audit.scaling:
        lines += ["", "scaling:", *_table(SCALING, [scaling_cells(line) for line in audit.scaling], width)]
    if audit.readings:
        lines += ["", "read:", *_table(HEADINGS, [cells(line) for line in audit.readings], width)]
    if not_read := list(_not_read(audit)):
        lines += ["", "not read:", *not_read]
    return "\n".join(lines)


def _table(headings: tuple[str, ...], rows: list[list[str]], width: int) -> list[str]:
    """A table of the first rows. Columns that are empty are left out; the first one has what width the others leave."""
    first = rows[:ROWS]
    used = [k for k in range(len(headings)) if any(row[k] for row in first)]
    others = sum(min(CELL, max(len(row[k]) for row in first)) + 2 for k in used[1:])
    names = shortened_names([row[0] for row in first], max(CELL, width - others))
    body = [[name, *(_cut(row[k], CELL) for k in used[1:])] for name, row in zip(names, first, strict=True)]
    text = tabulate(body, [headings[k] for k in used], tablefmt="simple", disable_numparse=True)
    return [text] + [f"and {len(rows) - ROWS:,} more (--json has all)"] * (len(rows) > ROWS)


def shortened_names(names: list[str], width: int) -> list[str]:
    """Names in `width` characters as far as they stay apart: without the folders that all have, then without the
    beginning, which tells paths apart the least.
    """
    start = 0
    if len(set(names)) > 1 and max(map(len, names)) > width:
        folders = zip(*(name.split("/")[:-1] for name in names), strict=False)
        start = sum(len(parts[0]) + 1 for parts in takewhile(lambda parts: len(set(parts)) == 1, folders))
    bare = [name[start:] for name in names]
    cut = [name if len(name) <= width else f"...{name[3 - width :]}" for name in bare]
    return cut if len(set(cut)) == len(set(names)) else bare


def _of_one_kind(severity: str, code: str, findings: list[Finding]) -> Iterator[str]:
    """What each finding says, then what all of them have in common: why it matters, what to do."""
    yield f"{severity} {code}" + (f" ({len(findings)} times)" if len(findings) > 1 else "")
    for finding in findings[:EACH]:
        yield from _labelled(names_of(finding), finding.evidence, 4)
        if finding.corrected:
            yield from _labelled("corrected", str(finding.corrected), 4)
    if len(findings) > EACH:
        yield f"    and {len(findings) - EACH:,} more like these"
    if code in pages():
        yield from _labelled("why", pages()[code].what, 2)
    yield from _labelled("do", findings[0].advice, 2)


def audit_markdown(audit: Audit) -> str:
    """The same for an issue on GitHub."""
    lines = [f"## Audit of `{one_line(audit.source)}`", "", f"**{verdict(audit)}**", "", reading(audit), ""]
    for (severity, code), findings in grouped(audit.findings).items():
        lines += [f"### {severity}: `{code}`", "", one_line(pages()[code].what) if code in pages() else "", ""]
        for finding in findings[:EACH]:
            corrected = f" **Corrected: {one_line(finding.corrected)}.**" if finding.corrected else ""
            lines.append(f"- `{names_of(finding)}`: {one_line(finding.evidence)}.{corrected}")
        if len(findings) > EACH:
            lines.append(f"- and {len(findings) - EACH:,} more like these")
        lines += ["", f"What to do: {one_line(findings[0].advice)}", ""]
    for title, headings, rows in (
        ("Scaling", SCALING, [scaling_cells(line) for line in audit.scaling[:ROWS]]),
        ("Read", HEADINGS, [cells(line) for line in audit.readings[:ROWS]]),
    ):
        if rows:
            escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
            lines += [f"### {title}", "", tabulate(escaped, headings, tablefmt="github", disable_numparse=True), ""]
    if not_read := list(_not_read(audit)):
        items = (f"- {line.strip()}" for line in not_read)
        lines += ["<details><summary>Not read</summary>", "", *items, "", "</details>"]
    return "\n".join(lines).rstrip() + "\n"


def cells(line: OverviewLine) -> list[str]:
    """The cells of a line of what was read."""
    devices = "" if line.devices is None else str(line.devices)
    texts = (line.work, line.rate, line.published, line.recomputed, line.corrected, line.mark)
    return [one_line(line.name), devices, *map(one_line, texts)]


def scaling_cells(line: ScalingLine) -> list[str]:
    """The cells of a size of a configuration."""
    figures = (line.rate, line.speedup, line.efficiency, line.baseline, line.beside, line.mark)
    return [one_line(line.configuration), str(line.devices), *map(one_line, figures)]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 3]}..."


def _not_read(audit: Audit) -> Iterator[str]:
    """What was not read, by kind."""
    for kind, files in sorted(audit.not_read.items()):
        yield _some(kind, files)
    if audit.traces:
        yield _some("traces (see scaleproof trace)", audit.traces)
    if audit.columns_not_understood:
        yield _some("columns of tables that were not understood", audit.columns_not_understood)
    if audit.not_recognised:
        yield f"  {plural(len(audit.not_recognised), 'file')} of no known form"


def _some(kind: str, files: list[str]) -> str:
    more = f" and {len(files) - NAMES:,} more" if len(files) > NAMES else ""
    return one_line(f"{kind} ({len(files):,}): {'; '.join(files[:NAMES])}{more}", indent="  ")


def grouped(findings: list[Finding]) -> dict[tuple[str, str], list[Finding]]:
    """Findings by severity and code, in their order."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.code), []).append(finding)
    return groups


def names_of(finding: Finding) -> str:
    more = f" and {len(finding.runs) - NAMES:,} more" if len(finding.runs) > NAMES else ""
    return ", ".join(finding.runs[:NAMES]) + more


def _labelled(label: str, text: str, indent: int) -> list[str]:
    first = f"{' ' * indent}{label}: "
    return textwrap.wrap(
        one_line(first + text), WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)
    )


def one_line(text: object, indent: str = "") -> str:
    """One line without control characters, whatever a file had in it."""
    return indent + "".join(c if c.isprintable() else printable(c) for c in str(text)).strip()


def verdict(audit: Audit) -> str:
    """One sentence: how many findings of which severity."""
    counts = {"invalid": audit.count("invalid"), "suspect": audit.count("suspect"), "note": audit.count("note")}
    return "found: " + (", ".join(counted(n, word) for word, n in counts.items() if n) or "nothing")


def reading(audit: Audit) -> str:
    """One sentence: how many runs and tables of which formats, how many of their figures were understood."""
    formats = ", ".join(f"{name} ({n:,})" for name, n in audit.formats.items())
    figures = audit.figures
    text = f"read: {formats or 'nothing'}"
    if not figures.not_understood:
        return text
    count = figures.read + figures.not_understood
    names = one_line(", ".join(figures.headings[:EACH]) + ", ..." * (len(figures.headings) > EACH))
    return f"{text}; figures read: {figures.read:,} of {count:,}, {figures.not_understood:,} not understood: {names}"


def index() -> str:
    """All codes with the first sentence of their pages, own ones last."""
    lines = []
    for title, codes in (("Anybody's results:", anybodys()), ("Runs of scaleproof only:", own_only())):
        width = max(map(len, codes))
        texts = {code: one_line(pages()[code].what).partition(". ")[0].rstrip(".") for code in sorted(codes)}
        lines += [title, *(f"  {code:<{width}}  {text}" for code, text in texts.items()), ""]
    return "\n".join([*lines, "scaleproof explain CODE prints a page; scaleproof explain --all prints all of them."])


HEADER = """# Findings

One entry for each finding of `scaleproof audit` and of a campaign: what is wrong and why it matters, how it is
detected, where it was seen, how to repair it. This page is `scaleproof explain --all`; one entry of it is
`scaleproof explain CODE`. First what is found in anybody's results, then what only runs of scaleproof itself can show.
[audit.md](audit.md) says what is read and how to use it.

Severities: `invalid`, the number is wrong or answers another question; `suspect`, it may be; `note`, worth knowing.
A code has its usual severity; a finding may have another where the files prove more or less.
"""

OURS = """# Runs of scaleproof

They know more than any file says: the samples of each rank, the traffic and dtypes of a step, every step of every rank.
"""


def explained() -> str:
    """All pages: docs/findings.md."""
    return "\n".join([HEADER, *map(page_text, anybodys()), OURS, *map(page_text, own_only())]).rstrip() + "\n"


def page_text(code: str) -> str:
    page = pages()[code]
    entries = {"Detected by": page.detected, "Seen in": page.seen, "What to do": page.repair}
    listed = "\n".join(_markdown(f"- {label}: {text}") for label, text in entries.items() if text)
    return f"## {code}\n\n{_markdown(page.what)}\n\n{listed}\n"


def _markdown(text: str) -> str:
    """A paragraph, or an entry of a list, in lines of at most 120 characters."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
