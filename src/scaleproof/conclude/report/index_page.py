"""results/index.html: all campaigns with verdict, date, machine and findings."""

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from scaleproof.conclude.report import HOUSE
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_regular, write_atomic
from scaleproof.ground.html import environment

VERDICT = re.compile(r'<p class="verdict">(.*?)</p>', re.DOTALL)
SEVERITIES = ("invalid", "suspect", "note")


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
    """Write index.html into `results` from the reports below it, the latest first; returns its entries."""
    folders = [path.parent for pattern in ("*", "published/*") for path in results.glob(f"{pattern}/report.html")]
    entries = [_entry(folder, results) for folder in sorted(folders)]
    entries.sort(key=lambda entry: entry.date, reverse=True)
    page = environment(HOUSE).get_template("index.html.j2").render(entries=entries)
    write_atomic(results / "index.html", page)
    return entries


def _entry(folder: Path, results: Path) -> IndexedCampaign:
    """What a campaign's own files say; a file that is missing or damaged leaves its part unknown."""
    report, findings = _json(folder / "scaling_report.json"), _json(folder / "findings.json")
    metrics = next((_json(path) for path in sorted(folder.glob("runs/*/rep*/training_metrics.json"))), {})
    match = VERDICT.search(read_regular(folder / "report.html").decode(errors="replace"))
    listed = findings.get("findings")
    of_findings = [finding for finding in listed if isinstance(finding, dict)] if isinstance(listed, list) else []
    severities = [str(finding.get("severity")) for finding in of_findings]
    return IndexedCampaign(
        campaign=folder.name,
        title=str(report.get("title", folder.name)),
        verdict=html.unescape(match[1]).strip() if match else "unknown",
        date=str(metrics.get("timestamp_utc", "unknown"))[:16].replace("T", " "),
        machine=_machine(metrics),
        findings={severity: severities.count(severity) for severity in SEVERITIES if severity in severities},
        link=quote(f"{folder.relative_to(results)}/report.html"),  # of a folder "javascript:...", too
    )


def _machine(metrics: dict[str, Any]) -> str:
    """Devices, or the processor, of a run's metrics."""
    try:
        devices = {str(rank["device_name"]) for rank in metrics["ranks"] or []} - {"cpu"}
        hardware = metrics["hardware"]
        return ", ".join(sorted(devices)) or f"{hardware['cpu_model']}, {hardware['cpu_allowed']} logical CPUs"
    except (KeyError, TypeError):  # no metrics, or damaged ones
        return "unknown"


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where it is missing or damaged."""
    try:
        content = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError, UserError):
        return {}
    return content if isinstance(content, dict) else {}
