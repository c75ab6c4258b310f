"""A finding: one named result of a validity check."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, model_validator

from scaleproof.ground.errors import plural
from scaleproof.ground.files import read_record
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.grouping import lists_by_key

Severity = Literal["invalid", "suspect", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # the most severe first
Concern = Literal["runs", "scaling", "trace", "comparison"]


class Correction(BaseModel, extra="forbid", frozen=True):
    """What a figure should have been. `unit`: tokens/s, ms, x, %, parameters, ...; `derivation`: how it follows."""

    value: float
    unit: str
    derivation: str

    @property
    def figure(self) -> str:
        """Value and unit: "44,854 tokens/s", "3.33x"."""
        digits = integer(self.value) if abs(self.value) >= 1000 else f"{self.value:.4g}"
        return f"{digits}{'' if self.unit in ('x', '') else ' '}{self.unit}"

    def __str__(self) -> str:
        """Return the figure, and how it was derived where that is known."""
        return f"{self.figure}: {self.derivation}" if self.derivation else self.figure


class Finding(BaseModel, extra="forbid", frozen=True):
    """What was found, where, and what to do about it.

    `invalid`: the number is wrong or answers another question. `suspect`: it may be. `note`: worth knowing.
    """

    code: str
    severity: Severity
    cells: list[str]
    runs: list[str]
    evidence: str
    advice: str
    corrected: Correction | None = Field(
        None, description="What the figure should have been; null where it cannot be had."
    )
    concerns: Concern = Field(
        "runs",
        description="Which figures: of runs and cells; of a scaling series; of a trace; of an A/B comparison, whose "
        "name stands in `cells`.",
    )


class Findings(BaseModel, extra="forbid"):
    """findings.json: all findings of a campaign."""

    schema_version: Literal["1.1", "1.2"] = "1.2"
    campaign: str
    rules_version: str = Field("unknown", description="Which set of checks was made; unknown in files of schema 1.1.")
    checks: list[str]
    findings: list[Finding]

    @model_validator(mode="before")
    @classmethod
    def _upgrade_from_1_1(cls, data: Any) -> Any:
        """Return a file's content in today's form: in schema 1.1 a correction could be a sentence, not a mapping."""
        if not isinstance(data, dict) or data.get("schema_version") != "1.1":
            return data
        return data | {"findings": [_move_sentence_to_evidence(finding) for finding in data["findings"]]}

    def of(self, cell: str) -> list[Finding]:
        """Return the findings about the figures of a cell: about its runs, and its place in a scaling series."""
        return [*self._findings_by_place.get(("runs", cell), ()), *self._findings_by_place.get(("scaling", cell), ())]

    def of_comparison(self, name: str) -> list[Finding]:
        """Return the findings about an A/B comparison."""
        return self._findings_by_place.get(("comparison", name), [])

    @property
    def hosts_left_out(self) -> set[str]:
        """The nodes that the driver asked for no more."""
        return {host for finding in self.findings if finding.code == "node-excluded" for host in finding.runs}

    def concerning(self, concern: Concern) -> list[Finding]:
        """Return the findings about figures of one kind."""
        return [finding for finding in self.findings if finding.concerns == concern]

    @cached_property
    def _findings_by_place(self) -> dict[tuple[str, str], list[Finding]]:
        """The findings by what they concern, and the cell or name: ("runs", "ddp-n1x2") -> findings."""
        return lists_by_key(((one.concerns, cell), one) for one in self.findings for cell in dict.fromkeys(one.cells))


def read_findings(path: Path) -> Findings:
    """Return the findings in the file `path`. Raises UserError where it is missing or damaged."""
    return read_record(path, Findings.model_validate_json)


def _move_sentence_to_evidence(finding: dict[str, Any]) -> dict[str, Any]:
    """Return a finding of schema 1.1: a correction that is a sentence becomes the end of the evidence."""
    corrected = finding.get("corrected")
    if not isinstance(corrected, str):
        return finding
    return finding | {"corrected": None, "evidence": f"{finding['evidence']} (corrected: {corrected})"}


def codes_above_note(findings: Iterable[Finding]) -> list[str]:
    """Return the codes that a figure is shown with (not those of notes), each once, in the order of the findings."""
    return list(dict.fromkeys(finding.code for finding in findings if finding.severity != "note"))


def count_text(findings: int, severity: str) -> str:
    """Return how many findings of a severity there are, in words: "1 note", "2 notes", "2 invalid"."""
    return plural(findings, severity, "notes" if severity == "note" else severity)
