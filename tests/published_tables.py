"""Published tables of other people, as figures with their source, and what the audit says of them.

A YAML file of auditor/published/ is one table: where it stands, what a reader must know besides (`context`), the
headings and cells (`table`, in the form of `file`), and the faults that arithmetic proves (`provable`, each with the
identity that is broken, the cells that break it, the sum, and the figures that would be right). `slight` are odd cells
that nobody has to name: deviations below 3 %, figures that may have another reason. `split` follows from the name of
the file and was set before any audit: the auditor is developed on half of the tables, and measured on the other half.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Finding

PUBLISHED = Path(__file__).parent / "auditor/published"
DEVELOP = "develop"
HELD_OUT = "held-out"
NUMBER = re.compile(r"\d+(?:[,  ]\d{3})*(?:\.\d+)?")
CLOCK = re.compile(r"\b(\d+):(\d\d):(\d\d)\b")
TOLERANCE = 0.03  # of a corrected figure
ROUNDING = 0.003  # between a cell and the same figure in a finding, which may have fewer digits


def numbers(text: str) -> set[float]:
    """The numbers of a text; a comma or a space before three digits sets thousands apart; 1:02:03 is 3723 s."""
    clocks = {float(int(h) * 3600 + int(m) * 60 + int(s)) for h, m, s in CLOCK.findall(text)}
    return clocks | {float(re.sub("[,  ]", "", number)) for number in NUMBER.findall(CLOCK.sub(" ", text))}


@dataclass(frozen=True)
class Fault:
    """What arithmetic proves about a table."""

    identity: str
    cells: list[str]
    arithmetic: str = ""
    right: list[float] | None = None
    named: bool = False

    def is_in(self, finding: Finding) -> bool:
        """Whether a finding prints one of the cells, with as many digits as it likes."""
        printed = numbers(finding.evidence)
        return any(
            all(any(abs(figure - other) <= ROUNDING * figure for other in printed) for figure in numbers(cell))
            for cell in self.cells
        )

    def contradicts(self, finding: Finding) -> bool:
        """Whether a finding that names the fault corrects it to a figure that is not right; per cent or not."""
        if self.right is None or finding.corrected is None:
            return False
        value = finding.corrected.value
        return not any(abs(value * unit / right - 1) <= TOLERANCE for right in self.right for unit in (1, 100, 0.01))


@dataclass(frozen=True)
class PublishedTable:
    """A table and its audit."""

    name: str
    source: dict[str, str]
    split: str
    context: str
    file: str
    table: str
    provable: list[Fault] = field(default_factory=list)
    slight: list[Fault] = field(default_factory=list)

    @property
    def readme(self) -> str:
        """What stands above the table, in its file or in a README beside it."""
        return f"# Results\n\n{self.context}\n\n"

    @property
    def text(self) -> str:
        """The file with the table."""
        return self.readme + self.table if self.file.startswith("README") else self.table

    def write(self, folder: Path) -> None:
        """Write the context and the table, as somebody's README or as a file beside one."""
        folder.mkdir(parents=True)
        (folder / "README.md").write_text(self.readme)
        (folder / self.file).write_text(self.text)

    def accusations(self, folder: Path) -> list[Finding]:
        """What the audit of the table says above a note; nothing where it cannot read the table."""
        self.write(folder / self.name)
        try:
            findings = audit_paths([folder / self.name]).findings
        except UserError:
            return []
        return [finding for finding in findings if finding.severity != "note"]

    def unfounded(self, accusations: list[Finding]) -> list[Finding]:
        """The accusations that touch nothing of what arithmetic proves, and stand at no row that is odd anyway."""
        faults = self.provable + self.slight
        odd = {place for fault in self.slight for place in self.places(fault)}
        return [f for f in accusations if not odd & set(f.runs) and not any(fault.is_in(f) for fault in faults)]

    def places(self, fault: Fault) -> set[str]:
        """Where the rows of a fault's cells stand, as a finding names them: "README.md:7"."""
        lines = self.text.splitlines()
        return {f"{self.file}:{i}" for i, line in enumerate(lines, 1) for cell in fault.cells if cell in line}

    @cached_property
    def half(self) -> str:
        """The split that the name implies."""
        return HELD_OUT if int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % 2 else DEVELOP


def published_tables() -> Iterator[PublishedTable]:
    """All tables, in order of their names."""
    for path in sorted(PUBLISHED.glob("*.yaml")):
        data: dict[str, Any] = yaml.safe_load(path.read_bytes())
        provable = [Fault(**fault) for fault in data.pop("provable")]
        slight = [Fault("slight", fault["cells"], fault["why"]) for fault in data.pop("slight", [])]
        yield PublishedTable(path.stem, provable=provable, slight=slight, **data)
