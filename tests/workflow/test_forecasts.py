"""Held-out cells run after the forecast of them, and cells after the trials that find their micro-batch."""

import pytest
from workflow_texts import TINY

HELD_OUT = TINY + "\nforecast: {from: [1x1], hold_out: [1x2], launches: 2}\n"


@pytest.fixture(scope="module")
def held_out(make_copy):
    copy = make_copy()
    copy.campaign("held", HELD_OUT)
    return copy


@pytest.mark.parametrize(
    ("target", "jobs"),
    [
        ("forecast.json", {"sweep": 1, "forecast": 1, "forecast_report": 1, "train": 2}),
        ("runs/ddp-n1x2/rep1/training_metrics.json", {"sweep": 1, "forecast": 1, "train": 2}),
        ("runs/ddp-n1x1/rep1/training_metrics.json", {"train": 1}),
    ],
)
def test_the_forecast_stands_between_the_runs_and_those_that_are_held_out(held_out, target, jobs):
    planned = held_out.planned(f"results/held/{target}")
    rules = ("sweep", "forecast", "forecast_report", "train")
    assert {rule: planned[rule] for rule in rules if planned[rule]} == jobs


def test_trials_stand_before_the_runs_whose_micro_batch_they_find(make_copy):
    copy = make_copy()
    text = TINY.replace("global_batch: 8", "global_batch: 8\n  micro_batch: largest")
    copy.campaign("big", text + "\nfrontier: {limit_gb: 2}\n")
    planned = copy.planned("results/big/runs/ddp-n1x2/rep1/training_metrics.json")
    assert {rule: planned[rule] for rule in ("frontier", "train")} == {"frontier": 1, "train": 1}
