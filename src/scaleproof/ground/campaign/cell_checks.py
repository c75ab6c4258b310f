"""What no single key of a campaign can know: whether the keys of a cell go together."""

import re
from typing import Protocol

from scaleproof.ground.campaign.batch import Batch, takes_global_batch
from scaleproof.ground.campaign.config import (
    AXES,
    SECTIONS,
    Campaign,
    Choice,
    Work,
    Workload,
    shape_of,
    tokenizer_entries,
)
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.campaign.model_shapes import SHAPES, EncoderShape, ModelShape, Shape
from scaleproof.ground.campaign.strategies import MATTERS_TO, is_deepspeed, without_offload, zero_stage
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import UserError

MOST_ENTRIES = 1_000_000  # of a tokenizer; the largest in use has a quarter
MOST_PARAMETERS = 10**13
OF_SHELLS = ("|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "&>")  # words that a shell obeys
NEED_CUDA = {"precision": ("fp16", "tf32"), "attention": ("cudnn",)}  # keys of `execution` -> values
VARIABLE = re.compile(  # --lr=$LR, $(nproc), ~/train.py, `nproc`: no text of a program
    r"[^\s;'\"]*\$(?:\{?[A-Za-z_]\w*\}?|\()[^\s;'\"]*|~(?:/\S*)?|`\S+"
)
SECRET = re.compile(  # in the form of a known service's, or as the value of an option or variable for one
    r"(?<![\w-])((?:hf_|sk-|gh[opsu]_|github_pat_|glpat-|AKIA)[\w-]{16,})"
    r"|(?:api[-_]?key|(?:--|auth[-_]|access[-_])token|password|secret)[=\s]['\"]?(?=[\w-]*\d)([\w-]{16,})",
    re.IGNORECASE,
)
# Section -> its keys that mean something for a command too. The batch and the seed are placeholders of a command.
OF_COMMANDS = {
    "workload": {"command", "figures", "per_step", "rate_of"},
    "work": set(Work.model_fields) - {"optimizer", "schedule", "validation_samples"},
    "execution": {"geometry", "device", "threads_per_device"},
}


class Checked(Protocol):
    """The properties of a cell (`cells.Cell`) that are checked. `batch`, `words` and `per_step` may raise UserError."""

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


def _fault(key: str, text: str) -> UserError:
    """Return the error for a key such as "work.steps". `text` follows the key in the message."""
    return UserError(f"{key}{text}", tuple(key.split(".")))


def is_used_of_section(campaign: Campaign, axis: str) -> bool:
    """Return whether a cell, or an arm of a comparison, takes the value of `axis` from its section.

    `axis`: a key that can vary. Where `vary` lists its values, or `cells` all cells, only an entry of `cells` or an arm
    that gives no value of its own takes that of the section.
    """
    is_of_combinations = getattr(campaign.vary, axis) is None and not campaign.lists_all_cells
    return is_of_combinations or any(getattr(choice, axis) is None for choice in _single_choices(campaign))


def _single_choices(campaign: Campaign) -> list[Choice]:
    """Return the entries of `cells`, and the arms of comparisons."""
    arms = (arm for comparison in campaign.compare for arm in (comparison.a, comparison.b))
    return [*campaign.cells, *arms]


def check_campaign(campaign: Campaign) -> None:
    """Check that each given key has an effect, and none is overruled by `vary` or a command. Raises UserError."""
    for axis, (section, _) in AXES.items():
        value = getattr(getattr(campaign, section), axis)
        varied = getattr(campaign.vary, axis)
        if varied is None and axis in campaign.vary.model_fields_set:
            raise _fault(f"vary.{axis}", " has no value; list some, or leave it out")
        is_given = axis in getattr(campaign, section).model_fields_set
        values = varied or [getattr(choice, axis) for choice in _single_choices(campaign)]
        if is_given and not is_used_of_section(campaign, axis) and value not in values:
            source = f"vary.{axis} lists" if varied else "their own are"
            text = ", ".join(dict.fromkeys(map(str, values)))
            raise _fault(f"{section}.{axis}", f" is {value}, and no cell has it: {source} {text}. Keep one of the two")

    if campaign.workload.command is not None:
        _check_beside_command(campaign)
        return
    for name in sorted(OF_COMMANDS["workload"] & campaign.workload.model_fields_set):
        fault = "has no value" if name == "command" else "is for workload.command, which is not there; leave it out"
        raise _fault(f"workload.{name}", f" {fault}")
    rows = campaign.workload.vocab_size
    if rows != "derive" and "vocab_multiple" in campaign.workload.model_fields_set:
        fault = f" is of a derived vocab_size, which is {rows} here; give one of the two"
        raise _fault("workload.vocab_multiple", fault)
    _check_strategies(campaign)


def _check_strategies(campaign: Campaign) -> None:
    """Check that each given key of `execution` is read by a strategy of the campaign. Raises UserError."""
    named = [getattr(choice, "strategy", None) for choice in _single_choices(campaign)]
    of_section = [campaign.execution.strategy] if is_used_of_section(campaign, "strategy") else []
    varied = getattr(campaign.vary, "strategy", None) or of_section
    strategies = {without_offload(name) for name in (*named, *varied) if name}
    for name, of_strategies in MATTERS_TO.items():  # key of `execution` -> the strategies that read it
        default = Execution.model_fields[name].default
        for section, values in (
            ("execution", [getattr(campaign.execution, name)]),
            ("vary", getattr(campaign.vary, name)),
        ):
            changed_values = {*(values or ())} - {default}  # the default needs no strategy that reads it
            if changed_values and strategies.isdisjoint(of_strategies):
                also = ", with or without -offload" * any(map(is_deepspeed, of_strategies))
                fault = f" says nothing to {', '.join(sorted(strategies))}; it is of {', '.join(of_strategies)}{also}"
                raise _fault(f"{section}.{name}", fault)


def _check_beside_command(campaign: Campaign) -> None:
    """Check that a campaign with a command has no key that only the trainer reads. Raises UserError."""
    for section in SECTIONS:
        given = getattr(campaign, section).model_fields_set
        for name in sorted(given - OF_COMMANDS[section]):
            fault = ": workload.command does not read it; say it in the command itself, and leave it out"
            raise _fault(f"{section}.{name}", fault)
    if campaign.trace.cells:
        raise _fault("trace.cells", ": a command is not traced; leave it out")
    if campaign.forecast.enabled:
        raise _fault("forecast", ": nothing is known of a command's model; leave it out")
    if campaign.compare:
        raise _fault("compare", ": list both arms of a command under vary; they are paired by repeat")


def check_command(cell: Checked) -> None:
    """Check that the command of a cell needs no shell, and that the keys beside it go together. Raises UserError."""
    assert cell.command is not None
    if cell.searched:
        raise _fault("work.micro_batch", ": a command needs a number; nothing looks for one")
    has_batch = isinstance(cell.work.micro_batch, int) or takes_global_batch(
        cell.work, cell.command, cell.workload.per_step
    )
    if "{micro_batch}" in cell.command and not has_batch:
        raise _fault(
            "work.micro_batch", ": the command's {micro_batch} has no value; give it, or global_batch, a number"
        )
    _check_words(cell.words, cell.command)
    cell.per_step  # noqa: B018  (raises where workload.per_step is no product of whole numbers)
    is_timed_as_whole = cell.workload.figures == "whole"
    if cell.work.fewer_steps is not None:  # work.steps: [fewer, more]: the step's time is the difference of two runs
        if "{steps}" not in cell.command:
            raise UserError("workload.command has no {steps}, so that work.steps changes nothing", ("work", "steps"))
        if not is_timed_as_whole:
            raise _fault("work.steps", ": two lengths are for workload.figures: whole")
    if is_timed_as_whole and cell.work.seconds is not None:
        fault = " ends a program early, and workload.figures: whole times it to its end; give one of the two"
        raise _fault("work.seconds", fault)
    if is_timed_as_whole and cell.workload.rate_of is not None:
        raise _fault("workload.rate_of", " is of a printed rate, and workload.figures: whole reads none; leave it out")


def _check_words(words: list[str], command: str) -> None:
    """Check that a command has no word that only a shell obeys, as no shell reads it. Raises UserError."""
    obeyed = (word for word in words if word in OF_SHELLS or word.endswith(";") or VARIABLE.fullmatch(word))
    shell_words = [word for word in obeyed if re.search(rf"(?<!\S){re.escape(word)}(?!\S)", command)]  # without quotes
    if secret := SECRET.search(command):
        fault = f"{(secret[1] or secret[2])[:4]}... looks like a password or token, and every record of a run has the"
        advice = "command; leave it out, and set the variable that the program reads (HF_TOKEN, ...) before you start"
        raise _fault("workload.command", f": {fault} {advice}")
    name, equals, _ = words[0].partition("=")
    sets_variable = equals and name.isidentifier()  # NAME=value program
    if sets_variable and not shell_words:
        fault = f"no shell reads it, so that {words[0]} is no variable; write env {words[0]} ..."
        raise _fault("workload.command", f": {fault}")
    if re.search(rf"\n\s*{re.escape(words[0])}\s", command):
        raise _fault("workload.command", f": {words[0]} begins two lines, and no shell reads them; write bash -c '...'")
    if shell_words:
        fault = f"no shell reads it, so that {shell_words[0]} is a plain word; write bash -c '...' around it"
        advice = ", or {name} for a value under vary" if "$" in shell_words[0] else ""
        raise _fault("workload.command", f": {fault}{advice}")


def check_cell(cell: Checked) -> None:
    """Check that the keys of a cell of the trainer go together. Raises UserError for the first that do not."""
    cell.batch  # noqa: B018  (raises where micro-batch x accumulation x devices is not the global batch)
    if cell.work.seconds is not None:
        raise _fault("work.seconds", " is for workload.command; work.steps says how long ours train")
    if cell.work.fewer_steps is not None:
        raise _fault(
            "work.steps", ": two lengths are for a command with workload.figures: whole; write one, without fewer_steps"
        )

    shape, seq_len = shape_of(cell.workload.model), cell.workload.seq_len
    if shape.context is not None and seq_len > shape.context:
        raise _fault("workload.seq_len", f" {seq_len} is longer than the model's context of {shape.context} tokens")
    if cell.work.schedule.name == "constant" and "final_fraction" in cell.work.schedule.model_fields_set:
        raise _fault("work.schedule.final_fraction", " is where linear and cosine end; name one, or leave it out")
    ramp_steps, work = cell.work.schedule.ramp_steps, cell.work
    if ramp_steps > work.warmup_steps + work.steps:
        steps = f"{work.warmup_steps} warm-up + {work.steps} timed steps"
        raise _fault("work.schedule.ramp_steps", f" {ramp_steps} is more than the run has: {steps}")

    bucket, strategy = cell.execution.bucket_elements, cell.execution.strategy
    if bucket != "auto" and bucket % 2 and zero_stage(strategy) in (1, 2):
        fault = f"is odd; buckets of {strategy} have an even number of elements, e.g. {bucket + 1}"
        raise _fault("execution.bucket_elements", f" {bucket} {fault}")
    if cell.execution.compile == "reduce-overhead" and strategy != "single":
        reason = f"{strategy} moves parameters or gradients that a CUDA graph would have to find where they were"
        raise _fault("execution.compile", f": reduce-overhead is for strategy single; {reason}")
    if cell.execution.start == "forked" and cell.execution.device == "cuda":
        reason = "is for the CPU, as a forked process cannot use CUDA; leave it out, or set device: auto or cpu"
        raise _fault("execution.start", f" forked {reason}")
    precision = cell.execution.precision
    if cell.execution.device == "cpu":
        for name, needs in NEED_CUDA.items():
            value = getattr(cell.execution, name)
            if value in needs:
                raise _fault(f"execution.{name}", f" {value} needs a CUDA device, and execution.device is cpu")
    if cell.execution.reduce_dtype == "bf16" and precision != "bf16":
        raise _fault("execution.reduce_dtype", f" bf16 is for precision bf16, and the cell's is {precision}")

    _check_classifier(cell)
    _check_vocabulary(cell)
    if not isinstance(shape, TransformersModel):
        _check_task(cell, shape)
        _check_shape(cell, shape)


def _check_shape(cell: Checked, shape: Shape) -> None:
    """Check that the heads divide the width, and that parameters are not absurdly many. Raises UserError."""
    if shape.width % shape.heads:
        name = "width" if isinstance(shape, ModelShape) else "d_model"
        raise _fault("workload.model", f": {name} {shape.width} is not a multiple of heads {shape.heads}")
    # About: the matrices of all blocks, and the tables of tokens and positions.
    parameters = 12 * shape.layers * shape.width**2 + (cell.vocab_size + shape.context) * shape.width
    if parameters > MOST_PARAMETERS:
        fault = f" has about {parameters:.1e} parameters; at most {MOST_PARAMETERS:.0e} are allowed"
        raise _fault("workload.model", fault)


def _check_classifier(cell: Checked) -> None:
    """Check that a classification uses the loss, attention and compilation of encoders. Raises UserError."""
    if cell.workload.task != "classification":
        return
    if cell.execution.loss != "plain":
        raise _fault("execution.loss", ": encoders have plain only; their loss is small")
    if cell.execution.attention != "sdpa":
        raise _fault("execution.attention", ": encoders have sdpa only")
    if cell.execution.compile == "loss":
        raise _fault("execution.compile", ": loss is for language models alone")


def entries_of_possible(tokenizer: str) -> int:
    """Return the number of entries of a tokenizer. Raises UserError where it is too large, or too small to be one."""
    # A name of more than 20 characters has a number too long to be read.
    if len(tokenizer) > 20 or (entries := tokenizer_entries(tokenizer)) > MOST_ENTRIES:
        raise _fault("workload.tokenizer", f" {tokenizer} is too large; at most bpe-{MOST_ENTRIES}")
    if entries < 257:
        fault = f" {tokenizer} is too small: the 256 bytes and end-of-text need bpe-257"
        raise _fault("workload.tokenizer", fault)
    return entries


def _check_vocabulary(cell: Checked) -> None:
    """Check that the token table has a row for each entry of the tokenizer, and not absurdly many. Raises UserError."""
    tokenizer, rows = cell.workload.tokenizer, cell.workload.vocab_size
    entries = entries_of_possible(tokenizer)
    if rows == "derive":
        return
    if rows < entries:
        raise _fault("workload.vocab_size", f" {rows} is smaller than the {entries} entries of {tokenizer}")
    if rows % (multiple := cell.workload.vocab_multiple):
        fault = f"{rows} is not a multiple of workload.vocab_multiple {multiple}; give one of the two"
        raise UserError(f"workload.vocab_size {fault}", ("workload", "vocab_multiple"))


def _check_task(cell: Checked, shape: Shape) -> None:
    """Check that a GPT-2 is trained for language modelling, an encoder for classification. Raises UserError."""
    task, is_encoder = cell.workload.task, isinstance(shape, EncoderShape)
    if is_encoder != (task == "classification"):
        fitting = [name for name, other in SHAPES.items() if isinstance(other, EncoderShape) != is_encoder]
        keys = "layers, width, ...; d_model makes an encoder" if is_encoder else "d_model, heads, ..."
        fault = f"{'an encoder' if is_encoder else 'a GPT-2'} cannot be trained for {task}"
        raise _fault("workload.model", f": {fault}; allowed: {', '.join(fitting)}, or a shape ({keys})")
