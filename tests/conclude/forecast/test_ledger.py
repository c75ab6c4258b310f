"""Forecasts that are written first and scored later."""

import json

import pytest

from scaleproof.conclude.forecast.ledger import (
    Entry,
    Forecasts,
    add_to_ledger,
    coverage_of,
    past_residuals,
    read_forecasts,
    read_ledger,
    score_forecasts,
    write_forecasts,
)
from scaleproof.ground.errors import UserError


def forecasts(**keys) -> Forecasts:
    entries = [
        Entry(
            cell="ddp-n1x4",
            strategy="ddp",
            devices=4,
            largest_measured=2,
            value=1.0,
            low=0.9,
            high=1.1,
            level=0.95,
            construction="leave-largest-out",
            n=3,
        ),
        Entry(cell="zero3-n1x4", strategy="zero3", devices=4, refusal="never-shared", reason="no", measure="run it"),
    ]
    data = {"campaign": "demo", "made_utc": "2026-11-21T10:00:00Z", "machine": "cpu gloo"}
    return Forecasts(**(data | {"calibrated_on": {"ddp-n1x2/rep1": "ab"}, "entries": entries} | keys))


LATER, EARLIER = "2026-11-21T11:00:00Z", "2026-11-21T09:00:00Z"


def test_a_forecast_is_sealed_and_read_back(tmp_path):
    path = write_forecasts(tmp_path, forecasts())
    (read,) = read_forecasts(tmp_path)
    assert read.sha256 in path.read_text()
    assert read.entries[0].interval.value == 1.0


def test_a_forecast_that_was_changed_afterwards_is_refused(tmp_path):
    path = write_forecasts(tmp_path, forecasts())
    data = json.loads(path.read_text())
    data["entries"][0]["high"] = 2.0
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match="changed after it was written"):
        read_forecasts(tmp_path)


def test_a_forecast_is_scored_by_runs_that_came_after_it():
    sealed = forecasts()
    (score,) = score_forecasts(sealed, {"ddp-n1x4": (1.05, LATER), "zero3-n1x4": (1.0, LATER)}, {})
    assert score.inside
    assert score.error == pytest.approx(1 / 1.05 - 1)
    assert score.residual == pytest.approx(0.0488, abs=1e-4)
    (missed,) = score_forecasts(sealed, {"ddp-n1x4": (1.2, LATER)}, {})
    assert not missed.inside
    assert missed.score > score.score


def test_a_run_that_was_there_before_tests_nothing():
    assert score_forecasts(forecasts(), {"ddp-n1x4": (1.0, EARLIER)}, {}) == []
    known = forecasts(calibrated_on={"ddp-n1x4/rep1": "ab"})
    assert score_forecasts(known, {"ddp-n1x4": (1.0, LATER)}, {}) == []


def test_the_ledger_grows_once_a_forecast(tmp_path):
    path = tmp_path / "ledger.json"
    scores = score_forecasts(forecasts(), {"ddp-n1x4": (1.05, LATER)}, {})
    add_to_ledger(path, scores)
    add_to_ledger(path, scores)
    assert read_ledger(path) == scores


def test_a_campaign_counts_once_and_machines_are_never_pooled():
    one = score_forecasts(forecasts(), {"ddp-n1x4": (1.05, LATER)}, {})[0]
    other = one.model_copy(update={"cell": "fsdp-n1x4", "measured_s": 1.2})
    gpu = one.model_copy(update={"campaign": "h100", "machine": "H100 nccl"})
    rows = [one, other, gpu]
    assert past_residuals(rows, "cpu gloo", "node") == [other.residual]
    assert past_residuals(rows, "cpu gloo", "network") == []
    found = coverage_of(rows)
    assert (found.n, found.inside, found.nominal) == (3, 3, pytest.approx(0.95))
    assert found.low < 0.95 < found.high
