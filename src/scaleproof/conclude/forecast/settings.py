"""From cells and runs to the step models of a campaign: which runs are one series, and what the model of a cell is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scaleproof.conclude.forecast.collective import Group, Network, Unsupported
from scaleproof.conclude.forecast.compute import Sample
from scaleproof.conclude.forecast.memory import Held
from scaleproof.conclude.forecast.step_model import MeasuredStep, StepModel, Target
from scaleproof.conclude.forecast.timeline import Layer, Layers
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.model.inventory import inventory_of

DDP_BUCKET = 25 * 2**20  # bytes: DistributedDataParallel's default
ZERO_BUCKET = 500_000_000  # elements: DeepSpeed's default
LOW = ("bf16", "fp16")
DISTURBED = ("machine-busy", "device-throttled")


def group_of(cell: Cell) -> Group:
    geometry = cell.execution.geometry
    return Group(geometry.nodes, geometry.devices_per_node)


def target_of(cell: Cell) -> Target:
    return Target(group_of(cell), cell.batch.micro, cell.batch.accumulation)


def layers_of(cell: Cell) -> Layers:
    """Parameters of each block and of the root, and their shares of a micro-batch's arithmetic.

    A block has 6 x its matrix weights + 12 x width of its attention x seq_len FLOPs a token (PaLM, appendix B), the
    head of a decoder 6 x vocabulary x width; norms, look-ups and a classifier count as nothing.
    """
    inventory = inventory_of(cell)
    number = len(inventory.blocks)
    block = (6 * inventory.block_weights + 12 * inventory.attention_width * cell.workload.seq_len) / number
    head = 6 * inventory.token_weights
    total = number * block + head
    return Layers(
        tuple(Layer(parameters, block / total) for parameters in inventory.blocks), Layer(inventory.root, head / total)
    )


def held_of(cell: Cell) -> Held:
    """What determines the memory of a cell's device."""
    layers, execution = layers_of(cell), cell.execution
    bucket = execution.bucket_elements
    return Held(
        execution.strategy,
        execution.precision,
        layers.parameters,
        layers.blocks[0].parameters,
        layers.root.parameters,
        0 if inventory_of(cell).is_encoder else cell.vocab_size,
        cell.workload.seq_len,
        cell.batch.accumulation,
        None if bucket == "auto" else bucket,
    )


@dataclass(frozen=True)
class Setting:
    """How a strategy shares this cell's step: bytes an element and a bucket, and whether it overlaps here."""

    reduce_bytes: int
    gather_bytes: int
    bucket_bytes: float
    overlaps: bool


def setting_of(cell: Cell, backend: str) -> Setting:
    """gloo overlaps DDP only. DeepSpeed reduces beside computing in stage 3 alone (its default of overlap_comm)."""
    execution = cell.execution
    strategy = execution.strategy.removesuffix("-offload")
    low = execution.precision in LOW
    zero = strategy in ("zero1", "zero2", "zero3")
    parameters = layers_of(cell).parameters
    if strategy == "ddp":
        elements = execution.bucket_elements
        bucket = float(DDP_BUCKET if elements == "auto" else 4 * elements)
    else:
        elements = execution.bucket_elements
        width = 2 if low and zero else 4
        bucket = float(width * (min(ZERO_BUCKET, parameters) if elements == "auto" else elements))
    overlapping = ("ddp",) if backend == "gloo" else ("ddp", "fsdp", "zero3")
    return Setting(
        2 if low and zero else 4, 2 if low and (zero or strategy == "fsdp") else 4, bucket, strategy in overlapping
    )


def series_key(cell: Cell, with_strategy: bool = True) -> str:
    """Equal for cells that differ in devices, micro-batch, accumulation, steps and seed only."""
    config = cell.config
    execution: dict[str, Any] = {k: v for k, v in config["execution"].items() if k != "geometry"}
    if not with_strategy:
        execution = {k: v for k, v in execution.items() if k not in ("strategy", "bucket_elements")}
    return repr(
        (sorted(config["workload"].items(), key=str), sorted(execution.items(), key=str), str(cell.work.optimizer))
    )


def step_seconds(run: MeasuredRun) -> float:
    """All time of the window over its steps."""
    return run.metrics.window.wall_time_s / run.metrics.window.step_time_n


def measured_of(cell: Cell, runs: Sequence[MeasuredRun]) -> MeasuredStep:
    """Geometric mean over repeats, with the variance of its logarithm."""
    logs = np.log([step_seconds(run) for run in runs])
    target = target_of(cell)
    variance = float(logs.var(ddof=1)) / len(logs) if len(logs) > 1 else None
    return MeasuredStep(target.group, target.micro_batch, target.accumulation, math.exp(float(logs.mean())), variance)


def usable(cell: Cell, findings: Findings | None) -> None:
    """Raises Unsupported where a finding says that a run of the cell is no basis for a forecast."""
    for finding in findings.of(cell.slug) if findings else ():
        if finding.severity == "invalid" or finding.code in DISTURBED:
            kind = "invalid-calibration" if finding.severity == "invalid" else "disturbed-calibration"
            raise Unsupported(
                kind,
                f"{cell.slug} has the finding {finding.code}: {finding.evidence}",
                f"fix what {finding.code} says and run {cell.slug} again",
            )


def step_models(
    measured: Sequence[tuple[Cell, Sequence[MeasuredRun]]], cells: Sequence[Cell], network: Network | None, backend: str
) -> dict[str, StepModel]:
    """Series key -> model, for every series of `cells`, from the cells that were measured.

    A series without a run on one device borrows those of a strategy without sharding (`single`, `ddp`) in its setting.
    """
    models: dict[str, StepModel] = {}
    for cell in cells:
        key = series_key(cell)
        if key in models:
            continue
        own = [(c, runs) for c, runs in measured if series_key(c) == key]
        alone = [
            Sample(m.micro_batch, m.accumulation, m.seconds, m.variance)
            for c, runs in measured
            if series_key(c, with_strategy=False) == series_key(cell, with_strategy=False)
            and c.execution.strategy in ("single", "ddp")
            and (m := measured_of(c, runs)).group.size == 1
        ]
        setting = setting_of(cell, backend)
        kept = cell.execution.strategy == "fsdp" and not cell.execution.fsdp_reshard
        models[key] = StepModel(
            "fsdp-kept" if kept else cell.execution.strategy,
            layers_of(cell),
            tuple(measured_of(c, runs) for c, runs in own),
            network,
            setting.bucket_bytes,
            setting.reduce_bytes,
            setting.gather_bytes,
            setting.overlaps,
            borrowed=_distinct(alone),
        )
    return models


def _distinct(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """One sample for each micro-batch and accumulation: the first, as strategies come in the order of cells."""
    chosen: dict[tuple[int, int], Sample] = {}
    for sample in samples:
        chosen.setdefault((sample.micro_batch, sample.accumulation), sample)
    return tuple(chosen.values())
