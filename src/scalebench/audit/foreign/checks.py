"""All checks on other people's results, and running them."""

from scalebench.audit.finding import Finding
from scalebench.audit.foreign import compared, conditions, identities, sharing, timers, told
from scalebench.audit.foreign.study import Check, Study, named
from scalebench.record.foreign.claim import Evidence
from scalebench.record.foreign.gather import BREAKS

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
    """All findings, the gravest first. A check that these files break is told, and the others go on."""
    study, found = Study(evidence), []
    for check in CHECKS:
        try:
            found += check(study)
        except BREAKS as error:
            reason = f"the check could not be made on these files ({type(error).__name__}: {str(error)[:80]})"
            found.append(named("file-unreadable", "suspect", [check.__name__], reason))
    return gravest_first(found)


def gravest_first(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda f: ORDER.index(f.severity))
