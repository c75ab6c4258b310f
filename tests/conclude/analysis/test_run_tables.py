"""runs.csv, cells.csv and scaling_report.json from runs with known truth."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from synthetic import campaign, cells, rewrite, write_failure, write_run

from scaleproof.conclude.analysis.run_tables import cells_table, runs_table
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.checks.all_checks import audit


@pytest.fixture
def loaded(tmp_path):
    """1, 2 and 4 devices at 100, 60 and 40 ms a step, three runs each; a fourth size failed."""
    found = cells(vary={"geometry": ["1x1", "1x2", "1x4", "1x8"]})
    times = {1: 0.1, 2: 0.06, 4: 0.04}
    runs = [write_run(tmp_path, c, k, times[c.batch.n_devices]) for c in found[:3] for k in (1, 2, 3)]
    return [*runs, *(write_failure(tmp_path, found[3], k) for k in (1, 2, 3))]


def report(runs):
    return scaling_report("synthetic", "Does it scale?", runs, audit("synthetic", runs))


def test_one_row_a_run_with_its_file(loaded):
    table = runs_table(loaded)
    assert len(table) == 12
    assert (table["status"] == "ok").sum() == 9
    assert table.loc[table["status"] == "failed", "failure"].unique().tolist() == ["oom"]
    for row in table.itertuples():
        assert json.loads(Path(row.metrics).read_text())["repeat"] == row.repeat
        assert len(row.sha256) == 64


def test_one_row_a_cell(loaded):
    table = cells_table(loaded, audit("synthetic", loaded))
    assert table["cell"].tolist() == ["ddp-n1x1", "ddp-n1x2", "ddp-n1x4", "ddp-n1x8"]
    assert table["n"].tolist() == [3, 3, 3, 0]
    assert table["devices"].tolist() == [1, 2, 4, 8]
    windows = [r.metrics.window for r in loaded[:3]]
    truth = sum(w.tokens for w in windows) / sum(w.wall_time_s for w in windows)
    assert table["tokens_per_s"][0] == pytest.approx(truth)
    assert table["tokens_per_s_low"][0] < truth < table["tokens_per_s_high"][0]
    assert table["steps"][0] == 90
    assert pd.isna(table["tokens_per_s"][3])
    assert table["failures"][3] == "oom: CUDA out of memory"


def test_speedups_are_over_the_same_strategy_at_its_smallest_size(loaded):
    found = report(loaded)
    assert found.status == "ok"
    series = found.series[0]
    assert series.baseline == "ddp-n1x1"
    assert list(series.runs) == ["1x1", "1x2", "1x4"]
    assert series.runs["1x1"].speedup is None
    for geometry, devices, truth in (("1x2", 2, 100 / 60), ("1x4", 4, 100 / 40)):
        run = series.runs[geometry]
        assert run.speedup.value == pytest.approx(truth, rel=0.02)
        assert run.speedup.low < truth < run.speedup.high
        assert run.scaling_efficiency.value == pytest.approx(run.speedup.value / devices)
        assert run.n == len(run.metrics_paths) == 3


def test_the_baseline_is_the_smallest_size_that_was_measured(loaded):
    found = report([r for r in loaded if r.metrics.cell != "ddp-n1x1"])
    series = found.series[0]
    assert series.baseline == "ddp-n1x2"
    assert series.runs["1x4"].speedup.value == pytest.approx(60 / 40, rel=0.02)
    assert series.runs["1x4"].scaling_efficiency.value == pytest.approx(60 / 40 / 2, rel=0.02)
    assert series.runs["1x4"].speedup_vs_best_single is None


def test_cells_of_other_work_are_other_series(tmp_path):
    found = cells(vary={"geometry": ["1x1", "1x2"], "seq_len": [64, 128]})
    runs = [write_run(tmp_path, c, k, 0.1 / c.batch.n_devices) for c in found for k in (1, 2)]
    assert [list(s.runs) for s in report(runs).series] == [["1x1", "1x2"], ["1x1", "1x2"]]


def test_an_invalid_run_makes_the_comparison_invalid(loaded):
    loaded[0] = rewrite(loaded[0], lambda d: d["window"].update(tokens_per_sec_global=1e9))
    found = report(loaded)
    assert found.status == "invalid_comparison"
    assert "rate-times-time" in found.mismatches
    assert "rate-times-time" in found.series[0].runs["1x1"].findings


def test_nothing_measured(tmp_path):
    runs = [write_failure(tmp_path, c) for c in cells()]
    assert report(runs).series == []
    assert cells_table(runs, audit("synthetic", runs))["n"].tolist() == [0, 0]


def test_the_campaign_of_these_tests_is_valid():
    assert campaign().repeats == 3


def test_runs_without_numbers_take_no_evidence_away(loaded):
    """Of a watched command that fails, nothing but the print-out is left."""
    failed = [
        replace(run, metrics=run.metrics.model_copy(update={"evidence": "printed"})) if run.metrics.failure else run
        for run in loaded
    ]
    table = cells_table(failed, audit("synthetic", failed))
    assert table["evidence"].tolist() == ["built"] * 3 + ["printed"]
    assert report(failed).evidence == "built"
