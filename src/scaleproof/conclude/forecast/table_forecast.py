"""Forecasts from rates that somebody has measured: each series at sizes that it does not have."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tabulate import tabulate

from scaleproof.conclude.forecast import law
from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.interval import WITHOUT_POINT, Interval, half_widths_by_largest_sizes, widen_by_noise
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.number_format import TOO_WIDE, fixed, number, span_text
from scaleproof.ground.records.grouping import lists_by_key
from scaleproof.ground.records.run import METRICS, TimedRun, read_run

COST = "Cost of a unit of work: your price of a device hour x devices / (3,600 x its rate per second)."


@dataclass(frozen=True)
class RateForecast:
    """The forecast rate of all devices at a size, or why there is none (`refusal`).

    `measured`: the rate that the table has of this size, which is forecast from the smaller sizes alone; `falls`:
    whether the largest size it is forecast from is slower than a smaller one; `of_one_size`: whether it has no smaller.
    """

    series: str
    devices: int
    rate: Interval | None
    refusal: str = ""
    measured: float | None = None
    falls: bool = False
    of_one_size: bool = False


def is_of_cpus(table: Path) -> bool:
    """Return whether a table is among the results of a campaign on CPUs, by its first run; False if it is elsewhere."""
    folders = _possible_results(table)
    metrics_files = [file for folder in folders for file in sorted(folder.glob(f"runs/*/rep*/{METRICS}"))]
    run = read_run(metrics_files[0].parent) if metrics_files else None
    return isinstance(run, TimedRun) and all("cpu" in rank["devices"] for rank in run.metrics.ranks)


def disturbances_of(table: Path) -> str:
    """Return which findings spoil the runs of the campaign of a table: "machine-busy in 2 cells"; "" for none."""
    files = [folder / "findings.json" for folder in _possible_results(table)]
    existing_files = [file for file in files if file.is_file()]
    findings = read_findings(existing_files[0]).concerning("runs") if existing_files else []
    cells_of = lists_by_key((finding.code, cell) for finding in findings for cell in finding.cells)
    codes = [code for code in law.NO_CALIBRATION if code in cells_of]
    return " and ".join(f"{code} in {plural(len(set(cells_of[code])), 'cell')}" for code in codes)


def _possible_results(table: Path) -> list[Path]:
    """Return the folders that may be a campaign's results: that of a table (cells.csv), and the next (tables/x.csv)."""
    return list(table.resolve().parents[:2])


def forecast_rates(
    series: Mapping[str, Mapping[int, Sequence[float]]],
    devices: Sequence[int],
    devices_per_node: int,
    on_cpus: bool = False,
) -> list[RateForecast]:
    """Return the forecast of each series at each number of `devices`; by default twice and four times its largest size.

    A size that the table has is forecast as if it had nothing but the smaller ones, so that the forecast can be scored.
    `series`: name -> devices -> rates of one device, several where the size was measured several times.
    """
    steps: dict[str, list[law.MeasuredStep]] = {}
    for name, rates in series.items():
        steps[name] = []
        for size, rates_of_size in rates.items():
            # With one sample a step, seconds are 1 / rate, so log(seconds) = -log(rate).
            step = law.mean_step(_one_sample_target(size, devices_per_node), -np.log(rates_of_size))
            steps[name].append(step)

    forecasts = []
    for name, rates in series.items():
        for size in devices or (2 * max(rates), 4 * max(rates)):
            target = _one_sample_target(size, devices_per_node)
            group = target.group
            measured = [step for step in steps[name] if step.group == group]
            known = _smaller_steps(steps, group.size) if measured else steps
            if measured and name not in known:
                reason = "The table has it, and no smaller size from which a forecast could have been made"
                forecasts.append(RateForecast(name, group.size, None, reason))
                continue
            forecast = _rate_forecast(name, known[name], target, _held_out(known) if on_cpus else None)
            forecasts.append(replace(forecast, measured=group.size * measured[0].rate) if measured else forecast)
    return forecasts


def _smaller_steps(steps: Mapping[str, Sequence[law.MeasuredStep]], devices: int) -> dict[str, list[law.MeasuredStep]]:
    """Return the series with their sizes below so many devices, of those that have any."""
    smaller = {name: [step for step in sizes if step.group.size < devices] for name, sizes in steps.items()}
    return {name: sizes for name, sizes in smaller.items() if sizes}


def _held_out(steps: Mapping[str, Sequence[law.MeasuredStep]]) -> list[law.HeldOut]:
    """Return the largest size of each series of two sizes or more, to be forecast from its smaller ones."""
    return list(filter(None, map(law.hold_largest_out, steps.values())))


def group_of_size(devices: int, devices_per_node: int) -> Group:
    """Return the group of so many devices on as few nodes as possible; beyond one node all nodes count as full."""
    if devices <= devices_per_node:
        return Group(1, devices)
    return Group(math.ceil(devices / devices_per_node), devices_per_node)


def _one_sample_target(devices: int, devices_per_node: int) -> law.Target:
    """Return a step with one sample on each of so many devices: rates of a table count samples of a device."""
    return law.Target(group_of_size(devices, devices_per_node), micro_batch=1, accumulation=1)


def _rate_forecast(
    name: str, steps: Sequence[law.MeasuredStep], target: law.Target, held_out: Sequence[law.HeldOut] | None
) -> RateForecast:
    """Return the rate of all devices of the `target`, from the `steps` of the series `name`; or why it is refused.

    The errors of the law on public tables give the interval. `held_out`: None, or for CPUs, which these tables lack,
    the largest size of each series of this table: then its errors on these sizes give the interval.
    """
    group = target.group
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
    if half is None:  # on CPUs, without a series of two sizes
        reason = "Public series are of GPUs and TPUs, and no series of this table has two sizes: measure a further one"
        return RateForecast(name, group.size, None, reason)
    rate = group.size * law.expected_rate(sizes, group.size)
    half_with_noise = widen_by_noise(half, sizes[-1].variance or 0.0)
    interval = Interval.around(rate, half_with_noise, construction, n)
    if interval.likely and interval.likely[1] > TOO_WIDE * interval.likely[0]:
        reason = f"Its interval of 80 % would span more than {TOO_WIDE:g} times its lower bound: measure a further size"
        if held_out is not None:
            cores = max(step.group.size for step in steps) + 1
            reason += f", on a CPU with {cores} cores or more: ranks that share cores are no scaling"
        return RateForecast(name, group.size, None, reason)
    totals = [step.group.size * step.rate for step in sorted(steps, key=lambda step: step.group.size)]
    return RateForecast(name, group.size, interval, falls=totals[-1] < max(totals), of_one_size=len(sizes) == 1)


def table_text(forecasts: Sequence[RateForecast], disturbances: str = "") -> str:
    """Return a table with a row for each forecast, then a line for each refusal.

    A forecast of a size that was measured has its score beside it.
    """
    rows = []
    refusals: dict[str, list[str]] = {}
    # The end of the note, after "how wrong the same law is".
    basis = f"on {law.TABLES} public tables of GPUs and TPUs"
    has_wide_rate = False
    for forecast in forecasts:
        rate = forecast.rate
        if rate is None or rate.likely is None:
            refusals.setdefault(forecast.refusal, []).append(f"{forecast.series} on {forecast.devices:,}".strip())
            continue
        if rate.construction == "leave-largest-out":
            basis = f"about the largest size of each series here (n={rate.n}), as public tables have no CPUs"
        has_wide_rate = has_wide_rate or rate.wide
        value = "" if rate.wide else number(rate.value)
        likely_low, likely_high = rate.likely
        likely = span_text(number(likely_low), number(likely_high))
        nearly_all = span_text(number(rate.low), number(rate.high))
        rows.append([forecast.series, forecast.devices, value, likely, nearly_all])
        if forecast.measured is not None:
            error = "" if rate.wide else f"{fixed(100 * (rate.value / forecast.measured - 1), 1, signed=True)} %"
            rows[-1] += [number(forecast.measured), error, "yes" if rate.holds(forecast.measured) else "no"]

    lines = []
    if rows:
        headings = ["series", "devices", "rate", "80 %", "95 %"]
        has_scores = any(len(row) > len(headings) for row in rows)
        headings += ["measured", "error", "inside 95 %"] * has_scores
        lines.append(tabulate(rows, headings, disable_numparse=True))
        if has_scores:
            lines.append("What the table has is forecast from its smaller sizes alone; error: forecast / measured - 1.")
        note = f"Rates are of all devices, in the unit of the table; intervals: how wrong the same law is {basis}."
        lines.append(f"{note} {WITHOUT_POINT}" if has_wide_rate else note)
        lines.append(COST)
    if any(forecast.of_one_size for forecast in forecasts):
        loss = f"{number(100 * law.FIRST_LOSS, 1)} %"
        lines.append(f"From one size: a device is taken to lose {loss} at each doubling; a second size would show it.")
    if falling := list(dict.fromkeys(forecast.series for forecast in forecasts if forecast.falls)):
        whose = f" of {', '.join(falling)}" if any(falling) else ""
        lines.append(f"Measured rates{whose} fall with devices, which the law does not know: expect no rise.")
    lines += [f"{', '.join(sizes)}: no forecast. {reason}".strip() for reason, sizes in refusals.items()]
    if disturbances:
        lines.append(f"With reservations: {disturbances}; measured on a quiet machine, rates may be others.")
    return "\n".join(lines)
