"""A finding: one named result of a validity check."""

from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from scalebench.record.run import Run

Severity = Literal["invalid", "suspect", "note"]


class Correction(BaseModel):
    """What a figure should have been. `unit`: tokens/s, ms, x, %, parameters, ...; `derivation`: how it follows, in words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    unit: str
    derivation: str

    @property
    def figure(self) -> str:
        """Value and unit: "44,854 tokens/s", "3.33x"."""
        digits = f"{self.value:,.0f}" if abs(self.value) >= 1000 else f"{self.value:.4g}"
        return f"{digits}{'' if self.unit in ('x', '') else ' '}{self.unit}"

    def __str__(self) -> str:
        return f"{self.figure}: {self.derivation}" if self.derivation else self.figure


class Finding(BaseModel):
    """What was found, where, and what to do about it.

    `invalid`: the number is wrong or answers another question. `suspect`: it may be. `note`: worth knowing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: str
    severity: Severity
    cells: list[str]
    runs: list[str]
    evidence: str
    advice: str
    corrected: Correction | str | None = Field(
        None,
        description="What the figure should have been; null where it cannot be had. Files of schema 1.1 have a sentence.",
    )


def about(run: Run, code: str, severity: Severity, evidence: str, advice: str) -> Finding:
    """A finding that concerns one run."""
    return Finding(
        code=code, severity=severity, cells=[run.metrics.cell], runs=[run.name], evidence=evidence, advice=advice
    )


class Findings(BaseModel):
    """findings.json of a campaign."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal["1.1", "1.2"] = "1.2"
    campaign: str
    rules_version: str = Field("unknown", description="Which set of checks was made; unknown in files of schema 1.1.")
    checks: list[str]
    findings: list[Finding]

    def of(self, cell: str) -> list[Finding]:
        return self._by_cell.get(cell, [])

    @cached_property
    def _by_cell(self) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for finding in self.findings:
            for cell in dict.fromkeys(finding.cells):
                found.setdefault(cell, []).append(finding)
        return found
