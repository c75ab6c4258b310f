"""The sections of a record that are open: what each must have, beside whatever this machine or corpus has to say.

To the type checker they are dictionaries; whoever reads a record may rely on the keys that stand here.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic's, before Python 3.12

YEARS = range(1971, 3000)  # beyond them a time cannot be reckoned with


def _moment(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("no date and time of ISO 8601, as in 2026-11-21T23:03:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("it has no time zone; write Z for UTC")
    if moment.year not in YEARS:
        raise ValueError(f"the year {moment.year} cannot be that of a run")
    return text


Moment = Annotated[str, AfterValidator(_moment)]  # a date and time of ISO 8601, kept as it was written

if TYPE_CHECKING:
    Host = dict[str, Any]
    Hardware = dict[str, Any]
    Data = dict[str, Any]
    Rank = dict[str, Any]
    RecordedConfiguration = dict[str, Any]
else:
    OPEN = ConfigDict(extra="allow", allow_inf_nan=False)
    Positive = Annotated[int, Field(gt=0)]

    class Host(TypedDict):
        """The launcher's machine."""

        __pydantic_config__ = OPEN

        hostname: str
        os: str
        cpu_busy_before: NotRequired[float | None]

    class Hardware(TypedDict):
        """What that machine is made of."""

        __pydantic_config__ = OPEN

        cpu_model: str
        cpu_allowed: Positive
        memory_bytes: Positive
        gpus: NotRequired[list[dict[str, Any]] | None]
        nodes: NotRequired[dict[str, dict[str, Any]]]

    class Data(TypedDict):
        """tokens.json of the corpus."""

        __pydantic_config__ = OPEN

        corpus: str
        revision: str | None
        licence: str
        tokenizer: str
        vocab_size: Positive
        corpus_sha256: str
        train_sha256: str
        replaced_characters: Annotated[int, Field(ge=0)]
        classes: NotRequired[list[str]]

    class Rank(TypedDict):
        """Where a rank ran."""

        __pydantic_config__ = OPEN

        rank: Annotated[int, Field(ge=0)]
        host: str
        devices: Annotated[list[str], Field(min_length=1)]
        device_name: str
        cores: NotRequired[list[int] | None]
        gpus: NotRequired[list[dict[str, Any]] | None]
        cpu_load: NotRequired[float | None]

    class Shape(TypedDict):
        """A model of one's own."""

        __pydantic_config__ = OPEN

        layers: Positive
        heads: Positive

    class RecordedOptimizer(TypedDict):
        """What updates the weights."""

        __pydantic_config__ = OPEN

        name: str
        learning_rate: float
        max_grad_norm: float | None

    class RecordedSchedule(TypedDict):
        """How its learning rate changes."""

        __pydantic_config__ = OPEN

        name: str

    class RecordedWorkload(TypedDict):
        """What is trained on what."""

        __pydantic_config__ = OPEN

        task: str
        model: str | Shape
        vocab_size: Positive | Literal["derive"]
        corpus: str
        tokenizer: str
        seq_len: Positive

    class RecordedWork(TypedDict):
        """How much of it."""

        __pydantic_config__ = OPEN

        global_batch: Positive
        micro_batch: Positive
        accumulation: Positive
        steps: Positive
        warmup_steps: Annotated[int, Field(ge=0)]
        optimizer: RecordedOptimizer
        schedule: RecordedSchedule
        seed: int

    class RecordedExecution(TypedDict):
        """In which way."""

        __pydantic_config__ = OPEN

        strategy: str
        precision: str
        geometry: Annotated[str, Field(pattern="^[1-9][0-9]{0,5}x[1-9][0-9]{0,5}$")]
        threads_per_device: Positive | None
        attention: str
        compile: bool | str
        activation_checkpointing: bool
        fused_optimizer: bool
        bucket_elements: int | str

    class RecordedConfiguration(TypedDict):
        """The sections of a cell."""

        __pydantic_config__ = OPEN

        workload: RecordedWorkload
        work: RecordedWork
        execution: RecordedExecution
