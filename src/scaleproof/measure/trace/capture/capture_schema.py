"""`capture.json`: how a trace was taken and which files it left; writing and reading it."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from scaleproof.ground.errors import UserError, describe_first_fault
from scaleproof.ground.files import read_regular, sha256_of
from scaleproof.ground.records.profile_schema import ProfileSection
from scaleproof.ground.records.run import CAPTURE

RAW = "raw"  # folder of the traces themselves
SETTINGS, RANK_RESULT = "trace.json", "rank_result.json"  # beside a request: settings for ranks, rank 0's results
NSYS, PROFILER = "nsys", "torch.profiler"


class Captured(ProfileSection):
    """`capture.json`: how a trace was taken, and which files it left. Times in seconds."""

    schema_version: Literal["1.0"] = "1.0"
    status: Literal["ok", "failed", "not_applicable"]
    reason: str | None = Field(None, description="Why there is no trace.")
    timestamp_utc: str
    campaign: str
    cell: str
    fingerprint: str
    strategy: str
    tool: str
    tool_version: str | None
    tool_reason: str | None = Field(description="Why this tool was taken.")
    nodes: Literal["first", "all"] = Field(description="Which nodes were traced by nsys.")
    world_size: int
    steps: int
    step_time_s: list[float] = Field([], description="Of the traced steps, by the trainer's clock, slowest rank.")
    collectives: dict[str, dict[str, Any]] | None = Field(
        None, description="Of one step on rank 0, counted in a probe."
    )
    ranks: list[dict[str, Any]] = Field([], description="Where each rank ran.")
    env: dict[str, str | None]
    training_config: dict[str, Any]
    scheduler: dict[str, str] | None
    code_sha256: str
    total_wall_time_sec: float
    files: dict[str, str] = Field({}, description="Name -> sha256, below raw/.")


def read_capture(folder: Path) -> Captured:
    """Return the capture in `folder`. Raises UserError where it, or a file that it lists, is missing or changed."""
    path = folder / CAPTURE
    try:
        captured = Captured.model_validate_json(read_regular(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; there is no capture in this folder") from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a capture of schema 1.0: {describe_first_fault(error)}") from None
    for name, sha256 in captured.files.items():
        raw = folder / RAW / name
        if not raw.is_file():
            raise UserError(f"{raw}: no such file, but {path} lists it; capture the trace again")
        if sha256_of(raw) != sha256:
            raise UserError(
                f"{raw} is not the file that {path} describes (its sha256 differs); capture the trace again"
            )
    return captured
