"""The audit of any files and folders: runs of this program by its own checks, everybody else's in the neutral form."""

import os
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from scaleproof.auditor.checks.all_checks import NEEDS
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.overview import OverviewLine, ScalingLine, overview_lines, scaling_lines
from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.discover import BREAKS, gather, has_result
from scaleproof.auditor.read.file_names import name_of_root
from scaleproof.auditor.read.logs.key_values import KeyValues
from scaleproof.auditor.read.reported import Evidence
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.text_files import printable
from scaleproof.ground.errors import UserError, did_you_mean, plural, shortened, without_place
from scaleproof.ground.files import content_fault
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.findings.own_runs import audit, check_names
from scaleproof.ground.findings.registry import (
    by_severity,
    finding_on_unusable_record,
    note_on_broken_check,
    one_note_a_cause,
)
from scaleproof.ground.records.run import Run, read_run

GUESSED_FORMAT = KeyValues.format
TABLE = "a table needs a row with a rate or a time above 0, below a heading that names it"
LOG = 'a log needs three lines or more such as "step: 7 tokens/s: 4567" or "step: 7 step_time_ms: 12.3"'
TEXT = f"{LOG}; a table needs headings, and bars, tabs or two spaces between its columns"
# Suffix of a file without a result -> what one of its kind needs.
NEEDED = dict.fromkeys((".csv", ".tsv"), f"{TABLE}, and commas, semicolons or tabs between its cells")
NEEDED |= {".md": f"{TABLE}, and a line |---|---| below its headings; pictures of tables are not read"}
NEEDED |= {".tex": f"{TABLE}; its rows end in \\\\", ".html": f"{TABLE}; this page has no <table> of results"}
JSON = 'JSON needs an object with a number above 0 under a key such as {"gpus": 8, "tokens_per_sec": 4567}'
NEEDED |= dict.fromkeys((".json", ".jsonl"), JSON)
SETTINGS = "of a campaign, name its results, results/NAME; settings alone are no result: give what was printed, or JSON"
NEEDED |= dict.fromkeys((".yaml", ".yml", ".toml"), SETTINGS)
NEEDED |= dict.fromkeys((".py", ".sh"), "a program is no result; give what it printed")
MOST_SUFFIXES = 3  # of files whose needs are said
ERROR = re.compile(
    r"(?m)^(?:.*\b(?!\w*(?:Mean|Squared?|Absolute|Percent))[A-Z]\w+(?:Error|Exception)(?::|$)|"
    r"(?:\S+: )*(?:fatal )?[Ee]rror: (?!\d)|.*CUDA out of memory\b|.*Segmentation fault|.*\bKilled$|.*\boom-kill).*$"
)
SAID_BY_LOGS = {"did-not-train"}  # findings on what a log says in so many words: "loss: nan"


class NoResult(UserError):
    """None of the files that were audited has a result."""


class OwnFinding(Finding):
    """A finding on runs of this program. `folder`: in which they lie, CELL/repN, seen from the working folder."""

    folder: str = Field(exclude=True)


class FigureCount(BaseModel, extra="forbid"):
    """How many figures of tables were understood, and under which headings others stand."""

    read: int
    not_understood: int
    headings: list[str]


class Audit(BaseModel, extra="forbid"):
    """What was read and what was found; `scaleproof audit --json`."""

    schema_version: Literal["1.3"] = "1.3"
    source: str
    runs: list[str]
    formats: dict[str, int]
    scaling: list[ScalingLine]
    readings: list[OverviewLine]
    figures: FigureCount
    traces: list[str]
    not_read: dict[str, list[str]]  # kind -> files, each with its reason
    not_recognised: list[str]
    columns_not_understood: list[str]  # file:line: headings
    checks: list[str]
    findings: list[Finding]

    @property
    def clean(self) -> bool:
        return all(finding.severity == "note" for finding in self.findings)

    def count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def audit_paths(paths: list[Path], given: dict[str, dict[str, int]] | None = None) -> Audit:
    """Audit all files below `paths`.

    `given`: facts that the caller knows, by a part of a run's name ("" for all runs): {"ddp": {"world_size": 4}}.
    Raises UserError where a path is missing, where nothing in it is a result, or no run is known by such a part.
    """
    evidence = gather(paths, given)
    names = [name_of_root(path, len(paths) > 1) for path in paths]
    try:
        result = audit_gathered(evidence, " ".join(names))
        _check_names(given or {}, {*result.runs, *(file for run in evidence.runs for file in run.files)}, result.runs)
        return result
    except NoResult:  # a fault of a path itself, as an empty file, says more
        if faults := [f"{name}{fault}" for name, path in zip(names, paths, strict=True) if (fault := _fault_of(path))]:
            raise NoResult("; ".join(faults)) from None
        raise


def _fault_of(path: Path) -> str:
    """Return why a path has no result, to follow its name: it is empty, or its program ended in an error. Else ""."""
    fault = content_fault(path)
    if fault or not path.is_file():
        return fault
    start = text_files.head(path)
    if path.suffix in (".json", ".jsonl"):
        opening = start.decode(text_files.encoding(start) or "ascii", "replace").lstrip().partition("\n")[0]
        return "" if opening[:1] in ("{", "[") else f' has text before its object or list: "{shortened(opening, 30)}"'
    if path.suffix in NEEDED:
        return ""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - text_files.HEAD, 0))
        text = text_files.cleaned(file.read().decode(text_files.encoding(start) or "ascii", "replace"))
    last_error = ["", *ERROR.findall(text)][-1].strip()[:150]
    return last_error and f": no step and no table; its last error: {last_error}"


def _check_names(given: dict[str, dict[str, int]], names: set[str], runs: list[str]) -> None:
    """Raise UserError where a part of a name is in none of `names`, of runs and their files. `runs`: for the hint."""
    for part, facts in given.items():
        if part and not any(part in name for name in names):  # "" is of all runs, also where there is none
            hint = f"{did_you_mean(part, runs)} Runs: {', '.join(runs[:10]) or 'none'}"
            raise UserError(f'"{part}={next(iter(facts.values()))}": no run has "{part}" in its name.{hint}')


def audit_gathered(evidence: Evidence, source: str) -> Audit:
    """Audit what was read. `source`: its name in messages. Raises UserError where none of it is a result."""
    # Runs that this program measured are judged by checks of their own, which know more.
    own_names, own_findings, own_formats = _audit_own_runs(evidence)

    context = AuditContext(evidence)
    is_empty = not own_names and not own_findings and not has_result(evidence)
    if is_empty and not (evidence.other_tables or evidence.stated_results):
        raise _no_result(evidence, source)
    findings = by_severity(one_note_a_cause([*own_findings, *audit_context(context)]))
    if is_empty and not findings:  # tables and sentences that are not understood count only if they have a finding
        raise _no_result(evidence, source)

    formats = own_formats + _count_formats(evidence)
    return Audit(
        source=source,
        runs=[*own_names, *(run.name for run in evidence.runs)],
        formats={name: count for name, count in formats.items() if count},
        scaling=scaling_lines(context, findings),
        readings=overview_lines(context, findings),
        figures=_count_figures(evidence.tables),
        traces=evidence.traces,
        not_read=_not_read(evidence),
        not_recognised=evidence.ignored,
        columns_not_understood=[
            f"{table.name}: {', '.join(table.not_understood)}" for table in evidence.tables if table.not_understood
        ],
        checks=[*(check_names() if own_names else []), *(check.name for check in of_evidence)],
        findings=findings,
    )


def audit_context(context: AuditContext) -> list[Finding]:
    """Return the findings of all checks, most severe first. A check that raises becomes a note that says so."""
    findings: list[Finding] = []
    for check in of_evidence:
        needs = NEEDS.get(check.function.__module__)  # kinds of evidence, of which one is enough; none: always run
        if not needs or not context.has.isdisjoint(needs):
            findings += context.findings_of(check)
    return by_severity(_with_guesses_as_notes(context, findings))


def _with_guesses_as_notes(context: AuditContext, findings: list[Finding]) -> list[Finding]:
    """Return the findings; those on logs of a guessed format alone become notes, as they prove little."""
    guessed = {run.name for run in context.runs if run.format == GUESSED_FORMAT}
    if not guessed:
        return findings
    weighed = []
    for finding in findings:
        only_guessed = bool(finding.runs) and guessed.issuperset(finding.runs)
        if only_guessed and finding.severity != "note" and finding.code not in SAID_BY_LOGS:
            evidence = f"{finding.evidence} (the form of this log was guessed)"
            finding = finding.model_copy(update={"severity": "note", "evidence": evidence})
        weighed.append(finding)
    return weighed


def _count_formats(evidence: Evidence) -> Counter[str]:
    """Return how many results there are of each format, {"CSV": 2, ...}, without those that this program measured."""
    formats = Counter(run.format for run in evidence.runs)
    formats += Counter(table.form for table in evidence.tables)
    formats["table of settings"] += len(evidence.settings)
    formats["profiler table"] += len(evidence.operator_tables)
    formats["nvidia-smi log"] += len(evidence.gpu_logs)
    formats["scaling report"] += len(evidence.scaling_reports)
    formats["sentence with a figure"] += len(evidence.stated_figures)
    return formats


def _no_result(evidence: Evidence, source: str) -> NoResult:
    """Return the error for files without a result: how many there are, and why the first three were not read."""
    traces = plural(len(evidence.traces), "trace")
    details = f"; {traces} of a profiler, for scaleproof trace summary" if evidence.traces else ""
    if reasons := [f"{file.name}: {file.reason}" for file in evidence.unread]:
        details += f"; not read: {'; '.join(reasons[:3])}"
    else:
        suffixes = dict.fromkeys(Path(name).suffix.lower() for name in evidence.ignored[:MOST_SUFFIXES])
        details += "".join(f"; {need}" for need in dict.fromkeys(NEEDED.get(suffix, TEXT) for suffix in suffixes))
    details += "; docs/audit.md lists what is recognised"
    # Among them files with sentences of figures, and those that were not read in all of their lines ("a.csv:7").
    others = {one.file for one in evidence.stated_figures} | {one.name.partition(":")[0] for one in evidence.unread}
    files = len({*evidence.ignored, *evidence.traces} | others)
    what = f"no benchmark result among {plural(files, 'file')}" if files else "there is no file in it"
    return NoResult(f"{shortened(source, 100)}: {what}{details}")


def _count_figures(tables: list[ReportedTable]) -> FigureCount:
    """Count the figures of tables that were understood, and under each other heading the cells with a digit."""
    unknown: Counter[str] = Counter()
    for table in tables:
        for row in table.rows:
            with_digits = [name for name in table.not_understood if any(map(str.isdigit, row.texts.get(name, "")))]
            for heading in dict.fromkeys([*with_digits, *row.not_understood]):
                unknown[heading] += 1  # once for each row that has digits under it
    return FigureCount(
        read=sum(len(row.figures) for table in tables for row in table.rows),
        not_understood=unknown.total(),
        headings=[heading for heading, _ in unknown.most_common()],
    )


def _not_read(evidence: Evidence) -> dict[str, list[str]]:
    """Return the files that were not read by the kind of reason: {"binary": ["a.bin: it is binary"]}."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for unread in evidence.unread:
        kinds[unread.kind].append(f"{unread.name}: {unread.reason}")
    return dict(kinds)


def _audit_own_runs(evidence: Evidence) -> tuple[list[str], list[Finding], Counter[str]]:
    """Audit scaleproof's own runs, campaign by campaign. Return their names, findings, and number by format."""
    campaigns: dict[tuple[str, str], list[Run]] = defaultdict(list)  # (name of the campaign, folder runs/) -> runs
    findings: list[tuple[str, Finding]] = []  # each with its folder runs/
    for folder in evidence.own_runs:
        path = Path(folder)
        cell, repeat = path.absolute().parts[-2:]  # "ddp-n1x2", "rep1" of runs/ddp-n1x2/rep1; the path may be "rep1"
        name = printable(f"{cell}/{repeat}")
        parent = os.path.relpath(path.absolute().parents[1])
        try:
            run = read_run(path)
            campaigns[(run.metrics.campaign, parent)].append(run)
        except UserError as error:
            problem = without_place(str(error), folder).replace(folder, name)  # one fault of many runs, one text
            findings.append((parent, finding_on_unusable_record(name, printable(cell), problem[:300])))

    for (campaign, parent), runs in campaigns.items():
        try:
            findings += [(parent, finding) for finding in audit(campaign, runs).findings]
        except BREAKS as error:
            findings.append((parent, note_on_broken_check(f"of campaign {campaign}", error)))

    names = [run.name for runs in campaigns.values() for run in runs]
    formats = Counter({"metrics JSON 3 with its series": len(names)}) if names else Counter()
    return names, [OwnFinding(**dict(finding), folder=parent) for parent, finding in findings], formats
