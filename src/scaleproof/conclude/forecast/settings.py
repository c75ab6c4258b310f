"""From cells and runs to what forecasts are made of: groups of devices, series, steps."""

import math
from collections.abc import Sequence

import numpy as np

from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.law import MeasuredStep, Target, Unsupported
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.run import MeasuredRun

DISTURBED = ("machine-busy", "device-throttled")


def group_of(cell: Cell) -> Group:
    """The devices of a cell."""
    geometry = cell.execution.geometry
    return Group(geometry.nodes, geometry.devices_per_node)


def target_of(cell: Cell) -> Target:
    return Target(group_of(cell), cell.batch.micro, cell.batch.accumulation)


def series_key(cell: Cell) -> str:
    """A key that is equal for cells that differ in devices, micro-batch, accumulation, steps and seed only."""
    workload, execution = cell.config["workload"], dict(cell.config["execution"])
    del execution["geometry"]
    return repr((sorted(workload.items(), key=str), sorted(execution.items(), key=str), str(cell.work.optimizer)))


def step_seconds(run: MeasuredRun) -> float:
    """Seconds of a step of a run: all time of the window over its steps."""
    return run.metrics.window.wall_time_s / run.metrics.window.step_time_n


def measured_of(cell: Cell, runs: Sequence[MeasuredRun]) -> MeasuredStep:
    """The measured step of a cell: geometric mean of seconds over its `runs`, with the variance of its logarithm."""
    logs = np.log([step_seconds(run) for run in runs])
    target = target_of(cell)
    variance = float(logs.var(ddof=1)) / len(logs) if len(logs) > 1 else None
    return MeasuredStep(target.group, target.micro_batch, target.accumulation, math.exp(float(logs.mean())), variance)


def check_usable(cell: Cell, findings: Findings | None) -> None:
    """Raise Unsupported where a finding says that a run of the cell is no basis for a forecast."""
    for finding in findings.of(cell.slug) if findings else ():
        is_invalid = finding.severity == "invalid"
        if is_invalid or finding.code in DISTURBED:
            raise Unsupported(
                "invalid-calibration" if is_invalid else "disturbed-calibration",
                f"{cell.slug} has the finding {finding.code}: {finding.evidence}",
                f"fix what {finding.code} says and run {cell.slug} again",
            )
