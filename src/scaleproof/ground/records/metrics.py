"""`training_metrics.json`, schema 3.3: what one run leaves behind, whether it worked or not.

Names that the 2.0 files of the projects before this one used keep their meaning; what those files called an epoch is
here the window, the only part of a run that is timed. Times are seconds, sizes bytes. Inside the package a quantity in
seconds ends in `_s`; what the 2.0 files call it stands here alone, as an alias.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, Field, SkipValidation, TypeAdapter, field_validator, model_validator

from scaleproof.ground.errors import plural
from scaleproof.ground.json_faults import keys_given_twice
from scaleproof.ground.records.census import Census, SecondClock
from scaleproof.ground.records.evidence import EvidenceLevel, WorkUnit
from scaleproof.ground.records.open_sections import (
    AnyConfiguration,
    Data,
    Hardware,
    Host,
    Moment,
    Rank,
    RecordedCommand,
    RecordedConfiguration,
)
from scaleproof.ground.records.run_sections import (
    LONGEST_S,
    AnyWindow,
    Energy,
    Failure,
    LogReading,
    Memory,
    Model,
    PrintedWindow,
    Program,
    RecordSection,
    Startup,
    TokenLedger,
    TrainingConfig,
    Utilization,
    Validation,
    Window,
)
from scaleproof.ground.records.watched import WatchedRank

# 3.0 has no `validation`; 3.1 no census, no second clock; 3.2 no evidence level: all of its runs are `built`
SCHEMA_VERSION: Literal["3.3"] = "3.3"
Value = TypeVar("Value")

OLD_NAMES = {"scalebench_version": "scaleproof_version"}  # of variables that records made before a change of name have
VERSION = "scaleproof_version"


def current_names(env: Mapping[str, Value]) -> dict[str, Value]:
    """Return the variables of a record's `env` as they are called today."""
    return {OLD_NAMES.get(name, name): value for name, value in env.items()}


def _check_sha256(text: str) -> str:
    """Return `text` as it is. Raises ValueError for anything but 64 hexadecimal digits."""
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError("no sha256, which has 64 hexadecimal digits")
    return text


Sha256 = Annotated[str, AfterValidator(_check_sha256)]


class Recorded(RecordSection):
    """What is known of every run, whether it has numbers or not."""

    schema_version: Literal["3.0", "3.1", "3.2", "3.3"] = SCHEMA_VERSION
    evidence: EvidenceLevel = "built"
    run_id: str
    timestamp_utc: Moment = Field(description="Start of the launcher.")
    campaign: str
    cell: str
    repeat: int = Field(ge=1)
    fingerprint: str = Field(description="Hash of `config`.")
    config: AnyConfiguration = Field(description="The effective configuration of the cell.")
    git_commit: str
    git_dirty: bool | None
    code_sha256: str = Field(description="Of the source files that take part in a run; equal where the commit is not.")
    command_line: str
    env: dict[str, str | None] = Field(description="Versions, and environment variables of an allow-list.")
    host: Host
    hardware: Hardware
    scheduler: dict[str, str] | None = None
    data: Data | None = Field(description="tokens.json of the corpus, without its splits' paths; null for a command.")
    training_config: TrainingConfig | None = Field(description="null for a command.")
    files: dict[str, Sha256] = Field({}, description="sha256 of the run's other files.")

    @field_validator("env", mode="before")
    @classmethod
    def _rename_variables(cls, env: Any) -> Any:
        """Return the recorded environment with today's names of variables; anything but a mapping as it is."""
        return current_names(env) if isinstance(env, dict) else env


class Timed(Recorded):
    """A run with numbers, of any evidence level."""

    status: Literal["ok"] = "ok"
    failure: None = None
    unit: WorkUnit = Field("tokens", description="Of the work that rates count.")
    window: AnyWindow
    ranks: list[Rank] = Field(description="Of each rank: host, devices, cores, and what the hardware did.")
    total_wall_time_s: float = Field(
        lt=LONGEST_S, alias="total_wall_time_sec", description="From the launcher's start to the metrics."
    )
    second_clock: SecondClock | None = Field(None, description="By the launcher; null in files before 3.2.")


class Printed(Timed):
    """A run of somebody's program: what it printed, and what was seen of it from outside, or from inside."""

    evidence: Literal["printed", "watched"] = "printed"
    watched: list[WatchedRank] = Field([], description="By scaleproof.watch in each rank; none in a run at `printed`.")
    config: RecordedCommand
    window: PrintedWindow
    reading: LogReading
    program: Program
    ranks: list[Rank] = Field([])
    data: None = None
    training_config: None = None


class Measured(Timed):
    """A run of the trainer with numbers."""

    evidence: Literal["built"] = "built"
    unit: Literal["tokens"] = "tokens"
    config: RecordedConfiguration
    window: Window
    data: Data = Field(description="tokens.json of the corpus, without its splits' paths.")
    training_config: TrainingConfig
    model: Model
    ledger: TokenLedger
    validation: Validation | None = Field(None, description="null: validation_samples is 0, or nothing is held out.")
    utilization: Utilization
    energy: Energy
    startup: Startup
    memory: Memory
    collectives: dict[str, dict[str, Any]] = Field(
        description="Of one step on rank 0, counted in a probe during warm-up: calls, logical bytes, dtypes."
    )
    dtypes: dict[str, str] = Field(
        description="Of parameters, matrix products, gradients, optimizer state and reduced tensors, as found."
    )
    engine_config: dict[str, Any] | None = Field(None, description="The effective DeepSpeed configuration.")
    ranks: list[Rank] = Field(
        min_length=1, description="Of each rank: host, devices, cores, and what the hardware did during the window."
    )
    closing_s: float | None = Field(
        None,
        description="From the end of the validation: a probed step, the gathering of all ranks' figures, this record.",
    )
    census: list[Census] | None = Field(None, description="Of each rank; null in files before 3.2.")

    @model_validator(mode="after")
    def _check_number_of_ranks(self) -> "Measured":
        """Raise ValueError where a list of ranks lacks one: checks and figures count on all of them."""
        nodes, per_node = map(int, self.config["execution"]["geometry"].split("x"))
        if self.n_devices < nodes * per_node:
            entries = plural(len(self.ranks), "entry", "entries")
            raise ValueError(f"{entries} of `ranks` for {plural(nodes * per_node, 'device')}")
        if self.census is not None and len(self.census) != len(self.ranks):
            entries = plural(len(self.census), "entry", "entries")
            raise ValueError(f"{entries} of `census` for {plural(len(self.ranks), 'rank')}")
        return self

    @property
    def n_devices(self) -> int:
        """Devices that came up; a rank of nn.DataParallel has several."""
        return sum(len(rank["devices"]) for rank in self.ranks)


class Failed(Recorded):
    """A run without numbers, and why it has none. The sections of a measured run are null."""

    status: Literal["failed", "not_applicable"] = "failed"
    failure: Failure
    model: None = None
    ledger: None = None
    window: None = None
    validation: None = None
    utilization: None = None
    energy: None = None
    startup: None = None
    memory: None = None
    collectives: None = None
    dtypes: None = None
    engine_config: None = None
    ranks: None = None
    total_wall_time_s: float | None = Field(
        None, lt=LONGEST_S, alias="total_wall_time_sec", description="From the launcher's start to the end."
    )


class UnreadableRun(Failed):
    """A planned run whose file is damaged: what the plan says of it, and nothing of when and where it ran."""

    failure: Failure
    run_id: str = "unknown"
    timestamp_utc: str = "unknown"
    git_commit: str = "unknown"
    git_dirty: bool | None = None
    code_sha256: str = "unknown"
    command_line: str = "unknown"
    env: dict[str, str | None] = Field({})
    host: SkipValidation[Host] = cast(Host, {})
    hardware: SkipValidation[Hardware] = cast(Hardware, {})
    data: SkipValidation[Data]


_METRICS: TypeAdapter[Measured | Failed] = TypeAdapter(Annotated[Measured | Failed, Field(discriminator="status")])
_OF_COMMANDS: TypeAdapter[Printed | Failed] = TypeAdapter(Annotated[Printed | Failed, Field(discriminator="status")])
OF_A_COMMAND = re.compile(
    rb'"evidence"\s*:\s*"(printed|watched)"'
)  # as a key: in a text its quotes have a \ before them


def parse_metrics(data: bytes | str) -> Measured | Printed | Failed:
    """Return the metrics in the JSON text `data`. Raises ValueError where they are not of schema 3."""
    content = data.encode() if isinstance(data, str) else data
    if twice := keys_given_twice(content):  # of two values the one that is read says nothing of the other
        raise ValueError(f'the key "{twice[0]}" is given twice')
    # Each has its own model; a search is quicker than to try both, and names the faults of the right one.
    adapter = _OF_COMMANDS if OF_A_COMMAND.search(content) else _METRICS
    return adapter.validate_json(content, strict=True)
