"""The audit of any files and folders: runs of this program by its own checks, everybody else's in the neutral form."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from scalebench.audit.campaign.all_checks import audit, check_names
from scalebench.audit.external.all_checks import CHECKS as FOREIGN
from scalebench.audit.external.all_checks import audit_evidence, gravest_first
from scalebench.audit.external.context import named
from scalebench.audit.finding import Finding
from scalebench.errors import UserError
from scalebench.importers.discover import BREAKS, gather
from scalebench.importers.reported import Evidence, Unread
from scalebench.importers.text_files import printable
from scalebench.record.run import Run, read_run


class Audit(BaseModel):
    """What was read and what was found; `scalebench audit --json`."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal["1.0"] = "1.0"
    runs: list[str]
    formats: dict[str, int]
    traces: list[str]
    not_recognised: list[str]
    checks: list[str]
    findings: list[Finding]

    @property
    def clean(self) -> bool:
        return all(f.severity == "note" for f in self.findings)

    def count(self, severity: str) -> int:
        return sum(f.severity == severity for f in self.findings)


def audit_paths(paths: list[Path], given: dict[str, dict[str, int]] | None = None) -> Audit:
    """Read and check. Raises UserError where a path is missing, or where nothing in it is a result."""
    evidence = gather(paths, given)
    return audit_gathered(evidence, " ".join(printable(str(p)) for p in paths))


def audit_gathered(evidence: Evidence, place: str) -> Audit:
    names, own, formats = _own(evidence)
    something = (
        evidence.runs
        or names
        or evidence.operator_tables
        or evidence.gpu_logs
        or evidence.scaling_reports
        or evidence.unread
    )
    if not something:
        seen = f"; {len(evidence.traces)} are of Nsight Systems" if evidence.traces else ""
        files = len(evidence.ignored) + len(evidence.traces)
        raise UserError(f"{place}: no benchmark result among {files} file{'' if files == 1 else 's'}{seen}")
    formats += Counter(c.format for c in evidence.runs)
    for kind, items in (
        ("profiler table", evidence.operator_tables),
        ("nvidia-smi log", evidence.gpu_logs),
        ("scaling report", evidence.scaling_reports),
    ):
        formats += Counter({kind: len(items)})
    return Audit(
        runs=[*names, *(c.name for c in evidence.runs)],
        formats=dict(formats),
        traces=evidence.traces,
        not_recognised=evidence.ignored,
        checks=[*(check_names() if names else []), *(c.__name__ for c in FOREIGN)],
        findings=gravest_first([*own, *audit_evidence(evidence)]),
    )


def _own(evidence: Evidence) -> tuple[list[str], list[Finding], Counter]:
    """Runs of schema 3.0 with their raw series, campaign by campaign; what cannot be read goes to the unread."""
    grouped: dict[tuple[str, str], list[Run]] = defaultdict(list)
    found, formats = [], Counter()
    for folder in evidence.own_runs:
        place = Path(folder)
        name = printable("/".join(place.parts[-2:]))
        try:
            run = read_run(place)
            if run.ok:
                run.window  # noqa: B018  (reads the series, which must be the metrics' own)
            grouped[(run.metrics.campaign, str(place.parent.parent))].append(run)
        except UserError as error:
            evidence.unread.append(Unread(name, str(error).replace(folder, name)[:300]))
        except (*BREAKS, OSError) as error:
            evidence.unread.append(Unread(name, f"its series is not one of schema 3.0 ({type(error).__name__})"))
    for (campaign, _), runs in grouped.items():
        formats["metrics JSON 3 with its series"] += len(runs)
        try:
            found += audit(campaign, runs).findings
        except BREAKS as error:
            reason = f"{len(runs)} runs hold what schema 3.0 does not ({type(error).__name__}: {str(error)[:80]})"
            found.append(named("file-unreadable", "suspect", [r.name for r in runs], reason))
    return [run.name for runs in grouped.values() for run in runs], found, formats
