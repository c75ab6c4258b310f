"""The audit as text for a console and as Markdown for an issue, and the pages of its findings."""

import textwrap
from collections.abc import Iterator

from tabulate import tabulate

from scaleproof.auditor.audit import Audit
from scaleproof.auditor.checks.overview import OverviewLine
from scaleproof.auditor.read.text_files import printable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.catalog import anybodys, own_only, pages
from scaleproof.ground.findings.finding import Finding, counted

WIDTH = 110
NAMES = 3  # runs named in the heading of a finding
ROWS = 40  # of what was read
EACH = 12  # findings of one kind, and files of one kind
CELL = 34  # characters of a cell on a console
HEADINGS = ("run or row", "devices", "work", "rate", "published", "recomputed", "corrected", "mark")


def audit_text(audit: Audit) -> str:
    """What was read, then the findings, those of one kind together, most severe first, then what was not read."""
    lines = [summary(audit)]
    if audit.readings:
        rows = [[_cut(cell) for cell in cells(reading)] for reading in audit.readings[:ROWS]]
        lines += ["", tabulate(rows, HEADINGS, tablefmt="simple", disable_numparse=True)]
        if len(audit.readings) > ROWS:
            lines.append(f"and {len(audit.readings) - ROWS:,} more (--json has all)")
    for (severity, code), findings in grouped(audit.findings).items():
        lines += ["", *_of_one_kind(severity, code, findings)]
    if not_read := list(_not_read(audit)):
        lines += ["", "not read:", *not_read]
    return "\n".join(lines)


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
    lines = [f"## Audit of `{one_line(audit.source)}`", "", summary(audit), ""]
    if audit.readings:
        rows = [[cell.replace("|", "\\|") for cell in cells(reading)] for reading in audit.readings[:ROWS]]
        lines += [tabulate(rows, HEADINGS, tablefmt="github", disable_numparse=True), ""]
    for (severity, code), findings in grouped(audit.findings).items():
        lines += [f"### {severity}: `{code}`", "", one_line(pages()[code].what) if code in pages() else "", ""]
        for finding in findings[:EACH]:
            corrected = f" **Corrected: {one_line(finding.corrected)}.**" if finding.corrected else ""
            lines.append(f"- `{names_of(finding)}`: {one_line(finding.evidence)}.{corrected}")
        lines += [f"- and {len(findings) - EACH:,} more like these"] if len(findings) > EACH else []
        lines += ["", f"What to do: {one_line(findings[0].advice)}", ""]
    not_read = list(_not_read(audit))
    lines += (
        ["<details><summary>Not read</summary>", "", *(f"- {line.strip()}" for line in not_read), "", "</details>"]
        if not_read
        else []
    )
    return "\n".join(lines).rstrip() + "\n"


def cells(reading: OverviewLine) -> list[str]:
    """The cells of a line of what was read."""
    devices = "" if reading.devices is None else str(reading.devices)
    texts = (reading.work, reading.rate, reading.published, reading.recomputed, reading.corrected, reading.mark)
    return [one_line(reading.name), devices, *map(one_line, texts)]


def _cut(cell: str) -> str:
    return cell if len(cell) <= CELL else f"{cell[: CELL // 2 - 2]}...{cell[-CELL // 2 + 1 :]}"


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


def summary(audit: Audit) -> str:
    """One sentence: how many runs of which formats, how many findings."""
    read = ", ".join(f"{name} ({n:,})" for name, n in audit.formats.items())
    counts = {"invalid": audit.count("invalid"), "suspect": audit.count("suspect"), "note": audit.count("note")}
    findings = ", ".join(counted(n, word) for word, n in counts.items() if n)
    return f"read: {read or 'nothing'}; found: {findings or 'nothing'}"


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
