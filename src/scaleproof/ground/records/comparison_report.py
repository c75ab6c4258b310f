"""`comparison.json`, schema 1.3: the A/B comparisons of a campaign."""

from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from scaleproof.ground.files import read_record
from scaleproof.ground.records.result_file import Estimated, ResultPart

SCHEMA_VERSION = "1.3"


class Paired(ResultPart):
    """B relative to A. Ratios of tokens/s; 1.05 is 5 % faster."""

    n: int
    ratio: float
    low: float
    high: float
    floor: float = Field(description="Ratio - 1 that the mean of n A/A pairs stays below by itself, with 95 %.")
    null_ratios: list[float]
    ratios: list[float]
    detectable_low: float = Field(description="Ratio - 1 that so many pairs detect 4 times in 5: lower bound.")
    detectable_high: float
    pairs_low: int | None = Field(description="Pairs that detect 2 % 4 times in 5: lower bound; null above 1,000.")
    pairs_high: int | None
    claim: Literal["faster", "slower"] | None = Field(description="null where the pairs do not support one.")
    overstated: bool = Field(description="Claimed, though such an effect is claimed less than 4 times in 5.")

    @property
    def detectable(self) -> tuple[float, float]:
        """The least loss and the least gain, as ratio - 1, that the test of the pairs detects with a power of 80 %."""
        return self.detectable_low, self.detectable_high


class ArmRate(ResultPart):
    """tokens/s of an arm over all of its runs, and the cells of the campaign that do the same work."""

    tokens_per_s: Estimated
    same_work: list[str]


class ComparisonArms(ResultPart):
    a: ArmRate
    b: ArmRate


class AbComparison(ResultPart):
    """One comparison of two cells."""

    name: str
    a: str
    b: str
    declared: dict[str, list[JsonValue]] = Field(description="What they are configured to differ in, with both values.")
    status: Literal["ok", "incomplete", "invalid", "incomparable"]
    why: str | None
    pairs: int
    estimate: Paired | None
    arms: ComparisonArms | None = None
    findings: list[str]
    metrics_paths: list[str] = Field([])


class ComparisonReport(ResultPart):
    """The file."""

    schema_version: str = Field(SCHEMA_VERSION, pattern=r"^1\.")
    campaign: str
    confidence: float
    comparisons: list[AbComparison]


def read_comparison(path: Path) -> ComparisonReport:
    """Return the A/B comparisons in the file at `path`. Raises UserError where it is missing or damaged."""
    return read_record(path, ComparisonReport.model_validate_json)
