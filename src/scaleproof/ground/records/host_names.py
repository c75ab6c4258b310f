"""Names of hosts, and texts in which they are replaced."""

import re
from collections.abc import Iterable, Iterator, Mapping

from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.records.forecast_report import ForecastReport


def hosts_of(host: Mapping[str, object], ranks: Iterable[Mapping[str, object]] | None) -> Iterator[str]:
    """The names in a run's record: of the launcher's `host`, and of each of its `ranks`."""
    yield str(host["hostname"])
    yield from (str(rank["host"]) for rank in ranks or [])


def hosts_of_node_pairs(forecast: ForecastReport) -> Iterator[str]:
    """Of nodes that a sweep has measured in pairs."""
    for pair in (pair for sweep in forecast.sweeps for pair in sweep.node_pairs):
        yield from (pair.first, pair.second)


def hosts_left_out(findings: Iterable[Finding]) -> Iterator[str]:
    """Of nodes that the driver asked for no more."""
    for finding in findings:
        if finding.code == "node-excluded":
            yield from finding.runs


class Pseudonyms:
    """host1, host2 ... in place of names of hosts, the longest name first."""

    def __init__(self, hosts: Iterable[str]) -> None:
        by_length = sorted(set(hosts), key=lambda host: (-len(host), host))
        self._names = {host: f"host{i}" for i, host in enumerate(by_length, 1)}
        self._pattern = re.compile("|".join(rf"(?<![\w.-]){re.escape(host)}(?![\w-])" for host in by_length) or "(?!)")

    def in_text(self, text: str) -> str:
        """The text with a pseudonym wherever a host is named; a part of another word is no name."""
        return self._pattern.sub(lambda match: self._names[match[0]], text)
