"""Tables of a README, audited: for tests of what their figures imply."""

from pathlib import Path

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.findings.finding import Finding


def rows(head: str, *lines: str) -> str:
    """A Markdown table of lines whose cells are separated by bars."""
    rule = "|".join(["---"] * len(head.split("|")))
    return "\n".join(f"| {line} |" for line in (head, rule, *lines)) + "\n"


def audited(folder: Path, text: str) -> dict[str, Finding]:
    (folder / "README.md").write_text("# Results\n\n" + text)
    return {finding.code: finding for finding in audit_paths([folder]).findings}


def accusations(findings: dict[str, Finding]) -> dict[str, str]:
    return {code: finding.evidence for code, finding in findings.items() if finding.severity != "note"}
