"""Forecasts of published series, from their smaller sizes."""

import pytest
from published_series import (
    NOTHING_KNOWN,
    ddp_multiplied_errors,
    ddp_strong_errors,
    ddp_weak_errors,
    fsdp_errors,
    fsdp_inside,
    fsdp_series,
    memory_errors,
    published,
    simumax_corrected,
    sound,
    v100_error,
)

from scaleproof.conclude.forecast.collective import Group, Unsupported
from scaleproof.conclude.forecast.memory import Peak, fit_memory, verdict
from scaleproof.conclude.forecast.residual import Point, check_series


def test_one_doubling_ahead_across_nodes():
    found = fsdp_errors(1)
    assert len(found) == 17
    assert sum(map(abs, found)) / 17 < 0.0105
    assert max(map(abs, found)) < 0.032


def test_two_doublings_ahead_across_nodes():
    found = fsdp_errors(2)
    assert len(found) == 4
    assert max(map(abs, found)) < 0.03


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_conformal_intervals_cover_the_series_that_were_left_out(level):
    inside = fsdp_inside(level)
    assert len(inside) == 17
    assert sum(inside) / 17 >= level - 0.03


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


def test_ddp_in_a_node_from_one_and_two_devices():
    for found in (ddp_strong_errors(), ddp_weak_errors()):
        assert abs(found[4]) < 0.01
        assert abs(found[8]) < 0.01
    assert ddp_multiplied_errors()[8] < -0.06  # the law that was not chosen


def test_v100_in_a_node_from_one_and_two_devices():
    assert abs(v100_error()) < 0.10


@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_memory_of_larger_batches_from_two_smaller_ones(stage):
    found = memory_errors(stage)
    assert found
    assert max(map(abs, found)) <= 0.02


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
    assert sum(predicted / measured - 1 for predicted, measured in rows) / 43 == pytest.approx(-0.056, abs=0.001)
    corrected, inside = simumax_corrected(0.95)
    assert sum(map(abs, corrected)) / 43 < 0.029
    assert sum(inside) / 43 >= 0.92
