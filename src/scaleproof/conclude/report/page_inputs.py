"""What a report is made from: read once, for the page and for the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.report.page_facts import RunFacts
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.host_names import Pseudonyms, hosts_left_out, hosts_of_node_pairs
from scaleproof.ground.records.profile_schema import Profile


@dataclass(frozen=True)
class PageInputs:
    """Everything that the report of a campaign is made from."""

    facts: RunFacts
    runs_table: pd.DataFrame  # runs.csv
    cells: pd.DataFrame  # cells.csv
    report: dict[str, Any]  # scaling_report.json
    findings: Findings
    charts: Path  # folder of the SVG files
    drawn: list[str]  # names of the charts that the campaign has
    campaign_file: str = ""  # as it was given to the command
    comparisons: Sequence[dict[str, Any]] = ()  # of comparison.json
    traces: dict[str, Any] | None = None  # traces.json
    profiles: Sequence[Profile] = ()
    waterfall: Sequence[dict[str, Any]] = ()  # of waterfall.json
    forecast: dict[str, Any] | None = None  # forecast.json
    anonymous: bool = False  # whether hosts are named by pseudonyms

    def without_hosts(self, text: str) -> str:
        """The text as it is published: without names of hosts where the report is anonymous."""
        if not self.anonymous:
            return text
        hosts = self.facts.hosts | set(hosts_left_out(finding.model_dump() for finding in self.findings.findings))
        if self.forecast:
            hosts |= set(hosts_of_node_pairs(self.forecast))
        return Pseudonyms(hosts).in_text(text)
