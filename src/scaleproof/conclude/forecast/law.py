"""The law of all forecasts: a doubling of the devices costs a device half of what the last measured doubling cost it.

How wrong it is on public series of GPUs and TPUs gives the interval of a forecast from the first day on.

A model of computing, links and their overlap was no better on public series that nobody had chosen (docs/forecast.md).
The series are 191 of 68 tables of language-model training (BERT, GPT, GNMT, Transformer-XL; V100, A100, H100, TPU v4 to
v5p), each table counted once. `tests/conclude/forecast/test_public_series.py` computes these figures from the series.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from scaleproof.conclude.forecast.collective import Group, Level
from scaleproof.conclude.forecast.interval import HalfWidths
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.run import MeasuredRun

FIRST_LOSS = 0.02  # of a device's rate at each doubling, where one size was measured
REMAINS = 0.5  # of the last measured loss, at each further doubling
FURTHEST = 8  # times the devices of the largest measured size: public series say too little of more devices
OTHER_BATCH = 2  # times a measured micro-batch, up or down: beyond it a device has another rate
SUPER_LINEAR = 0.10  # a device's rate that rises by more from one size to the next is of other settings


class Unsupported(Exception):
    """Raised where no forecast can be given: `reason` says why, `measure` which measurement would help."""

    def __init__(self, code: str, reason: str, measure: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.measure = measure


@dataclass(frozen=True)
class Target:
    """The size of a step: devices, samples of a device's micro-batch, and micro-batches that a step accumulates."""

    group: Group
    micro_batch: int
    accumulation: int


@dataclass(frozen=True)
class MeasuredStep(Target):
    """Mean seconds of a step. `variance`: of the logarithm of that mean, over repeats; None with one repeat."""

    seconds: float
    variance: float | None = None

    @property
    def rate(self) -> float:
        """Samples per second of one device."""
        return self.micro_batch * self.accumulation / self.seconds


def nearest_steps(measured: Sequence[MeasuredStep], target: Target) -> list[MeasuredStep]:
    """Return for each number of devices, the fewest first, the measured step that is most like the target.

    It has the target's devices per node if possible, then its accumulation, then the most similar micro-batch.
    """

    def distance(step: MeasuredStep) -> tuple[bool, bool, float]:
        """Return how far a step's setting is from the target's; smaller is nearer."""
        return (
            step.group.devices_per_node != target.group.devices_per_node,
            step.accumulation != target.accumulation,
            abs(math.log(step.micro_batch / target.micro_batch)),
        )

    steps_of_size = group_by(measured, lambda step: step.group.size)
    return [min(steps_of_size[size], key=distance) for size in sorted(steps_of_size)]


def doublings(target: int, largest: int) -> float:
    """Return how often the `largest` measured number of devices must double to be the `target`; at least 1.

    No forecast counts as nearer than a doubling.
    """
    return max(1.0, math.log2(target / largest))


def expected_rate(sizes: Sequence[MeasuredStep], devices: int) -> float:
    """Return the samples per second of one device among `devices`. `sizes`: from `nearest_steps`, at least one.

    Between measured sizes the rate is linear in the logarithms, below the smallest size it is constant, and above the
    largest it falls with each doubling (`_loss_per_doubling`).
    """
    smallest, largest = sizes[0], sizes[-1]
    for smaller, larger in pairwise(sizes):
        if smaller.group.size <= devices <= larger.group.size:
            part = math.log(devices / smaller.group.size) / math.log(larger.group.size / smaller.group.size)
            return smaller.rate * (larger.rate / smaller.rate) ** part
    if devices <= largest.group.size:
        return smallest.rate
    return largest.rate * math.exp(-_loss_per_doubling(sizes) * math.log2(devices / largest.group.size))


def _loss_per_doubling(sizes: Sequence[MeasuredStep]) -> float:
    """Return by how much each further doubling of devices lowers the logarithm of a device's rate; at least 0.

    It is the part REMAINS of the loss at the last measured doubling, between the last two `sizes`.
    """
    if len(sizes) < 2:
        return FIRST_LOSS
    before, last = sizes[-2:]
    measured_loss = math.log(before.rate / last.rate) / math.log2(last.group.size / before.group.size)
    return REMAINS * max(0.0, measured_loss)


def check_support(strategy: str, sizes: Sequence[MeasuredStep], target: Target) -> None:
    """Raise Unsupported where the measured sizes say nothing of the target. `sizes`: from `nearest_steps`."""
    needed = f"run {strategy} on {target.group}"
    if not sizes:
        raise Unsupported("never-measured", f"{strategy} was measured on no number of devices", needed)
    last = sizes[-1]  # the largest
    if strategy == "dp" and target.group.size > last.group.size:
        raise Unsupported("dp-beyond-measured", "nn.DataParallel is not forecast beyond measured sizes", needed)
    if target.group.size > FURTHEST * last.group.size:
        raise Unsupported(
            "group-too-large",
            f"{integer(target.group.size)} devices ({target.group}, nodes x devices of each) are more than "
            f"{FURTHEST} times the {last.group.size} of the largest measured group",
            needed,
        )
    # With a constant global batch each doubling of the devices halves the micro-batch.
    largest_factor = max(OTHER_BATCH, target.group.size / last.group.size)
    if not 1 / largest_factor <= target.micro_batch / last.micro_batch <= largest_factor:
        raise Unsupported(
            "micro-batch-outside",
            f"micro-batch {target.micro_batch} is more than {largest_factor:g} times from {last.micro_batch}, the "
            f"nearest that was measured on {last.group}",
            f"run {strategy} on {last.group} with micro_batch {target.micro_batch}",
        )
    _check_series(sizes)


def _check_series(sizes: Sequence[MeasuredStep]) -> None:
    """Raise Unsupported where a device of a larger group is much faster than one of a smaller group."""
    for before, after in pairwise(sizes):
        gain = after.rate / before.rate - 1
        has_same_batch = (before.micro_batch, before.accumulation) == (after.micro_batch, after.accumulation)
        if has_same_batch and gain > SUPER_LINEAR:
            raise Unsupported(
                "super-linear",
                f"a device of {after.group} is {gain:.0%} faster than one of {before.group}: the settings differ, or a "
                "cache or memory limit is crossed",
                f"run {before.group} again with the settings of {after.group}",
            )


@dataclass(frozen=True)
class HeldOut:
    """The largest size of a series, to be forecast from its smaller `sizes`."""

    sizes: list[MeasuredStep]
    largest: MeasuredStep

    @property
    def residual(self) -> float:
        """log(measured / forecast seconds), which is log(forecast / measured rate)."""
        return math.log(expected_rate(self.sizes, self.largest.group.size) / self.largest.rate)

    @property
    def residual_per_doubling(self) -> float:
        """The residual over the number of doublings from the largest of `sizes` to the size that is forecast."""
        return self.residual / doublings(self.largest.group.size, self.sizes[-1].group.size)


def hold_largest_out(measured: Sequence[MeasuredStep]) -> HeldOut | None:
    """Return the largest size of a series, to be forecast from the smaller sizes; None for a single size."""
    largest = max(measured, key=lambda step: step.group.size)
    # For each smaller size, the step that is most like the largest one.
    smaller = [step for step in nearest_steps(measured, largest) if step.group.size < largest.group.size]
    return HeldOut(smaller, largest) if smaller else None


TABLES = 68  # of public series


# Half-widths from one measured size, for any number of doublings.
FROM_ONE: dict[Level, HalfWidths] = {"node": HalfWidths(0.138, 0.285), "network": HalfWidths(0.044, 0.123)}
# Half-widths from two measured sizes or more, for each doubling.
A_DOUBLING: dict[Level, HalfWidths] = {"node": HalfWidths(0.070, 0.130), "network": HalfWidths(0.033, 0.073)}


def half_widths(sizes: Sequence[Target], group: Group) -> HalfWidths:
    """Return the half-widths of the interval of a forecast of `group` from the measured `sizes`, the largest last.

    Across nodes they are never narrower than for the first full node, if that was not measured: it lies on the way.
    """
    if len(sizes) < 2:
        half = FROM_ONE[group.level]
    else:
        half = A_DOUBLING[group.level].times(doublings(group.size, sizes[-1].group.size))
    node = Group(1, group.devices_per_node)
    if group.level == "node" or sizes[-1].group.size >= node.size:
        return half
    inside = half_widths(sizes, node)
    return HalfWidths(max(half.likely, inside.likely), max(half.nearly_all, inside.nearly_all))


def stretch_factor(series: Iterable[HeldOut]) -> float:
    """Return how much wider than for public series a campaign's intervals must be; 1 where its own sizes fit them.

    Where one series is farther from the law than 95 % of the public series, as by a slow network, the next forecast may
    be, too. `series`: the largest size of each series, forecast from the smaller sizes.
    """
    factors = [1.0]
    for held_out in series:
        half = half_widths(held_out.sizes, held_out.largest.group)
        factors.append(abs(held_out.residual) / half.nearly_all)
    return max(factors)


NO_CALIBRATION = ("machine-busy", "device-throttled")  # findings of disturbed runs, from which nothing is forecast


def group_of(cell: Cell) -> Group:
    geometry = cell.execution.geometry
    return Group(geometry.nodes, geometry.devices_per_node)


def target_of(cell: Cell) -> Target:
    """Return the devices, micro-batch and accumulation of a step of a cell."""
    return Target(group_of(cell), cell.batch.micro, cell.batch.accumulation)


def series_key(cell: Cell) -> str:
    """Return a key that is equal for cells that differ in devices, micro-batch, accumulation, steps and seed only."""
    workload = cell.config["workload"]
    execution = {name: value for name, value in cell.config["execution"].items() if name != "geometry"}
    return repr((sorted(workload.items(), key=str), sorted(execution.items(), key=str), str(cell.work.optimizer)))


def step_seconds(run: MeasuredRun) -> float:
    """Return the seconds of a step of a run: all time of the window over its steps."""
    return run.metrics.window.wall_time_s / run.metrics.window.step_time_n


def measured_step(cell: Cell, runs: Sequence[MeasuredRun]) -> MeasuredStep:
    return mean_step(target_of(cell), np.log([step_seconds(run) for run in runs]))


def mean_step(target: Target, logs: np.ndarray) -> MeasuredStep:
    """Return a step that was measured several times, with its geometric mean. `logs`: logarithms of its seconds."""
    return MeasuredStep(
        group=target.group,
        micro_batch=target.micro_batch,
        accumulation=target.accumulation,
        seconds=math.exp(float(logs.mean())),
        variance=float(logs.var(ddof=1)) / len(logs) if len(logs) > 1 else None,  # of the mean
    )


def check_usable(cell: Cell, findings: Findings | None) -> None:
    """Raise Unsupported where a finding says that no forecast can be made from a run of the cell."""
    for finding in findings.of(cell.slug) if findings else ():
        is_invalid = finding.severity == "invalid"
        if is_invalid or finding.code in NO_CALIBRATION:
            raise Unsupported(
                "invalid-calibration" if is_invalid else "disturbed-calibration",
                f"{cell.slug} has the finding {finding.code}: {finding.evidence}",
                f"fix what {finding.code} says and run {cell.slug} again",
            )
