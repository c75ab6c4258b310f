"""Published series and peaks (`tests/conclude/forecast/series`), forecast from their smaller sizes.

Errors are forecast / measured - 1. What tests and `benchmarks/forecast.py` share.
"""

import csv
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.interval import HalfWidths, conformal_half_widths
from scaleproof.conclude.forecast.law import (
    MeasuredStep,
    Target,
    Unsupported,
    check_support,
    expected_rate,
    half_widths,
    nearest_steps,
)
from scaleproof.conclude.forecast.memory import MemoryInputs, Peak, fit_memory
from scaleproof.conclude.forecast.table_forecast import group_of_size

SERIES = Path(__file__).parent / "conclude/forecast/series"
# Everything but the slope is in the measured part: the file of memory names no shape.
NOTHING_KNOWN = MemoryInputs("single", "fp32", 0, 0, 0, 0, 1)
MOST_DOUBLINGS = 3
Table = tuple[str, str, str]  # repository and commit, file, line


def published(name: str) -> dict:
    return json.loads((SERIES / f"{name}.json").read_text())


@dataclass(frozen=True)
class PublicForecast:
    """A size of a public series, forecast from the `sizes` below it; `error` is None where it was refused."""

    table: Table
    sizes: tuple[MeasuredStep, ...]
    target: MeasuredStep
    error: float | None
    refusal: str = ""

    @property
    def known(self) -> int:
        """Measured sizes that count: one, or two."""
        return min(len(self.sizes), 2)

    @property
    def doublings(self) -> int:
        return round(math.log2(self.target.group.size / self.sizes[-1].group.size))

    @property
    def residual(self) -> float:
        """|log(measured / forecast)|."""
        return abs(math.log1p(self.error))

    @property
    def half_widths(self) -> HalfWidths:
        return half_widths(self.sizes, self.target.group)

    def error_of(self, law: Callable[[Sequence[MeasuredStep], int], float]) -> float:
        """Of the step time, by another law of a device's rate."""
        return self.target.rate / law(self.sizes, self.target.group.size) - 1


def public_tables(domain: str = "language") -> dict[Table, list[list[MeasuredStep]]]:
    """Table -> its series, each from few to many devices."""
    tables: dict[Table, list[list[MeasuredStep]]] = {}
    with (SERIES / "public.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["domain"] == domain:
                table = (row["source"], row["file"], row["line"])
                pairs = (pair.split(":") for pair in row["rates"].split())
                per_node = int(row["devices_per_node"])
                steps = [
                    MeasuredStep(group_of_size(int(n), per_node), 1, 1, seconds=int(n) / float(rate))
                    for n, rate in pairs
                ]
                tables.setdefault(table, []).append(steps)
    return tables


def public_forecasts(domain: str = "language") -> list[PublicForecast]:
    """Each size of each series from the sizes below it, up to three doublings ahead."""
    made = []
    for table, every in public_tables(domain).items():
        for steps in every:
            for place, target in enumerate(steps):
                for last in range(place):
                    sizes = tuple(steps[: last + 1])
                    if target.group.size <= 2 ** (MOST_DOUBLINGS + 0.2) * sizes[-1].group.size:
                        made.append(_forecast(table, sizes, target))
    return made


def _forecast(table: Table, sizes: tuple[MeasuredStep, ...], target: MeasuredStep) -> PublicForecast:
    at = Target(target.group, 1, 1)
    nearest = nearest_steps(sizes, at)
    try:
        check_support("it", nearest, at)
    except Unsupported as refusal:
        return PublicForecast(table, sizes, target, None, refusal.code)
    return PublicForecast(table, sizes, target, target.rate / expected_rate(nearest, target.group.size) - 1)


def is_held_back(forecast: PublicForecast) -> bool:
    """Half of the files with tables, by a hash of their names: the law was chosen on the other half."""
    source, file, _ = forecast.table
    return bool(int(hashlib.sha256(f"{source}{file}".encode()).hexdigest(), 16) % 2)


def weighted_quantile(values: Sequence[float], tables: Iterable[Table], share: float) -> float:
    """The smallest value at or below which `share` of all lies, each table counted once."""
    names = list(tables)
    weights = np.array([1 / names.count(name) for name in names])
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(np.asarray(values)[order][min(int(np.searchsorted(reached, share)), len(order) - 1)])


def unchanged(sizes: Sequence[MeasuredStep], devices: int) -> float:
    """The simplest law: a device's rate stays as it is."""
    return sizes[-1].rate


def half_log_slope(sizes: Sequence[MeasuredStep], devices: int) -> float:
    """The law to beat: through the last two points, with half of their slope in logarithms."""
    if len(sizes) < 2:
        return sizes[-1].rate
    before, last = sizes[-2:]
    slope = math.log(last.rate / before.rate) / math.log(last.group.size / before.group.size)
    return last.rate * (devices / last.group.size) ** (slope / 2)


def v100_error() -> float:
    """GPT-2 small by DDP on 4 V100, from 1 and 2; the global batch stays."""
    data = published("gpt2_v100")
    steps = [_step(int(n), rate) for n, rate in data["tokens_per_s"].items()]
    return steps[2].rate / expected_rate(steps[:2], 4) - 1


def ddp_errors(kind: str) -> dict[int, float]:
    """GPT-2 124M by DDP on 4 and 8 H100, from 1 and 2; `kind`: strong or weak."""
    data = published("gpt2_ddp_h100")
    if kind == "strong":
        steps = [_step(int(n), int(n) * rate) for n, rate in data["strong"].items()]
    else:
        steps = [_step(int(n), int(n) * efficiency) for n, efficiency in data["weak_efficiency"].items()]
    known = [step for step in steps if step.group.size <= 2]
    return {s.group.size: s.rate / expected_rate(known, s.group.size) - 1 for s in steps if s.group.size > 2}


def _step(devices: int, rate: float) -> MeasuredStep:
    """Of a node, with one sample a device."""
    return MeasuredStep(Group(1, devices), 1, 1, seconds=devices / rate)


def simumax_inside() -> tuple[list[float], list[bool]]:
    """43 analytical predictions with the bias of the other 42 taken out: errors, and whether 95 % intervals hold."""
    rows = published("b200_simumax")["predicted_and_measured_ms"]
    logs = [math.log(measured / predicted) for predicted, measured in rows]
    errors, inside = [], []
    for i, own in enumerate(logs):
        others = logs[:i] + logs[i + 1 :]
        bias = sum(others) / len(others)
        half = conformal_half_widths([abs(value - bias) for value in others], 1.0)
        errors.append(math.expm1(bias - own))
        inside.append(abs(own - bias) <= half.nearly_all)
    return errors, inside


def memory_errors(stage: str) -> list[float]:
    """Peaks of micro-batches up to four times the measured ones, from the two smallest above 1 (OpenTau)."""
    peaks = {int(b): gb * 1e9 for b, gb in published("memory_opentau")[stage].items() if gb}
    sizes = sorted(peaks)
    model = fit_memory(NOTHING_KNOWN, [Peak(b, 1, peaks[b]) for b in sizes[:3]])  # 1 is left out
    return [model.predict(size, 1) / peaks[size] - 1 for size in sizes[3:] if size <= 4 * sizes[2]]
