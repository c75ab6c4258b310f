"""The law: what it gives, what it refuses, and what is held out of a series."""

import math

import pytest

from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.law import (
    A_DOUBLING,
    FIRST_LOSS,
    FROM_ONE,
    MeasuredStep,
    Target,
    Unsupported,
    check_support,
    doublings,
    expected_rate,
    half_widths,
    hold_largest_out,
    nearest_steps,
    stretch_factor,
)


def step(devices: int, rate: float, micro: int = 8, accumulation: int = 1, per_node: int = 8) -> MeasuredStep:
    group = Group(max(1, devices // per_node), min(devices, per_node))
    return MeasuredStep(group, micro, accumulation, seconds=micro * accumulation / rate)


def target(devices: int, micro: int = 8, accumulation: int = 1) -> Target:
    return step(devices, 1.0, micro, accumulation)


def test_each_further_doubling_costs_half_of_the_last_one():
    sizes = [step(1, 100.0), step(2, 90.0)]
    lost = math.log(100 / 90) / 2
    assert expected_rate(sizes, 4) == pytest.approx(90 * math.exp(-lost))
    assert expected_rate(sizes, 8) == pytest.approx(90 * math.exp(-2 * lost))


def test_a_series_that_rises_is_expected_to_stay():
    assert expected_rate([step(8, 100.0), step(16, 104.0)], 32) == pytest.approx(104)


def test_one_size_loses_what_public_series_lose():
    assert expected_rate([step(8, 100.0)], 16) == pytest.approx(100 * math.exp(-FIRST_LOSS))


def test_between_sizes_and_below_them():
    sizes = [step(2, 100.0), step(8, 64.0)]
    assert expected_rate(sizes, 4) == pytest.approx(80)
    assert expected_rate(sizes, 8) == pytest.approx(64)
    assert expected_rate(sizes, 1) == pytest.approx(100)


def test_of_each_size_the_setting_that_is_nearest_counts():
    measured = [step(2, 1.0, micro=4), step(2, 2.0, micro=16), step(2, 3.0, 8, accumulation=2), step(1, 4.0)]
    assert [s.rate for s in nearest_steps(measured, target(4, micro=16))] == [pytest.approx(4), pytest.approx(2)]
    assert [s.rate for s in nearest_steps(measured, target(4, 8, accumulation=2))] == [
        pytest.approx(4),
        pytest.approx(3),
    ]


def test_of_as_many_devices_those_that_stand_as_the_target_does_count():
    one_node, two_nodes = MeasuredStep(Group(1, 8), 8, 1, 1.0), MeasuredStep(Group(2, 4), 8, 1, 2.0)
    assert nearest_steps([two_nodes, one_node], Target(Group(2, 8), 8, 1)) == [one_node]
    assert nearest_steps([one_node, two_nodes], Target(Group(4, 4), 8, 1)) == [two_nodes]


@pytest.mark.parametrize(
    ("code", "strategy", "sizes", "target_step"),
    [
        ("never-measured", "ddp", [], target(2)),
        ("dp-beyond-measured", "dp", [step(2, 1.0)], target(4)),
        ("group-too-large", "ddp", [step(2, 1.0)], target(32)),
        ("micro-batch-outside", "ddp", [step(2, 1.0)], target(4, micro=32)),
        ("super-linear", "ddp", [step(1, 1.0), step(2, 1.2)], target(4)),
    ],
)
def test_what_measured_sizes_do_not_support_is_refused(code, strategy, sizes, target_step):
    with pytest.raises(Unsupported) as refused:
        check_support(strategy, sizes, target_step)
    assert refused.value.code == code
    assert refused.value.measure.startswith("run ")
    if code == "group-too-large":
        assert str(refused.value).startswith(
            f"32 devices ({target_step.group}, nodes x devices of each) are more than 8 "
        )


@pytest.mark.parametrize(
    ("sizes", "target_step"),
    [
        ([step(16, 1.0), step(32, 1.0)], target(64)),  # without a single device
        ([step(1, 1.0, 8, 8), step(2, 1.0, 8, 4)], target(4, 8, 2)),  # with accumulation
        ([step(1, 1.0, 32), step(2, 1.2, 16)], target(8, micro=4)),  # with a constant global batch
        ([step(2, 1.0)], target(16)),
    ],
)
def test_what_people_have_is_answered(sizes, target_step):
    check_support("ddp", sizes, target_step)


def test_the_largest_size_is_held_out():
    one = hold_largest_out([step(1, 100.0), step(4, 80.0)])
    assert one.residual == pytest.approx(math.log(100 / 80) - 2 * FIRST_LOSS)
    assert one.residual_per_doubling == one.residual / 2
    assert hold_largest_out([step(2, 1.0), step(2, 2.0, micro=16)]) is None


def test_a_campaign_that_the_law_misses_has_wider_intervals():
    sound = hold_largest_out([step(1, 100.0), step(2, 97.0)])
    missed = hold_largest_out([step(1, 100.0), step(2, 50.0)])
    assert stretch_factor([]) == stretch_factor([sound]) == 1.0
    claimed = half_widths(missed.sizes, missed.largest.group)
    assert claimed == FROM_ONE["node"]
    assert stretch_factor([sound, missed]) == pytest.approx(missed.residual / claimed.nearly_all)


def test_doublings_are_at_least_one():
    assert [doublings(8, 2), doublings(4, 4), doublings(3, 2)] == [2, 1, 1]


@pytest.mark.parametrize(("measured", "is_widened"), [((4,), True), ((2, 4), True), ((4, 8), False), ((8,), False)])
def test_across_nodes_a_forecast_is_not_surer_than_for_the_first_full_node(measured, is_widened):
    sizes = [step(size, 100.0) for size in measured]
    near, far = half_widths(sizes, Group(1, 8)), half_widths(sizes, Group(2, 8))
    assert (far.likely >= near.likely and far.nearly_all >= near.nearly_all) or not is_widened
    of_series = FROM_ONE["network"] if len(sizes) < 2 else A_DOUBLING["network"].times(doublings(16, measured[-1]))
    assert (far != of_series) == is_widened
