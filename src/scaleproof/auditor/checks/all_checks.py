"""All checks on other people's results, and what they need."""

from types import ModuleType

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
from scaleproof.auditor.checks.context import of_evidence
from scaleproof.ground.findings.registry import codes_of

# Importing a module registers its checks. What the evidence must have for those of a module to find anything: one of
# these kinds of figures, or of the words of `AuditContext.has`; (): they are always made.
RUNS = ("runs",)
RELATED = ("related figures",)
_NEEDS: dict[ModuleType, tuple[str, ...]] = {
    **dict.fromkeys((work, timing, scaling, comparability, files_beside_runs, published_claims), RUNS),
    training: (*RUNS, "loss"),
    feasibility: (*RUNS, "mfu", "flops_per_s"),
    step_work: (*RUNS, "step_time_s"),
    sources: (*RUNS, "sentences", "several tables", "relative errors"),
    **dict.fromkeys((figures, ratios), ()),
    efficiencies: ("efficiency", "marks of ratios"),
    **dict.fromkeys((identities, products), RELATED),
    explanations: (*RELATED, "speedup", "efficiency", "change", "marks of ratios"),
}
NEEDS = {module.__name__: needs for module, needs in _NEEDS.items()}
CODES = codes_of(of_evidence)
