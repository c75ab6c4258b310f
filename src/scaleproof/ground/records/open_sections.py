"""The sections of a record that are open: what each must have, beside whatever this machine or corpus has to say.

Whoever reads a record may rely on the keys that stand here, but for those that are `NotRequired`. A field with
`SkipValidation` is not looked at when a record is read; of a rank, `rank_fault` names it where a check breaks.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    SkipValidation,
    Tag,
    with_config,
)
from pydantic_core.core_schema import CoreSchema, nullable_schema
from typing_extensions import TypedDict  # pydantic's, before Python 3.12

YEARS = range(1971, 3000)  # beyond them a time cannot be reckoned with


def _check_moment(text: str) -> str:
    """Return `text` as it is. Raises ValueError for anything but a date and time with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("no date and time of ISO 8601, as in 2026-11-21T23:03:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("it has no time zone; write Z for UTC")
    if moment.year not in YEARS:
        raise ValueError(f"the year {moment.year} cannot be that of a run")
    return text


Moment = Annotated[str, AfterValidator(_check_moment)]  # a date and time of ISO 8601, kept as it was written

OPEN = ConfigDict(extra="allow", allow_inf_nan=False)
Positive = Annotated[int, Field(gt=0)]


class OrNull:
    """Lets null through, which no rank writes: what breaks on it names it."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return what pydantic validates by: the annotated type, or null."""
        return nullable_schema(handler(source))


@with_config(OPEN)
class RankGpu(TypedDict):
    """A GPU of a rank, over the window."""

    samples: NotRequired[SkipValidation[int]]
    utilization_mean: NotRequired[SkipValidation[float | None]]
    sm_clock_mhz_mean: NotRequired[SkipValidation[float | None]]
    sm_clock_mhz_min: NotRequired[SkipValidation[float | None]]
    power_w_mean: NotRequired[SkipValidation[float | None]]
    throttled: NotRequired[SkipValidation[dict[str, float] | None]]
    energy_j: NotRequired[SkipValidation[float | None]]
    energy_counter_j: NotRequired[SkipValidation[float | None]]
    energy_integral_j: NotRequired[SkipValidation[float | None]]


@with_config(OPEN)
class Rank(TypedDict):
    """Where a rank ran, and what the hardware did during the window. Seconds, bytes; null where it is not counted."""

    rank: Annotated[int, Field(ge=0)]
    host: str
    devices: Annotated[list[str], Field(min_length=1)]
    device_name: str
    cores: NotRequired[Annotated[list[int], OrNull()]]
    gpus: NotRequired[list[RankGpu] | None]
    cpu_load: NotRequired[Annotated[float, OrNull()]]
    near_cores: NotRequired[SkipValidation[list[int]]]
    threads: NotRequired[SkipValidation[int]]
    backend: NotRequired[SkipValidation[str]]
    start: NotRequired[SkipValidation[str]]
    interface: NotRequired[SkipValidation[str | None]]
    rss_bytes: NotRequired[SkipValidation[int]]
    window_start_epoch_s: NotRequired[SkipValidation[float]]
    window_end_epoch_s: NotRequired[SkipValidation[float]]
    window_start_monotonic_s: NotRequired[SkipValidation[float]]
    window_end_monotonic_s: NotRequired[SkipValidation[float]]
    machine_cpus: NotRequired[SkipValidation[int]]
    machine_memory_bytes: NotRequired[SkipValidation[int]]
    cpu_s: NotRequired[SkipValidation[float]]
    involuntary_switches: NotRequired[SkipValidation[float]]
    run_delay_s: NotRequired[SkipValidation[float | None]]
    machine_busy_s: NotRequired[SkipValidation[float]]
    cores_busy_s: NotRequired[SkipValidation[float]]
    machine_steal_s: NotRequired[SkipValidation[float]]
    full_collections: NotRequired[SkipValidation[int]]
    main_thread_s: NotRequired[SkipValidation[float]]
    bytes_written: NotRequired[SkipValidation[int | None]]
    ready_epoch_s: NotRequired[SkipValidation[float]]
    warm_epoch_s: NotRequired[SkipValidation[float]]
    closing_epoch_s: NotRequired[SkipValidation[float]]
    closing_monotonic_s: NotRequired[SkipValidation[float]]
    closing_s: NotRequired[SkipValidation[float]]  # in older records, instead of these two
    max_rss_bytes: NotRequired[SkipValidation[int]]
    state_bytes: NotRequired[SkipValidation[int]]
    cuda_memory: NotRequired[SkipValidation[dict[str, int] | None]]


NUMBERS = ("_s", "_bytes", "_load", "_cpus", "_switches", "threads")


def rank_fault(ranks: Sequence[Rank]) -> str:
    """Return what is wrong with the first field of `ranks` whose value is of a wrong type; "" where none is."""
    for place, rank in enumerate(ranks):
        if not isinstance(rank.get("cores"), list):
            return f"ranks.{place}.cores is {rank.get('cores')!r}, no list"
        for name, value in rank.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if name.endswith(NUMBERS) and value is not None and not is_number:
                return f"ranks.{place}.{name} is {value!r}, no number"
    return ""


@with_config(OPEN)
class Host(TypedDict):
    """The launcher's machine."""

    hostname: str
    os: str
    cpu_busy_before: NotRequired[float | None]  # of older files: ranks count over the window since
    others_cpu: NotRequired[float | None]  # of a command's run: part of the machine's CPU time that others used in it


@with_config(OPEN)
class Hardware(TypedDict):
    """What that machine is made of."""

    cpu_model: str
    cpu_allowed: Positive
    memory_bytes: Positive
    gpus: NotRequired[list[dict[str, Any]] | None]
    nodes: NotRequired[dict[str, dict[str, Any]]]
    cpu_count: NotRequired[SkipValidation[int]]
    cuda_driver: NotRequired[SkipValidation[str]]
    container: NotRequired[SkipValidation[str]]
    modules: NotRequired[SkipValidation[list[str]]]


@with_config(OPEN)
class Data(TypedDict):
    """tokens.json of the corpus."""

    corpus: str
    revision: str | None
    licence: str
    tokenizer: str
    vocab_size: Positive
    corpus_sha256: str
    train_sha256: str
    replaced_characters: Annotated[int, Field(ge=0)]
    classes: NotRequired[list[str]]
    bytes_per_token: NotRequired[SkipValidation[float]]


@with_config(OPEN)
class Shape(TypedDict):
    """A model of one's own: its numbers, or where a model of transformers comes from."""

    layers: NotRequired[Positive]
    heads: NotRequired[Positive]


@with_config(OPEN)
class RecordedOptimizer(TypedDict):
    """What updates the weights."""

    name: str
    learning_rate: float
    max_grad_norm: float | None
    betas: NotRequired[SkipValidation[list[float]]]
    eps: NotRequired[SkipValidation[float]]
    weight_decay: NotRequired[SkipValidation[float]]


@with_config(OPEN)
class RecordedSchedule(TypedDict):
    """How its learning rate changes."""

    name: str
    ramp_steps: NotRequired[SkipValidation[int]]
    final_fraction: NotRequired[SkipValidation[float]]


@with_config(OPEN)
class RecordedWorkload(TypedDict):
    """What is trained on what."""

    task: str
    model: str | Shape
    vocab_size: Positive | Literal["derive"]
    corpus: str
    tokenizer: str
    seq_len: Positive
    model_shape: NotRequired[SkipValidation[dict[str, Any]]]


@with_config(OPEN)
class RecordedWork(TypedDict):
    """How much of it."""

    global_batch: Positive
    micro_batch: Positive
    accumulation: Positive
    steps: Positive
    warmup_steps: Annotated[int, Field(ge=0)]
    optimizer: RecordedOptimizer
    schedule: RecordedSchedule
    seed: int
    validation_samples: NotRequired[SkipValidation[int]]


@with_config(OPEN)
class RecordedExecution(TypedDict):
    """In which way."""

    strategy: str
    precision: str
    geometry: Annotated[str, Field(pattern="^[1-9][0-9]{0,5}x[1-9][0-9]{0,5}$")]
    threads_per_device: Positive | None
    attention: str
    compile: bool | str
    activation_checkpointing: bool
    fused_optimizer: bool
    bucket_elements: int | Literal["auto"]
    loss: NotRequired[SkipValidation[str]]
    overlap_comm: NotRequired[SkipValidation[bool | Literal["auto"]]]
    fsdp_prefetch: NotRequired[SkipValidation[int]]
    fsdp_reshard: NotRequired[SkipValidation[bool]]
    reduce_dtype: NotRequired[SkipValidation[str]]


@with_config(OPEN)
class RecordedConfiguration(TypedDict):
    """The sections of a cell."""

    workload: RecordedWorkload
    work: RecordedWork
    execution: RecordedExecution


@with_config(OPEN)
class CommandWorkload(TypedDict):
    """A command, with its placeholders."""

    task: Literal["command"]
    command: str


@with_config(OPEN)
class CommandWork(TypedDict):
    """How long a command runs; null for what no placeholder of it sets."""

    global_batch: Positive | None
    steps: Positive
    fewer_steps: Positive | None
    warmup_steps: Annotated[int, Field(ge=0)]


@with_config(OPEN)
class CommandExecution(TypedDict):
    """On which devices a command runs. `strategy`: its settings in words."""

    strategy: str
    geometry: Annotated[str, Field(pattern="^[1-9][0-9]{0,5}x[1-9][0-9]{0,5}$")]


@with_config(OPEN)
class RecordedCommand(TypedDict):
    """The sections of a cell that runs a command; `settings`: its placeholders and what stood there."""

    workload: CommandWorkload
    work: CommandWork
    execution: CommandExecution
    settings: dict[str, str]


def _configuration_tag(config: object) -> str:
    """Return the tag of a recorded configuration: "command" where the cell runs a command, else "model"."""
    workload = config.get("workload") if isinstance(config, dict) else None
    return "command" if isinstance(workload, dict) and workload.get("task") == "command" else "model"


AnyConfiguration = Annotated[
    Annotated[RecordedConfiguration, Tag("model")] | Annotated[RecordedCommand, Tag("command")],
    Discriminator(_configuration_tag),
]
