"""Verifying with the checks made again: findings that were left out of findings.json are differences, too."""

from pathlib import Path

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.checks.all_checks import CODES
from scaleproof.ground.findings.finding import Finding, read_findings
from scaleproof.ground.findings.registry import rules_version
from scaleproof.ground.records.run import read_run
from scaleproof.verify.campaign import folder_of, verify
from scaleproof.verify.printed import numbers
from scaleproof.verify.raw import Difference, read_runs

FINDINGS = "findings.json"
OF_RUNS = ("runs", "scaling")  # what findings concern that follow from the runs alone


def verify_and_audit(path: Path) -> tuple[list[Difference], int, int]:
    """Verify a campaign, and make its checks again. Returns what differs, and how many runs and figures there are.

    Raises UserError where `path` is no campaign's results.
    """
    differences, runs, figures = verify(path)
    folder = folder_of(path)
    if not differences and not other_rules(folder):
        differences = left_out(folder)
    return differences, runs, figures


def left_out(folder: Path) -> list[Difference]:
    """Return the findings on the runs in `folder` that findings.json does not have, or has with other figures."""
    stated = read_findings(folder / FINDINGS)
    raw_runs, _ = read_runs(folder)
    again = campaign_findings(folder.name, [read_run((folder / run.path).parent) for run in raw_runs])
    known = {_name(finding): finding for finding in stated.findings}
    differences = []
    for finding in again.findings:
        about = ", ".join(finding.runs or finding.cells)
        other = known.get(_name(finding))
        if finding.concerns not in OF_RUNS:
            continue
        if other is None and finding.severity != "note":
            differences.append(Difference(FINDINGS, finding.code, f"is left out: {about}: {finding.evidence}"))
        elif other and (other.severity, numbers(other.evidence)) != (finding.severity, numbers(finding.evidence)):
            problem = f'says "{other.evidence[:80]}" ({other.severity}) of {about}, its files "{finding.evidence[:80]}"'
            differences.append(Difference(FINDINGS, finding.code, problem))
    return differences


def other_rules(folder: Path) -> str:
    """Say that findings.json in `folder` is of other rules than today's, which may find something else.

    Returns nothing where it is of these.
    """
    stated, today = read_findings(folder / FINDINGS).rules_version, rules_version(CODES)
    return "" if stated == today else f"{FINDINGS} is of rules {stated}, this version has {today}"


def _name(finding: Finding) -> tuple[str, ...]:
    """Return what a finding is known by: its code and the runs, or cells, that it is about."""
    return (finding.code, *(finding.runs or finding.cells))
