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


# A finding of these is a note where few rows prove it, a setting was perhaps chosen, or a sentence may be of others.
PERHAPS_NOTES = ("totals-disagree", "speedup-not-in-table", "claim-not-in-data", "row-stands-out")


def accusations(findings: dict[str, Finding]) -> dict[str, str]:
    """The evidence of each code that accuses, or would with more proof."""
    accusing = {code: f for code, f in findings.items() if f.severity != "note" or code in PERHAPS_NOTES}
    return {code: finding.evidence for code, finding in accusing.items()}
