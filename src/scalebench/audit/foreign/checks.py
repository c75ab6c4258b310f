"""All checks on other people's results, and running them."""

from scalebench.audit.finding import Finding, Findings
from scalebench.audit.foreign import compared, conditions, identities, sharing, timers, told
from scalebench.audit.foreign.study import Check, Study
from scalebench.record.foreign.claim import Evidence

CHECKS: tuple[Check, ...] = (
    *identities.CHECKS,
    *timers.CHECKS,
    *sharing.CHECKS,
    *compared.CHECKS,
    *conditions.CHECKS,
    *told.CHECKS,
)
ORDER = ("invalid", "suspect", "note")


def audit_evidence(evidence: Evidence) -> list[Finding]:
    """All findings, the gravest first."""
    study = Study(evidence)
    return gravest_first([finding for check in CHECKS for finding in check(study)])


def gravest_first(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda f: ORDER.index(f.severity))


def findings_of(name: str, found: list[Finding], checks: list[str]) -> Findings:
    return Findings(campaign=name, checks=checks, findings=found)
