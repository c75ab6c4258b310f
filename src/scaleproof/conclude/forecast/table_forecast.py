"""Forecasts from a table that somebody has: a CSV file with a column of devices and a column of rates."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.interval import Interval
from scaleproof.conclude.forecast.law import (
    MeasuredStep,
    Target,
    Unsupported,
    check_support,
    expected_rate,
    held_out,
    sizes_for,
)
from scaleproof.conclude.forecast.public_series import TABLES, half_widths, stretch
from scaleproof.ground.errors import UserError, nearest
from scaleproof.ground.files import read_regular
from scaleproof.ground.number_format import number

DEVICES = re.compile(r"(n[_ ]|num[_ ]|number of )?(devices|gpus|chips|world[_ ]size)")
RATE = re.compile(r"throughput|/ ?s\b|/ ?sec|per[_ ]s(ec)?\b|per[_ ]second")
OF_EACH = re.compile(r"(per[_ ]|/ ?)(device|gpu|chip)")
FIGURE = re.compile(r"[~ ]*([0-9][0-9,]*\.?[0-9]*(?:e[+-]?[0-9]+)?)", re.IGNORECASE)


@dataclass(frozen=True)
class RateForecast:
    """The rate of all devices of a size that the table does not have, or why there is none."""

    series: str
    devices: int
    rate: Interval | None
    refusal: str = ""


@dataclass(frozen=True)
class Columns:
    """Places of the columns in a row. `of_each`: the rate is that of one device."""

    devices: int
    rate: int
    of_each: bool
    others: tuple[int, ...]


def forecast_table(path: Path, devices: Sequence[int], devices_per_node: int) -> list[RateForecast]:
    """Each series of the table at each number of `devices`; where none is given, at twice and four times its largest.

    A series is what has the same words in all other columns. Raises UserError where the file is no such table.
    """
    forecasts = []
    for name, steps in _read(path, devices_per_node).items():
        largest = max(step.group.size for step in steps)
        for size in devices or (2 * largest, 4 * largest):
            forecasts.append(_forecast(name, steps, group_of_size(size, devices_per_node)))
    return forecasts


def group_of_size(devices: int, devices_per_node: int) -> Group:
    """The group of so many devices, on as few nodes as they need; beyond one node all nodes count as full."""
    if devices <= devices_per_node:
        return Group(1, devices)
    return Group(math.ceil(devices / devices_per_node), devices_per_node)


def _forecast(name: str, steps: Sequence[MeasuredStep], group: Group) -> RateForecast:
    """The rate of all devices of `group` from the `steps` of the series `name`, as _read makes them."""
    if group in (step.group for step in steps):
        return RateForecast(name, group.size, None, "The table has it")
    target = Target(group, micro_batch=1, accumulation=1)
    sizes = sizes_for(steps, target)
    try:
        check_support(name or "the series", sizes, target)
    except Unsupported as refusal:
        return RateForecast(name, group.size, None, refusal.reason)
    own = held_out(steps)
    half = half_widths(sizes, group).times(stretch([own] if own else []))
    rate = group.size * expected_rate(sizes, group.size)
    return RateForecast(name, group.size, Interval.around(rate, half, "public series", TABLES))


def _read(path: Path, devices_per_node: int) -> dict[str, list[MeasuredStep]]:
    """The measured steps of each series of a table, by the series' name. Raises UserError where it is no such table.

    A step is made from a rate as if each device had one sample in it.
    """
    try:
        rows = list(csv.reader(io.StringIO(read_regular(path).decode("utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is no CSV file: {error}") from None
    if len(rows) < 2:
        raise UserError(f"{path} has no row below its headings")
    columns = _columns(path, rows[0])
    series: dict[str, list[MeasuredStep]] = {}
    for line, row in enumerate(rows[1:], start=2):
        if not any(row):
            continue
        if len(row) != len(rows[0]):
            raise UserError(f"{path}, line {line}: {len(row)} fields, {len(rows[0])} headings")
        devices, rate = (_figure(path, line, row[place]) for place in (columns.devices, columns.rate))
        rate_of_device = rate if columns.of_each else rate / devices
        name = " ".join(row[place].strip() for place in columns.others)
        group = group_of_size(int(devices), devices_per_node)
        step = MeasuredStep(group, micro_batch=1, accumulation=1, seconds=1 / rate_of_device)
        series.setdefault(name, []).append(step)
    return series


def _columns(path: Path, headings: list[str]) -> Columns:
    """Which column is which. Raises UserError unless one is of devices and one of rates."""
    names = [heading.strip().lower() for heading in headings]
    of_devices = [place for place, name in enumerate(names) if DEVICES.fullmatch(name)]
    of_rates = [place for place, name in enumerate(names) if RATE.search(name)]
    required = (("devices", of_devices, "devices, gpus, chips"), ("rates", of_rates, "tokens/s, samples/s, throughput"))
    for what, places, examples in required:
        if len(places) != 1:
            many = "no column" if not places else f"{len(places)} columns"
            hint = nearest(what, names) if not places else ""
            raise UserError(f"{path}: {many} of {what} (such as {examples}) among {', '.join(headings)}.{hint}")
    devices, rate = of_devices[0], of_rates[0]
    others = tuple(place for place in range(len(names)) if place not in (devices, rate))
    return Columns(devices, rate, bool(OF_EACH.search(names[rate])), others)


def _figure(path: Path, line: int, text: str) -> float:
    """The number at the start of a field, as in "1,078 img/s". Raises UserError where there is none above 0."""
    match = FIGURE.match(text)
    value = float(match[1].replace(",", "")) if match else 0.0
    if value <= 0:
        raise UserError(f'{path}, line {line}: "{text}" is no number above 0')
    return value


def table_text(forecasts: Sequence[RateForecast]) -> str:
    """A table with a row for each forecast, then a line for each that was refused."""
    rows, refused = [], []
    for forecast in forecasts:
        rate = forecast.rate
        if rate is None or rate.likely is None:
            refused.append(f"{forecast.series} on {forecast.devices}: no forecast. {forecast.refusal}".strip())
            continue
        likely, nearly_all = (f"{number(low)} to {number(high)}" for low, high in (rate.likely, (rate.low, rate.high)))
        rows.append([forecast.series, forecast.devices, number(rate.value), likely, nearly_all])
    headings = ["series", "devices", "rate", "80 %", "95 %"]
    note = f"Intervals: how wrong the same law is on {TABLES} public tables of GPUs and TPUs."
    return "\n".join([tabulate(rows, headings, disable_numparse=True), note, *refused])
