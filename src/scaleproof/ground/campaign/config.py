"""The keys of a campaign file. The JSON schema in `config/campaign.schema.json` is generated from these classes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model, field_validator, model_validator

from scaleproof.ground.campaign.command import Patterns, PerStep, Reader, Scalar, move_placeholders_to_settings
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.campaign.field import Section, axis_prefix, key, unit_of
from scaleproof.ground.campaign.hub_names import refuse_hub_name
from scaleproof.ground.campaign.model_shapes import SHAPES, EncoderShape, ModelShape, Shape
from scaleproof.ground.campaign.optimizer import Optimizer, Schedule
from scaleproof.ground.campaign.question import Percent, Question
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.campaign.unmeasured import Forecasting, Frontier, Tracing

Derivable = Annotated[int, Field(ge=1, le=10**9)] | Literal["derive"]
MicroBatch = Annotated[int, Field(ge=1, le=10**9)] | Literal["derive", "largest", "fastest"]
ModelName = Literal["gpt2-tiny", "gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl", "encoder-small", "encoder-large"]

ENTRIES = {"gpt2": 50257, "bytes": 257}  # of tokenizers that are not trained, end-of-text included
TOKENIZER = rf"^({'|'.join(ENTRIES)}|bpe-[0-9]{{1,18}})$"


class Workload(Section):
    """What is trained, on which tokens."""

    task: Literal["language-modelling", "classification"] = key(
        "language-modelling",
        "language-modelling: a GPT-2 predicts each next token. classification: an encoder predicts the class of each "
        "document, from a corpus with labels.",
        "none",
    )
    model: ModelName | ModelShape | EncoderShape | TransformersModel = key(
        "gpt2-tiny",
        "A size of the GPT-2 family, or a shape of its own (layers, width, heads, context). For classification: "
        "encoder-small, encoder-large or a shape (d_model, heads, layers, feed_forward, context). For both a model of "
        "transformers with random weights: {hub: owner/name, revision: ...}, {config: path} or {module: file.py:f}.",
        "none",
        axis="",
    )
    corpus: Annotated[str, BeforeValidator(refuse_hub_name)] = key(
        "python-docs", "Name of a corpus in config/corpora.yaml.", "none", axis="", pattern=r"^[a-z0-9][a-z0-9._-]*$"
    )
    tokenizer: str = key(
        "bpe-2048",
        "gpt2: the 50,257 entries of GPT-2, downloaded once. bytes: the 256 bytes and end-of-text. "
        "bpe-<n>: byte-level BPE with n entries (257 or more: the bytes and end-of-text), trained on the corpus.",
        "none",
        axis="",
        pattern=TOKENIZER,
        examples=["gpt2", "bytes", "bpe-2048"],
    )
    seq_len: int = key(
        128,
        "Predicted tokens per sample. For classification: tokens of a document; longer ones are cut, shorter ones are "
        "padded, and padding is not counted.",
        "tokens",
        axis="sl",
        ge=1,
        le=10**7,
    )
    vocab_size: Derivable = key(
        "derive",
        "Rows of the token table. derive: the tokenizer's entries, "
        "rounded up to `vocab_multiple`; a larger number pads.",
        "entries",
        axis="v",
    )
    vocab_multiple: int = key(
        1,
        "What a derived vocab_size is a multiple of: 64 or 128 make matrix products faster.",
        "entries",
        axis="vm",
        ge=1,
        le=10**6,
    )

    command: str | None = key(
        None,
        "A training program of your own instead of a model: what to type for one run. Placeholders: {devices}, "
        "{nodes}, {devices_per_node}, {steps}, {global_batch}, {micro_batch}, {accumulation}, {seed}, "
        "{threads_per_device}, {repeat}, {host}, {port}; every other name in braces is an axis, its values under vary.",
        "none",
        pattern=r"\S",
        max_length=10_000,
        examples=["torchrun --nproc-per-node {devices} train.py --parallel {parallel}"],
    )
    figures: Literal["auto", "whole"] | Reader | Patterns = key(
        "auto",
        "Where the figures of a command come from. auto: the reader of `scaleproof audit` that knows its log. A name: "
        "that reader. A mapping: patterns of your own. whole: two lengths of run, given as work.steps: [50, 150].",
        "none",
    )
    per_step: PerStep | None = key(None, "What one step of a command is, where its log does not say.", "none")
    rate_of: Literal["all", "device"] | None = key(
        None, "Whose rate a command prints: of all devices, or of one. null: as its log is known to.", "none"
    )


class Work(Section):
    """How much is done. global_batch = micro_batch x accumulation x world size is checked for every cell."""

    global_batch: Derivable = key(
        16,
        "Samples per optimizer step over all devices. Fixed: strong scaling; `derive`: weak scaling.",
        "samples",
        axis="gb",
    )
    micro_batch: MicroBatch = key(
        "derive",
        "Samples per device in one forward and backward pass. largest, fastest: found by a few short trials before the "
        "run (`frontier`), among those that divide global_batch / devices; accumulation follows.",
        "samples",
        axis="mb",
    )
    accumulation: Derivable = key(
        "derive",
        "Micro-batches per optimizer step (gradient accumulation); 1 where nothing else fixes it.",
        "micro-batches",
        axis="ga",
    )
    steps: int = key(50, "Timed optimizer steps: the window.", "optimizer steps", ge=2, le=10**7)
    fewer_steps: int | None = key(
        None,
        "Of a command that is timed as a whole: steps of a shorter run, whose time is taken off. `steps: [50, 150]` "
        "gives both.",
        "optimizer steps",
        ge=1,
        le=10**7,
    )
    seconds: float | None = key(
        None,
        "Of a command without a flag for its length: it is ended after so many seconds, and what it printed until then "
        "is what was measured. null: it ends by itself.",
        "seconds",
        ge=1,  # the launcher looks at a run twice a second
        le=10**7,
    )
    warmup_steps: int = key(10, "Optimizer steps before the window; never counted.", "optimizer steps", ge=3, le=10**7)
    validation_samples: int = key(
        64,
        "Held-out samples that loss and perplexity are computed from, once, after "
        "the window: nothing that is timed comes after it. The same ones for every "
        "strategy and world size; all that there are where there are fewer. 0: none.",
        "samples",
        ge=0,
        le=10**7,
    )
    optimizer: Optimizer = key(Optimizer(), "The optimizer.", "none")
    schedule: Schedule = key(Schedule(), "The learning-rate schedule.", "none")
    seed: int = key(1, "Seed of the weights and of the order of the samples.", "none", axis="seed", ge=0, lt=2**32)

    @model_validator(mode="before")
    @classmethod
    def _read_two_lengths(cls, data: Any) -> Any:
        """Split `steps: [50, 150]`, the lengths of two runs, into `fewer_steps: 50` and `steps: 150`.

        `data`: the content of the section, as it is unless `steps` is a list. Raises ValueError for other lists.
        """
        lengths = data.get("steps") if isinstance(data, dict) else None
        if not isinstance(lengths, list):
            return data
        are_integers = all(type(length) is int for length in lengths)  # True and False are of type bool
        if not are_integers or len(lengths) != 2 or lengths[0] >= lengths[1]:
            raise ValueError("steps: two lengths are two whole numbers, the smaller one first, such as 50 and 150")
        return data | {"fewer_steps": lengths[0], "steps": lengths[1]}


class Resources(Section):
    """What one run may take. Changing these re-runs nothing."""

    time_limit: float = key(
        15, "A run that takes longer is stopped and recorded as `timeout`.", "minutes", gt=0, le=10**6
    )
    cpus_per_device: Derivable = key(
        "derive",
        "What a run asks of a cluster for each device. derive: "
        "execution.threads_per_device, and 4 or more beside a GPU.",
        "cores",
    )
    same_allocation: bool = key(
        False,
        "All cells of a repeat one after the other on the same "
        "nodes, in one job, in random order: for paired comparisons.",
        "none",
    )
    minutes_per_job: float | None = key(
        None,
        "Several runs one after the other in one job: as many as their time limits leave room for, of one geometry, or "
        "with same_allocation whole repeats. null: a job for each run, or for each repeat with same_allocation.",
        "minutes",
        gt=0,
        le=10**6,
    )
    exclusive: bool = key(
        True, "On a cluster, whole nodes for each run: what others do beside it would be measured as well.", "none"
    )
    memory_per_device: float = key(8, "What a run asks of a cluster for each device.", "GB", gt=0, le=10**5)
    witness: float = key(
        0.25,
        "The first repeat of a cell is followed by its steps once more, untimed, each of them looked at: at most this "
        "part of the steps of all its repeats. 0: none, and no bare loop either.",
        "part of the steps",
        ge=0,
        le=1,
    )


SECTIONS: dict[str, type[Section]] = {"workload": Workload, "work": Work, "execution": Execution}
_declared_axes = {
    name: (section, field)
    for section, model in SECTIONS.items()
    for name, field in model.model_fields.items()
    if axis_prefix(field) is not None
}
_FIRST_IN_SLUGS = ("strategy", "precision", "model", "corpus", "tokenizer", "seq_len", "geometry")
# Axis (a key that can vary) -> its section and its declared field, in the order in which a slug names axes.
AXES = {name: _declared_axes[name] for name in _FIRST_IN_SLUGS} | _declared_axes


def _make_axis_section(name: str, doc: str, wrap: Any) -> type[Section]:
    """Build the section `name`, whose keys are the axes, each optional.

    `doc`: the docstring of the section. `wrap(type)`: returns the type of a key of the section, made of the type of one
    value of the axis.
    """
    fields: dict[str, Any] = {}
    for axis, (section, field) in AXES.items():
        annotation = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        description = f"{section}.{axis}: {field.description}"
        fields[axis] = (wrap(annotation) | None, key(None, description, unit_of(field)))
    # The placeholders of a command are axes, too: `Campaign` puts their values into `settings`. Under `vary` they are
    # a list, or {label: value}.
    scalar: Any = _list_type(Scalar) | dict[str, Scalar] if wrap is _list_type else Scalar
    fields["settings"] = (dict[str, scalar], key({}, "Placeholders of workload.command, by name.", "none"))
    return create_model(name, __base__=Section, __doc__=doc, **fields)


def _list_type(annotation: Any) -> Any:
    """Return the type of a key of `vary`: a list of at least one value of the given type."""
    return Annotated[list[annotation], Field(min_length=1)]


if TYPE_CHECKING:  # built below: a type checker cannot see their keys

    class Choice(Section):
        """Values of some axes."""

        settings: Mapping[str, Scalar] = key({}, None, "none")

    class Vary(Section):
        """Lists of values of some axes."""

        settings: Mapping[str, list[Scalar] | dict[str, Scalar]] = key({}, None, "none")

else:
    Vary = _make_axis_section("Vary", "Axes of the campaign: every combination of their values is a cell.", _list_type)
    Choice = _make_axis_section("Choice", "Values of some axes.", lambda annotation: annotation)


class Comparison(Section):
    """A against B, in pairs: both arms one after the other on the same devices, in random order, in fresh processes."""

    name: str = Field(
        description="Names the comparison's folder and its row in the tables.",
        json_schema_extra={"unit": "none"},
        pattern=r"^[a-z0-9][a-z0-9-]*$",
        max_length=60,
        examples=["buckets"],
    )
    a: Choice = key(Choice(), "The arm that is compared with: what differs from the sections above.", "none")
    b: Choice = key(Choice(), "The arm that is asked about.", "none")
    pairs: int = key(
        8,
        "Pairs of A and B, an even number: A goes first in half of them. The interval is over pairs.",
        "pairs",
        ge=2,
        le=10_000,
    )
    null_pairs: int = key(
        4,
        "Pairs of A and A, mixed among the others: what the method sees where there is nothing to see.",
        "pairs",
        ge=2,
        le=10_000,
    )

    @field_validator("pairs")
    @classmethod
    def _check_even_pairs(cls, pairs: int) -> int:
        """Check that the number of pairs is even, so that A and B go first equally often. Raises ValueError."""
        if pairs % 2:
            allowed = f"even numbers, e.g. {pairs + 1}"
            raise ValueError(f"{pairs} is odd, so A and B cannot go first equally often; allowed: {allowed}")
        return pairs


class Campaign(Section):
    """A question about spreading training over devices, and the runs that answer it."""

    title: str = Field(
        description="The question that the campaign answers; heads its report.",
        json_schema_extra={"unit": "none"},
        pattern=r"\S",
        max_length=300,
    )
    workload: Workload = key(Workload(), Workload.__doc__, "none")
    work: Work = key(Work(), Work.__doc__, "none")
    execution: Execution = key(Execution(), Execution.__doc__, "none")
    vary: Vary = key(Vary(), Vary.__doc__, "none")
    cells: list[Choice] = key(
        [],
        "Cells beside those of `vary`, or all cells without it. Each has the keys that differ from the sections above; "
        "none ({}): these sections.",
        "none",
    )
    exclude: list[Choice] = key([], "Combinations of `vary` that are left out: all of the given values match.", "none")
    compare: list[Comparison] = key([], "A/B comparisons, each made in one allocation, beside the cells.", "none")
    trace: Tracing = key(Tracing(), Tracing.__doc__, "none")
    forecast: Forecasting = key(Forecasting(), Forecasting.__doc__, "none")
    frontier: Frontier = key(Frontier(), Frontier.__doc__, "none")
    target_loss: Annotated[float, Field(gt=0)] | Literal["derive"] = key(
        "derive",
        "Smoothed training loss that `time to loss` is the time to. derive: the lowest one that every measured run "
        "reaches. Changing it re-runs nothing.",
        "none",
    )
    question: Question | None = key(None, Question.__doc__, "none")
    margin: Percent = key(
        0.05,
        "By which part a recommended cell may be slower than the fastest, e.g. 5 %: the simplest that is shown to lose "
        "no more is recommended. Changing it re-runs nothing.",
        "part of the tokens/s",
    )
    repeats: Annotated[int, Field(ge=1, le=10_000)] | RepeatUntil = key(
        3,
        "Runs per cell, each in fresh processes. Intervals need 2, claims 3, and 5 or more are better. Or a mapping: "
        "repeat until the comparison is decided.",
        "runs",
    )
    resources: Resources = key(Resources(), Resources.__doc__, "none")

    @property
    def lists_all_cells(self) -> bool:
        """Whether `cells` has all cells: there is no `vary`, and entries of `cells` instead."""
        return bool(self.cells) and not any(values for _, values in self.vary)

    @property
    def repeat_until(self) -> RepeatUntil | None:
        """The rule by which repeats end. It is None where the number of repeats is fixed."""
        return self.repeats if isinstance(self.repeats, RepeatUntil) else None

    @property
    def fewest_repeats(self) -> int:
        return self.repeats.at_least if isinstance(self.repeats, RepeatUntil) else self.repeats

    @property
    def most_repeats(self) -> int:
        return self.repeats.at_most if isinstance(self.repeats, RepeatUntil) else self.repeats

    @field_validator("title")
    @classmethod
    def _read_title(cls, title: str) -> str:
        """Return the title without the line end of a block (`title: |`). Raises ValueError for control characters."""
        title = title.rstrip("\n")
        for position, character in enumerate(title, start=1):
            if not character.isprintable():
                allowed = "one line of text without control characters"
                raise ValueError(f"character {position} is U+{ord(character):04X}; allowed: {allowed}")
        return title

    @model_validator(mode="after")
    def _check_end_before_limit(self) -> "Campaign":
        """Check that the time limit does not stop a command before `work.seconds` ends it. Raises ValueError."""
        seconds, limit = self.work.seconds, self.resources.time_limit
        if seconds is not None and seconds >= 60 * limit:
            fault = f"a run is stopped after resources.time_limit, which is {limit:g} minutes"
            raise ValueError(f"work.seconds {seconds:g}: {fault}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _move_placeholders(cls, data: Any) -> Any:
        """Move the values of the command's placeholders, which stand beside the axes, into `settings`."""
        return move_placeholders_to_settings(data) if isinstance(data, dict) else data


def tokenizer_entries(tokenizer: str) -> int:
    """Return the number of entries of the tokenizer of this name, end-of-text included."""
    return ENTRIES[tokenizer] if tokenizer in ENTRIES else int(tokenizer.removeprefix("bpe-"))


def shape_of(model: str | Shape | TransformersModel) -> Shape | TransformersModel:
    """Return the shape of a model that is given by name. Shapes and models of transformers are returned as they are."""
    return SHAPES[model] if isinstance(model, str) else model
