"""The audit as text for a console and as Markdown for an issue, and the pages of its findings."""

import re
import textwrap
from collections.abc import Iterator
from itertools import takewhile

from tabulate import tabulate

from scaleproof.auditor.audit import Audit
from scaleproof.auditor.checks.overview import OverviewLine, ScalingLine
from scaleproof.auditor.read.text_files import printable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.catalog import anybodys_codes, meaning_of, own_only_codes, pages_by_code
from scaleproof.ground.findings.finding import Finding, count_text
from scaleproof.ground.number_format import integer, significant

WIDTH = 110
NAMES = 3  # runs named in the heading of a finding
ROWS = 40  # of what was read
EACH = 12  # findings of one kind, and files of one kind
CELL = 34  # characters of a cell on a console
DECIMALS = re.compile(r"(?<![\w.])\d[\d,]*\.\d{6,}(?![\w.])")
SCALING = ("configuration", "devices", "rate", "speed-up", "efficiency", "over", "beside", "mark")
HEADINGS = ("run or row", "devices", "work", "rate", "published", "recomputed", "corrected", "mark")


def audit_text(audit: Audit, width: int = WIDTH) -> str:
    """The audit as text for a console.

    First the verdict, then the findings by severity and code, most severe first; then tables of the scaling and of what
    was read, `width` characters wide, and what was not read.
    """
    lines = [verdict(audit), reading_sentence(audit)]
    for (severity, code), findings in grouped(audit.findings).items():
        lines += ["", *_of_one_kind(severity, code, findings, min(width, WIDTH))]
    if scaling := scaling_read(audit):
        lines += ["", "scaling:", *_table(SCALING, scaling, width)]
    telling, rest = rows_read(audit)
    if telling:
        lines += ["", "read:", *_table(HEADINGS, telling, width)]
    if rest:
        lines += ([] if telling else [""]) + [
            f"{plural(rest, 'run or row', 'runs or rows')} without a rate (--json has all)"
        ]
    if not_read := list(_not_read(audit)):
        lines += ["", "not read:", *not_read]
    return "\n".join(lines)


def _table(headings: tuple[str, ...], rows: list[list[str]], width: int) -> list[str]:
    """The table of the first ROWS rows as one text, then a line that counts the other rows, if any.

    Columns that are empty are left out; the first one has what width the others leave.
    """
    first = rows[:ROWS]
    used = [k for k in range(len(headings)) if any(row[k] for row in first)]
    width_of_others = sum(min(CELL, max(len(row[k]) for row in first)) + 2 for k in used[1:])
    names = shortened_names([row[0] for row in first], max(CELL, width - width_of_others))
    body = [[name, *(_cut(row[k], CELL) for k in used[1:])] for name, row in zip(names, first, strict=True)]
    texts = [tabulate(body, [headings[k] for k in used], tablefmt="simple", disable_numparse=True)]
    if len(rows) > ROWS:
        texts.append(f"and {len(rows) - ROWS:,} more (--json has all)")
    return texts


def shortened_names(names: list[str], width: int) -> list[str]:
    """Paths shortened to `width` characters: without the folders that all have in common, then without the middle.

    Where the second step would make two of them equal, it is left out, and names may be longer than `width`.
    """
    start = 0  # of the part of each path that is not common
    if len(set(names)) > 1 and max(map(len, names)) > width:
        levels = zip(*(name.split("/")[:-1] for name in names), strict=False)
        common = takewhile(lambda folders: len(set(folders)) == 1, levels)
        start = sum(len(folders[0]) + 1 for folders in common)
    bare = [name[start:] for name in names]
    head = (width - 3) // 3
    cut = [name if len(name) <= width else f"{name[:head]}...{name[head + 3 - width :]}" for name in bare]
    return cut if len(set(cut)) == len(set(names)) else bare


def _of_one_kind(severity: str, code: str, findings: list[Finding], width: int) -> Iterator[str]:
    """Lines on the findings of one code: the evidence of each, then why it matters and what to do."""
    yield f"{severity} {code}" + (f" ({len(findings)} times)" if len(findings) > 1 else "")
    for finding in findings[:EACH]:
        yield from _labelled(names_of(finding), finding.evidence, 4, width)
        if finding.corrected:
            yield from _labelled("corrected", str(finding.corrected), 4, width)
    if len(findings) > EACH:
        yield f"    and {len(findings) - EACH:,} more like these"
    if what := meaning_of(code):
        yield from _labelled("why", what, 2, width)
    yield from _labelled("do", findings[0].advice, 2, width)


def audit_markdown(audit: Audit) -> str:
    """The audit as Markdown for an issue on GitHub: verdict, findings, scaling, what was read, what was not."""
    sentences = (f"**{verdict(audit)}**", "", reading_sentence(audit))
    lines = [f"## Audit of `{one_line(audit.source)}`", "", *sentences, ""]
    for (severity, code), findings in grouped(audit.findings).items():
        why = one_line(meaning_of(code))
        lines += [f"### {severity}: `{code}`", "", why, ""]
        for finding in findings[:EACH]:
            corrected = f" **Corrected: {one_line(finding.corrected)}.**" if finding.corrected else ""
            lines.append(f"- `{names_of(finding)}`: {one_line(finding.evidence)}.{corrected}")
        if len(findings) > EACH:
            lines.append(f"- and {len(findings) - EACH:,} more like these")
        lines += ["", f"What to do: {one_line(findings[0].advice)}", ""]
    for title, headings, rows in (
        ("Scaling", SCALING, scaling_read(audit)[:ROWS]),
        ("Read", HEADINGS, rows_read(audit)[0][:ROWS]),
    ):
        if rows:
            escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
            lines += [f"### {title}", "", tabulate(escaped, headings, tablefmt="github", disable_numparse=True), ""]
    if not_read := list(_not_read(audit)):
        items = (f"- {line.strip()}" for line in not_read)
        lines += ["<details><summary>Not read</summary>", "", *items, "", "</details>"]
    return "\n".join(lines).rstrip() + "\n"


def cells(line: OverviewLine) -> list[str]:
    """The cells of one row of the table of what was read, in the order of HEADINGS."""
    devices = "" if line.devices is None else str(line.devices)
    texts = (line.work, rounded(line.rate), rounded(line.published), line.recomputed, line.corrected, line.mark)
    return [one_line(line.name), devices, *map(one_line, texts)]


def rows_read(audit: Audit) -> tuple[list[list[str]], int]:
    """The cells of the rows that have more than a name and devices, each once, and how many others there are."""
    rows = [cells(line) for line in audit.readings]
    telling = [row for row in rows if any(row[2:])]
    return _once(telling), len(rows) - len(telling)


def scaling_read(audit: Audit) -> list[list[str]]:
    """The cells of the sizes that say how fast they were, each once: documents repeat their tables."""
    return _once([row for row in map(scaling_cells, audit.scaling) if any(row[2:])])


def _once(rows: list[list[str]]) -> list[list[str]]:
    return [list(row) for row in dict.fromkeys(map(tuple, rows))]


def rounded(text: str) -> str:
    """A text whose long decimals are rounded to six digits, for people; --json has them whole."""

    def shorter(long: re.Match[str]) -> str:
        value = float(long[0].replace(",", ""))
        return integer(value) if value >= 1e5 else significant(value, 6, grouped=True)

    return DECIMALS.sub(shorter, text)


def scaling_cells(line: ScalingLine) -> list[str]:
    """The cells of one row of the table of scaling, in the order of SCALING."""
    figures = (rounded(line.rate), line.speedup, line.efficiency, line.baseline, line.beside, line.mark)
    return [one_line(line.configuration), str(line.devices), *map(one_line, figures)]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 3]}..."


def _not_read(audit: Audit) -> Iterator[str]:
    """Lines on what was not read: one for each kind of reason, with its first files."""
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
    """Findings by (severity, code); groups and the findings in them keep their order.

    What is said of several runs in the same words is one finding about all of them.
    """
    by_words: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        words = (finding.severity, finding.code, finding.evidence, str(finding.corrected), finding.advice)
        by_words.setdefault(words, []).append(finding)
    groups: dict[tuple[str, str], list[Finding]] = {}
    for same in by_words.values():
        runs = list(dict.fromkeys(run for finding in same for run in finding.runs))
        groups.setdefault((same[0].severity, same[0].code), []).append(same[0].model_copy(update={"runs": runs}))
    return groups


def names_of(finding: Finding) -> str:
    more = f" and {len(finding.runs) - NAMES:,} more" if len(finding.runs) > NAMES else ""
    return ", ".join(finding.runs[:NAMES]) + more


def _labelled(label: str, text: str, indent: int, width: int) -> list[str]:
    """The lines of "label: text", wrapped, with `indent` spaces before the first and two more before the others."""
    first = f"{' ' * indent}{label}: "
    return textwrap.wrap(
        one_line(first + text), width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)
    )


def one_line(text: object, indent: str = "") -> str:
    """One line without control characters, whatever a file had in it."""
    return indent + "".join(c if c.isprintable() else printable(c) for c in str(text)).strip()


def verdict(audit: Audit) -> str:
    """One sentence: how many findings of which severity."""
    counts = {"invalid": audit.count("invalid"), "suspect": audit.count("suspect"), "note": audit.count("note")}
    return "found: " + (", ".join(count_text(n, word) for word, n in counts.items() if n) or "nothing")


def reading_sentence(audit: Audit) -> str:
    """One sentence: how many runs and tables of which formats, how many of their figures were understood."""
    formats = ", ".join(f"{name} ({n:,})" for name, n in audit.formats.items())
    text = f"read: {formats or 'nothing'}"
    figures = audit.figures
    if not figures.not_understood:
        return text
    total = figures.read + figures.not_understood
    headings = ", ".join(figures.headings[:EACH])
    if len(figures.headings) > EACH:
        headings += ", ..."
    text += f"; figures read: {figures.read:,} of {total:,}, {figures.not_understood:,} not understood: "
    return text + one_line(headings)


def index() -> str:
    """A line for each code with the first sentence of its page; codes of scaleproof's own runs are last."""
    lines = []
    for title, codes in (("Anybody's results:", anybodys_codes()), ("Runs of scaleproof only:", own_only_codes())):
        width = max(map(len, codes))
        lines.append(title)
        for code in sorted(codes):
            first_sentence = one_line(pages_by_code()[code].what).partition(". ")[0].rstrip(".")
            lines.append(f"  {code:<{width}}  {first_sentence}")
        lines.append("")
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
    return (
        "\n".join([HEADER, *map(page_text, anybodys_codes()), OURS, *map(page_text, own_only_codes())]).rstrip() + "\n"
    )


def page_text(code: str) -> str:
    """The page of a code in Markdown: what it means, how it is detected, where it was seen, what to do."""
    page = pages_by_code()[code]
    entries = {"Detected by": page.detected, "Seen in": page.seen, "What to do": page.repair}
    listed = "\n".join(_markdown(f"- {label}: {text}") for label, text in entries.items() if text)
    return f"## {code}\n\n{_markdown(page.what)}\n\n{listed}\n"


def _markdown(text: str) -> str:
    """A paragraph, or an entry of a list, in lines of at most 120 characters."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
