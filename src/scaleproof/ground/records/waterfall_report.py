"""`waterfall.json`, schema 1.1: from the ideal time of a step to the measured one, part by part."""

from pathlib import Path

from pydantic import Field

from scaleproof.ground.files import read_record
from scaleproof.ground.records.result_file import ResultPart
from scaleproof.ground.records.scaling_report import Kind

SCHEMA_VERSION = "1.1"


class WaterfallPart(ResultPart):
    """Milliseconds of a step; null where nothing measured it, with what would."""

    name: str
    ms: float | None
    source: str


class WaterfallCell(ResultPart):
    """A cell beyond the baseline of its series: ideal, parts and unexplained sum to the measured step."""

    cell: str
    strategy: str
    baseline: str
    kind: Kind
    n: int | None = None
    measured_ms: float
    ideal_ms: float
    parts: list[WaterfallPart]
    unexplained_ms: float
    compute_to_communication: float | None = Field(description="Computing over transfer, in the trace.")
    transfer_exposed: float | None = Field(None, description="Part of the transfers that no computing hides.")


class WaterfallReport(ResultPart):
    """The file."""

    schema_version: str = Field(SCHEMA_VERSION, pattern=r"^1\.")
    campaign: str
    cells: list[WaterfallCell]


def read_waterfall(path: Path) -> WaterfallReport:
    """Return the parts of the steps in the file at `path`. Raises UserError where it is missing or damaged."""
    return read_record(path, WaterfallReport.model_validate_json)
