"""Forecasts of published series, from their smaller sizes."""

import json
import math
from pathlib import Path

import pytest

from scalebench.forecast.collective import Group, Unsupported
from scalebench.forecast.compute import Compute, Sample
from scalebench.forecast.interval import conformal, doublings
from scalebench.forecast.memory import Held, Peak, fit_memory, verdict
from scalebench.forecast.residual import Point, carried, check_series

SERIES = Path(__file__).parent / "series"


def published(name: str) -> dict:
    return json.loads((SERIES / f"{name}.json").read_text())


def fsdp_series() -> dict[str, list[Point]]:
    """Series name -> seconds of a step by nodes, of those that are no refusals."""
    data = published("llm_foundry")
    return {
        series["name"]: [
            Point(Group(int(n) // data["devices_per_node"], 8), series["tokens_per_device_step"] * int(n) / rate)
            for n, rate in series["tokens_per_s"].items()
        ]
        for series in data["series"]
    }


def errors(points: list[Point], ahead: int) -> list[float]:
    """Forecast / measured - 1 of each size, from the sizes up to `ahead` steps below it, two at least."""
    return [
        carried(points[: i - ahead + 1], points[i].group)[0] / points[i].seconds - 1
        for i in range(1 + ahead, len(points))
    ]


def sound() -> list[list[Point]]:
    return [points for name, points in fsdp_series().items() if name != "a100-1b"]


def test_one_doubling_ahead_across_nodes():
    found = [error for points in sound() for error in errors(points, 1)]
    assert len(found) == 17
    assert sum(map(abs, found)) / 17 < 0.0105
    assert max(map(abs, found)) < 0.032


def test_two_doublings_ahead_across_nodes():
    found = [error for points in sound() for error in errors(points, 2)]
    assert len(found) == 4
    assert max(map(abs, found)) < 0.03


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_conformal_intervals_cover_the_series_that_were_left_out(level):
    residuals = {i: [abs(e) for e in errors(points, 1)] for i, points in enumerate(sound())}
    inside = total = 0
    for i, own in residuals.items():
        others = [max(values) for j, values in residuals.items() if j != i]
        for points in [sound()[i]]:
            for place, _ in enumerate(own):
                target = points[place + 2]
                value = carried(points[: place + 2], target.group)[0]
                interval = conformal(value, others, doublings(2, 1), level)
                inside += interval.level >= level and interval.holds(target.seconds)
                total += 1
    assert inside / total >= level - 0.03


@pytest.mark.parametrize("name", ["a100-1b"])
def test_a_super_linear_series_is_refused(name):
    with pytest.raises(Unsupported) as refused:
        check_series(fsdp_series()[name])
    assert refused.value.code == "super-linear"


def test_no_sound_series_is_refused():
    for points in sound():
        check_series(points)


def test_a_super_linear_job_is_refused():
    data = published("super_linear")
    points = [Point(Group(int(n) // 8, 8), 60 * minutes * int(n) / 8) for n, minutes in data["minutes"].items()]
    with pytest.raises(Unsupported):
        check_series(points)


def ddp_compute() -> Compute:
    data = published("gpt2_ddp_h100")
    tokens = data["micro_batch"] * data["seq_len"]
    samples = [Sample(64, int(a), int(a) * tokens / rate) for a, rate in data["single"].items()]
    return Compute(tuple(samples))


def test_ddp_in_a_node_from_one_and_two_devices_strong():
    data, compute = published("gpt2_ddp_h100"), ddp_compute()
    step = {n: 524_288 / int(n) / rate for n, rate in data["strong"].items()}
    alone = {n: compute.step(64, a) for n, a in data["strong_accumulation"].items()}
    points = [Point(Group(1, 2), step["2"], alone["2"])]
    found = {n: (alone[n] + carried(points, Group(1, int(n)))[0]) / step[n] - 1 for n in ("4", "8")}
    assert abs(found["4"]) < 0.01
    assert abs(found["8"]) < 0.01
    multiplied = {n: alone[n] * step["2"] / alone["2"] / step[n] - 1 for n in ("4", "8")}
    assert multiplied["8"] < -0.06  # the law that was not chosen


def test_ddp_in_a_node_from_one_and_two_devices_weak():
    data, one = published("gpt2_ddp_h100"), ddp_compute().step(64, 1)
    step = {n: one / efficiency for n, efficiency in data["weak_efficiency"].items()}
    points = [Point(Group(1, 2), step["2"], one)]
    for n in ("4", "8"):
        assert abs((one + carried(points, Group(1, int(n)))[0]) / step[n] - 1) < 0.01


def test_v100_in_a_node_from_one_and_two_devices():
    data = published("gpt2_v100")
    step = {int(n): data["tokens_per_step"] / rate for n, rate in data["tokens_per_s"].items()}
    point = Point(Group(1, 2), step[2], step[1] / 2)
    forecast = step[1] / 4 + carried([point], Group(1, 4))[0]
    assert abs(forecast / step[4] - 1) < 0.10


# Everything but the slope is in the measured part: the file names no shape.
NOTHING_KNOWN = Held("single", "fp32", 0, 0, 0, 0, 1)


@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_memory_of_larger_batches_from_two_smaller_ones(stage):
    peaks = {int(b): gb * 1e9 for b, gb in published("memory_opentau")[stage].items() if gb}
    sizes = sorted(peaks)
    model = fit_memory(NOTHING_KNOWN, [Peak(b, 1, peaks[b]) for b in sizes[:3]])  # 1 is left out
    for size in sizes[3:]:
        if size <= 4 * sizes[2]:
            assert model.at(size, 1) / peaks[size] == pytest.approx(1, abs=0.02)


def test_what_ran_out_of_memory_is_never_said_to_fit():
    for stage in ("zero2", "zero3"):
        gigabytes = published("memory_opentau")[stage]
        known = {int(b): gb * 1e9 for b, gb in gigabytes.items() if gb}
        sizes = sorted(known)
        model = fit_memory(NOTHING_KNOWN, [Peak(b, 1, known[b]) for b in sizes[1:3]])
        failed = next(int(b) for b, gb in gigabytes.items() if gb is None)
        if failed <= 4 * sizes[2]:
            assert verdict(model.at(failed, 1), 85e9) != "fits"


def test_a_line_through_micro_batch_one_would_be_worse():
    peaks = {int(b): gb * 1e9 for b, gb in published("memory_opentau")["zero3"].items() if gb}
    slope = (peaks[32] - peaks[1]) / 31
    assert (peaks[32] + 96 * slope) / peaks[128] - 1 > 0.03


def test_a_ledger_of_anothers_forecasts_corrects_their_bias_and_covers():
    """43 analytical predictions err by -5.6 % on average: corrected by the others, each is within its interval."""
    rows = published("b200_simumax")["predicted_and_measured_ms"]
    logs = [math.log(measured / predicted) for predicted, measured in rows]
    assert len(rows) == 43
    assert sum(math.exp(-value) - 1 for value in logs) / 43 == pytest.approx(-0.056, abs=0.001)
    corrected, inside = [], 0
    for i, (predicted, measured) in enumerate(rows):
        others = logs[:i] + logs[i + 1 :]
        bias = sum(others) / len(others)
        interval = conformal(predicted * math.exp(bias), [abs(value - bias) for value in others], 1.0, 0.95)
        corrected.append(abs(interval.value / measured - 1))
        inside += interval.holds(measured)
    assert sum(corrected) / 43 < 0.029
    assert inside / 43 >= 0.92
