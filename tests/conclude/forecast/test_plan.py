"""What a plan says before anything is measured, and of how many repeats."""

import dataclasses
import math
import re

import numpy as np
import pytest
from conclude.forecast.weak_campaign import WEAK, evidence, loaded, make_runs
from synthetic import write_run

from scaleproof.cli.prepare import better_splits
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.analysis.simultaneous import ROUND_CONFIDENCE, compare_all, resolution_of_family
from scaleproof.conclude.forecast.memory import Tracked
from scaleproof.conclude.forecast.plan import make_plan, plan_pilots
from scaleproof.conclude.forecast.planner import Price
from scaleproof.conclude.forecast.requirements import RunTimes
from scaleproof.conclude.forecast.sweep_file import Calls, Launch, Sweep
from scaleproof.conclude.forecast.text import pilots_text, plan_text
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.facts.peaks import named_device, peak
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.number_format import significant


@pytest.fixture(autouse=True)
def _enough_cores(monkeypatch, repository):
    monkeypatch.chdir(repository)
    monkeypatch.setattr("scaleproof.conclude.forecast.campaign_forecast.available_cores", lambda: 8)


def test_before_the_first_run_a_plan_has_the_estimate_of_campaign_show(tmp_path):
    made = loaded(tmp_path)
    times = RunTimes((), ())
    plan = make_plan(evidence(made, tmp_path), Price(2.0, "EUR", "2026-11-01"), times=times)
    devices = {cell.slug: cell.execution.geometry.n_devices for cell in made.cells}
    seconds = {cell.slug: times.seconds(cell) for cell in made.cells}
    assert plan.device_hours == pytest.approx(sum(2 * seconds[slug] * devices[slug] for slug in devices) / 3600)
    assert plan.cost == pytest.approx(2.0 * plan.device_hours)
    assert plan.remaining_s == pytest.approx(2 * sum(seconds.values()))
    text = plan_text(made, plan)
    assert "time of all cells: a guess from FLOPs" in text
    assert "it may be wrong by a factor of 3" in text
    assert text.count("nothing is measured") == 1
    assert text.count("memory of all cells: unknown, no run on a GPU has measured it") == 1
    assert "budget" not in text


def test_what_can_run_nowhere_has_no_time_and_no_run_more_than_its_limit(tmp_path):
    path = tmp_path / "mine.yaml"
    head = "title: x\nwork: {global_batch: 8}\nrepeats: 2\nresources: {time_limit: 0.01}\n"
    path.write_text(head + "vary: {strategy: [single, ddp], geometry: [1x2]}\n")
    made = LoadedCampaign(path)
    plan = make_plan(evidence(made, tmp_path), times=RunTimes((), ()))
    assert [row.plan and row.plan.run_seconds for row in plan.rows] == [None, 0.6]
    text = plan_text(made, plan)
    assert "not in these totals: single-n1x2\n" in text
    assert "step time of single-n1x2: unknown, single is one device without a wrapper; 1x2 has 2\n" in text


@pytest.mark.parametrize(
    ("resources", "hours_of_runs"),
    [
        ("{exclusive: true}", {1: 4, 2: 4, 4: 4}),  # devices of a cell -> devices that its runs hold
        ("{exclusive: false}", None),
    ],
)
def test_whole_nodes_are_charged_where_runs_hold_them(tmp_path, resources, hours_of_runs):
    path = tmp_path / "weak.yaml"
    path.write_text(WEAK.format(forecast="{}") + f"resources: {resources}\n")
    made = LoadedCampaign(path)
    plan = make_plan(evidence(made, tmp_path), Price(2.0, "EUR", "2026-11-01"), times=RunTimes((), ()))
    text = plan_text(made, plan)
    if hours_of_runs is None:
        assert "whole nodes" not in text
        return
    held = sum(2 * hours_of_runs[row.devices] * row.plan.run_seconds for row in plan.rows) / 3600
    assert plan.whole_nodes.device_hours == pytest.approx(held)
    assert f"; {significant(held)} and {significant(2 * held)} EUR for whole nodes of 4 devices, which" in text
    assert "whole nodes" not in plan_text(made, dataclasses.replace(plan, price=None)), "no cost, no bill"


def test_nodes_of_one_allocation_are_held_by_each_of_its_runs(tmp_path):
    path = tmp_path / "weak.yaml"
    resources = "resources: {same_allocation: true}\n"
    path.write_text(WEAK.replace("1x4", "2x2").format(forecast="{}") + resources)
    made = LoadedCampaign(path)
    plan = make_plan(evidence(made, tmp_path), times=RunTimes((), ()))
    assert plan.whole_nodes.device_hours == pytest.approx(4 * plan.remaining_s / 3600)


@pytest.mark.parametrize(("name", "fits"), [("H100 80GB", "fits"), ("h100 1GB", "does not fit"), ("H100", "unknown")])
def test_a_named_device_gives_time_and_a_verdict_on_memory(tmp_path, monkeypatch, name, fits):
    path = tmp_path / "weak.yaml"
    path.write_text(WEAK.format(forecast="{}"))
    made = LoadedCampaign(path)
    peaks = [Tracked(peak=20e9, state=None)] * len(made.cells)
    monkeypatch.setattr("scaleproof.conclude.forecast.plan.tracked_memory", lambda cells: peaks)
    usual, named = RunTimes((), ()), RunTimes((), (), named=named_device(name))
    plan = make_plan(evidence(made, tmp_path), count_memory=True, times=named)
    text = plan_text(made, plan)
    assert {row.fits for row in plan.rows} == {fits}
    assert (plan.device_hours > 0, "not in these totals" in text) == (fits != "does not fit", fits == "does not fit")
    assert f"as on {name.upper()}; it may be wrong" in text
    assert ("--device with their memory" in text) == (fits == "unknown")
    h100_faster = peak("H100", "fp32").flops / peak("A100", "fp32").flops
    on_gpu = dataclasses.replace(made.cells[0], execution=made.cells[0].execution.model_copy(update={"device": "cuda"}))
    assert usual.step_s(on_gpu) / named.step_s(on_gpu) == pytest.approx(h100_faster)
    assert (usual.device(made.cells[0]), named.device(made.cells[0])) == ("cpu", "cuda")


def test_a_plan_has_no_memory_of_a_strategy_that_the_formulas_do_not_know(tmp_path):
    path = tmp_path / "weak.yaml"
    path.write_text(WEAK.replace("[ddp, fsdp]", "[hsdp]").replace("1x1, 1x2, 1x4", "2x1, 2x2").format(forecast="{}"))
    made = LoadedCampaign(path)
    for cell in made.cells:
        write_run(tmp_path / made.name / "runs", cell, 1)
    measured = evidence(made, tmp_path)
    for run in (run for runs in measured.runs.values() for run in runs):
        run.metrics.memory.max_cuda_reserved_bytes = 10**9
    rows = make_plan(measured).rows
    assert [row.memory_bytes for row in rows] == [None, None]
    assert {row.no_memory for row in rows} == {"what hsdp holds is not known to the formulas"}


@pytest.mark.parametrize(
    ("hours", "reach"), [(1e4, "is enough for all cells"), (1e-9, "leaves these cells undecided:")]
)
def test_a_plan_says_how_far_a_budget_reaches(tmp_path, hours, reach):
    made = loaded(tmp_path)
    text = plan_text(made, make_plan(evidence(made, tmp_path), budget=hours, times=RunTimes((), ())))
    assert f"device hours {reach}" in text


def test_what_is_left_counts_cells_that_no_forecast_covers(tmp_path, monkeypatch):
    """Of one size nothing is forecast, and four runs are missing all the same."""
    monkeypatch.setattr("scaleproof.conclude.forecast.campaign_forecast.available_cores", lambda: 2)
    made = loaded(tmp_path)
    make_runs(made, tmp_path)
    plan = make_plan(evidence(made, tmp_path), times=RunTimes((), ()))
    refused = [row for row in plan.rows if row.basis == "estimated"]
    assert [row.cell for row in refused] == ["ddp-n1x4", "fsdp-n1x4"]
    assert all("ranks would share" in row.refusal for row in refused)
    assert plan.remaining_s == pytest.approx(2 * sum(row.plan.run_seconds for row in refused))
    assert plan.remaining_s > 0
    assert "time of ddp-n1x4, fsdp-n1x4: a guess" in plan_text(made, plan)


def test_a_plan_and_the_report_of_the_same_runs_say_the_same_number_of_repeats(tmp_path):
    path = tmp_path / "weak.yaml"
    path.write_text(WEAK.format(forecast="{}").replace("repeats: 2", "repeats: 5"))
    made, random = LoadedCampaign(path), np.random.default_rng(3)
    for cell in made.cells:
        for repeat in range(1, 6):
            seconds = 0.1 * float(np.exp(random.normal(0, 0.03)))
            write_run(tmp_path / "weak/runs", cell, repeat, step_time=seconds, spread=0.003, seed=repeat)
    known = evidence(made, tmp_path)
    runs = [run for each in known.runs.values() for run in each]
    report = scaling_report("weak", "x", runs, Findings(campaign="weak", checks=[], findings=[]))
    resolve = report.ranking[-1].resolve
    plan = make_plan(known)
    assert plan.resolve == resolve
    assert resolve.repeats > 5
    text = plan_text(made, plan)
    assert f"{resolve.repeats} repeats of each cell would show differences of 5 % (7 to 9 times in 10" in text
    noisy = dataclasses.replace(plan, resolve=resolve.model_copy(update={"detectable": 3.04}))
    assert "the 5 so far show more than 100 %" in plan_text(made, noisy)


def test_a_better_split_of_the_time_is_said_where_runs_scatter_more_than_steps(tmp_path):
    path = tmp_path / "weak.yaml"
    path.write_text(WEAK.format(forecast="{}").replace("repeats: 2", "repeats: 3"))
    made, random = LoadedCampaign(path), np.random.default_rng(3)
    assert better_splits(made, tmp_path) == []
    for cell in made.cells:
        for repeat in (1, 2, 3):
            seconds = 0.1 * float(np.exp(random.normal(0, 0.08)))
            write_run(tmp_path / "weak/runs", cell, repeat, step_time=seconds, spread=0.003, seed=repeat)
    (line,) = better_splits(made, tmp_path)
    assert re.match(r"in the same time [4-9] repeats of \d+ steps would show \d+ %, the 3 of 30 steps show \d+ %", line)


def _swept(devices):
    """A sweep of one node with so many devices."""
    calls = [Calls(collective="all_reduce", nbytes=1024, seconds=[1e-5])]
    launch = Launch(made_utc="2026-11-21T10:00:00Z", ranks=[], calls=calls)
    return Sweep(nodes=1, devices_per_node=devices, backend="gloo", device="cpu", launches=[launch])


@pytest.mark.parametrize(
    ("forecast", "swept", "cells"),
    [
        ("{}", 4, ["ddp-n1x4", "fsdp-n1x4"]),
        ("{}", 2, []),  # measured already
        ("{hold_out: [1x4]}", 4, []),  # they run anyway
    ],
)
def test_where_the_links_were_swept_a_pilot_is_proposed_with_its_price(tmp_path, forecast, swept, cells):
    made = loaded(tmp_path, forecast)
    make_runs(made, tmp_path)
    times = RunTimes((), ())
    short = plan_pilots(evidence(made, tmp_path, sweeps=[_swept(swept)]), times)
    assert [pilot.cell for pilot in short] == cells
    assert all(pilot.run_seconds < times.seconds(made.cell(pilot.cell)) for pilot in short)
    assert all(pilot.device_hours == pytest.approx(4 * pilot.run_seconds / 3600) for pilot in short)
    assert pilots_text(short).count("a pilot, this cell alone with steps: 10, takes about ") == len(cells)


def test_so_many_repeats_tell_a_difference_apart_four_times_in_five():
    """The number that plan and report print for 5 %, after a pilot of five repeats, in campaigns of normal noise."""
    random = np.random.default_rng(20_261_123)
    told, campaigns, cells, noise = 0, 400, 3, 0.03

    def rates(n: int) -> dict[str, dict[int, float]]:
        means = [math.log(1.05), 0.0, 0.0]
        return {f"c{i}": dict(enumerate(np.exp(random.normal(means[i], noise, n)), start=1)) for i in range(cells)}

    for _ in range(campaigns):
        n = resolution_of_family(compare_all(rates(5)), 0.05).repeats
        told += bool(compare_all(rates(n), confidence=ROUND_CONFIDENCE).differ[0, 1])
    assert 0.70 < told / campaigns < 0.92
