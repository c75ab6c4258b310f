"""All checks on other people's results, and running them."""

from scaleproof.auditor.checks import (
    comparability,
    copies,
    execution,
    feasibility,
    figures,
    files_beside_runs,
    identities,
    published_claims,
    ratios,
    scaling,
    sources,
    step_work,
    summaries,
    timing,
    traces,
    training,
    work,
)
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.read.logs.key_values import KeyValues
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.findings.registry import by_severity, codes_of

# Importing a module registers its checks, in this order.
MODULES = (
    work,
    timing,
    scaling,
    comparability,
    copies,
    execution,
    training,
    feasibility,
    files_beside_runs,
    published_claims,
    step_work,
    identities,
    ratios,
    figures,
    summaries,
    sources,
    traces,
)
CODES = codes_of(of_evidence)
GUESSED = KeyValues.format
PLAIN = {"did-not-train"}  # findings on what a log says in so many words: "loss: nan"


def audit_context(context: AuditContext) -> list[Finding]:
    """All findings, most severe first. A check that these files break is reported, and the others go on."""
    findings: list[Finding] = []
    for check in of_evidence:
        findings += check.noting(context)
    return by_severity(_weighed(context, findings))


def _weighed(context: AuditContext, findings: list[Finding]) -> list[Finding]:
    """What rests on logs alone whose form was guessed proves nothing: a note."""
    guessed = {run.name for run in context.runs if run.format == GUESSED}

    def weighed(finding: Finding) -> Finding:
        if (
            finding.severity == "note"
            or finding.code in PLAIN
            or not finding.runs
            or not guessed.issuperset(finding.runs)
        ):
            return finding
        evidence = f"{finding.evidence} (the form of this log was guessed)"
        return finding.model_copy(update={"severity": "note", "evidence": evidence})

    return [weighed(finding) for finding in findings]
