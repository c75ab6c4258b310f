"""From a campaign to its cells: expansion, slugs, fingerprints."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from scaleproof.ground.campaign.batch import SEARCHED, Batch, resolve_batch, takes_global_batch
from scaleproof.ground.campaign.cell_checks import check_cell, check_command
from scaleproof.ground.campaign.command import (
    Scalar,
    Setting,
    check_axes,
    evaluate_product,
    fill_in,
    placeholders,
    split_command,
)
from scaleproof.ground.campaign.config import (
    AXES,
    SECTIONS,
    Campaign,
    Choice,
    Comparison,
    Work,
    Workload,
    shape_of,
    tokenizer_entries,
)
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.campaign.field import axis_prefix
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import UserError
from scaleproof.ground.number_format import integer

YOUNGER_KEYS = ("fsdp_reshard", "reduce_dtype")  # of `execution`: younger than results that people have
# Beyond these a number is a slip of the keyboard, and expanding the campaign would take minutes.
MOST_CELLS, MOST_RUNS = 10_000, 100_000
LONGEST_SLUG = 180  # a name of a folder; most file systems allow 255 bytes
ALWAYS_NAMED = ("strategy", "geometry")  # so that a second strategy or size renames no older cell


@dataclass(frozen=True)
class Cell:
    """One configuration of a campaign, complete and checked."""

    slug: str
    workload: Workload
    work: Work
    execution: Execution
    searched: Literal["largest", "fastest"] | None = None  # its micro-batch was, or is to be, found by trials
    settings: dict[str, Setting] = field(default_factory=dict)  # values of the placeholders of its command

    @property
    def command(self) -> str | None:
        """The command that this cell runs, or None; what only a run knows, such as {steps}, is left open."""
        if self.workload.command is None:
            return None
        return fill_in(self.workload.command, {name: setting.text for name, setting in self.settings.items()})

    def values_of_command(self, repeat: int = 1) -> dict[str, object]:
        """Return {placeholder: value} for those that need no axis, such as {steps}; `repeat`: the number of the run."""
        geometry, batch = self.execution.geometry, self.batch
        return {
            "devices": geometry.n_devices,
            "nodes": geometry.nodes,
            "devices_per_node": geometry.devices_per_node,
            "steps": self.work.steps,
            "global_batch": batch.global_,
            "micro_batch": batch.micro,
            "accumulation": batch.accumulation,
            "seed": self.work.seed,
            "threads_per_device": self.execution.threads_per_device,
            "repeat": repeat,
        }

    @cached_property
    def per_step(self) -> int | None:
        """Tokens or samples of a step of the cell's command; None where the campaign does not say. Raises UserError."""
        given = self.workload.per_step
        texts = {name: setting.text for name, setting in self.settings.items()}
        return evaluate_product(given.amount, self.values_of_command() | texts) if given else None

    @cached_property
    def words(self) -> list[str]:
        """The command line of a run, in words. It is [] without a command. Raises UserError."""
        return split_command(fill_in(self.command, self.values_of_command())) if self.command is not None else []

    @property
    def is_open(self) -> bool:
        """Whether the micro-batch of this cell is still to be found, by trials."""
        return self.work.micro_batch in SEARCHED

    def resolved(self, micro_batch: int) -> "Cell":
        """Return the cell with the micro-batch that trials have found; its name and its plan stay as they are."""
        return replace(self, work=self.work.model_copy(update={"micro_batch": micro_batch}))

    @cached_property
    def batch(self) -> Batch:
        """The batch of the cell with all of its numbers resolved. Raises UserError where they disagree."""
        work, n_devices = self.work, self.execution.geometry.n_devices
        if self.command is not None and not takes_global_batch(work, self.command, self.workload.per_step):
            # Its global batch is unknown: it is derived from the micro-batch, or from 1 where that is no number.
            micro = work.micro_batch if isinstance(work.micro_batch, int) else 1
            work = work.model_copy(update={"global_batch": "derive", "micro_batch": micro})
        return resolve_batch(work, n_devices)

    @property
    def vocab_size(self) -> int:
        """How many rows the model's token table has."""
        rows, multiple = self.workload.vocab_size, self.workload.vocab_multiple
        if rows != "derive":
            return rows
        return -(-tokenizer_entries(self.workload.tokenizer) // multiple) * multiple  # rounded up to a multiple

    @property
    def processes_per_node(self) -> int:
        """How many ranks a node has: one per device, but one for all of them under nn.DataParallel."""
        return 1 if self.execution.strategy == "dp" else self.execution.geometry.devices_per_node

    @property
    def sharing_devices(self) -> int:
        """Devices that share one copy of the training state."""
        geometry = self.execution.geometry
        return sharing_devices(self.execution.strategy, geometry.nodes, geometry.devices_per_node)

    @property
    def world_size(self) -> int:
        """How many ranks a run has, as torch.distributed counts them; `batch.n_devices` is what they drive."""
        return self.execution.geometry.nodes * self.processes_per_node

    @cached_property
    def config(self) -> dict[str, Any]:
        """The effective configuration: every key, batch and vocabulary resolved, the model as a shape."""
        if self.command is not None:
            return self._config_of_command(self.command)
        config: dict[str, Any] = {name: getattr(self, name).model_dump(mode="json") for name in SECTIONS}
        config["workload"]["vocab_size"] = self.vocab_size
        shape = shape_of(self.workload.model)
        described = shape.description() if isinstance(shape, TransformersModel) else shape.model_dump()
        config["workload"]["model_shape"] = described
        config["execution"]["geometry"] = str(self.execution.geometry)
        for name in YOUNGER_KEYS:  # with its default a younger key changes no fingerprint, so older results stay valid
            if getattr(self.execution, name) == Execution.model_fields[name].default:
                del config["execution"][name]
        for name in ("command", "figures", "per_step", "rate_of"):  # as below, keys for commands alone
            del config["workload"][name]
        del config["work"]["fewer_steps"], config["work"]["seconds"]
        config["work"] |= self._batch_keys
        return config

    @property
    def _batch_keys(self) -> dict[str, int]:
        """The values of the campaign's three keys on the batch, by name."""
        batch = self.batch
        return {"global_batch": batch.global_, "micro_batch": batch.micro, "accumulation": batch.accumulation}

    def _config_of_command(self, command: str) -> dict[str, Any]:
        """Return the configuration of a cell that runs `command`; keys whose value only the program knows are None."""
        execution, passed = self.execution, placeholders(command)
        labels = ", ".join(setting.label for setting in self.settings.values())
        of_trainer = ("precision", "attention", "compile", "activation_checkpointing", "fused_optimizer")
        batch_and_seed = self._batch_keys | {"seed": self.work.seed}  # None below if the command does not get it
        return {
            "workload": {
                **self.workload.model_dump(mode="json", include={"command", "figures", "per_step", "rate_of"}),
                "task": "command",
                "model": "command",
                **dict.fromkeys(("vocab_size", "corpus", "tokenizer", "seq_len"), None),
            },
            "work": {
                **self.work.model_dump(include={"steps", "fewer_steps", "warmup_steps"}),
                "optimizer": None,
                "schedule": None,
                **{name: number if name in passed else None for name, number in batch_and_seed.items()},
                **({"seconds": self.work.seconds} if self.work.seconds else {}),  # older cells have no such key
            },
            "execution": {
                "strategy": labels or "command",
                "geometry": str(execution.geometry),
                "device": execution.device,
                "threads_per_device": execution.threads_per_device,
                **dict.fromkeys((*of_trainer, "bucket_elements"), None),
            },
            "settings": {name: setting.text for name, setting in self.settings.items()},
        }

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the effective configuration. Cells with the same hash do the same work in the same way."""
        return fingerprint_of(self.config)

    @cached_property
    def planned_fingerprint(self) -> str:
        """The fingerprint that the workflow plans by: the same before and after a search for the micro-batch."""
        if self.searched is None:
            return self.fingerprint
        unknown = {"micro_batch": self.searched, "accumulation": "derive"}
        return fingerprint_of(self.config | {"work": self.config["work"] | unknown})

    @property
    def planned_batch(self) -> str:
        """The arithmetic of the cell's batch in words, the same before and after a search."""
        return f"{self.batch.global_} ({self.searched} micro-batch)" if self.searched else str(self.batch)


def sharing_devices(strategy: str, nodes: int, devices_per_node: int) -> int:
    """Return how many devices share one copy of the state: under hsdp those of a node, else those of all nodes."""
    return devices_per_node if strategy == "hsdp" else nodes * devices_per_node


def fingerprint_of(config: Mapping[str, object]) -> str:
    """Return the fingerprint of a configuration: the first 16 hexadecimal digits of its sha256."""
    return hashlib.sha256(json.dumps(config, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def expand_cells(campaign: Campaign) -> list[Cell]:
    """Return all cells of a campaign: the product of `vary` without what `exclude` matches, then `cells`.

    Raises UserError where a combination is impossible, an `exclude` matches nothing, two cells would be the same, or
    there would be too many.
    """
    axes = {name: values for name in AXES if (values := getattr(campaign.vary, name)) is not None}
    axes |= {name: _axis_settings(name, values) for name, values in campaign.vary.settings.items()}
    _check_count(campaign, axes)
    for name, values in axes.items():
        _check_distinct_names(name, values)
    choices = [*_combinations_to_run(campaign, axes), *map(_values_given, campaign.cells)]
    if not choices:
        raise UserError("exclude: every combination is excluded; nothing is left to run", key=("exclude",))
    cells: dict[str, Cell] = {}
    for entry, choice in enumerate(choices, start=len(campaign.cells) - len(choices)):  # below 0: made by `vary`
        cell = _make_cell(campaign, choice, named=[*ALWAYS_NAMED, *axes, *choice])
        if cell.slug in cells:
            is_of_entry = [*cells].index(cell.slug) >= len(choices) - len(campaign.cells)
            origin = "an entry above makes it" if is_of_entry else "`vary` makes it"
            raise UserError(f"cells: {cell.slug} is there already; {origin}", key=("cells", entry))
        cells[cell.slug] = cell
    return list(cells.values())


def _check_distinct_names(axis: str, values: Iterable[object]) -> None:
    """Check that no two values of `vary.<axis>` have the same part in names of cells. Raises UserError."""
    value_of_part: dict[str, str] = {}  # part of a cell's name -> the value that makes it
    for value in values:
        part, text = _slug_part("", value).strip("-"), str(value)
        if value is not True and not part:  # True is named by its axis alone
            nameless = f'"{text}" has no letter or digit for a name of a cell; give a label: {{one: {text!r}}}'
            raise UserError(f"vary.{axis}: {nameless}", ("vary", axis))
        if part in value_of_part:
            ambiguity = f': "{value_of_part[part]}" and "{text}" would both be "{part}" in names of cells; give labels'
            fault = f" lists {text} twice" if value_of_part[part] == text else ambiguity
            raise UserError(f"vary.{axis}{fault}", ("vary", axis))
        value_of_part[part] = text


def _check_count(campaign: Campaign, axes: dict[str, list[Any]]) -> None:
    """Check that cells and runs are not more than any machine makes, before one is built. Raises UserError."""
    cells = math.prod(map(len, axes.values())) + len(campaign.cells)
    if cells > MOST_CELLS:
        sizes = " x ".join(f"{len(values)} {name}" for name, values in axes.items())
        most = f"at most {integer(MOST_CELLS)} are allowed"
        raise UserError(f"vary: {sizes} makes {integer(cells)} cells; {most}", key=("vary",))
    runs = cells * campaign.most_repeats
    if runs > MOST_RUNS:
        product = f"{integer(cells)} cells x {integer(campaign.most_repeats)} repeats = {integer(runs)} runs"
        raise UserError(f"repeats: {product}; at most {integer(MOST_RUNS)} are allowed", key=("repeats",))


def _combinations_to_run(campaign: Campaign, axes: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Combine the values of `axes`, less what an `exclude` matches. Raises UserError for one that matches none."""
    excluded = [_values_given(entry) for entry in campaign.exclude]
    unmatched = set(range(len(excluded)))  # indices into `exclude`
    remaining = []
    # Without axes the product is one combination: the sections as they are.
    for values in itertools.product(*axes.values()) if not campaign.lists_all_cells else ():
        choice = dict(zip(axes, values, strict=True))  # axis -> value
        matches = set()
        for index, entry in enumerate(excluded):
            if all(str(_axis_value(campaign, choice, name)) == str(value) for name, value in entry.items()):
                matches.add(index)
        unmatched -= matches
        if not matches:
            remaining.append(choice)

    if unmatched:
        index = min(unmatched)
        raise UserError(_unmatched_text(campaign, axes, excluded[index]), key=("exclude", index))
    return remaining


def _unmatched_text(campaign: Campaign, axes: dict[str, list[Any]], entry: dict[str, Any]) -> str:
    """Describe an entry of `exclude` that matches no combination, with the values that its axes have."""
    differences = []
    for name, value in entry.items():
        values = [str(present) for present in axes.get(name) or [_axis_value(campaign, {}, name)]]
        if str(value) not in values and values != ["None"]:  # without `vary` a placeholder has none
            differences.append(f"{name} is {', '.join(values)}")
    reason = f" ({'; '.join(differences)})" if differences else ""
    entry_text = ", ".join(f"{name}: {value}" for name, value in entry.items())
    return f"exclude: {entry_text} matches no combination of `vary`{reason}; remove it or fix it"


def arms_of(campaign: Campaign, comparison: Comparison) -> tuple[Cell, Cell]:
    """Return the two cells of an A/B comparison. Raises UserError unless they do the same work on equal devices."""
    choices = [_values_given(comparison.a), _values_given(comparison.b)]
    named = [*ALWAYS_NAMED, *choices[0], *choices[1]]
    a, b = (_make_cell(campaign, choice, named) for choice in choices)
    place = ("compare", campaign.compare.index(comparison))
    arms = f"compare: the arms of {comparison.name}"
    if a.searched or b.searched:
        micro_batch = a.searched or b.searched
        raise UserError(f"compare: {comparison.name} needs numbers for micro_batch; {micro_batch} is for cells", place)
    if a.fingerprint == b.fingerprint:
        raise UserError(f"{arms} are the same cell, {a.slug}; give `a` or `b` a key", place)
    if a.execution.geometry != b.execution.geometry:
        advice = "`vary` is for scaling, pairs run on the same devices"
        raise UserError(f"{arms} have different geometries; {advice}", place)
    if tokens_of(a) != tokens_of(b):
        raise UserError(f"{arms} have different corpora or tokenizers", place)
    return a, b


def tokens_of(cell: Cell) -> tuple[str, str]:
    """Return what the token files of a cell are named after: corpus and tokenizer."""
    return cell.workload.corpus, cell.workload.tokenizer


def _axis_settings(axis: str, values: list[Scalar] | dict[str, Scalar]) -> list[Setting]:
    """Return the settings of a free axis, from {label: value} or from a list, whose labels are made, as "lr0.1"."""
    if isinstance(values, dict):
        return [Setting(label, str(value)) for label, value in values.items()]
    return [Setting.from_value(axis, value) for value in values]


def _values_given(choice: Choice) -> dict[str, Any]:
    """Return axis -> value for the values of a choice. An axis may be a placeholder of the command."""
    declared = {name: value for name, value in choice if name != "settings" and value is not None}
    return declared | {name: Setting.from_value(name, value) for name, value in choice.settings.items()}


def _axis_value(campaign: Campaign, choice: dict[str, Any], axis: str) -> Any:
    """Return the value of an axis in the choice, else in the campaign's section; None for a placeholder without one."""
    if axis in choice or axis not in AXES:
        return choice.get(axis)
    return getattr(getattr(campaign, AXES[axis][0]), axis)


def _make_cell(campaign: Campaign, choice: dict[str, Any], named: list[str]) -> Cell:
    """Make the cell with the values of `choice` (axis -> value). `named`: the axes whose values the slug names.

    Raises UserError where the values do not go together.
    """
    settings = {axis: value for axis, value in choice.items() if axis not in AXES}
    sections: dict[str, Any] = {}  # name -> section of the campaign with the values of `choice`
    for name in SECTIONS:
        changes = {axis: value for axis, value in choice.items() if axis in AXES and AXES[axis][0] == name}
        sections[name] = getattr(campaign, name).model_copy(update=changes)
    if campaign.workload.command is not None:
        check_axes(campaign.workload.command, settings, choice)
        named = [axis for axis in named if axis != "strategy"]  # a command has none
    elif settings:
        raise UserError(
            "`settings` are of the placeholders of workload.command, and there is none", ("vary", "settings")
        )

    slug_parts = [_slug_part("", setting).strip("-") for setting in settings.values()]
    for axis, (section, declared) in AXES.items():
        if axis in named:
            slug_parts.append(_slug_part(axis_prefix(declared) or "", getattr(sections[section], axis)))
    slug = "-".join(slug_parts)
    if len(slug) > LONGEST_SLUG:
        length = f"{len(slug)} characters; at most {LONGEST_SLUG} are allowed"
        raise UserError(f"the name of cell {slug[:60]}... has {length}")

    micro_batch = sections["work"].micro_batch
    searched = micro_batch if micro_batch in SEARCHED else None
    cell = Cell(slug, **sections, searched=searched, settings=settings)
    check = check_cell if cell.command is None else check_command
    try:
        check(cell)
    except UserError as error:
        raise UserError(f"cell {slug}: {error}", error.key) from None
    return cell


def _slug_part(prefix: str, value: Any) -> str:
    """Return the part of a slug that says one value: "gb16", "nocompile", "v1m" for 1,000,000."""
    if isinstance(value, bool):
        return prefix if value else f"no{prefix}"
    if isinstance(value, int) and value >= 10**6 and value % 10**6 == 0:
        return f"{prefix}{value // 10**6}m"
    text = value.slug() if hasattr(value, "slug") else str(value)
    return prefix + re.sub(r"[^a-z0-9.]+", "-", text.lower())
