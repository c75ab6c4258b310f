"""`scaling_report.json`, schema 6.0: scaling series, the ranking of each size, the formal question of a campaign."""

from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from scaleproof.ground.files import read_record
from scaleproof.ground.records.evidence import EvidenceLevel, WorkUnit
from scaleproof.ground.records.result_file import Estimated, ResultPart

SCHEMA_VERSION = "6.0"
AB_TITLE = "Is B faster than A?"
Kind = Literal["strong", "weak"]
Law = Literal["amdahl", "gustafson"]
Method = Literal["tukey-blocks", "tukey-kramer"]
WhyEnded = Literal["decided", "at_most", "minutes", "device_hours", "nothing-to-compare"]


class FurtherRepeats(ResultPart):
    """A number of repeats that is in reach, and the difference that they show."""

    repeats: int
    detectable: float


class Resolution(ResultPart):
    """What further repeats would show. Differences are parts: 0.05 is 5 %."""

    effect: float
    n: int = Field(description="Repeats so far, of the cell with the fewest.")
    repeats: int | None = Field(description="Per cell, that show `effect`; null above 1,000.")
    detectable: float = Field(description="The difference that the repeats so far show.")
    further: FurtherRepeats


class LackOfFit(ResultPart):
    """The size at which a law misses the measured speed-ups most, where it misses them for certain."""

    devices: int
    log_miss: float
    percent: float


class ScalingLaw(ResultPart):
    """The law that is fitted to a series; `undefined` says why there is no fit."""

    law: Law
    fraction: Estimated | None = None
    limit: float | None = None
    lack_of_fit: LackOfFit | None = None
    undefined: str | None = None


class ScalingPoint(ResultPart, extra="ignore"):  # before schema 6, the speed-up had a second interval
    """A size of a series: one cell."""

    cell: str
    devices: int
    repeats: list[int]
    metrics_paths: list[str]
    n: int
    tokens_per_sec_global: Estimated
    tokens_per_sec_median: float | None = None
    window_wall_time_sec: float
    speedup: Estimated | None = Field(None, description="Over the same series at its smallest number of devices.")
    speedup_corrected: bool = Field(
        False, description="Whether its interval holds together with the answer's other ratios."
    )
    scaling_efficiency: Estimated | None = None
    speedup_by_job_wall_time: Estimated | None
    verdict: str | None = None
    karp_flatt: Estimated | None = None
    incomparable: list[str] = Field(description="Fields in which it differs from its baseline without intent.")
    best_single: str | None = Field(description="The fastest comparable cell with one device and the same work.")
    speedup_vs_best_single: Estimated | None
    best_single_incomparable: list[str]
    overhead_only: bool
    findings: list[str] = Field([])


COMMAND = "command"  # the series of a command whose cells differ in their devices alone


class ScalingSeries(ResultPart):
    """Cells that differ in nothing but their devices, the smallest first."""

    name: str
    strategy: str
    kind: Kind | None
    protocol: dict[str, JsonValue] = Field(description="What all of its cells are configured with.")
    baseline: str
    baseline_devices: int
    resolve: Resolution | None = None
    law: ScalingLaw | None
    runs: dict[str, ScalingPoint]

    @property
    def subject(self) -> str:
        """The name of the series, as the subject of a sentence."""
        return f"the {self.name}" if self.name == COMMAND else self.name

    @property
    def points(self) -> list[ScalingPoint]:
        """The sizes of this series, the smallest first."""
        return list(self.runs.values())

    @property
    def has_unequal_work(self) -> bool:
        """Whether its sizes do neither the same work on each device nor in all, or nobody says how much."""
        return self.kind is None and len({point.devices for point in self.points}) > 1


class RankedCell(ResultPart):
    """A cell of a ranking."""

    cell: str
    strategy: str
    tokens_per_sec_global: Estimated
    relative_to_fastest: Estimated | None
    letters: str = Field(description="Cells that share a letter cannot be told apart.")
    incomparable: list[str]

    @property
    def ratio(self) -> Estimated:
        """The cell's rate over the fastest cell's; only comparable cells other than the fastest have it."""
        assert self.relative_to_fastest is not None, self.cell
        return self.relative_to_fastest

    @property
    def fastest_over(self) -> Estimated | None:
        """The rate of the fastest cell over this one's, as people read it. It is None where they are not compared."""
        return self.relative_to_fastest and self.relative_to_fastest.inverse


class Recommendation(ResultPart):
    """Which cell to use, or why none is recommended. Parts: 0.05 is 5 %."""

    cell: str | None = None
    fastest: str
    margin: float
    why: Literal["too-few-repeats", "disturbed", "none-beats-one-device", "undecided"] | None = None
    candidate: str | None = Field(None, description="The simplest cell that may qualify, where none does.")
    worst: float | None = Field(None, description="By which it may be slower than another.")
    simpler: str | None = None
    disturbed: list[str] = Field([])


class SizeRanking(ResultPart):
    """The cells of one size that do the same work, the fastest first."""

    devices: int
    model: str
    vocab_size: int | None = Field(description="null for a command, as what follows.")
    corpus: str | None
    tokenizer: str | None
    seq_len: int | None
    global_batch: int | None = Field(description="Samples of a step; of a command its work in `unit`, if known.")
    cells: list[RankedCell]
    method: Method | None
    claims: int = Field(
        description="Pairs over which the intervals hold together, those with single devices and baselines included."
    )
    fastest_shown: bool
    resolve: Resolution | None
    recommendation: Recommendation | None

    @property
    def comparable(self) -> list[RankedCell]:
        """The cells that may be held against each other, the fastest first."""
        return [entry for entry in self.cells if not entry.incomparable]

    @property
    def advice(self) -> Recommendation:
        """The recommendation; a size has one where several of its cells are comparable."""
        assert self.recommendation is not None, self.devices
        return self.recommendation


class AnsweredQuestion(ResultPart):
    """The formal question of a campaign."""

    subject: str = Field(alias="is")
    better_than: str | None = None
    not_slower_than: str | None = None
    by: float
    status: Literal["yes", "no", "near", "undecided", "incomparable", "unmeasured"] = "unmeasured"
    ratio: Estimated | None = None
    incomparable: list[str] = Field([])
    resolve: Resolution | None = None
    within: float | None = None

    @property
    def base(self) -> str:
        """The cell that the subject is compared with."""
        return self.better_than or self.not_slower_than or ""

    @property
    def bound(self) -> float:
        """The ratio that the interval must be above for a yes."""
        return 1 + self.by if self.better_than else 1 - self.by


class LookTaken(ResultPart):
    """Whether repeats go on, and why not, where results decide that."""

    repeats: int
    resolve: float
    at_least: int
    at_most: int
    minutes: float | None
    device_hours: float | None
    looks: list[int]
    confidence: float
    decided: bool
    goes_on: bool
    why: WhyEnded | None
    spent_minutes: float
    spent_device_hours: float


class ScalingReport(ResultPart):
    """The file."""

    schema_version: str = Field(SCHEMA_VERSION, pattern=r"^[1-6]\.")
    campaign: str
    title: str
    clock: Literal["window"] = "window"
    confidence: float
    evidence: EvidenceLevel = Field("built", description="Of the weakest run: all comparisons are at this level.")
    unit: WorkUnit = Field("tokens", description="Of the work in the rates, whatever their names say.")
    status: Literal["ok", "invalid_comparison"]
    mismatches: list[str]
    seconds_per_repeat: float | None = None
    snakemake: str | None = None
    results: str = Field("results", description="The folder of all results, as the target of Snakemake has it.")
    series: list[ScalingSeries]
    question: AnsweredQuestion | None = None
    ranking: list[SizeRanking]
    repeats: LookTaken | None = None

    @property
    def is_of_ab(self) -> bool:
        """Whether it is of `scaleproof ab`, whose campaign file nobody has written."""
        return self.title == AB_TITLE

    @property
    def folder(self) -> str:
        """The folder of the campaign, as commands take it: results/demo, or bench/results/demo below a prefix."""
        return f"{self.results}/{self.campaign}"

    @property
    def points(self) -> list[ScalingPoint]:
        """The sizes of all series."""
        return [point for series in self.series for point in series.points]

    @property
    def series_of_sizes(self) -> list[ScalingSeries]:
        """The series that have several sizes; others have no speed-up."""
        return [series for series in self.series if len(series.runs) > 1]


def read_scaling_report(path: Path) -> ScalingReport:
    """Return the scaling report in the file at `path`. Raises UserError where it is missing or damaged."""
    return read_record(path, ScalingReport.model_validate_json)
