"""What no single key of a campaign can know: whether the keys of a cell go together."""

from typing import TYPE_CHECKING

from scaleproof.ground.campaign.config import entries_of, shape_of
from scaleproof.ground.campaign.model_shapes import SHAPES, EncoderShape, ModelShape, Shape
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import UserError

if TYPE_CHECKING:
    from scaleproof.ground.campaign.cells import Cell

MOST_ENTRIES = 1_000_000  # of a tokenizer; four times the largest in use
MOST_PARAMETERS = 10**13


def check_command(cell: "Cell") -> None:
    """That a command can be started as it is written. Raises UserError."""
    assert cell.command is not None
    if cell.searched:
        raise UserError("work.micro_batch: a command needs a number; nothing looks for one", ("work", "micro_batch"))
    cell.words  # noqa: B018  (raises where a quote is open)
    cell.per_step  # noqa: B018  (raises where it is no product)
    whole = cell.workload.figures == "whole"
    if cell.work.fewer_steps is not None and "{steps}" not in cell.command:
        raise UserError("workload.command has no {steps}, so that work.steps changes nothing", ("work", "steps"))
    if not whole and cell.work.fewer_steps is not None:
        raise UserError("work.steps: two lengths are for workload.figures: whole", ("work", "steps"))


def check(cell: "Cell") -> None:
    """What no single key can know. Raises UserError."""
    cell.batch  # noqa: B018  (raises where the arithmetic fails)
    shape, seq_len = shape_of(cell.workload.model), cell.workload.seq_len
    if shape.context is not None and seq_len > shape.context:
        raise UserError(
            f"workload.seq_len {seq_len} is longer than the model's context of {shape.context} tokens",
            ("workload", "seq_len"),
        )
    ramp, steps = cell.work.schedule.ramp_steps, cell.work.warmup_steps + cell.work.steps
    if ramp > steps:
        raise UserError(
            f"work.schedule.ramp_steps {ramp} is more than the run has: "
            f"{cell.work.warmup_steps} warm-up + {cell.work.steps} timed steps",
            ("work", "schedule", "ramp_steps"),
        )
    bucket, strategy = cell.execution.bucket_elements, cell.execution.strategy
    if bucket != "auto" and bucket % 2 and strategy.startswith(("zero1", "zero2")):
        raise UserError(
            f"execution.bucket_elements {bucket} is odd; buckets of {strategy} have an even number of elements, "
            f"e.g. {bucket + 1}",
            ("execution", "bucket_elements"),
        )
    _check_classifier(cell)
    _check_vocabulary(cell)
    if not isinstance(shape, TransformersModel):
        _check_task(cell, shape)
        _check_shape(cell, shape)


def _check_shape(cell: "Cell", shape: Shape) -> None:
    """Heads of whole numbers of features, and not absurdly many parameters. Raises UserError."""
    if shape.width % shape.heads:
        name = "width" if isinstance(shape, ModelShape) else "d_model"
        raise UserError(
            f"workload.model: {name} {shape.width} is not a multiple of heads {shape.heads}", ("workload", "model")
        )
    parameters = 12 * shape.layers * shape.width**2 + (cell.vocab_size + shape.context) * shape.width
    if parameters > MOST_PARAMETERS:
        raise UserError(
            f"workload.model has about {parameters:.1e} parameters; at most {MOST_PARAMETERS:.0e} are allowed",
            ("workload", "model"),
        )


def _check_classifier(cell: "Cell") -> None:
    """What encoders have no choice of. Raises UserError."""
    if cell.workload.task != "classification":
        return
    if cell.execution.loss != "plain":
        raise UserError("execution.loss: encoders have plain only; their loss is small", ("execution", "loss"))
    if cell.execution.attention != "sdpa":
        raise UserError("execution.attention: encoders have sdpa only", ("execution", "attention"))


def _check_vocabulary(cell: "Cell") -> None:
    """Enough rows for the tokenizer, and not absurdly many. Raises UserError."""
    workload = cell.workload
    if len(workload.tokenizer) > 20 or (entries := entries_of(workload.tokenizer)) > MOST_ENTRIES:
        raise UserError(
            f"workload.tokenizer {workload.tokenizer} is too large; at most bpe-{MOST_ENTRIES}",
            ("workload", "tokenizer"),
        )
    if entries < 257:
        raise UserError(
            f"workload.tokenizer {workload.tokenizer} is too small: the 256 bytes and end-of-text need bpe-257",
            ("workload", "tokenizer"),
        )
    rows = workload.vocab_size
    if rows == "derive":
        return
    if rows < entries:
        raise UserError(
            f"workload.vocab_size {rows} is smaller than the {entries} entries of {workload.tokenizer}",
            ("workload", "vocab_size"),
        )
    if rows % workload.vocab_multiple:
        raise UserError(
            f"workload.vocab_size {rows} is not a multiple of workload.vocab_multiple {workload.vocab_multiple}; "
            "give one of the two",
            ("workload", "vocab_multiple"),
        )


def _check_task(cell: "Cell", shape: Shape) -> None:
    """A GPT-2 for language modelling, an encoder for classification."""
    task, encoder = cell.workload.task, isinstance(shape, EncoderShape)
    if encoder != (task == "classification"):
        allowed = [name for name, other in SHAPES.items() if isinstance(other, EncoderShape) != encoder]
        own = "layers, width" if encoder else "d_model, heads"
        raise UserError(
            f"workload.model: {'an encoder' if encoder else 'a GPT-2'} cannot be trained for {task}; "
            f"allowed: {', '.join(allowed)}, or a shape ({own}, ...)",
            ("workload", "model"),
        )
