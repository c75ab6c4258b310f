"""Verifying with the checks made again: findings that were left out of findings.json are differences, too."""

from pathlib import Path

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.ground.findings.finding import Finding, Findings, read_findings
from scaleproof.ground.records.run import read_run
from scaleproof.verify.campaign import folder_of, verify
from scaleproof.verify.raw import Difference, read_runs

FINDINGS = "findings.json"
OF_RUNS = ("runs", "scaling")  # what findings concern that follow from the runs alone


def verify_and_audit(path: Path) -> tuple[list[Difference], int, int]:
    """Verify a campaign, and make its checks again. Returns what differs, and how many runs and figures there are.

    Raises UserError where `path` is no campaign's results.
    """
    differences, runs, figures = verify(path)
    if not differences:
        differences = left_out(folder_of(path))
    return differences, runs, figures


def left_out(folder: Path) -> list[Difference]:
    """Return the findings above a note on the runs in `folder` that findings.json does not have.

    Another version's rules may find something else: where findings.json is of other rules, nothing is compared.
    """
    stated = read_findings(folder / FINDINGS)
    raw_runs, _ = read_runs(folder)
    again = campaign_findings(folder.name, [read_run((folder / run.path).parent) for run in raw_runs])
    if stated.rules_version != again.rules_version:
        return []
    known = {_name(finding) for finding in stated.findings}
    unstated = [finding for finding in _above_note(again) if _name(finding) not in known]
    return [
        Difference(
            FINDINGS, finding.code, f"is left out: {', '.join(finding.runs or finding.cells)}: {finding.evidence}"
        )
        for finding in unstated
    ]


def _above_note(findings: Findings) -> list[Finding]:
    """Return the findings above a note that follow from the runs alone."""
    return [finding for finding in findings.findings if finding.severity != "note" and finding.concerns in OF_RUNS]


def _name(finding: Finding) -> tuple[str, ...]:
    """Return what a finding is known by: its code and the runs, or cells, that it is about."""
    return (finding.code, *(finding.runs or finding.cells))
