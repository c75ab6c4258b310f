"""docs/five-benchmarks.md, written from the audits of five published benchmarks: `python tests/five_benchmarks.py`.

Figure by figure, what was claimed, and what the files say. With a folder, their reconstructed files stay there.
"""

import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from case_study_files import FIGURES, write_case_study

from scaleproof.auditor.audit import Audit, audit_gathered
from scaleproof.auditor.audit_text import grouped, names_of, one_line
from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.checks.published_claims import recomputed
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.reported import PublishedClaim
from scaleproof.ground.findings.finding import Finding

PAGE = Path(__file__).parents[1] / "docs/five-benchmarks.md"
ORDER = ("h100", "agnews", "l4", "v100", "nodes")
TITLE = "Five benchmarks, audited"
INTRODUCTION = (
    "Five public projects measured how GPT-2-class training scales, and published tables. Their files are "
    "reconstructed here: written from the published figures in the formats of the projects' own programs "
    "(tests/auditor/case_studies/ has the figures and says what had to be made up to fill a file, such as single steps "
    "around a published mean). This page is the output of scaleproof audit on them. Each project is named and "
    "linked; `scaleproof audit CLONE` audits the real files in a clone of it. The point is not that these authors "
    "were careless: every one of these faults looks like a result until somebody multiplies a rate by its time."
)
# Findings that put another figure in the place of the published one.
REPLACING = {
    "speedup": ("each-rank-trained-on-everything", "batch-multiplied", "claim-not-in-data"),
    "throughput": ("sawtooth-timer", "rate-of-one-rank", "rate-multiplied"),
}
PER_CODE = 4  # findings of one kind that are printed
HEADINGS = ("claim", "published", "its files say", "corrected", "findings about these runs")


@dataclass(frozen=True)
class ClaimRow:
    """A claim: what was published, what the files give, what a finding makes of it, the findings about its runs."""

    claim: str
    published: str
    files: str
    corrected: str
    findings: list[str]


@dataclass(frozen=True)
class CaseStudy:
    title: str
    about: str
    project: str  # owner/name on GitHub
    rows: list[ClaimRow]
    audit: Audit

    @property
    def groups(self) -> dict[tuple[str, str], list[Finding]]:
        return grouped(self.audit.findings)


def case_study(name: str, root: Path) -> CaseStudy:
    """The audit of a benchmark's files, which are written below `root`."""
    source, folder = FIGURES / f"{name}.yaml", root / name
    write_case_study(source, folder)
    data = yaml.safe_load(source.read_text())
    evidence = gather([folder])
    audit = audit_gathered(evidence, name)
    context = AuditContext(evidence)
    written = [claim for claim in evidence.published_claims if claim.kind in SENTENCES]
    rows = [_row(context, claim, audit.findings) for claim in written]
    return CaseStudy(data["title"], data["about"], data["project"], rows, audit)


def _row(context: AuditContext, claim: PublishedClaim, findings: list[Finding]) -> ClaimRow:
    sentence, published, files = SENTENCES[claim.kind](claim.values, recomputed(context, claim))
    runs = {run.name for key in ("of", "run") if key in claim.values for run in context.runs_named(claim.values[key])}
    about = runs | {claim.values.get("of"), claim.values.get("run"), claim.source}
    concerning = [f for f in findings if about & set(f.runs)]
    return ClaimRow(
        claim=sentence,
        published=published,
        files=files,
        corrected=_corrected(runs, claim, concerning),
        findings=sorted({f.code for f in concerning if f.severity != "note"}),
    )


def _corrected(runs: set[str], claim: PublishedClaim, findings: list[Finding]) -> str:
    """The figure that a finding about the runs puts in the place of the published one; of several runs the median's."""
    for code in REPLACING.get(claim.kind, ()):
        about = runs | ({claim.values["of"]} if code == "claim-not-in-data" else set())
        figures = [f.corrected.figure for f in findings if f.code == code and f.runs[0] in about and f.corrected]
        if figures:
            return figures[len(figures) // 2]
    return ""


Sentence = tuple[str, str, str]  # claim, published, what the files say
Values = dict[str, Any]


def _speedup(values: Values, here: float | None) -> Sentence:
    return f"speed-up of {values['of']} over {values['over']}", f"{values['value']:g}", _figure(here, ".3f")


def _change(values: Values, here: float | None) -> Sentence:
    return f"{values['of']} over {values['over']}", f"{values['value']:+.1%}", _figure(here, "+.2%")


def _throughput(values: Values, here: float | None) -> Sentence:
    return f"tokens/s of {values['of']}", f"{values['value']:,.2f}", _figure(here, ",.2f")


def _share(values: Values, here: float | None) -> Sentence:
    published = f"{values['percent']:g} % of {values['of_total']}"
    return f"share of {values['what']} in {values['run']}", published, "not in these files"


def _total_time(values: Values, here: float | None) -> Sentence:
    return f"device time of {values['of']}", f"{values['value']:g} s", f"{_figure(here, '.1f')} s of own time"


def _step_parts(values: Values, here: float | None) -> Sentence:
    published = f"{values['compute'] * 1e3:g} + {values['communication'] * 1e3:g} ms"
    files = "unknown" if here is None else f"{here * 1e3:.1f} ms in all"
    return f"computing and communication in a step of {values['of']}", published, files


def _amdahl(values: Values, here: float | None) -> Sentence:
    return "parallel fraction by Amdahl's law", f"{values['parallel_fraction']:g}", f"{_figure(here, '.2f')} by formula"


def _parameters(values: Values, here: float | None) -> Sentence:
    return "parameters", f"{values['value'] / 1e6:g}M", "not in these files"


def _communication_time(values: Values, here: float | None) -> Sentence:
    return f"communication time of {values['of']}", f"{values['value']:g} s", "unknown"


# Kind of a claim -> what the page says of it.
SENTENCES: dict[str, Callable[[Values, float | None], Sentence]] = {
    "speedup": _speedup,
    "change": _change,
    "throughput": _throughput,
    "share": _share,
    "total_time": _total_time,
    "step_parts": _step_parts,
    "amdahl": _amdahl,
    "parameters": _parameters,
    "communication_time": _communication_time,
}


def _figure(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def page(studies: list[CaseStudy]) -> str:
    lines = [f"# {TITLE}", "", *_wrapped(INTRODUCTION), ""]
    for study in studies:
        lines += _study_markdown(study)
    lines += _wrapped(
        "`python tests/five_benchmarks.py FOLDER` writes this page, and these files below FOLDER; "
        "`scaleproof audit FOLDER/v100` audits them again."
    )
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def _study_markdown(study: CaseStudy) -> list[str]:
    counts = ", ".join(f"{n} {s}" for s in ("invalid", "suspect", "note") if (n := study.audit.count(s)))
    lines = [
        f"## {study.title}",
        "",
        f"Project: [{study.project}](https://github.com/{study.project}); files reconstructed from published figures.",
        "",
        *_wrapped(study.about),
        "",
        f"{len(study.audit.runs)} runs; {counts}.",
        "",
        _table_row(HEADINGS),
        "|---|---|---|---|---|",
    ]
    for row in study.rows:
        codes = " ".join(f"[{code}](findings.md#{code})" for code in row.findings)
        lines.append(_table_row([_cell(v) for v in (row.claim, row.published, row.files, row.corrected)] + [codes]))
    lines.append("")
    for (severity, code), findings in study.groups.items():
        times = f" ({len(findings)} times)" if len(findings) > 1 else ""
        lines.append(f"- **{severity}** [{code}](findings.md#{code}){times}")
        for finding in findings[:PER_CODE]:
            corrected = f" **Corrected:** {one_line(finding.corrected)}." if finding.corrected else ""
            lines.append(f"  - `{names_of(finding)}`: {one_line(finding.evidence)}.{corrected}")
        if len(findings) > PER_CODE:
            lines.append(f"  - and {len(findings) - PER_CODE} more like these")
    return [*lines, ""]


def _table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        PAGE.write_text(page([case_study(name, folder) for name in ORDER]))
