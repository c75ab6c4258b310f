"""A command as the workload: its placeholders, and what they stand for in a cell."""

import contextlib
import math
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.errors import UserError, did_you_mean, same_name

LARGEST_FILE = 64 << 20  # bytes; a larger one is data
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
NUMBER = re.compile(r"[+-]?\d*\.?\d+(?:[eE][+-]?\d+)?")
# With a format, not closed, with blanks, in another spelling, in other brackets.
BROKEN = re.compile(
    r"\{([a-z]\w*)(?:[:!][0-9.,]*[a-z]\}|\s|$)|\{\s+([a-z]\w*)\s*\}|\{([A-Za-z][\w.-]*)\}|[<%@[]([a-z]\w*)[]>%@]"
)
# What a placeholder of the command means without standing under `vary`.
OF_GEOMETRY = ("devices", "nodes", "devices_per_node")
OF_BATCH = ("global_batch", "micro_batch", "accumulation")  # of two and the devices the third one follows
OF_WORK = ("steps", *OF_BATCH, "seed")
OF_EXECUTION = ("threads_per_device",)
OF_RUN = ("repeat", "host", "port")  # host and port: where the ranks of several nodes meet
BUILT_IN = (*OF_GEOMETRY, *OF_WORK, *OF_EXECUTION, *OF_RUN)

# Who reads the log of a command: a class of `scaleproof audit` for each program that it knows.
Reader = Literal[
    "RankBlocks",
    "GptNeoX",
    "Megatron",
    "NeMo",
    "Nanotron",
    "TorchTitan",
    "LlmC",
    "NanoChat",
    "ModdedNanoGPT",
    "MaxText",
    "NanoGPT",
    "Paddle",
    "Composer",
    "Batches",
    "MLPerf",
    "DLLogger",
    "HuggingFaceConsole",
    "TfCnnBenchmarks",
    "Keras",
    "TensorFlowEstimator",
    "DeepSpeed",
    "KeyValues",
]
Scalar = str | int | float | bool
Amount = Annotated[int, Field(ge=1, le=10**15)] | Annotated[str, Field(min_length=1)]


class Setting(NamedTuple):
    """A value of a free axis."""

    label: str  # in names of cells
    text: str  # in the command

    def __str__(self) -> str:
        """Return the label: how the value is called."""
        return self.label

    @classmethod
    def from_value(cls, name: str, value: Scalar) -> "Setting":
        """Return the setting of a plain value of axis `name`, with which labels of numbers and bools begin: "lr0.1".

        Quotes of YAML change nothing in a command, and so nothing in a label.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text in ("true", "false"):
            return cls(name if text == "true" else f"no{name}", text)
        return cls(f"{name}{text}" if NUMBER.fullmatch(text) else text, text)


class Patterns(Section):
    """Figures by regular expressions, each with one group, looked for in every line of what the command prints."""

    tokens_per_s: str | None = key(None, "Tokens per second.", "none")
    samples_per_s: str | None = key(None, "Samples per second.", "none")
    step_ms: str | None = key(None, "Milliseconds of one step.", "none")
    step_s: str | None = key(None, "Seconds of one step.", "none")
    loss: str | None = key(None, "The training loss; on the same line, or the last one before it.", "none")
    step: str | None = key(
        None, "The number of the step on the same line; counted where it is not given. Alone: lines are timed.", "none"
    )

    @model_validator(mode="after")
    def _check_patterns(self) -> "Patterns":
        """Check that each pattern has one group, and that one finds a rate, a time or a step. Raises ValueError."""
        given = self.model_dump(exclude_none=True)
        for name, pattern in given.items():
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                raise ValueError(f"{name}: {pattern} is no regular expression: {error}") from None
            if groups != 1:
                fault = f"has {groups} groups in parentheses; exactly one, around the number"
                raise ValueError(f"{name}: {pattern} {fault}")
            if re.fullmatch(r"/[^/]*[A-Za-z]{2}[^/]*/", re.sub(r"\\.", "", pattern)):  # "/step (\d+)/", as in sed
                raise ValueError(f"{name}: {pattern} is written without the slashes: {pattern[1:-1]}")
        if not set(given) - {"loss"}:
            raise ValueError("a pattern for tokens_per_s, samples_per_s, step_ms, step_s or step is needed")
        return self


class PerStep(Section):
    """The work of one optimizer step over all devices: a number, or a product such as "{micro_batch} * {devices}"."""

    tokens: Amount | None = key(None, "Tokens of a step.", "tokens")
    samples: Amount | None = key(None, "Samples of a step, where nothing counts tokens.", "samples")
    steps: Literal[1] | None = key(None, "1: steps are compared, whatever they are.", "steps")

    @model_validator(mode="after")
    def _check_one_key(self) -> "PerStep":
        """Check that exactly one key is given. Raises ValueError."""
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give one of tokens, samples and steps")
        return self

    @property
    def unit(self) -> Literal["tokens", "samples", "steps"]:
        """The key that is given: what the work is counted in."""
        if self.tokens is not None:
            return "tokens"
        return "steps" if self.samples is None else "samples"

    @property
    def amount(self) -> Amount:
        """How much of `unit` a step is, as it is written."""
        return self.tokens or self.samples or 1


def placeholders(text: str) -> list[str]:
    """Return the names in braces, each once, in their order."""
    return list(dict.fromkeys(PLACEHOLDER.findall(text)))


def free_axes(command: str) -> list[str]:
    """Return the placeholders of a command that mean nothing by themselves: they are axes of the campaign."""
    return [name for name in placeholders(command) if name not in BUILT_IN]


def move_placeholders_to_settings(data: dict[str, object]) -> dict[str, object]:
    """Move the values of the command's placeholders into `settings`, apart from the axes. Returns the new content.

    In `vary`, `cells` and `exclude` of a campaign file, people write placeholders beside the axes.
    """
    workload = data.get("workload")
    command = workload.get("command") if isinstance(workload, dict) else None
    free = free_axes(command) if isinstance(command, str) else []
    if not free:
        return data

    def move(choice: object) -> object:
        """Move the placeholders of one choice into `settings`. Returns anything but a mapping as it is."""
        if not isinstance(choice, dict):
            return choice
        settings = {name: value for name, value in choice.items() if name in free}
        axes = {name: value for name, value in choice.items() if name not in free}
        return axes | {"settings": settings} if settings else axes

    moved = dict(data)
    for section in ("cells", "exclude"):
        choices = data.get(section)
        if isinstance(choices, list):
            moved[section] = [move(choice) for choice in choices]
    if "vary" in data:
        moved["vary"] = move(data["vary"])
    return moved


def check_axes(command: str, settings: Collection[str], varied: Iterable[str]) -> None:
    """Check that each free placeholder of a command has a value, and each axis an effect. Raises UserError.

    `settings`: the free axes that have values; each must be a placeholder. `varied`: all axes that have values.
    """
    free = free_axes(command)
    if wrong_braces := re.search(r"[{$]({[a-z][a-z0-9_]*})}?", command):  # ${lr} or {{lr}}
        advice = "without the $" if wrong_braces[0].startswith("$") else "in single braces"
        raise UserError(f"workload.command: write {wrong_braces[1]}, {advice}", ("workload", "command"))
    for broken in BROKEN.finditer(command):  # {lr:.2f}, { lr }, {args.lr}, {lr without its end; [4]: <lr> or [lr]
        given, known = next(filter(None, broken.groups())).rpartition(".")[2], (*BUILT_IN, *settings)
        name = given if given in known or broken[4] else same_name(given, known)
        if name in known and not PLACEHOLDER.fullmatch(broken[0]):
            fault = f"{broken[0].strip()} is not filled in; write {{{name}}}"
            raise UserError(f"workload.command: {fault}", ("workload", "command"))
    for name in settings:
        if name not in free:
            names = ", ".join(f"{{{placeholder}}}" for placeholder in free) or "none"
            hint = f"{did_you_mean(name, free)} Placeholders: {names}"
            raise UserError(f'"{name}" is no placeholder of workload.command.{hint}', ("vary", name))
    for name in free:
        if name == "geometry":  # a cell has it, under other names
            advice = "write {nodes}, {devices_per_node} or {devices}"
            raise UserError(f"workload.command: {{geometry}} stands for nothing; {advice}", ("workload", "command"))
        if name in varied and name not in settings:
            problem = f"{{{name}}} needs another name, as {name} is a key of every campaign"
            raise UserError(f"workload.command: {problem}", ("vary", name))
        if name not in settings:
            advice = f"list its values under vary ({name}: [..., ...]) or, without vary, in each entry of cells"
            advice += f".{did_you_mean(name, BUILT_IN)}"
            raise UserError(f"workload.command: {{{name}}} has no value; {advice}", ("workload", "command"))
    effective = {*settings, "geometry", *OF_EXECUTION, *placeholders(command)}
    # Each of several programs may have a batch of its own, which per_step then says.
    if settings or not effective.isdisjoint(OF_BATCH):
        effective |= {*OF_BATCH}
    for name in varied:
        if name not in effective:
            raise UserError(f"vary.{name}: workload.command has no {{{name}}}, so it changes nothing", ("vary", name))


def fill_in(text: str, values: Mapping[str, object]) -> str:
    """Replace every placeholder that has a value. Other braces stay."""
    return PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)


def split_command(command: str) -> list[str]:
    """Split a command into words as a shell does, expanding nothing. Raises UserError where a quote is open."""
    try:
        words = shlex.split(command.replace("\\\n", ""))  # a backslash ends a line that goes on in the next one
    except ValueError as error:
        raise UserError(f"workload.command: {command}: {error}", ("workload", "command")) from None
    if not words:
        raise UserError("workload.command is empty", ("workload", "command"))
    return words


def existing_files(words: Iterable[str]) -> list[str]:
    """Return the scripts and configurations that a command names, each once: no interpreter, no large file."""
    files = []
    for word in words:
        with contextlib.suppress(OSError, ValueError):  # a word that no file can be called
            path = Path(word)
            if path.is_file() and path.stat().st_size <= LARGEST_FILE and not path.name.startswith("python"):
                files.append(word)
    return list(dict.fromkeys(files))


def evaluate_product(text: Amount, values: Mapping[str, object]) -> int:
    """Return the value of a number or a product: "{micro_batch} * {devices}" is 32 for micro_batch 8 and devices 4.

    Raises UserError for any other text.
    """
    filled_in = fill_in(str(text), values)
    try:
        return math.prod(int(factor.strip()) for factor in filled_in.split("*"))
    except ValueError:
        absent = placeholders(filled_in)
        unknown = "".join(f"; {{{name}}} has no value here.{did_you_mean(name, values)}" for name in absent)
        known = ", ".join(f"{{{name}}}" for name in values)
        fault = f'"{text}" is no product of whole numbers and placeholders of the command ({known}){unknown}'
        raise UserError(f"workload.per_step: {fault}", ("workload", "per_step")) from None
