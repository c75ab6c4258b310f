"""`profile_summary.json`, schema 1.0: where the time of the traced steps went. In milliseconds unless named otherwise.

Names that the summaries of earlier projects used keep their meaning. A figure that the trace does not have is null,
and `unknown` says why; it is never 0.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from scaleproof.ground.errors import UserError, describe_first_fault
from scaleproof.ground.files import read_regular

SCHEMA_VERSION: Literal["1.0"] = "1.0"
PROFILE = "profile_summary.json"


class ProfileSection(BaseModel, extra="forbid"):
    """A section of the file."""


class TraceCoverage(ProfileSection):
    """How much of the recorded device time is understood."""

    classified_share: float | None = Field(
        description="Share of device time in kernels of a known class; null without any."
    )
    mark: float = Field(description="Below this share communication and classes are unknown.")
    unclassified_top: list[str] = Field(description="The names that take most of the rest.")
    dropped_events: int = Field(description="Events that the tool says it has lost.")
    diagnostics: list[str] = Field(description="Warnings of the tool itself.")
    missing_ranks: list[int] = Field(description="Ranks of the run that the trace does not hold.")


class TracedStep(ProfileSection):
    """One optimizer step on one rank. compute + exposed + idle = wall."""

    step: int
    rank: int
    wall_ms: float
    compute_ms: float | None = Field(description="Union of everything but communication.")
    communication_ms: float | None = Field(description="Union of all collectives.")
    exposed_ms: float | None = Field(description="Communication while nothing is computed.")
    overlapped_ms: float | None
    wait_ms: float | None = Field(description="Of communication: waiting for ranks that came later.")
    exposed_wait_ms: float | None = Field(
        None, description="Of waiting: the part while nothing is computed; null in files that are older than this key."
    )
    idle_ms: float | None = Field(description="Neither computing nor communicating.")
    gaps: int | None = Field(description="Pauses of the device of more than 10 microseconds that begin in the step.")
    ranges_ms: dict[str, float] = Field(description="On the host: data, forward, backward, reduce, optimizer.")


class Collective(ProfileSection):
    """All calls of one collective, per optimizer step and rank."""

    calls: float
    total_ms: float = Field(description="Union of its calls.")
    exposed_ms: float
    transfer_ms: float | None = Field(description="total less waiting; null unless calls match over ranks.")
    wait_ms: float | None = Field(description="Union of each call's time beyond that of its shortest participant.")
    bus_gb_per_s: float | None = Field(
        None, description="What the slowest link moved while it transferred: bus bandwidth as nccl-tests define it."
    )


class Slowest(ProfileSection):
    """The rank that the others wait for."""

    rank: int
    steps_last: int
    of_steps: int
    caused_ms: float = Field(description="Waiting of the other ranks per step, on average over them.")


class Range(ProfileSection):
    """A named range with those that it contains, per optimizer step and rank."""

    path: str
    calls: float
    total_ms: float
    own_ms: float = Field(description="Without the ranges inside.")


class Kernel(ProfileSection):
    name: str
    kind: str = Field(description="Its class.")
    calls: float = Field(description="Per optimizer step and rank; in all where the trace has no steps.")
    total_ms: float = Field(
        description="Sum of durations, per optimizer step and rank; in all where the trace has no steps."
    )
    share: float = Field(description="Of all kernel time.")


class Profile(ProfileSection):
    """What one capture says."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    status: Literal["ok", "failed", "not_applicable"] = "ok"
    reason: str | None = None
    generated_at_utc: str
    run_dir: str
    slurm_job_id: str | None = None
    hosts: list[str] = []
    world_size: int | None = Field(None, description="Ranks.")
    n_devices: int | None = Field(None, description="Devices of all ranks; a rank of nn.DataParallel has several.")
    gpu: str | None = None
    cuda: str | None = None
    torch: str | None = None
    deepspeed: str | None = None
    seq_length: int | None = None
    micro_batch_size_per_gpu: int | None = None
    grad_accum_steps: int | None = None
    tokens_per_sec: float | None = Field(None, description="Always null: a trace is no source of throughput.")
    total_wall_time_sec: float | None = None
    nsys_report: str | list[str] | None = None
    inputs: list[str] = []
    nvtx_top5: list[dict[str, Any]] = []
    osrt_top5: list[dict[str, Any]] = []
    likely_bottleneck: dict[str, Any] = {}
    per_file: dict[str, dict[str, Any]] = {}

    campaign: str | None = None
    cell: str | None = None
    fingerprint: str | None = None
    strategy: str | None = None
    precision: str | None = None
    tool: str | None = None
    tool_reason: str | None = Field(None, description="Why this tool and not the other.")
    device: Literal["gpu", "cpu", "none"] = "none"
    ranks: list[int] = []
    ranks_from: str = "the trace"
    steps: int | None = Field(None, description="Traced optimizer steps; null where the trace has no `step` ranges.")
    coverage: TraceCoverage | None = None
    unknown: dict[str, str] = Field({}, description="Figure -> why the trace does not carry it.")
    per_step: list[TracedStep] = []
    classes_ms: dict[str, float] | None = Field(None, description="Union per class, per optimizer step and rank.")
    kernel_time_ms: float | None = Field(None, description="Sum over all kernels and ranks, as `nsys stats` has it.")
    communication_share: float | None = Field(None, description="Of kernel_time_ms.")
    collectives: dict[str, Collective] = {}
    calls_by_kernel: dict[str, int] = Field(
        {}, description="Calls of each kernel that communicates, all ranks and steps."
    )
    calls_per_step: dict[str, float] = Field(
        {}, description="Text reports: calls of each collective per optimizer step and rank."
    )
    expected_calls: dict[str, int] | None = Field(
        None, description="Collectives of a step on rank 0, counted in a probe of the traced run."
    )
    executed_steps: float | None = Field(None, description="Text reports: all-gathers per rank.")
    slowest: Slowest | None = None
    ranges: list[Range] = []
    kernels_top: list[Kernel] = []
    interconnect: dict[str, Any] = Field(
        {},
        validation_alias=AliasChoices("interconnect", "proof"),  # `proof`: its name in files of scaleproof 3.1
        description="What NCCL, nvidia-smi and ibstat report about the links between devices, by file.",
    )
    step_time_ms: list[float] = Field([], description="Of the traced steps, by the trainer's clock, slowest rank.")


def read_profile(path: Path) -> Profile:
    """Return the profile in the file `path`, or in profile_summary.json of the folder `path`.

    Raises UserError where it is missing or not of schema 1.0.
    """
    path = path / PROFILE if path.is_dir() else path
    try:
        return Profile.model_validate_json(read_regular(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; make it with: scaleproof trace summary {path.parent}") from None
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a profile of schema 1.0: {describe_first_fault(error)}") from None


def mean_of_field(profile: Profile, name: str) -> float | None:
    """Return the mean of `name`, a field of TracedStep, over all steps and ranks; None where any value is unknown."""
    values = [getattr(row, name) for row in profile.per_step]
    return sum(values) / len(values) if values and None not in values else None
