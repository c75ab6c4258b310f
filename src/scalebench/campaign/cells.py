"""From a campaign to its cells: expansion, slugs, fingerprints."""

import hashlib
import itertools
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scalebench.campaign.batch import Batch, resolve
from scalebench.campaign.config import (
    AXES,
    SECTIONS,
    Campaign,
    Comparison,
    Execution,
    Work,
    Workload,
    entries_of,
    shape_of,
)
from scalebench.campaign.field import Section, axis_prefix
from scalebench.campaign.model_shapes import SHAPES, EncoderShape, ModelShape, Shape
from scalebench.errors import UserError, nearest

MOST_ENTRIES = 1_000_000  # of a tokenizer; four times the largest in use
ALWAYS_NAMED = ("strategy", "geometry")  # so that a second strategy or size renames no older cell


@dataclass(frozen=True)
class Cell:
    """One configuration of a campaign, complete and checked."""

    slug: str
    workload: Workload
    work: Work
    execution: Execution

    @cached_property
    def batch(self) -> Batch:
        return resolve(self.work, self.execution.geometry.n_devices)

    @property
    def vocab_size(self) -> int:
        """Rows of the model's token table."""
        rows, multiple = self.workload.vocab_size, self.workload.vocab_multiple
        return -(-entries_of(self.workload.tokenizer) // multiple) * multiple if rows == "derive" else rows

    @property
    def processes_per_node(self) -> int:
        """Ranks on a node: one per device, but one for all of them under nn.DataParallel."""
        return 1 if self.execution.strategy == "dp" else self.execution.geometry.devices_per_node

    @property
    def world_size(self) -> int:
        """Ranks of a run, as torch.distributed counts them; `batch.n_devices` is what they drive."""
        return self.execution.geometry.nodes * self.processes_per_node

    @cached_property
    def config(self) -> dict[str, Any]:
        """The effective configuration: every key with its value, batch and vocabulary resolved, the model as a shape."""
        config: dict[str, Any] = {name: getattr(self, name).model_dump(mode="json") for name in SECTIONS}
        config["workload"]["vocab_size"] = self.vocab_size
        config["workload"]["model_shape"] = shape_of(self.workload.model).model_dump()
        config["execution"]["geometry"] = str(self.execution.geometry)
        batch = self.batch
        config["work"] |= {
            "global_batch": batch.global_, "micro_batch": batch.micro, "accumulation": batch.accumulation,
        }  # fmt: skip
        return config

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the effective configuration: two cells with the same one do the same work in the same way."""
        text = json.dumps(self.config, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def expand(campaign: Campaign) -> list[Cell]:
    """All cells of a campaign: the product of `vary`, less `exclude`, plus `cells`; in that order.

    Raises UserError where a combination is impossible, an `exclude` matches nothing, or two cells would be the same.
    """
    axes = {name: values for name in AXES if (values := getattr(campaign.vary, name)) is not None}
    for name, values in axes.items():
        for value in values:
            if values.count(value) > 1:
                raise UserError(f"vary.{name} lists {value} twice", key=("vary", name))
    chosen = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    unmatched = [dict(e) for e in campaign.exclude]
    kept = []
    for choice in chosen:
        matches = [e for e in campaign.exclude if all(_value(campaign, choice, k) == v for k, v in _given(e).items())]
        unmatched = [e for e in unmatched if e not in [dict(m) for m in matches]]
        if not matches:
            kept.append(choice)
    if unmatched:
        shown = {k: str(v) for k, v in unmatched[0].items() if v is not None}
        raise UserError(f"exclude: {shown} matches no combination of `vary`; remove it or mend it", key=("exclude",))
    kept += [_given(extra) for extra in campaign.cells]
    if not kept:
        raise UserError("exclude: every combination is excluded; nothing is left to run", key=("exclude",))
    cells: dict[str, Cell] = {}
    for choice in kept:
        cell = _cell(campaign, choice, named=[*ALWAYS_NAMED, *axes, *choice])
        if cell.slug in cells:
            raise UserError(
                f"cells: {cell.slug} is there already; `vary` makes it, or without `vary` the sections do",
                key=("cells",),
            )
        cells[cell.slug] = cell
    return list(cells.values())


def arms(campaign: Campaign, comparison: Comparison) -> tuple[Cell, Cell]:
    """The two cells of an A/B comparison. Raises UserError where they are one, or not the same work on the same devices."""
    choices = [_given(comparison.a), _given(comparison.b)]
    named = [*ALWAYS_NAMED, *choices[0], *choices[1]]
    a, b = (_cell(campaign, choice, named) for choice in choices)
    place = ("compare", campaign.compare.index(comparison))
    if a.fingerprint == b.fingerprint:
        raise UserError(
            f"compare: the arms of {comparison.name} are the same cell, {a.slug}; give `a` or `b` a key", place
        )
    if a.execution.geometry != b.execution.geometry:
        raise UserError(
            f"compare: the arms of {comparison.name} have different geometries; pairs run on the same devices. "
            "Use `vary` for scaling",
            place,
        )
    if tokens_of(a) != tokens_of(b):
        raise UserError(f"compare: the arms of {comparison.name} have different corpora or tokenizers", place)
    return a, b


def tokens_of(cell: Cell) -> tuple[str, str]:
    """What the token files of a cell are named after: corpus and tokenizer."""
    return cell.workload.corpus, cell.workload.tokenizer


def find(cells: list[Cell], slug: str) -> Cell:
    """The cell called `slug`; UserError with the nearest name where there is none."""
    for cell in cells:
        if cell.slug == slug:
            return cell
    names = [c.slug for c in cells]
    raise UserError(f'there is no cell "{slug}".{nearest(slug, names)} Cells: {", ".join(names)}')


def _given(choice: Section) -> dict[str, Any]:
    return {name: getattr(choice, name) for name in choice.model_fields_set if getattr(choice, name) is not None}


def _value(campaign: Campaign, choice: dict[str, Any], axis: str) -> Any:
    return choice[axis] if axis in choice else getattr(getattr(campaign, AXES[axis][0]), axis)


def _cell(campaign: Campaign, choice: dict[str, Any], named: list[str]) -> Cell:
    sections = {
        name: getattr(campaign, name).model_copy(update={k: v for k, v in choice.items() if AXES[k][0] == name})
        for name in SECTIONS
    }
    slug = "-".join(
        _token(axis_prefix(field), getattr(sections[section], axis))
        for axis, (section, field) in AXES.items()
        if axis in named
    )
    cell = Cell(slug, **sections)
    try:
        _check(cell)
    except UserError as error:
        raise UserError(f"cell {slug}: {error}", error.key) from None
    return cell


def _token(prefix: str, value: Any) -> str:
    if isinstance(value, bool):
        return prefix if value else f"no{prefix}"
    if isinstance(value, int) and value >= 10**6 and value % 10**6 == 0:
        return f"{prefix}{value // 10**6}m"
    text = value.slug() if hasattr(value, "slug") else str(value)
    return prefix + re.sub(r"[^a-z0-9.]+", "-", text.lower())


def _check(cell: Cell) -> None:
    """What no single key can know. Raises UserError."""
    cell.batch  # noqa: B018  (raises where the arithmetic fails)
    shape, seq_len = shape_of(cell.workload.model), cell.workload.seq_len
    if seq_len > shape.context:
        raise UserError(
            f"workload.seq_len {seq_len} is longer than the model's context of {shape.context} tokens",
            ("workload", "seq_len"),
        )
    if shape.width % shape.heads:
        raise UserError(
            f"workload.model: {'width' if isinstance(shape, ModelShape) else 'd_model'} {shape.width} is not a multiple of heads {shape.heads}",
            ("workload", "model"),
        )
    _check_task(cell, shape)
    vocabulary = entries_of(cell.workload.tokenizer)
    if vocabulary > MOST_ENTRIES:
        raise UserError(
            f"workload.tokenizer {cell.workload.tokenizer} is too large; at most bpe-{MOST_ENTRIES}",
            ("workload", "tokenizer"),
        )
    if vocabulary < 257:
        raise UserError(
            f"workload.tokenizer {cell.workload.tokenizer} is too small: the 256 bytes and end-of-text make bpe-257 the least",
            ("workload", "tokenizer"),
        )
    rows = cell.workload.vocab_size
    if rows != "derive" and rows < vocabulary:
        raise UserError(
            f"workload.vocab_size {rows} is smaller than the {vocabulary} entries of {cell.workload.tokenizer}"
        )
    if rows != "derive" and rows % cell.workload.vocab_multiple:
        raise UserError(
            f"workload.vocab_size {rows} is not a multiple of workload.vocab_multiple {cell.workload.vocab_multiple}; "
            "give one of the two",
            ("workload", "vocab_multiple"),
        )


def _check_task(cell: Cell, shape: Shape) -> None:
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
    if encoder and cell.execution.loss != "plain":
        raise UserError("execution.loss: encoders have plain only; their loss is small", ("execution", "loss"))
    if encoder and cell.execution.attention != "sdpa":
        raise UserError("execution.attention: encoders have sdpa only", ("execution", "attention"))
