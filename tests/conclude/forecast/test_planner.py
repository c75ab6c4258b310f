"""Hours, cost, repeats, and what a forecast decides already."""

import math

import pytest

from scaleproof.conclude.forecast.interval import Interval
from scaleproof.conclude.forecast.planner import (
    Candidate,
    Duration,
    Price,
    cell_plan,
    certainly_faster,
    dispensable,
    next_measurement,
    within_budget,
)


def interval(value: float, half: float) -> Interval:
    return Interval(value, value * math.exp(-half), value * math.exp(half), 0.95, "leave-largest-out", 4)


def test_a_plan_is_runs_times_their_time():
    duration = Duration(launch=5, setup=3, first_step=2, step=interval(0.1, 0.1), steps=50, warmup_steps=10)
    plan = cell_plan("ddp-n1x2", 2, 3, duration)
    assert plan.run_seconds == pytest.approx(10 + 59 * 0.1)
    assert plan.run_low < plan.run_seconds < plan.run_high
    assert plan.device_hours == pytest.approx(2 * 3 * 15.9 / 3600)
    assert plan.cost(Price(2.5, "USD", "2026-11-01")) == pytest.approx(2.5 * plan.device_hours)


def candidate(cell: str, rate: float, half: float, hours: float = 1.0, shared: float = 0.0) -> Candidate:
    return Candidate(cell, interval(rate, half), hours, shared)


def test_what_both_share_does_not_keep_them_apart():
    a, b = candidate("a", 1.05, 0.10), candidate("b", 1.0, 0.10)
    assert not certainly_faster(a, b)
    shared = 0.95 * a.variance
    assert certainly_faster(candidate("a", 1.05, 0.10, shared=shared), candidate("b", 1.0, 0.10, shared=shared))


def test_a_cell_is_left_out_only_where_a_narrow_forecast_decides():
    assert dispensable([candidate("fast", 2.0, 0.05), candidate("slow", 1.0, 0.05)]) == ["slow"]
    assert dispensable([candidate("fast", 2.0, 0.2), candidate("slow", 1.0, 0.05)]) == []
    assert dispensable([candidate("fast", 1.01, 0.05), candidate("slow", 1.0, 0.05)]) == []


def test_the_next_measurement_is_the_uncertain_one_that_is_cheap():
    cells = [candidate("vague", 1.0, 0.12), candidate("sharp", 1.0, 0.03), candidate("dear", 1.0, 0.12, hours=10)]
    assert next_measurement(cells)[0] == "vague"
    assert next_measurement([candidate("fast", 2.0, 0.05), candidate("slow", 1.0, 0.05)]) is None


def test_a_budget_is_kept():
    plans = [cell_plan(name, 2, 1, Duration(0, 0, 0, interval(60, 0.1), 60, 0)) for name in "abc"]
    assert within_budget(plans, 4.5) == (["a", "b"], ["c"])
