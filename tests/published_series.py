"""Published series (`tests/forecast/series`), forecast from their smaller sizes: what tests and a benchmark share.

Every error is forecast / measured - 1.
"""

import json
import math
from pathlib import Path

from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.compute import Compute, Sample
from scaleproof.conclude.forecast.interval import conformal, doublings
from scaleproof.conclude.forecast.memory import Held, Peak, fit_memory
from scaleproof.conclude.forecast.residual import Point, carried

SERIES = Path(__file__).parent / "conclude/forecast/series"
# Everything but the slope is in the measured part: the file of memory names no shape.
NOTHING_KNOWN = Held("single", "fp32", 0, 0, 0, 0, 1)


def published(name: str) -> dict:
    return json.loads((SERIES / f"{name}.json").read_text())


def fsdp_series() -> dict[str, list[Point]]:
    """Series name -> seconds of a step by nodes."""
    data = published("llm_foundry")
    return {
        series["name"]: [
            Point(Group(int(n) // data["devices_per_node"], 8), series["tokens_per_device_step"] * int(n) / rate)
            for n, rate in series["tokens_per_s"].items()
        ]
        for series in data["series"]
    }


def sound() -> list[list[Point]]:
    """Those that are not super-linear."""
    return [points for name, points in fsdp_series().items() if name != "a100-1b"]


def errors(points: list[Point], ahead: int) -> list[float]:
    """Of each size, from the sizes up to `ahead` steps below it, two at least."""
    return [
        carried(points[: i - ahead + 1], points[i].group)[0] / points[i].seconds - 1
        for i in range(1 + ahead, len(points))
    ]


def fsdp_errors(ahead: int) -> list[float]:
    """FSDP over 16 to 512 devices, `ahead` doublings."""
    return [error for points in sound() for error in errors(points, ahead)]


def fsdp_inside(level: float) -> list[bool]:
    """Whether a conformal interval from the other series holds the next doubling."""
    series = sound()
    largest = [max((abs(e) for e in errors(points, 1)), default=None) for points in series]
    inside = []
    for i, points in enumerate(series):
        others = [value for j, value in enumerate(largest) if j != i and value is not None]
        for place in range(2, len(points)):
            value = carried(points[:place], points[place].group)[0]
            interval = conformal(value, others, doublings(2, 1), level)
            inside.append(interval.level >= level and interval.holds(points[place].seconds))
    return inside


def ddp_compute() -> Compute:
    data = published("gpt2_ddp_h100")
    tokens = data["micro_batch"] * data["seq_len"]
    samples = [Sample(64, int(a), int(a) * tokens / rate) for a, rate in data["single"].items()]
    return Compute(tuple(samples))


def ddp_strong_errors() -> dict[int, float]:
    """GPT-2 124M by DDP on 4 and 8 H100, from 1 and 2; the global batch stays."""
    data, compute = published("gpt2_ddp_h100"), ddp_compute()
    step = {n: 524_288 / int(n) / rate for n, rate in data["strong"].items()}
    alone = {n: compute.step(64, a) for n, a in data["strong_accumulation"].items()}
    points = [Point(Group(1, 2), step["2"], alone["2"])]
    return {int(n): (alone[n] + carried(points, Group(1, int(n)))[0]) / step[n] - 1 for n in ("4", "8")}


def ddp_multiplied_errors() -> dict[int, float]:
    """The same by the law that was not chosen: what two devices lose is lost in proportion to the computing."""
    data, compute = published("gpt2_ddp_h100"), ddp_compute()
    step = {n: 524_288 / int(n) / rate for n, rate in data["strong"].items()}
    alone = {n: compute.step(64, a) for n, a in data["strong_accumulation"].items()}
    return {int(n): alone[n] * step["2"] / alone["2"] / step[n] - 1 for n in ("4", "8")}


def ddp_weak_errors() -> dict[int, float]:
    """The same; the global batch grows with the devices."""
    data, one = published("gpt2_ddp_h100"), ddp_compute().step(64, 1)
    step = {n: one / efficiency for n, efficiency in data["weak_efficiency"].items()}
    points = [Point(Group(1, 2), step["2"], one)]
    return {int(n): (one + carried(points, Group(1, int(n)))[0]) / step[n] - 1 for n in ("4", "8")}


def v100_error() -> float:
    """GPT-2 small by DDP on 4 V100, from 1 and 2."""
    data = published("gpt2_v100")
    step = {int(n): data["tokens_per_step"] / rate for n, rate in data["tokens_per_s"].items()}
    point = Point(Group(1, 2), step[2], step[1] / 2)
    return (step[1] / 4 + carried([point], Group(1, 4))[0]) / step[4] - 1


def memory_errors(stage: str) -> list[float]:
    """Peaks of micro-batches up to four times the measured ones, from the two smallest above 1 (OpenTau)."""
    peaks = {int(b): gb * 1e9 for b, gb in published("memory_opentau")[stage].items() if gb}
    sizes = sorted(peaks)
    model = fit_memory(NOTHING_KNOWN, [Peak(b, 1, peaks[b]) for b in sizes[:3]])  # 1 is left out
    return [model.at(size, 1) / peaks[size] - 1 for size in sizes[3:] if size <= 4 * sizes[2]]


def simumax_corrected(level: float) -> tuple[list[float], list[bool]]:
    """43 analytical predictions with the bias of the other 42 taken out: errors, and whether intervals hold."""
    rows = published("b200_simumax")["predicted_and_measured_ms"]
    logs = [math.log(measured / predicted) for predicted, measured in rows]
    corrected, inside = [], []
    for i, (predicted, measured) in enumerate(rows):
        others = logs[:i] + logs[i + 1 :]
        bias = sum(others) / len(others)
        interval = conformal(predicted * math.exp(bias), [abs(value - bias) for value in others], 1.0, level)
        corrected.append(interval.value / measured - 1)
        inside.append(interval.holds(measured))
    return corrected, inside
