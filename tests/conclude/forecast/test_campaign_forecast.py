"""From recorded runs to forecasts, plans and forecast.json, on campaigns of known step times."""

import json
import math
import shutil
from datetime import UTC, datetime, timedelta

import pytest
from conclude.forecast.weak_campaign import COMMUNICATION, evidence, loaded, make_runs
from synthetic import rewrite

from scaleproof.cli import main
from scaleproof.conclude.forecast.campaign_forecast import make_forecasts, measured_outcomes
from scaleproof.conclude.forecast.law import FROM_ONE, TABLES, series_key
from scaleproof.conclude.forecast.ledger import MODEL_VERSION, Score, score_forecasts, write_forecasts
from scaleproof.conclude.forecast.memory import Tracked, memory_inputs
from scaleproof.conclude.forecast.plan import make_plan
from scaleproof.conclude.forecast.planner import Price
from scaleproof.conclude.forecast.report_data import make_forecast_report
from scaleproof.conclude.forecast.spent import compare_with_spent, record_plan
from scaleproof.conclude.forecast.sweep_file import Calls, Launch, Sweep
from scaleproof.conclude.forecast.text import forecasts_text, held_text, plan_text, spent_text
from scaleproof.conclude.report.tables.forecast import forecast_table
from scaleproof.ground.campaign.config import shape_of
from scaleproof.ground.campaign.loaded import LoadedCampaign, run_dir
from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.counts import count_gpt2
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.findings.forecast_report import ForecastReport, ForecastRow
from scaleproof.ground.records.run import METRICS, read_run


@pytest.fixture(autouse=True)
def _enough_cores(monkeypatch, repository):
    monkeypatch.chdir(repository)
    monkeypatch.setattr("scaleproof.conclude.forecast.campaign_forecast.available_cores", lambda: 8)


def test_held_out_cells_are_forecast_from_the_others(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    forecasts = make_forecasts(evidence(made, tmp_path))
    assert {entry.cell for entry in forecasts.entries} == {"ddp-n1x4", "fsdp-n1x4"}
    for entry in forecasts.entries:
        own = 0.11 if entry.strategy == "fsdp" else 0.1
        two = own + COMMUNICATION[2]
        assert entry.value == pytest.approx(two * math.sqrt(two / own), rel=0.01)
        assert entry.interval.holds(own + COMMUNICATION[4])
        assert entry.low < entry.likely_low < entry.value < entry.likely_high < entry.high
        assert entry.construction == "leave-largest-out"
    assert set(forecasts.calibrated_on) == {
        f"{s}-n1x{n}/rep{k}" for s in ("ddp", "fsdp") for n in (1, 2) for k in (1, 2)
    }
    assert "ddp-n1x4" in forecasts_text(forecasts)


def test_runs_of_held_out_cells_are_never_used(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path, sizes=(1, 2))
    before = make_forecasts(evidence(made, tmp_path)).entries
    make_runs(made, tmp_path, sizes=(4,), slower={"ddp-n1x4": 3.0})
    assert make_forecasts(evidence(made, tmp_path)).entries == before


def test_only_what_has_no_runs_is_sealed(tmp_path, monkeypatch, capsys):
    made = loaded(tmp_path)
    path = str(tmp_path / "weak.yaml")
    monkeypatch.setattr("sys.argv", ["scaleproof", "forecast", path, "--results", str(tmp_path)])

    def sealed() -> list[set[str]]:
        main()
        files = sorted((tmp_path / "weak/forecasts").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return [{entry["cell"] for entry in json.loads(file.read_text())["entries"]} for file in files]

    make_runs(made, tmp_path)
    assert sealed() == [{"ddp-n1x4", "fsdp-n1x4"}]
    assert "already" not in capsys.readouterr().out
    make_runs(made, tmp_path, sizes=(4,))
    shutil.rmtree(tmp_path / "weak/runs/fsdp-n1x4")
    assert sealed()[1:] == [{"fsdp-n1x4"}]
    assert "no forecast is sealed of what has runs already: ddp-n1x4\n" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "weak/runs/ddp-n1x4")
    make_runs(made, tmp_path, sizes=(4,))
    assert len(sealed()) == 2
    said = capsys.readouterr().out
    assert "already: ddp-n1x4, fsdp-n1x4\n" in said
    assert "written before" not in said


def test_a_damaged_run_is_named_where_it_is_left_out(tmp_path, monkeypatch, capsys):
    make_runs(loaded(tmp_path), tmp_path)
    monkeypatch.setattr("sys.argv", ["scaleproof", "plan", str(tmp_path / "weak.yaml"), "--results", str(tmp_path)])
    main()
    assert "left out" not in capsys.readouterr().err
    damaged = tmp_path / "weak/runs/ddp-n1x1/rep1" / METRICS
    damaged.write_text("{")
    main()
    assert f"warning: left out: {damaged} is not a metrics file of schema 3: no JSON" in capsys.readouterr().err


def test_without_a_held_out_size_what_is_not_measured_is_forecast(tmp_path):
    made = loaded(tmp_path, "{}")
    make_runs(made, tmp_path)
    assert {e.cell for e in make_forecasts(evidence(made, tmp_path)).entries} == {"ddp-n1x4", "fsdp-n1x4"}
    make_runs(made, tmp_path, sizes=(4,))
    with pytest.raises(UserError, match=r"nothing is left to forecast: add a size under vary\.geometry"):
        make_forecasts(evidence(made, tmp_path))


def test_nothing_measured_is_said_with_the_command_that_measures(tmp_path):
    with pytest.raises(UserError, match="snakemake"):
        make_forecasts(evidence(loaded(tmp_path), tmp_path))


def finding(code: str, severity: str, cell: str) -> Findings:
    fields = {
        "code": code,
        "severity": severity,
        "cells": [cell],
        "runs": [f"{cell}/rep1"],
        "evidence": "e",
        "advice": "a",
    }
    return Findings(campaign="weak", checks=[], findings=[Finding(**fields)])


@pytest.mark.parametrize(
    ("code", "severity", "refusal"),
    [
        ("traffic-differs", "invalid", "invalid-calibration"),
        ("machine-busy", "suspect", "disturbed-calibration"),
        ("device-throttled", "suspect", "disturbed-calibration"),
        ("window-short", "suspect", None),
    ],
)
def test_runs_with_grave_findings_are_no_basis(tmp_path, code, severity, refusal):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    entries = {e.cell: e for e in make_forecasts(evidence(made, tmp_path, finding(code, severity, "ddp-n1x2"))).entries}
    assert entries["ddp-n1x4"].refusal == refusal
    assert entries["fsdp-n1x4"].refusal is None


def test_ranks_that_would_share_cores_are_another_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("scaleproof.conclude.forecast.campaign_forecast.available_cores", lambda: 2)
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    assert {e.refusal for e in make_forecasts(evidence(made, tmp_path)).entries} == {"shared-cores"}


def test_a_forecast_is_scored_by_the_runs_after_it(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    forecasts = make_forecasts(evidence(made, tmp_path))
    later = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    make_runs(made, tmp_path, sizes=(4,), slower={"fsdp-n1x4": 3.0})
    seconds, nodes = measured_outcomes(evidence(made, tmp_path))
    scores = score_forecasts(forecasts, {cell: (value, later) for cell, (value, _) in seconds.items()}, nodes)
    assert {score.cell: score.inside for score in scores} == {"ddp-n1x4": True, "fsdp-n1x4": False}


def test_a_ledger_of_enough_campaigns_gives_the_interval(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    known = evidence(made, tmp_path)
    base = {
        "cell": "c",
        "machine": known.machine,
        "level_law": "node",
        "made_utc": "a",
        "measured_utc": "b",
        "forecast_sha256": "s",
        "forecast_s": 1.0,
        "low_s": 0.9,
        "high_s": 1.1,
        "level": 0.95,
        "construction": "x",
        "measured_s": 1.01,
        "error": 0.0,
        "inside": True,
        "score": 0.1,
        "distance": 1.0,
        "model_version": MODEL_VERSION,
    }
    ledger = [Score(campaign=f"c{i}", **base) for i in range(19)]
    entry = make_forecasts(evidence(made, tmp_path, ledger=ledger)).entries[0]
    assert (entry.construction, entry.n) == ("conformal", 19)
    assert math.log(entry.high / entry.value) == pytest.approx(math.log(1.01), rel=0.1)


def test_a_plan_says_time_cost_and_what_is_not_known(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    plan = make_plan(evidence(made, tmp_path), Price(2.0, "EUR", "2026-11-01"))
    rows = {row.cell: row for row in plan.rows}
    assert {row.basis for row in plan.rows} == {"measured", "forecast"}
    assert rows["ddp-n1x2"].repeats_done == 2
    run = rows["ddp-n1x1"].plan
    outside = run.run_seconds - 35 * 0.1
    assert outside > 0
    assert plan.cost == pytest.approx(2.0 * plan.device_hours)
    assert plan.remaining_s == pytest.approx(2 * sum(rows[f"{s}-n1x4"].plan.run_seconds for s in ("ddp", "fsdp")))
    text = plan_text(made, plan)
    assert " EUR at 2 an hour (2026-11-01)" in text
    assert "all timed runs: " in text
    assert held_text(plan, 1800).endswith(" end, 4 devices: 2 device hours, 4 EUR")
    nothing = make_plan(evidence(made, tmp_path / "empty"))
    assert {row.basis for row in nothing.rows} == {"nothing-measured"}
    assert "not in these totals" in plan_text(made, nothing)


def test_energy_is_given_measured_or_unknown(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    known = evidence(made, tmp_path)
    assert make_plan(known).kwh is None
    assert held_text(make_plan(known), 1800).endswith(": 2 device hours"), "no price, no cost"
    assert "energy: unknown" in plan_text(made, make_plan(known))
    given = make_plan(known, watts=500.0)
    assert given.kwh == pytest.approx(0.5 * given.device_hours)
    assert "500 W each, given" in plan_text(made, given)
    for run in known.runs["ddp-n1x2"]:
        joules = 300.0 * run.n_devices * run.metrics.window.wall_time_s
        run.metrics.energy = run.metrics.energy.model_copy(update={"joules": joules})
    powers = {row.cell: row.power for row in make_plan(known).rows}
    assert powers["ddp-n1x2"].watts == pytest.approx(300.0)
    assert powers["ddp-n1x2"].basis == "measured"
    assert powers["ddp-n1x4"].basis == "measured in other cells"


def test_memory_that_runs_say_nothing_of_can_be_counted(tmp_path, monkeypatch):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    known = evidence(made, tmp_path)
    for run in known.runs["ddp-n1x1"]:
        run.metrics.hardware["gpus"] = [{"memory": "1024 MiB"}]
    answers = {"ddp-n1x4": Tracked(2e9, 1e9), "fsdp-n1x4": Tracked(None, None, "why")}
    monkeypatch.setattr(
        "scaleproof.conclude.forecast.plan.tracked_memory",
        lambda cells: [answers.get(cell.slug, Tracked(5e8, 1e8)) for cell in cells],
    )
    rows = {row.cell: row for row in make_plan(known, count_memory=True).rows}
    assert (rows["ddp-n1x4"].fits, rows["ddp-n1x4"].counted) == ("does not fit", True)
    assert (rows["fsdp-n1x4"].memory_bytes, rows["fsdp-n1x4"].counted) == (None, False)
    assert rows["ddp-n1x1"].fits == "fits"
    text = plan_text(made, make_plan(known, count_memory=True))
    assert "2 GB (counted), does not fit" in text
    assert "without a verdict" not in text
    for run in known.runs["ddp-n1x1"]:
        del run.metrics.hardware["gpus"]
    text = plan_text(made, make_plan(known, count_memory=True))
    assert text.partition("all timed runs: ")[0].count("unknown") == 1, "the memory of fsdp-n1x4"
    assert "memory without a verdict: that of the devices is not known" in text


def test_a_plan_is_held_against_what_its_runs_took(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    known = evidence(made, tmp_path)
    plan = make_plan(known)
    assert compare_with_spent(tmp_path / "plans", known.runs) is None
    path = record_plan(tmp_path / "plans", "weak", plan, "2020-01-01T00:00:00Z")
    assert set(json.loads(path.read_text())["cells"]) == {"ddp-n1x4", "fsdp-n1x4"}
    assert compare_with_spent(tmp_path / "plans", known.runs) is None, "no run of these cells yet"
    make_runs(made, tmp_path, sizes=(4,))
    after = evidence(made, tmp_path)
    result = compare_with_spent(tmp_path / "plans", after.runs)
    assert result.runs == 4
    took = sum(run.metrics.total_wall_time_s for cell in ("ddp-n1x4", "fsdp-n1x4") for run in after.runs[cell])
    assert result.spent_s == pytest.approx(took)
    assert result.spent_device_hours == pytest.approx(4 * took / 3600)
    assert "4 runs in" in spent_text(result)
    assert record_plan(tmp_path / "plans", "weak", make_plan(after), "2030-01-01T00:00:00Z") is None, "nothing is left"


def test_a_wide_forecast_leaves_nothing_out(tmp_path):
    made = loaded(tmp_path, "{}")
    make_runs(made, tmp_path, slower={"ddp-n1x2": 1.6, "fsdp-n1x1": 3.0, "fsdp-n1x2": 4.8})
    plan = make_plan(evidence(made, tmp_path))
    assert plan.leave_out == ()
    assert all(row.step.wide for row in plan.rows if row.basis == "forecast")


def swept(size: int) -> Sweep:
    calls = [Calls(collective="all_reduce", nbytes=2**20, seconds=[1e-3] * 3)]
    launch = Launch(made_utc="", ranks=[], calls=calls)
    return Sweep(nodes=1, devices_per_node=size, backend="gloo", device="cpu", launches=[launch])


def test_forecast_json_has_bands_scores_and_sweeps(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    first = evidence(made, tmp_path, sweeps=[swept(2), swept(4)])
    write_forecasts(tmp_path / "forecasts", make_forecasts(first))
    data = make_forecast_report(first, tmp_path / "forecasts")
    assert ForecastReport.model_validate_json(data.model_dump_json()) == data
    assert {row.cell for row in data.forecasts} == {"ddp-n1x4", "fsdp-n1x4"}
    assert data.coverage.n == 0
    assert data.sweeps[0].group == "1x2"


def on_gpus(made: LoadedCampaign, results):
    """The runs as if they were of GPUs."""
    known = evidence(made, results)
    for run in (run for runs in known.runs.values() for run in runs):
        run.metrics.ranks[0]["backend"] = "nccl"
    return known


def test_on_gpus_the_first_forecast_has_the_interval_of_public_series(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path, sizes=(2,))
    forecasts = make_forecasts(on_gpus(made, tmp_path))
    for entry in forecasts.entries:
        assert (entry.construction, entry.n) == ("public series", TABLES)
        assert math.log(entry.high / entry.value) == pytest.approx(FROM_ONE["node"].nearly_all, abs=0.01)
    assert "public series, 68 tables" in forecasts_text(forecasts)


def test_a_machine_that_the_law_misses_has_wider_intervals(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    sound = make_forecasts(on_gpus(made, tmp_path)).entries[0]
    make_runs(made, tmp_path / "slow", slower={"ddp-n1x2": 2.0})
    slow = make_forecasts(on_gpus(made, tmp_path / "slow")).entries[0]
    assert math.log(slow.high / slow.value) > 1.5 * math.log(sound.high / sound.value)


def test_on_a_cpu_one_size_of_each_series_says_nothing_of_the_error(tmp_path):
    made = loaded(tmp_path)
    make_runs(made, tmp_path, sizes=(2,))
    assert {entry.refusal for entry in make_forecasts(evidence(made, tmp_path)).entries} == {"no-interval"}
    disturbed = finding("machine-busy", "suspect", "ddp-n1x2")  # to run it again would not lift it
    entries = make_forecasts(evidence(made, tmp_path, disturbed)).entries
    assert {entry.refusal for entry in entries} == {"no-interval"}


def test_the_stage_writes_json_table_and_chart(tmp_path, monkeypatch):
    made = loaded(tmp_path)
    results = tmp_path / "results"
    make_runs(made, results)
    write_forecasts(results / "weak" / "forecasts", make_forecasts(evidence(made, results)))
    make_runs(made, results, sizes=(4,))
    words = ["scaleproof", "stage", "forecast_report", str(made.path), "--results", str(results)]
    monkeypatch.setattr("sys.argv", words)
    main()
    rows = json.loads((results / "weak" / "forecast.json").read_text())["forecasts"]
    assert all(row["measured_s"] > 0 for row in rows)
    assert "leave-largest-out" in (results / "weak" / "tables" / "forecast.md").read_text()
    assert (results / "weak" / "charts" / "forecast.svg").stat().st_size > 5000
    refused = ForecastRow(**rows[0] | {"value": None, "refusal": "super-linear", "inside": None})
    assert forecast_table([refused])["from"][0] == "refused: super-linear"


def test_parameters_are_those_of_the_model(tmp_path):
    for cell in loaded(tmp_path).cells:
        counted = count_gpt2(shape_of(cell.workload.model), cell.vocab_size, cell.workload.seq_len)
        assert memory_inputs(cell).parameters == counted.parameters


def test_a_series_is_everything_but_devices_and_batch(tmp_path):
    cells = loaded(tmp_path).cells
    assert len({series_key(cell) for cell in cells}) == 2


@pytest.mark.parametrize(
    ("forecast", "message"),
    [
        ("{hold_out: [1x8]}", 'there is no cell with the geometry "1x8"'),
        ("{from: [1x4], hold_out: [1x4]}", "is in forecast.from as well"),
        ("{hold_out: [1x1, 1x2, 1x4]}", "nothing is left to forecast from"),
        ("{held_out: [1x4]}", "held_out"),
    ],
)
def test_a_wrong_key_is_named(tmp_path, forecast, message):
    with pytest.raises(UserError, match=r"weak\.yaml") as refused:
        loaded(tmp_path, forecast)
    assert message in str(refused.value)


def exchange_as_ddp(data) -> None:
    parameters = data["model"]["parameters"]
    data["collectives"] = {"allreduce": {"calls": 2, "bytes": 4 * parameters, "dtypes": ["float32"]}}


def test_commands_forecast_and_plan(tmp_path, monkeypatch, capsys):
    made = loaded(tmp_path)
    make_runs(made, tmp_path / "results")
    for repeat in (1, 2):
        rewrite(read_run(run_dir(tmp_path / "results", made.name, "fsdp-n1x2", repeat)), exchange_as_ddp)
    for command in ("forecast", "plan"):
        monkeypatch.setattr("sys.argv", ["scaleproof", command, str(made.path), "--results", str(tmp_path / "results")])
        main()
    text = capsys.readouterr().out
    assert "leave-largest-out, 1 series" in text
    assert "fsdp-n1x4: no forecast (invalid-calibration)" in text
    assert " device hours; those that remain take " in text
    (written,) = (tmp_path / "results" / "weak" / "forecasts").glob("*.json")
    assert json.loads(written.read_text())["entries"]
    assert (tmp_path / "results" / "weak" / "runs" / "ddp-n1x1" / "rep1" / METRICS).exists()
