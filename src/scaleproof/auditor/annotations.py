"""An audit for machines that show it beside the lines of a change: SARIF 2.1.0, and the commands of GitHub Actions."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaleproof.auditor.audit import Audit, OwnFinding
from scaleproof.auditor.read.file_names import PIPED
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.catalog import meaning_of
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.records.run import METRICS

STANDARD_INPUT = Path("-")  # as it is given to the audit


@dataclass(frozen=True)
class Location:
    """A file below the working folder, and a line of it from 1; None where a finding is of the whole file."""

    file: Path
    line: int | None


def locations(finding: Finding, paths: Sequence[Path]) -> list[Location]:
    """Return where a finding is, the first place first. A run of this program, or a cell of it, is at its metrics."""
    places = finding.runs or finding.cells
    if not isinstance(finding, OwnFinding):
        return [_located(place, paths) for place in places]
    return [Location(_metrics_of(place, Path(finding.folder)), None) for place in places]


def _metrics_of(place: str, folder: Path) -> Path:
    """Return the metrics of a run or of a cell's first run; of what is neither, those of the first run."""
    candidates = (folder / place / METRICS, folder / place / "rep1" / METRICS)
    return next(filter(Path.is_file, candidates), None) or min(folder.glob(f"*/*/{METRICS}"), default=folder)


def _located(place: str, paths: Sequence[Path]) -> Location:
    """Return the file and line of a finding's `place`: "results.md:7" is line 7 of runs/results.md for paths ["runs"].

    An audit names files by their path below `paths`, what it was given; of several paths by the path as it was given:
    "runs/results.md:7". A part of a file ("a.ipynb#cell:3", "a.zip!/b.md") gets no line; what is no file gets the path
    that it begins with, else the first path.
    """
    name, _, number = place.rpartition(":")
    line = int(number) if name and number.isdecimal() else None
    name = name if line is not None else place
    if name == PIPED and STANDARD_INPUT in paths:
        return Location(STANDARD_INPUT, line)
    file = Path(name)
    if len(paths) == 1 and paths[0].is_file():  # its name may begin with its folder
        is_named = paths[0].absolute().parts[-len(file.parts) :] == file.parts
        file = paths[0] if is_named else file
    elif len(paths) == 1:
        file = paths[0] / name
    if file.exists() and any(map(file.is_relative_to, paths)):
        return Location(file, line)
    file_alone = re.split("#|!(?:/|$)", name)[0]
    if file_alone != name:
        return replace(_located(file_alone, paths), line=None)
    return Location(next(filter(file.is_relative_to, paths), paths[0]), None)


SARIF_LEVELS = {"invalid": "error", "suspect": "warning", "note": "note"}
GITHUB_LEVELS = {"invalid": "error", "suspect": "warning", "note": "notice"}
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(audit: Audit, paths: Sequence[Path], version: str) -> str:
    """Return the findings as a SARIF log, which is JSON. `paths`: what was audited; `version`: of this program."""
    codes = list(dict.fromkeys(finding.code for finding in audit.findings))
    rules = [{"id": code, "shortDescription": {"text": meaning_of(code) or code}} for code in codes]
    driver = {"name": "scaleproof", "version": version, "rules": rules}
    results = [_sarif_result(finding, codes.index(finding.code), paths) for finding in audit.findings]
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=2)


def _sarif_result(finding: Finding, rule: int, paths: Sequence[Path]) -> dict[str, Any]:
    """Return a finding as a result of SARIF. `rule`: its index among the rules."""
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": SARIF_LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [_sarif_location(location) for location in locations(finding, paths)],
    }


def _sarif_location(location: Location) -> dict[str, Any]:
    """Return a location as SARIF has it: the file, and the line if there is one."""
    place: dict[str, Any] = {"artifactLocation": {"uri": location.file.as_posix()}}
    if location.line is not None:
        place["region"] = {"startLine": location.line}
    return {"physicalLocation": place}


def github(audit: Audit, paths: Sequence[Path]) -> str:
    """Return the findings as workflow commands, at the first place of each: a line for all of a code in a campaign."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for index, finding in enumerate(audit.findings):
        group = finding.folder if isinstance(finding, OwnFinding) else str(index)
        groups.setdefault((finding.severity, finding.code, group), []).append(finding)
    return "\n".join(_workflow_command(first, len(more), paths) for first, *more in groups.values())


def _workflow_command(finding: Finding, more: int, paths: Sequence[Path]) -> str:
    """Return a finding, with how many `more` of its code: "::error file=a.md,line=7,title=speedup-differs::..."."""
    properties = {"title": finding.code}
    for location in locations(finding, paths)[:1]:
        properties = {"file": location.file.as_posix(), "line": str(location.line or 1)} | properties
    further = f" ({plural(more, 'further finding')} of this code here)" if more else ""
    listed = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{GITHUB_LEVELS[finding.severity]} {listed}::{_escaped(_message(finding))}{further}"


def _message(finding: Finding) -> str:
    """Return what was found, what it should be, and what to do, in one paragraph."""
    corrected = f" Corrected: {finding.corrected}." if finding.corrected else ""
    return f"{finding.evidence}.{corrected} {finding.advice}".strip()


def _escaped(text: str, more: str = "") -> str:
    """Return a text as GitHub reads it: line ends, "%" and each character of `more` as a code, "%0A"."""
    return "".join(f"%{ord(character):02X}" if character in f"%\r\n{more}" else character for character in text)
