"""Hours, cost, repeats, and what a forecast decides already."""

import math

import pytest

from scaleproof.conclude.forecast.interval import Interval
from scaleproof.conclude.forecast.planner import (
    Candidate,
    CellPlan,
    Price,
    beyond_budget,
    certainly_faster,
    certainly_slower_cells,
    next_measurement,
)


def interval(value: float, half: float) -> Interval:
    return Interval(value, value * math.exp(-half), value * math.exp(half), 0.95, "leave-largest-out", 4)


def test_a_plan_is_runs_times_their_time():
    plan = CellPlan("ddp-n1x2", 2, 3, run_seconds=15.9)
    assert plan.device_hours == pytest.approx(2 * 3 * 15.9 / 3600)
    assert plan.cost(Price(2.5, "USD", "2026-11-01")) == pytest.approx(2.5 * plan.device_hours)


def candidate(cell: str, rate: float, half: float, hours: float = 1.0) -> Candidate:
    return Candidate(cell, interval(rate, half), hours)


def test_a_cell_is_faster_where_the_interval_of_the_ratio_says_so():
    assert not certainly_faster(candidate("a", 1.05, 0.10), candidate("b", 1.0, 0.10))
    assert certainly_faster(candidate("a", 1.16, 0.10), candidate("b", 1.0, 0.10))


def test_a_cell_is_left_out_only_where_a_narrow_forecast_decides():
    assert certainly_slower_cells([candidate("fast", 2.0, 0.05), candidate("slow", 1.0, 0.05)]) == ["slow"]
    assert certainly_slower_cells([candidate("fast", 2.0, 0.2), candidate("slow", 1.0, 0.05)]) == []
    assert certainly_slower_cells([candidate("fast", 1.01, 0.05), candidate("slow", 1.0, 0.05)]) == []


def test_the_next_measurement_is_the_uncertain_one_that_is_cheap():
    cells = [candidate("vague", 1.0, 0.12), candidate("sharp", 1.0, 0.03), candidate("dear", 1.0, 0.12, hours=10)]
    assert next_measurement(cells) == "vague"
    assert next_measurement([candidate("fast", 2.0, 0.05), candidate("slow", 1.0, 0.05)]) is None


def test_a_budget_is_kept():
    plans = [CellPlan(name, 2, 1, run_seconds=3600) for name in "abc"]
    assert beyond_budget(plans, 4.5) == ["c"]
