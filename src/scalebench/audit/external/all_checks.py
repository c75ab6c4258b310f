"""All checks on other people's results, and running them."""

from scalebench.audit.external import comparability, execution, published_claims, scaling, timing, work
from scalebench.audit.external.context import AuditContext, Check, named
from scalebench.audit.finding import Finding
from scalebench.importers.discover import BREAKS
from scalebench.importers.reported import Evidence

CHECKS: tuple[Check, ...] = (
    *work.CHECKS,
    *timing.CHECKS,
    *scaling.CHECKS,
    *comparability.CHECKS,
    *execution.CHECKS,
    *published_claims.CHECKS,
)
ORDER = ("invalid", "suspect", "note")


def audit_evidence(evidence: Evidence) -> list[Finding]:
    """All findings, the gravest first. A check that these files break is told, and the others go on."""
    context, found = AuditContext(evidence), []
    for check in CHECKS:
        try:
            found += check(context)
        except BREAKS as error:
            reason = f"the check could not be made on these files ({type(error).__name__}: {str(error)[:80]})"
            found.append(named("file-unreadable", "suspect", [check.__name__], reason))
    return gravest_first(found)


def gravest_first(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda f: ORDER.index(f.severity))
