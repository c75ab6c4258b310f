"""All checks on other people's results, and running them."""

from scaleproof.auditor.checks import (
    comparability,
    efficiencies,
    explanations,
    feasibility,
    figures,
    files_beside_runs,
    identities,
    products,
    published_claims,
    ratios,
    scaling,
    sources,
    step_work,
    timing,
    training,
    work,
)
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.read.logs.key_values import KeyValues
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.findings.registry import by_severity, codes_of

# Importing a module registers its checks, in this order.
MODULES = (
    *(work, timing, scaling, comparability, training, feasibility, files_beside_runs, published_claims),
    *(step_work, identities, ratios, efficiencies, explanations, products, figures, sources),
)
OF_RUNS_ALONE = (work, timing, scaling, comparability, files_beside_runs, published_claims)
NOT_OF_TABLES = {module.__name__ for module in OF_RUNS_ALONE}
CODES = codes_of(of_evidence)
GUESSED_FORMAT = KeyValues.format
SAID_BY_LOGS = {"did-not-train"}  # findings on what a log says in so many words: "loss: nan"


def audit_context(context: AuditContext) -> list[Finding]:
    """Run all checks and return their findings, most severe first. A check that raises becomes a note that says so."""
    skipped = NOT_OF_TABLES if context.evidence.has_tables_alone else ()  # they would find nothing: it saves time
    checks = (check for check in of_evidence if check.function.__module__ not in skipped)
    findings = [finding for check in checks for finding in check.findings_on(context)]
    return by_severity(_with_guesses_as_notes(context, findings))


def _with_guesses_as_notes(context: AuditContext, findings: list[Finding]) -> list[Finding]:
    """Return the findings, where those about nothing but logs of a guessed form are notes: they prove nothing."""
    guessed = {run.name for run in context.runs if run.format == GUESSED_FORMAT}
    weighed = []
    for finding in findings:
        only_guessed = bool(finding.runs) and guessed.issuperset(finding.runs)
        if only_guessed and finding.severity != "note" and finding.code not in SAID_BY_LOGS:
            evidence = f"{finding.evidence} (the form of this log was guessed)"
            finding = finding.model_copy(update={"severity": "note", "evidence": evidence})
        weighed.append(finding)
    return weighed
