"""All checks on other people's results, and running them."""

from types import ModuleType

from scaleproof.auditor.checks import (
    comparability,
    efficiencies,
    feasibility,
    figures,
    files_beside_runs,
    formulas,
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
RUN_MODULES = (work, timing, scaling, comparability)  # whose checks have nothing to look at where there are no runs
FILE_MODULES = (files_beside_runs, published_claims)  # nor these, without what lies beside runs and without claims
TABLE_MODULES = (step_work, identities, ratios, efficiencies, formulas, products, figures)
MODULES = (*RUN_MODULES, training, feasibility, *FILE_MODULES, *TABLE_MODULES, sources)
CODES = codes_of(of_evidence)
GUESSED_FORMAT = KeyValues.format
SAID_BY_LOGS = {"did-not-train"}  # findings on what a log says in so many words: "loss: nan"


def audit_context(context: AuditContext) -> list[Finding]:
    """The findings of all checks, most severe first. A check that breaks on these files becomes a note of its own."""
    evidence = context.evidence
    idle: tuple[ModuleType, ...] = ()
    if not (context.runs or evidence.scaling_reports):
        beside = (evidence.unread, evidence.gpu_logs, evidence.operator_tables, evidence.traced_folders)
        has_files = any((*beside, evidence.published_claims, evidence.stated_figures))
        idle = RUN_MODULES if has_files else RUN_MODULES + FILE_MODULES
    idle_names = {module.__name__ for module in idle}
    checks = [check for check in of_evidence if check.function.__module__ not in idle_names]
    findings = [finding for check in checks for finding in check.noting(context)]
    return by_severity(_with_guesses_as_notes(context, findings))


def _with_guesses_as_notes(context: AuditContext, findings: list[Finding]) -> list[Finding]:
    """The findings; those on nothing but logs whose form was guessed prove nothing and become notes."""
    guessed = {run.name for run in context.runs if run.format == GUESSED_FORMAT}
    weighed = []
    for finding in findings:
        only_guessed = bool(finding.runs) and guessed.issuperset(finding.runs)
        if only_guessed and finding.severity != "note" and finding.code not in SAID_BY_LOGS:
            evidence = f"{finding.evidence} (the form of this log was guessed)"
            finding = finding.model_copy(update={"severity": "note", "evidence": evidence})
        weighed.append(finding)
    return weighed
