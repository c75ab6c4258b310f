"""Codes of the findings on runs, those that another finding explains among them."""

from collections.abc import Sequence

from scaleproof.conclude.checks.all_checks import ALSO, audit
from scaleproof.ground.records.run import Run


def codes(runs: Sequence[Run]) -> dict[str, str]:
    """Code -> severity; an explained finding is an invalid one."""
    findings = audit("x", runs).findings
    explained = [code for finding in findings for code in finding.evidence.partition(ALSO)[2].split(", ") if code]
    return dict.fromkeys(explained, "invalid") | {finding.code: str(finding.severity) for finding in findings}
