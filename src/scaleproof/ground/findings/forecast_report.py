"""`forecast.json`, schema 1.0: forecasts beside what was measured, sweeps, coverage."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from scaleproof.ground.files import read_record
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.records.result_file import ResultPart

SCHEMA_VERSION = "1.0"


class CellForecast(ResultPart):
    """The forecast of one cell's step time, in seconds, or why there is none."""

    cell: str
    strategy: str
    devices: int
    largest_measured: int | None = Field(None, description="Devices of the largest run that it was made from.")
    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    likely_low: float | None = Field(None, description="With likely_high: the interval at 80 %; null in older files.")
    likely_high: float | None = None
    construction: str | None = None
    n: int | None = None
    parts: dict[str, float] = Field(
        {}, description="In older files: seconds of compute, update, communication and residual."
    )
    refusal: str | None = Field(None, description="Code of the refusal; then there is no number.")
    reason: str | None = None
    measure: str | None = Field(None, description="The measurement that would lift the refusal.")


class StepForecast(NamedTuple):
    """Seconds of a step, with the interval that holds it with probability `level`."""

    value: float
    low: float
    high: float
    level: float


class Outcome(NamedTuple):
    """What came of a forecast: the measured seconds, and its error as a part of them."""

    measured_s: float
    inside: bool
    error: float


class ForecastRow(CellForecast):
    """The newest forecast of a cell, with what came of it."""

    made_utc: str
    tokens_per_step: int | None = Field(description="null where padding is among them.")
    relatives: list[str] = Field(description="The cells of its series.")
    wide: bool = Field(description="The interval is too wide for one figure.")
    measured_s: float | None
    inside: bool | None
    error: float | None = Field(description="forecast / measured - 1.")

    @property
    def forecast(self) -> StepForecast | None:
        """The forecast with its interval. It is None where it was refused."""
        if self.value is None or self.low is None or self.high is None or self.level is None:
            return None
        return StepForecast(self.value, self.low, self.high, self.level)

    @property
    def outcome(self) -> Outcome | None:
        """What came of the forecast. It is None where it has not been scored."""
        if self.measured_s is None or self.inside is None or self.error is None:
            return None
        return Outcome(self.measured_s, self.inside, self.error)


class SweepLink(ResultPart):
    """What the link between ranks is said to carry, in bytes per second and direction, and who says so."""

    bytes_per_s: float
    source: str


class SweepRow(ResultPart):
    """A size of a collective over all launches."""

    group: str
    collective: str
    nbytes: int
    seconds: float = Field(description="Median over launches of the launch's median.")
    low: float = Field(description="Smallest median of a launch.")
    high: float = Field(description="Largest median of a launch.")
    n_launches: int
    bus_bytes_per_s: float
    of_link: float | None = Field(description="Bus bandwidth as a part of the link's figure.")

    @property
    def spread(self) -> float:
        """By which part of the fastest launch's time the slowest launch is slower."""
        return self.high / self.low - 1


class NodePair(ResultPart):
    """All-reduce between all devices of two nodes."""

    first: str
    second: str
    nbytes: int
    seconds: float = Field(description="Median over launches of the launch's median.")
    bus_bytes_per_s: float = Field(description="Bus bandwidth in that time.")
    best_bus_bytes_per_s: float = Field(description="That of the launch in which the pair was fastest.")


def nodes_of_pairs(pairs: Sequence[NodePair]) -> list[str]:
    """Return the names of all nodes in `pairs`, sorted."""
    return sorted({pair.first for pair in pairs} | {pair.second for pair in pairs})


class SweepReport(ResultPart):
    """The sweep of one group."""

    group: str
    backend: str
    device: str
    tool: str
    link: SweepLink | None
    rows: list[SweepRow]
    unstable: list[str]
    weak: list[str]
    node_pairs: list[NodePair] = Field([])


class Coverage(ResultPart):
    """How many forecasts held, with Clopper-Pearson bounds, and the mean level that they claimed."""

    n: int
    inside: int
    low: float
    high: float
    nominal: float | None


class LedgerCoverage(Coverage):
    """How many forecasts held over all campaigns of the ledger, and in this one (`here`)."""

    here: Coverage


class ForecastReport(ResultPart):
    """The content of forecast.json."""

    schema_version: str = Field(SCHEMA_VERSION, pattern=r"^1\.")
    campaign: str
    machine: str
    forecasts: list[ForecastRow]
    what_if: list[dict[str, str | float]] = Field([], description="In older files.")
    sweeps: list[SweepReport]
    checks: list[str]
    findings: list[Finding]
    coverage: LedgerCoverage

    @property
    def hosts(self) -> set[str]:
        return {host for sweep in self.sweeps for pair in sweep.node_pairs for host in (pair.first, pair.second)}


def read_forecast(path: Path) -> ForecastReport:
    """Return the report in the file `path`. Raises UserError where it is missing or damaged."""
    return read_record(path, ForecastReport.model_validate_json)
