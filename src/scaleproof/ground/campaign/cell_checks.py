"""What no single key of a campaign can know: whether the keys of a cell go together."""

import re
from typing import Protocol

from scaleproof.ground.campaign.batch import Batch
from scaleproof.ground.campaign.config import AXES, SECTIONS, Campaign, Work, Workload, shape_of, tokenizer_entries
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.campaign.model_shapes import SHAPES, EncoderShape, ModelShape, Shape
from scaleproof.ground.campaign.strategies import MATTERS_TO, without_offload, zero_stage
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import UserError

MOST_ENTRIES = 1_000_000  # of a tokenizer; four times the largest in use
MOST_PARAMETERS = 10**13
OF_SHELLS = ("|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "&>")  # words of a command that a shell obeys
VARIABLE = re.compile(r"[^\s;'\"]*\$(?:\{?[A-Za-z_]\w*\}?|\()[^\s;'\"]*")  # --lr=$LR, $(nproc): no text of a program
# Keys of the trainer that mean something of a command as well; the batch and the seed are placeholders of it.
OF_COMMANDS = {
    "workload": {"command", "figures", "per_step", "rate_of"},
    "work": set(Work.model_fields) - {"optimizer", "schedule", "validation_samples"},
    "execution": {"geometry", "device", "threads_per_device"},
}


class Checked(Protocol):
    """What is looked at of a cell (`cells.Cell`); reading `batch`, `words` or `per_step` raises where it cannot be."""

    @property
    def workload(self) -> Workload: ...
    @property
    def work(self) -> Work: ...
    @property
    def execution(self) -> Execution: ...
    @property
    def searched(self) -> str | None: ...
    @property
    def command(self) -> str | None: ...
    @property
    def batch(self) -> Batch: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def words(self) -> list[str]: ...
    @property
    def per_step(self) -> float | None: ...


def is_used_of_section(campaign: Campaign, axis: str) -> bool:
    """Return whether a cell, or an arm of a comparison, takes the value of `axis` from its section.

    `axis`: a key that can vary. Where `vary` lists its values, only cells that name none do.
    """
    choices = [*campaign.cells, *(arm for comparison in campaign.compare for arm in (comparison.a, comparison.b))]
    return getattr(campaign.vary, axis) is None or any(axis not in choice.model_fields_set for choice in choices)


def check_campaign(campaign: Campaign) -> None:
    """Check that no key is without effect, beside `vary`, or beside a command. Raises UserError."""
    for axis, (section, _) in AXES.items():
        value = getattr(getattr(campaign, section), axis)
        varied = getattr(campaign.vary, axis)
        is_given = axis in getattr(campaign, section).model_fields_set
        if is_given and not is_used_of_section(campaign, axis) and value not in varied:
            raise UserError(
                f"{section}.{axis} is {value}, and no cell has it: vary.{axis} lists {', '.join(map(str, varied))}. "
                "Keep one of the two",
                (section, axis),
            )
    if campaign.workload.command is not None:
        _check_beside_command(campaign)
        return
    for name in sorted(OF_COMMANDS["workload"] & campaign.workload.model_fields_set):
        raise UserError(
            f"workload.{name} is for workload.command, which is not there; leave it out", ("workload", name)
        )
    if campaign.workload.vocab_size != "derive" and "vocab_multiple" in campaign.workload.model_fields_set:
        rows = campaign.workload.vocab_size
        raise UserError(
            f"workload.vocab_multiple is of a derived vocab_size, which is {rows} here; give one of the two",
            ("workload", "vocab_multiple"),
        )
    _check_strategies(campaign)


def _check_strategies(campaign: Campaign) -> None:
    """Check that a strategy of the campaign reads each key of `execution` that is given. Raises UserError."""
    choices = [*campaign.cells, *(arm for comparison in campaign.compare for arm in (comparison.a, comparison.b))]
    named = [getattr(choice, "strategy", None) for choice in choices]
    varied = getattr(campaign.vary, "strategy", None) or [campaign.execution.strategy]
    known = {without_offload(name) for name in (*named, *varied) if name}
    for name, of_strategies in MATTERS_TO.items():  # key of `execution` -> the strategies that read it
        given = getattr(campaign.execution, name)
        if given != Execution.model_fields[name].default and known.isdisjoint(of_strategies):
            raise UserError(
                f"execution.{name} says nothing to {', '.join(sorted(known))}; it is of {', '.join(of_strategies)}",
                ("execution", name),
            )


def _check_beside_command(campaign: Campaign) -> None:
    """Check that nothing is asked of a command that only the trainer does. Raises UserError."""
    for section in SECTIONS:
        given = getattr(campaign, section).model_fields_set
        for name in sorted(given - OF_COMMANDS[section]):
            raise UserError(
                f"{section}.{name}: workload.command does not read it; say it in the command itself, and leave it out",
                (section, name),
            )
    if campaign.trace.cells:
        raise UserError("trace.cells: a command is not traced; leave it out", ("trace", "cells"))
    if campaign.forecast.enabled:
        raise UserError("forecast: nothing is known of a command's model; leave it out", ("forecast",))
    if campaign.compare:
        raise UserError("compare: list both arms of a command under vary; they are paired by repeat", ("compare",))


def check_command(cell: Checked) -> None:
    """Check that the command of a cell needs no shell, and that the keys beside it go together. Raises UserError."""
    assert cell.command is not None
    if cell.searched:
        raise UserError("work.micro_batch: a command needs a number; nothing looks for one", ("work", "micro_batch"))
    _check_words(cell.words)
    cell.per_step  # noqa: B018  (raises where workload.per_step is no product of whole numbers)
    is_timed_as_whole = cell.workload.figures == "whole"
    if cell.work.fewer_steps is not None:  # work.steps: [fewer, more]: the step's time is the difference of two runs
        if "{steps}" not in cell.command:
            raise UserError("workload.command has no {steps}, so that work.steps changes nothing", ("work", "steps"))
        if not is_timed_as_whole:
            raise UserError("work.steps: two lengths are for workload.figures: whole", ("work", "steps"))
    if is_timed_as_whole and cell.work.seconds is not None:
        raise UserError(
            "work.seconds ends a program early, and workload.figures: whole times it to its end; give one of the two",
            ("work", "seconds"),
        )


def _check_words(words: list[str]) -> None:
    """Check that a command has no word that only a shell obeys, as no shell reads it. Raises UserError."""
    for_shells = [word for word in words if word in OF_SHELLS or word.endswith(";") or VARIABLE.fullmatch(word)]
    name, equals, _ = words[0].partition("=")
    if equals and name.isidentifier():  # NAME=value program
        for_shells.append(words[0])
    if for_shells:
        raise UserError(
            f"workload.command: no shell reads it, so that {for_shells[0]} is a plain word; "
            "write bash -c '...' around it" + ", or {name} for a value under vary" * ("$" in for_shells[0]),
            ("workload", "command"),
        )


def check_cell(cell: Checked) -> None:
    """Check that the keys of a cell of the trainer go together. Raises UserError at the first that do not."""
    cell.batch  # noqa: B018  (raises where micro-batch x accumulation x devices is not the global batch)
    if cell.work.seconds is not None:
        raise UserError(
            "work.seconds is for workload.command; work.steps says how long ours train", ("work", "seconds")
        )
    if cell.work.fewer_steps is not None:
        raise UserError("work.steps: two lengths are for a command with workload.figures: whole", ("work", "steps"))
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
    if bucket != "auto" and bucket % 2 and zero_stage(strategy) in (1, 2):
        raise UserError(
            f"execution.bucket_elements {bucket} is odd; buckets of {strategy} have an even number of elements, "
            f"e.g. {bucket + 1}",
            ("execution", "bucket_elements"),
        )
    if cell.execution.compile == "reduce-overhead" and strategy != "single":
        raise UserError(
            f"execution.compile: reduce-overhead is for strategy single; {strategy} moves parameters or gradients that "
            "a CUDA graph would have to find where they were",
            ("execution", "compile"),
        )
    if cell.execution.reduce_dtype == "bf16" and cell.execution.precision != "bf16":
        raise UserError(
            f"execution.reduce_dtype bf16 is for precision bf16, and the cell's is {cell.execution.precision}",
            ("execution", "reduce_dtype"),
        )
    _check_classifier(cell)
    _check_vocabulary(cell)
    if not isinstance(shape, TransformersModel):
        _check_task(cell, shape)
        _check_shape(cell, shape)


def _check_shape(cell: Checked, shape: Shape) -> None:
    """Check that the width divides by the heads, and that parameters are not absurdly many. Raises UserError."""
    if shape.width % shape.heads:
        name = "width" if isinstance(shape, ModelShape) else "d_model"
        raise UserError(
            f"workload.model: {name} {shape.width} is not a multiple of heads {shape.heads}", ("workload", "model")
        )
    # About: the matrices of all blocks, and the tables of tokens and positions.
    parameters = 12 * shape.layers * shape.width**2 + (cell.vocab_size + shape.context) * shape.width
    if parameters > MOST_PARAMETERS:
        raise UserError(
            f"workload.model has about {parameters:.1e} parameters; at most {MOST_PARAMETERS:.0e} are allowed",
            ("workload", "model"),
        )


def _check_classifier(cell: Checked) -> None:
    """Check that a classification asks for no loss or attention that encoders do not have. Raises UserError."""
    if cell.workload.task != "classification":
        return
    if cell.execution.loss != "plain":
        raise UserError("execution.loss: encoders have plain only; their loss is small", ("execution", "loss"))
    if cell.execution.attention != "sdpa":
        raise UserError("execution.attention: encoders have sdpa only", ("execution", "attention"))
    if cell.execution.compile == "loss":
        raise UserError("execution.compile: loss is for language models alone", ("execution", "compile"))


def _check_vocabulary(cell: Checked) -> None:
    """Check that the token table has a row for each entry of the tokenizer, and not absurdly many. Raises UserError."""
    workload = cell.workload
    # A name of more than 20 characters has a number so long that there is no need to read it.
    if len(workload.tokenizer) > 20 or (entries := tokenizer_entries(workload.tokenizer)) > MOST_ENTRIES:
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


def _check_task(cell: Checked, shape: Shape) -> None:
    """Check that a GPT-2 is trained for language modelling, an encoder for classification. Raises UserError."""
    task, is_encoder = cell.workload.task, isinstance(shape, EncoderShape)
    if is_encoder != (task == "classification"):
        allowed = [name for name, other in SHAPES.items() if isinstance(other, EncoderShape) != is_encoder]
        keys = "layers, width, ...; d_model makes an encoder" if is_encoder else "d_model, heads, ..."
        raise UserError(
            f"workload.model: {'an encoder' if is_encoder else 'a GPT-2'} cannot be trained for {task}; "
            f"allowed: {', '.join(allowed)}, or a shape ({keys})",
            ("workload", "model"),
        )
