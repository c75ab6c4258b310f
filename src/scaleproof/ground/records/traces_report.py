"""`traces.json`, schema 1.2: what the traces of a campaign say, beside the timed runs of the same cells."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from scaleproof.ground.files import read_record
from scaleproof.ground.records.profile_schema import Collective, Kernel, Slowest
from scaleproof.ground.records.result_file import Estimated, ResultPart

SCHEMA_VERSION = "1.2"


class StepParts(ResultPart):
    """Means over steps, in milliseconds; null where one of them is unknown."""

    wall_ms: float | None
    compute_ms: float | None
    communication_ms: float | None
    exposed_ms: float | None
    overlapped_ms: float | None
    wait_ms: float | None
    exposed_wait_ms: float | None = None
    idle_ms: float | None


class RankParts(StepParts):
    """Those of a rank."""

    rank: int


class TraceOverhead(Estimated):
    """Step time under the profiler over that of the timed runs."""

    timed_step_ms: float


class CellTrace(StepParts):
    """A traced cell."""

    cell: str
    strategy: str | None
    world_size: int | None
    n_devices: int | None
    status: Literal["ok", "failed", "not_applicable"]
    reason: str | None
    tool: str | None
    tool_reason: str | None
    device: Literal["gpu", "cpu", "none"]
    steps: int | None
    ranks: list[int]
    per_rank: list[RankParts]
    phases_ms: dict[str, float] = Field(description="On the host, means over steps and ranks.")
    classes_ms: dict[str, float] | None
    collectives: dict[str, Collective]
    kernels_top: list[Kernel]
    slowest: Slowest | None
    classified_share: float | None
    unknown: dict[str, str]
    overhead: TraceOverhead | None
    file: str


class TracesReport(ResultPart):
    """The file."""

    schema_version: str = Field(SCHEMA_VERSION, pattern=r"^1\.")
    campaign: str
    traces: list[CellTrace]

    @property
    def ok(self) -> list[CellTrace]:
        return [trace for trace in self.traces if trace.status == "ok"]


def read_traces_report(path: Path) -> TracesReport:
    """Return what is known of the traces, by the file at `path`. Raises UserError where it is missing or damaged."""
    return read_record(path, TracesReport.model_validate_json)
