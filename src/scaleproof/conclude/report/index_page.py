"""results/index.html: all campaigns with verdict, date, machine and findings."""

import html
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from scaleproof.conclude.report import HOUSE
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_regular, write_atomic
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.html import environment
from scaleproof.ground.records.metrics import Failed, Measured, Printed, parse_metrics
from scaleproof.ground.records.run import METRICS
from scaleproof.ground.records.scaling_report import read_scaling_report

VERDICT = re.compile(r'<p class="verdict">(.*?)</p>', re.DOTALL)
SEVERITIES = ("invalid", "suspect", "note")
Content = TypeVar("Content")


@dataclass(frozen=True)
class IndexedCampaign:
    """A finished campaign. `findings`: severity -> how many."""

    campaign: str
    title: str
    verdict: str
    date: str
    machine: str
    findings: dict[str, int]
    link: str


def write_index(results: Path) -> list[IndexedCampaign]:
    """Write index.html into `results` from the reports below it, the latest first, and return its entries."""
    folders = [path.parent for pattern in ("*", "published/*") for path in results.glob(f"{pattern}/report.html")]
    entries = [_entry(folder, results) for folder in sorted(folders)]
    entries.sort(key=lambda entry: entry.date, reverse=True)
    page = environment(HOUSE).get_template("index.html.j2").render(entries=entries)
    write_atomic(results / "index.html", page)
    return entries


def _entry(folder: Path, results: Path) -> IndexedCampaign:
    """Return what a campaign's own files say; a file that is missing or damaged leaves its part unknown.

    `folder`: of the campaign, in `results`, to which its link is relative.
    """
    report = _known(lambda: read_scaling_report(folder / "scaling_report.json"))
    findings = _known(lambda: read_findings(folder / "findings.json"))
    first_run = min(folder.glob(f"runs/*/rep*/{METRICS}"), default=folder / METRICS)  # of none, a file that is missing
    metrics = _known(lambda: parse_metrics(read_regular(first_run)))
    match = VERDICT.search(read_regular(folder / "report.html").decode(errors="replace"))
    severities = Counter(str(finding.severity) for finding in findings.findings) if findings else Counter[str]()
    return IndexedCampaign(
        campaign=folder.name,
        title=report.title if report else folder.name,
        verdict=html.unescape(match[1]).strip() if match else "unknown",
        date=metrics.timestamp_utc[:16].replace("T", " ") if metrics else "unknown",
        machine=_machine(metrics) if metrics else "unknown",
        findings={severity: severities[severity] for severity in SEVERITIES if severities[severity]},
        link=quote(f"{folder.relative_to(results)}/report.html"),  # of a folder "javascript:...", too
    )


def _machine(metrics: Measured | Printed | Failed) -> str:
    """Return the names of the devices of a run, as "NVIDIA H200"; on CPUs the processor and its logical CPUs."""
    devices = {rank["device_name"] for rank in metrics.ranks or []} - {"cpu"}
    hardware = metrics.hardware
    return ", ".join(sorted(devices)) or f"{hardware['cpu_model']}, {hardware['cpu_allowed']} logical CPUs"


def _known(read: Callable[[], Content]) -> Content | None:
    """Return what `read` gives; None where its file is missing or damaged."""
    try:
        return read()
    except (OSError, ValueError, RecursionError, UserError):
        return None
