"""Forecasts from rates that somebody has measured: each series at sizes that it does not have."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tabulate import tabulate

from scaleproof.conclude.forecast import law
from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.interval import WITHOUT_POINT, Interval, half_widths_by_largest_sizes, widen_by_noise
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.number_format import number
from scaleproof.ground.records.run import METRICS, TimedRun, read_run


@dataclass(frozen=True)
class RateForecast:
    """The forecast rate of all devices, at a size that the table does not have, or why it is refused."""

    series: str
    devices: int
    rate: Interval | None
    refusal: str = ""


def is_of_cpus(table: Path) -> bool:
    """Return whether a table stands among the results of a campaign on CPUs, by the first of its runs."""
    folders = table.resolve().parents[:2]  # cells.csv, tables/strong.csv
    first = next((file for folder in folders for file in sorted(folder.glob(f"runs/*/rep*/{METRICS}"))), None)
    run = read_run(first.parent) if first else None
    return isinstance(run, TimedRun) and all("cpu" in rank["devices"] for rank in run.metrics.ranks)


def disturbances_of(table: Path) -> str:
    """Return which findings spoil the runs of the campaign that a table is of: "machine-busy in 2 cells"; or ""."""
    file = next((file for folder in table.resolve().parents[:2] if (file := folder / "findings.json").is_file()), None)
    findings = read_findings(file).concerning("runs") if file else []
    cells = {
        code: {cell for finding in findings if finding.code == code for cell in finding.cells}
        for code in law.NO_CALIBRATION
    }
    return " and ".join(f"{code} in {plural(len(of_code), 'cell')}" for code, of_code in cells.items() if of_code)


def forecast_rates(
    series: Mapping[str, Mapping[int, Sequence[float]]],
    devices: Sequence[int],
    devices_per_node: int,
    on_cpus: bool = False,
) -> list[RateForecast]:
    """Return the forecast of each series at each number of `devices`; by default twice and four times its largest size.

    `series`: name -> devices -> rates of one device, several where the size was measured several times. Their negative
    logarithms are those of the seconds of a step, of one sample.
    """
    steps = {
        name: [
            law.mean_step(_one_sample_target(size, devices_per_node), -np.log(of_size))
            for size, of_size in rates.items()
        ]
        for name, rates in series.items()
    }
    held_out = [held for of_series in steps.values() if (held := law.hold_largest_out(of_series))] if on_cpus else None
    return [
        _rate_forecast(name, steps[name], _one_sample_target(size, devices_per_node), held_out)
        for name, rates in series.items()
        for size in devices or (2 * max(rates), 4 * max(rates))
    ]


def group_of_size(devices: int, devices_per_node: int) -> Group:
    """Return the group of so many devices, on as few nodes as they need; beyond one node all nodes count as full."""
    if devices <= devices_per_node:
        return Group(1, devices)
    return Group(math.ceil(devices / devices_per_node), devices_per_node)


def _one_sample_target(devices: int, devices_per_node: int) -> law.Target:
    """Return a step with one sample on each of so many devices, as rates of a table are in samples of a device."""
    return law.Target(group_of_size(devices, devices_per_node), micro_batch=1, accumulation=1)


def _rate_forecast(
    name: str, steps: Sequence[law.MeasuredStep], target: law.Target, held_out: Sequence[law.HeldOut] | None
) -> RateForecast:
    """Return the rate of all devices of the `target`, from the `steps` of the series `name`; or why it is refused.

    Its interval is as wide as the law was wrong on public tables. `held_out`: on CPUs, which these do not have, it is
    as wide as the law was wrong about the largest size of each series of this table.
    """
    group = target.group
    if group in (step.group for step in steps):
        return RateForecast(name, group.size, None, "The table has it")
    sizes = law.nearest_steps(steps, target)
    try:
        law.check_support(name or "the series", sizes, target)
    except law.Unsupported as refusal:
        return RateForecast(name, group.size, None, refusal.reason)
    if held_out is not None:
        distance = law.doublings(group.size, sizes[-1].group.size)
        half = half_widths_by_largest_sizes([held.residual_per_doubling for held in held_out], distance)
        construction, n = "leave-largest-out", len(held_out)
    else:
        largest = law.hold_largest_out(steps)
        half = law.half_widths(sizes, group).times(law.stretch_factor([largest] if largest else []))
        construction, n = "public series", law.TABLES
    if half is None:
        why = "Public series are of GPUs and TPUs, and no series of this table has two sizes: measure a further one"
        return RateForecast(name, group.size, None, why)
    rate = group.size * law.expected_rate(sizes, group.size)
    with_noise = widen_by_noise(half, sizes[-1].variance or 0.0)
    return RateForecast(name, group.size, Interval.around(rate, with_noise, construction, n))


def table_text(forecasts: Sequence[RateForecast], disturbances: str = "") -> str:
    """Return a table with a row for each forecast, then a line for each that was refused."""
    rows, refused = [], []
    basis = f"on {law.TABLES} public tables of GPUs and TPUs"
    for forecast in forecasts:
        rate = forecast.rate
        if rate is None or rate.likely is None:
            refused.append(f"{forecast.series} on {forecast.devices}: no forecast. {forecast.refusal}".strip())
            continue
        likely, nearly_all = (f"{number(low)} to {number(high)}" for low, high in (rate.likely, (rate.low, rate.high)))
        if rate.construction == "leave-largest-out":
            basis = f"about the largest size of each series here (n={rate.n}), as public tables have no CPUs"
        rows.append([forecast.series, forecast.devices, "" if rate.wide else number(rate.value), likely, nearly_all])
    headings = ["series", "devices", "rate", "80 %", "95 %"]
    note = f"Rates are of all devices, in the unit of the table; intervals: how wrong the same law is {basis}."
    if any(not row[2] for row in rows):
        note += f" {WITHOUT_POINT}"
    if disturbances:
        refused.append(f"With reservations: {disturbances}; measured on a quiet machine, rates may be others.")
    return "\n".join([*([tabulate(rows, headings, disable_numparse=True), note] if rows else []), *refused])
