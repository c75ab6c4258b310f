"""What a report is made from: read once, for the page and for the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from scaleproof.conclude.report.page_facts import RunFacts
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.findings.forecast_report import ForecastReport
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.host_names import Pseudonyms
from scaleproof.ground.records.profile_schema import Profile
from scaleproof.ground.records.scaling_report import ScalingReport
from scaleproof.ground.records.traces_report import TracesReport
from scaleproof.ground.records.waterfall_report import WaterfallCell


@dataclass(frozen=True)
class PageInputs:
    """Everything that the report of a campaign is made from."""

    facts: RunFacts
    runs_table: pd.DataFrame  # runs.csv
    cells: pd.DataFrame  # cells.csv
    report: ScalingReport
    findings: Findings
    charts: Path  # folder of the SVG files
    drawn: list[str]  # names of the charts that the campaign has
    campaign_file: str = ""  # as it was given to the command
    comparisons: Sequence[AbComparison] = ()
    traces: TracesReport | None = None
    profiles: Sequence[Profile] = ()
    waterfall: Sequence[WaterfallCell] = ()
    forecast: ForecastReport | None = None
    anonymous: bool = False  # whether hosts are named by pseudonyms

    def without_hosts(self, text: str) -> str:
        """Return a text as it is published: without names of hosts where the report is anonymous."""
        if not self.anonymous:
            return text
        hosts = self.facts.hosts | self.findings.hosts_left_out
        if self.forecast:
            hosts |= self.forecast.hosts
        return Pseudonyms(hosts).in_text(text)
