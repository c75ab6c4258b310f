"""The audit as text, and the pages of its findings as Markdown."""

import textwrap

from scalebench.audit.audit_paths import Audit
from scalebench.audit.catalog import ANYBODYS, OWN_ONLY, PAGES
from scalebench.audit.finding import Finding
from scalebench.importers.text_files import printable

WIDTH = 110
NAMES = 3  # runs that a finding is headed with


def audit_text(audit: Audit) -> str:
    """What was read, then the findings, those of one kind together, most severe first."""
    lines = [summary(audit)]
    for (severity, code), found in grouped(audit.findings).items():
        lines += ["", f"{severity} {code}" + (f" ({len(found)} times)" if len(found) > 1 else "")]
        for f in found:
            lines += _labelled(names_of(f), f.evidence, 4)
            lines += _labelled("corrected", str(f.corrected), 4) if f.corrected else []
        lines += _labelled("why", PAGES[code].what, 2) if code in PAGES else []
        lines += _labelled("do", found[0].advice, 2)
    return "\n".join(lines)


def grouped(findings: list[Finding]) -> dict[tuple[str, str], list[Finding]]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for f in findings:
        groups.setdefault((f.severity, f.code), []).append(f)
    return groups


def names_of(finding: Finding) -> str:
    more = f" and {len(finding.runs) - NAMES:,} more" if len(finding.runs) > NAMES else ""
    return ", ".join(finding.runs[:NAMES]) + more


def _labelled(label: str, text: str, indent: int) -> list[str]:
    first = f"{' ' * indent}{label}: "
    return textwrap.wrap(
        one_line(first + text), WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)
    )


def one_line(text: object) -> str:
    """One line without control characters, whatever a file had in it."""
    return "".join(c if c.isprintable() else printable(c) for c in str(text)).strip()


def summary(audit: Audit) -> str:
    """One sentence: how many runs of which formats, how many findings."""
    read = ", ".join(f"{n:,} {name}" for name, n in audit.formats.items())
    found = ", ".join(f"{n} {s}" for s in ("invalid", "suspect", "note") if (n := audit.count(s)))
    return f"read: {read or 'nothing'}; found: {found or 'nothing'}"


def index() -> str:
    """All codes with the first sentence of their pages, own ones last."""
    lines = []
    for title, codes in (("Anybody's results:", ANYBODYS), ("Runs of scalebench only:", OWN_ONLY)):
        width = max(map(len, codes))
        texts = {code: one_line(PAGES[code].what).partition(". ")[0].rstrip(".") for code in sorted(codes)}
        lines += [title, *(f"  {code:<{width}}  {text}" for code, text in texts.items()), ""]
    return "\n".join([*lines, "scalebench explain CODE prints a page; scalebench explain --all prints all of them."])


HEADER = """# Findings

One entry for each finding of `scalebench audit` and of a campaign: what is wrong and why it matters, how it is
detected, where it was seen, how to repair it. This page is `scalebench explain --all`; one entry of it is
`scalebench explain CODE`. First what is found in anybody's results, then what only runs of scalebench itself can show.
[audit.md](audit.md) says what is read and how to use it.

Severities: `invalid`, the number is wrong or answers another question; `suspect`, it may be; `note`, worth knowing.
A code has its usual severity; a finding may have another where the files prove more or less.
"""

OURS = """# Runs of scalebench

They know more than any file says: the samples of each rank, the traffic and dtypes of a step, every step of every rank.
"""


def explained() -> str:
    """All pages: docs/findings.md."""
    return "\n".join([HEADER, *map(page_text, ANYBODYS), OURS, *map(page_text, OWN_ONLY)]).rstrip() + "\n"


def page_text(code: str) -> str:
    page = PAGES[code]
    return f"## {code}\n\n{page.what}\n\n- Detected: {page.detected}\n- Seen: {page.seen}\n- Repair: {page.repair}\n"
