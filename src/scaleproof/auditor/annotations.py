"""An audit for machines that show it beside the lines of a change: SARIF 2.1.0, and the commands of GitHub Actions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaleproof.auditor.audit import Audit
from scaleproof.ground.findings.catalog import meaning_of
from scaleproof.ground.findings.finding import Finding


@dataclass(frozen=True)
class Location:
    """A file below the working folder, and a line of it from 1; None where a finding is of the whole file."""

    file: Path
    line: int | None


def located(place: str, paths: Sequence[Path]) -> Location:
    """Return the file and line of a finding's `place`: "results.md:7" is line 7 of runs/results.md for paths ["runs"].

    An audit names files by their path below `paths`, what it was given; with several paths the name of the path comes
    first: "runs/results.md:7". A place that is no file, such as the name of a run, gets the first path and no line.
    """
    name, _, number = place.rpartition(":")
    line = int(number) if name and number.isdecimal() else None
    name = name if line is not None else place
    parts = Path(name).parts
    for path in paths:
        if path.is_file() and path.absolute().parts[-len(parts) :] == parts:  # `name` may begin with its folders
            return Location(path, line)
        # `name` lies below the path itself ("results.md" in runs), or, where it begins with the name of the path
        # ("runs/results.md"), below a parent of it.
        for folder in (path, *path.parents):
            file = folder / name
            if file.is_relative_to(path) and file.exists():
                return Location(file, line)
    return Location(paths[0], None)


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
    places = finding.runs or finding.cells
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": SARIF_LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [_sarif_location(located(place, paths)) for place in places],
    }


def _sarif_location(location: Location) -> dict[str, Any]:
    """Return a location as SARIF has it: the file, and the line if there is one."""
    place: dict[str, Any] = {"artifactLocation": {"uri": location.file.as_posix()}}
    if location.line is not None:
        place["region"] = {"startLine": location.line}
    return {"physicalLocation": place}


def github(audit: Audit, paths: Sequence[Path]) -> str:
    """Return the findings as workflow commands, a line each, at the first place of each."""
    return "\n".join(_workflow_command(finding, paths) for finding in audit.findings)


def _workflow_command(finding: Finding, paths: Sequence[Path]) -> str:
    """Return a finding as a command: "::error file=a.md,line=7,title=speedup-differs::..."."""
    places = finding.runs or finding.cells
    properties = {"title": finding.code}
    if places:
        location = located(places[0], paths)
        properties = {"file": location.file.as_posix(), "line": str(location.line or 1)} | properties
    listed = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{GITHUB_LEVELS[finding.severity]} {listed}::{_escaped(_message(finding))}"


def _message(finding: Finding) -> str:
    """Return what was found, what it should be, and what to do, in one paragraph."""
    corrected = f" Corrected: {finding.corrected}." if finding.corrected else ""
    return f"{finding.evidence}.{corrected} {finding.advice}".strip()


def _escaped(text: str, more: str = "") -> str:
    """Return a text as GitHub reads it: line ends, "%" and each character of `more` as a code, "%0A"."""
    return "".join(f"%{ord(character):02X}" if character in f"%\r\n{more}" else character for character in text)
