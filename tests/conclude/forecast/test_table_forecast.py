"""`scaleproof forecast --from`: series of rates that somebody has."""

import json
import re

import pytest
from command_line import scaleproof
from synthetic import cells, write_run

from scaleproof.cli import main
from scaleproof.conclude.forecast.table_forecast import (
    disturbances_of,
    forecast_rates,
    is_of_cpus,
    table_text,
)
from scaleproof.ground.files import write_atomic


def test_each_series_is_forecast_at_twice_and_four_times():
    made = forecast_rates({"A": {8: [10_000], 16: [9_500]}, "B": {8: [125]}}, (), devices_per_node=8)
    assert [(f.series, f.devices) for f in made] == [("A", 32), ("A", 64), ("B", 16), ("B", 32)]
    first = made[0].rate
    assert first.low < first.likely[0] < first.value < first.likely[1] < first.high
    assert 9500 * 0.95 < first.value / 32 < 9500
    assert "public tables" in table_text(made)
    assumed = "From one size: a device is taken to lose 2 % at each doubling"
    assert assumed in table_text(made)
    assert "Cost of a unit of work: your price of a device hour x devices / (3,600 x its rate" in table_text(made)
    assert assumed not in table_text([forecast for forecast in made if forecast.series == "A"])


def test_asked_sizes():
    made = forecast_rates({"": {1: [100], 2: [98]}}, (4, 2, 64), devices_per_node=8)
    assert made[0].rate.value == pytest.approx(4 * 98 * (0.98**0.5))
    assert made[1].rate.value == pytest.approx(2 * 100 * 0.98, rel=1e-3), "from one device, and a first loss"
    assert made[1].measured == pytest.approx(196)
    assert "more than 8 times the 2" in made[2].refusal
    assert "Cost" not in table_text(made[2:]), "without a rate"


@pytest.mark.parametrize("on_cpus", [True, False])
def test_a_measured_size_is_scored_as_if_it_were_not_there(on_cpus):
    before = {"ddp": {1: [100.0], 2: [95.0]}, "fsdp": {1: [100.0], 2: [97.0]}}
    after = {"ddp": {**before["ddp"], 4: [91.0], 8: [20.0]}, "fsdp": {**before["fsdp"], 8: [89.0], 16: [80.0]}}
    (forecast, _), (scored, good) = (forecast_rates(rates, (8,), 8, on_cpus) for rates in (before, after))
    assert (forecast.measured, good.measured) == (None, pytest.approx(8 * 89))
    of_fsdp = forecast_rates(before, (8,), 8, on_cpus)[1]
    if not on_cpus:  # there the size 4 of ddp is evidence, too
        assert good.rate == of_fsdp.rate
    lines = table_text([scored, good]).splitlines()
    assert lines[0].split()[-5:] == ["measured", "error", "inside", "95", "%"]
    assert lines[2].split()[-1] == "no"
    assert lines[3].split()[-1] == "yes"
    assert "measured" not in table_text([forecast]), "nothing to score"


@pytest.mark.parametrize(("rate", "warns"), [(15.0, True), (40.0, False)])
def test_rates_that_fall_with_devices_are_said(rate, warns):
    text = table_text(forecast_rates({"ddp": {1: [100.0], 2: [45.0], 4: [rate]}}, (8,), devices_per_node=8))
    assert ("Measured rates of ddp fall with devices" in text) is warns


def test_repeats_of_a_size_are_averaged_and_widen_the_interval():
    steady, noisy = (
        forecast_rates({"": {1: [100], 2: rates}}, (4,), devices_per_node=8)[0].rate
        for rates in ([95.0], [76.0, 118.75])
    )
    assert noisy.value == pytest.approx(steady.value)
    assert noisy.half_width > steady.half_width


def test_the_command_takes_a_campaign_or_a_table(tmp_path, monkeypatch, capsys):
    path = tmp_path / "scaling.csv"
    path.write_text("gpus,tokens/s\n8,100\n16,190\n")
    monkeypatch.setattr("sys.argv", ["scaleproof", "forecast", "--from", str(path), "--devices", "32"])
    main()
    assert " 32 " in capsys.readouterr().out
    for words in ([], ["config/campaigns/demo.yaml", "--from", str(path)]):
        monkeypatch.setattr("sys.argv", ["scaleproof", "forecast", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2


def test_intervals_on_cpus_come_from_the_table_itself_or_there_are_none():
    two_sizes = {"ddp": {1: [100.0], 2: [70.0]}, "fsdp": {1: [100.0], 2: [95.0]}}
    made = forecast_rates(two_sizes, (4,), devices_per_node=8, on_cpus=True)
    public = forecast_rates(two_sizes, (4,), devices_per_node=8)
    assert {forecast.rate.construction for forecast in made} == {"leave-largest-out"}
    assert {forecast.rate.construction for forecast in public} == {"public series"}
    assert [forecast.rate.value for forecast in made] == [forecast.rate.value for forecast in public]
    assert "public tables have no CPUs" in table_text(made)
    single = forecast_rates({"": {2: [70.0]}}, (4,), devices_per_node=8, on_cpus=True)
    assert single[0].rate is None
    assert "measure a further one" in table_text(single)


def test_tables_of_a_campaign_on_cpus_are_known_and_those_of_others_are_not(tmp_path):
    write_run(tmp_path / "runs", cells()[0])
    for name in ("results/tables/strong.csv", "tables/strong.csv", "cells.csv"):
        write_atomic(tmp_path / name, "gpus,tokens/s\n1,100\n2,190\n")
    assert is_of_cpus(tmp_path / "tables/strong.csv")
    assert is_of_cpus(tmp_path / "cells.csv")
    assert not is_of_cpus(tmp_path / "results/tables/strong.csv")


def test_a_table_of_disturbed_runs_is_forecast_with_reservations(tmp_path):
    write_atomic(tmp_path / "tables/strong.csv", "gpus,tokens/s\n1,100\n2,190\n")
    assert disturbances_of(tmp_path / "tables/strong.csv") == ""
    busy = {"severity": "suspect", "cells": ["a", "b"], "runs": [], "evidence": "", "advice": ""}
    found = [busy | {"code": "machine-busy"}, busy | {"code": "run-stands-out"}]
    write_atomic(
        tmp_path / "findings.json", json.dumps({"campaign": "mine", "checks": [], "findings": found}, indent=1)
    )
    assert disturbances_of(tmp_path / "tables/strong.csv") == "machine-busy in 2 cells"
    assert "reservations: machine-busy in 2 cells" in table_text([], "machine-busy in 2 cells")


def test_an_interval_that_says_nothing_is_no_forecast():
    noisy = {"ddp": {1: [100.0, 60.0, 140.0], 2: [120.0, 20.0, 200.0]}}
    (made,) = forecast_rates(noisy, (8,), 8, on_cpus=True)
    assert made.rate is None
    further = "more than 10 times its lower bound: measure a further size"
    assert f"{further}, on a CPU with 3 cores or more: ranks that share cores are no scaling" in table_text([made])
    many = {"ddp": {1: [100.0, 1.0, 1e4], 2: [120.0, 0.1, 2e4], 8: [50.0, 0.01, 9e3]}}
    (on_gpus,) = forecast_rates(many, (32,), 8)
    assert table_text([on_gpus]).endswith(further)


def test_a_wide_interval_has_no_point():
    rates = {"ddp": {1: [100.0], 2: [70.0]}, "fsdp": {1: [100.0], 2: [95.0]}}
    (wide, narrow) = (forecast_rates(rates, (4,), 8, on_cpus)[0] for on_cpus in (True, False))
    assert "wider than +-15%" in table_text([wide])
    assert "wider than +-15%" not in table_text([narrow])


def test_a_table_of_which_nothing_can_be_forecast_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("gpus,tokens/s\n1,100\n2,190\n4,370\n")
    done = [scaleproof("forecast", "--from", "t.csv", "--devices", *sizes, cwd=tmp_path) for sizes in ("1", "28", "4")]
    assert [one.returncode for one in done] == [2, 0, 0]
    reason = "The table has it, and no smaller size from which a forecast could have been made"
    assert done[0].stderr == f"scaleproof: t.csv: on 1: no forecast. {reason}\n"
    assert re.search(r" 4 +370 .* 370 +\+0\.1 % +yes\n", done[2].stdout), done[2].stdout


def test_a_table_of_nodes_says_how_many_devices_a_node_counts_as(tmp_path):
    rows = "1,1000\n2,1900\n4,3600\n"
    (tmp_path / "nodes.csv").write_text(f"nodes,tokens/s\n{rows}")
    (tmp_path / "gpus.csv").write_text(f"gpus,tokens/s\n{rows}")
    remark = "a node counts as 8 devices, which nodes.csv does not say: --devices-per-node N"
    words = ("forecast", "--from", "nodes.csv", "--devices", "64")
    assert remark in scaleproof(*words, cwd=tmp_path).stdout
    assert "counts as" not in scaleproof(*words, "--devices-per-node", "8", cwd=tmp_path).stdout
    assert "counts as" not in scaleproof("forecast", "--from", "gpus.csv", "--devices", "8", cwd=tmp_path).stdout
    remark = "28 devices are forecast as 32: whole nodes of 8 devices"
    assert remark in scaleproof("forecast", "--from", "gpus.csv", "--devices", "28", cwd=tmp_path).stdout
    assert (
        "whole nodes" not in scaleproof("forecast", "--from", "gpus.csv", "--devices", "6", "32", cwd=tmp_path).stdout
    )
