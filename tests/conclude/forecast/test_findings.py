"""Each finding about forecasts, links fires where it should, and not beside it."""

from synthetic import cells, write_run

from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence
from scaleproof.conclude.forecast.codes import FORECAST_CODES
from scaleproof.conclude.forecast.findings import (
    calibration_is_of_one_version,
    forecasts_hold,
    launches_of_a_sweep_agree,
    sweeps_reach_their_link,
)
from scaleproof.conclude.forecast.ledger import Score
from scaleproof.conclude.forecast.sweep_file import Calls, Launch, Sweep
from scaleproof.ground.findings.forecast_report import SweepLink


def score(measured: float) -> Score:
    return Score(
        campaign="c",
        cell="ddp-n1x4",
        machine="m",
        level_law="node",
        made_utc="a",
        measured_utc="b",
        forecast_sha256="s",
        forecast_s=1.0,
        low_s=0.9,
        high_s=1.1,
        level=0.95,
        construction="leave-largest-out",
        measured_s=measured,
        error=0.0,
        inside=0.9 <= measured <= 1.1,
        score=0.1,
        distance=1.0,
        model_version="1",
    )


def sweep(second: float = 1.0, link: float | None = None, torch: str = "2.13.0") -> Sweep:
    launches = [
        Launch(made_utc="", ranks=[], calls=[Calls(collective="all_reduce", nbytes=2**20, seconds=[1e-3 * factor])])
        for factor in (1.0, second)
    ]
    return Sweep(
        nodes=1,
        devices_per_node=2,
        backend="gloo",
        device="cpu",
        launches=launches,
        versions={"torch_version": torch},
        link=SweepLink(bytes_per_s=link, source="datasheet") if link else None,
    )


def codes(findings: list) -> list[str]:
    return [finding.code for finding in findings]


def test_a_measured_step_outside_its_interval_is_missed():
    (missed,) = forecasts_hold(score(1.2))
    assert missed.cells == ["ddp-n1x4"]
    assert "1,200.0 ms" in missed.evidence
    assert "900.0-1,100.0 ms" in missed.evidence
    assert forecasts_hold(score(1.05)) == []


def test_a_link_below_its_figure_and_launches_that_differ():
    assert codes(sweeps_reach_their_link(sweep(link=2e9))) == ["sweep-slower-than-link"]
    assert sweeps_reach_their_link(sweep(link=1.2e9)) == []
    assert sweeps_reach_their_link(sweep()) == []
    assert codes(launches_of_a_sweep_agree(sweep(1.3))) == ["sweep-unstable"]
    assert launches_of_a_sweep_agree(sweep(1.05)) == []


def test_runs_and_sweeps_of_two_versions_are_stale(tmp_path):
    run = write_run(tmp_path, cells()[0])
    run.metrics.env["torch_version"] = "2.13.0"

    class Loaded:
        name = "demo"

    def evidence(torch: str) -> ForecastEvidence:
        return ForecastEvidence(Loaded(), {"ddp-n1x1": [run]}, None, [sweep(torch=torch)], [])

    assert codes(calibration_is_of_one_version(evidence("2.14.0"))) == ["calibration-stale"]
    assert calibration_is_of_one_version(evidence("2.13.0")) == []


def test_every_code_has_a_page():
    assert set(FORECAST_CODES) == {
        "forecast-missed",
        "sweep-slower-than-link",
        "sweep-unstable",
        "node-slow",
        "link-slow",
        "calibration-stale",
    }
