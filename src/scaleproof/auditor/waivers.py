"""Findings that a project lives with: `scaleproof.toml`, each with its place, its reason and its last day."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from scaleproof.auditor.annotations import Location, locations
from scaleproof.auditor.audit import Audit
from scaleproof.auditor.overview import OverviewLine, ScalingLine, Subjects, by_subject, mark_of
from scaleproof.ground.errors import UserError, did_you_mean, shortened
from scaleproof.ground.files import read_regular
from scaleproof.ground.findings.catalog import pages_by_code
from scaleproof.ground.findings.finding import Finding

OF_SENTENCES = "claim-not-in-data"  # begins with the place of its sentence
ESCAPES = "in \"...\" a backslash begins an escape; '...' takes it as it is"
WAIVER_FILE = Path("scaleproof.toml")


class Waiver(BaseModel, extra="forbid", frozen=True):
    """A finding that is known and accepted."""

    code: str
    place: str = Field(description="A file, with or without its line, a folder, or a pattern: docs/*.md.", min_length=1)
    reason: str = Field(min_length=1)
    until: date = Field(description="The last day on which it holds.")

    def covers(self, finding: Finding, paths: Sequence[Path]) -> bool:
        """Whether a finding is of this code, and all of its places are waived. `paths`: what was audited.

        What a sentence says has one place, its own: rows that it is held against are evidence.
        """
        places = finding.runs or finding.cells
        if finding.code == OF_SENTENCES:
            places = places[:1]
        is_of_code = finding.code == self.code and bool(places)
        return is_of_code and all(map(self._has_place, places, locations(finding, paths)))

    def _has_place(self, place: str, location: Location) -> bool:
        """Whether a place, by its name in the audit or its path, with or without its line, matches this waiver."""
        names = (place, str(location.file), f"{location.file}:{location.line}", *map(str, location.file.parents))
        return any(fnmatchcase(name, self.place) for name in names)

    def __str__(self) -> str:
        return f"{self.code} in {self.place} (until {self.until}: {self.reason})"


class _WaiverFile(BaseModel, extra="forbid"):
    waived: list[Waiver] = []


@dataclass(frozen=True)
class Waived:
    """An audit without its waived findings, and what there is to say of waivers."""

    audit: Audit
    findings: list[Finding]
    remarks: list[str]


def read_waivers(file: Path) -> list[Waiver]:
    """Return the waivers of `file`. Raises UserError where it is damaged, or names a code that does not exist."""
    try:
        waivers = _WaiverFile.model_validate(tomllib.loads(read_regular(file).decode("utf-8-sig"))).waived
    except UnicodeDecodeError as error:
        raise UserError(f"{file} is not UTF-8 text (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        is_escape = "hex" in str(error) or "\\" in str(error)
        cure = ESCAPES if is_escape else "texts stand in quotes, dates of the calendar do not: 2027-01-31"
        raise UserError(f"{file} is no TOML: {error}; {cure}") from None
    except ValidationError as error:
        raise UserError(f"{file}: {_fault(error)}") from None
    for waiver in waivers:
        if waiver.code not in pages_by_code():
            hint = did_you_mean(waiver.code, pages_by_code())
            raise UserError(f'{file}: there is no finding "{waiver.code}".{hint} `scaleproof explain` lists them.')
    return waivers


def without_waived(audit: Audit, waivers: Sequence[Waiver], paths: Sequence[Path], today: date) -> Waived:
    """Return `audit` without the findings that are waived until `today` or longer; their rows are marked in place."""
    in_force = [waiver for waiver in waivers if waiver.until >= today]
    waived = [finding for finding in audit.findings if any(waiver.covers(finding, paths) for waiver in in_force)]
    remaining = [finding for finding in audit.findings if finding not in waived]
    in_use = [waiver for waiver in in_force if any(waiver.covers(finding, paths) for finding in waived)]

    remarks = [f"waived: {waiver}" for waiver in in_use]
    remarks += [f"covers no whole finding: {waiver}" for waiver in in_force if waiver not in in_use]
    remarks += [f"has ended, and waives nothing: {waiver}" for waiver in waivers if waiver.until < today]
    _mark_as_waived([*audit.readings, *audit.scaling], by_subject(waived), by_subject(remaining))
    return Waived(audit.model_copy(update={"findings": remaining}), waived, remarks)


def _mark_as_waived(lines: Sequence[OverviewLine | ScalingLine], waived: Subjects, remaining: Subjects) -> None:
    """Give each line that a waived finding is about the mark of its remaining ones, or "waived"."""
    for line in lines:
        subjects = {line.place, line.name} if isinstance(line, OverviewLine) else {line.place}
        if line.mark and not subjects.isdisjoint(waived):  # a line with notes alone has no mark
            line.mark = mark_of([finding for subject in subjects for finding in remaining[subject]]) or "waived"


def _fault(error: ValidationError) -> str:
    """Return what is wrong with the file, by its first fault: "waived.1.until is missing; a waiver has code, ..."."""
    # An unknown key before a missing one: the key that was misspelt is also missing.
    first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    place = ".".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"])
    keys = list(Waiver.model_fields) if len(first["loc"]) > 1 else ["waived"]  # loc: ("waived", 0, "until")

    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        hint = (
            " It stands below a line [[waived]]."
            if name in {*Waiver.model_fields} - {*keys}
            else did_you_mean(name, keys)
        )
        return f'unknown key "{place}".{hint} Allowed: {", ".join(keys)}'
    if first["type"] == "missing":
        return f"{place} is missing; a waiver has {', '.join(keys)}"
    if "date" in first["type"]:
        return f"{place} is not a date; write it as 2027-01-31, without quotes"
    if place.count(".") == 2:  # "waived.1.reason": a key of a waiver
        return f"{place} cannot be {shortened(repr(first['input']))}; allowed: a text that is not empty"
    return f"waived is a list: each waiver begins with [[waived]], and has {', '.join(Waiver.model_fields)}"
