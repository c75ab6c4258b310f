"""`scaleproof doctor`: is this machine fit to measure, and does scaleproof measure right on it?

Each check is PASS, FAIL, or `not here` (the machine lacks what it needs), with its evidence and what to do. doctor.json
repeats all of it for the reports of campaigns that run afterwards.
"""

import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel

from scaleproof.ground.files import scrub, write_json
from scaleproof.ground.json_faults import read_part
from scaleproof.ground.verdict import Status, Verdict

DOCTOR = "doctor.json"


@dataclass(frozen=True)
class Look:
    """One check of the machine. `run` returns its verdict, or the name and the verdict of each of its parts."""

    name: str
    area: Literal["cpu", "gpu"]
    run: Callable[[], Verdict | Iterable[tuple[str, Verdict]]]


class JudgedLook(BaseModel, extra="forbid"):
    """One verdict, as written to doctor.json."""

    name: str
    area: Literal["cpu", "gpu"]
    status: Status
    evidence: str
    advice: str
    seconds: float
    values: dict[str, Any]


class Report(BaseModel, extra="forbid"):
    """doctor.json. `device`: the first GPU's name, or "cpu"."""

    schema_version: Literal["1.0"] = "1.0"
    timestamp_utc: AwareDatetime
    host: str
    device: str
    checks: list[JudgedLook]

    @property
    def failed(self) -> list[JudgedLook]:
        """The verdicts that are FAIL."""
        return [entry for entry in self.checks if entry.status == "FAIL"]

    @property
    def counts(self) -> str:
        """How many checks have each verdict, "20 PASS, 1 FAIL, 5 not here"; those that none has are left out."""
        counts = Counter(entry.status for entry in self.checks)
        return ", ".join(f"{counts[status]} {status}" for status in ("PASS", "FAIL", "not here") if counts[status])


def examine(checks: Iterable[Look], device: str, tell: Callable[[JudgedLook], None], out: Path | None = None) -> Report:
    """Run the checks one after the other, and return a report with all verdicts.

    `device`: the first GPU's name, or "cpu". `tell` is called with each verdict. The file `out` is written after each
    check, with all verdicts so far. A check that raises has failed, and the others go on.
    """
    report = Report(
        timestamp_utc=datetime.now(UTC).replace(microsecond=0), host=socket.gethostname(), device=device, checks=[]
    )
    for check in checks:
        began = time.perf_counter()
        for name, verdict in _judge(check):
            entry = JudgedLook(
                name=name,
                area=check.area,
                status=verdict.status,
                evidence=scrub(verdict.evidence),
                advice=verdict.advice,
                seconds=round(time.perf_counter() - began, 3),  # of the whole check
                values=verdict.values,
            )
            report.checks.append(entry)
            tell(entry)
        if out:
            write_json(out, report.model_dump(mode="json"))
    return report


def _judge(check: Look) -> list[tuple[str, Verdict]]:
    """Run a check, and return name and verdict of each of its parts: a single FAIL where the check raises."""
    try:
        result = check.run()
        if isinstance(result, Verdict):
            return [(check.name, result)]
        return [(f"{check.name}: {part}", verdict) for part, verdict in result]
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        line = f"{Path(frame.filename).name}:{frame.lineno}"
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        advice = "the check itself could not be made; what stands in its evidence says why"
        return [(check.name, Verdict("FAIL", f"{reason} ({line})", advice))]


def verdict_line(entry: JudgedLook) -> str:
    """Return a verdict as one line for the terminal, with any advice on a second line."""
    text = f"{entry.status:8}  {entry.name}: {entry.evidence}"
    return f"{text}\n          {entry.advice}" if entry.advice else text


def read_report(path: Path) -> Report | None:
    """Return the report in the file `path`. Returns None where it is missing or of another schema."""
    return read_part(path, Report.model_validate)
