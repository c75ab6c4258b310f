"""Runs with real processes: equal work at every world size, whole steps timed, everything recorded."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.comparability import TOLERANCE
from scaleproof.ground.records.steps import loss_series


def test_metrics_hold_what_was_asked_for(two):
    m = two.metrics
    assert m.status == "ok"
    assert m.failure is None
    assert (m.training_config.micro_batch, m.training_config.accumulation) == (4, 1)
    assert m.window.step_time_n == m.window.optimizer_steps == 24
    assert m.window.tokens == 24 * 8 * 32
    assert m.config["work"]["global_batch"] == 8
    assert m.env["torch_version"].startswith("2.")
    assert [r["rank"] for r in m.ranks] == [0, 1]
    assert m.dtypes == {
        "products": "float32",
        "gradients": "float32",
        "reduced": "float32",
        "parameters": "float32",
        "optimizer_state": "float32",
        "float32_matmul": "highest",
    }


def test_the_ledger_equals_the_plan_at_every_world_size(one, two, two_accumulating):
    ledgers = [run.metrics.ledger for run in (one, two, two_accumulating)]
    assert all(ledger.equal and ledger.samples_shared == 0 for ledger in ledgers)
    assert len({ledger.consumed_sha256 for ledger in ledgers}) == 1
    assert [ledger.samples_by_rank for ledger in ledgers] == [[192], [96, 96], [96, 96]]


def test_losses_agree_over_world_sizes_and_accumulation(one, two, two_accumulating):
    reference = loss_series(one.steps)
    assert len(reference) == 28
    assert reference[-1] < reference[0], "it learns"
    for run in (two, two_accumulating):
        difference = (np.abs(loss_series(run.steps) - reference) / reference).max()
        assert difference <= TOLERANCE["fp32"] / 10, "the tolerance leaves room for longer runs and larger worlds"


def test_the_audit_finds_nothing_in_sound_runs(one, two, two_accumulating):
    found = audit("tiny", [one, two, two_accumulating]).findings
    assert [f for f in found if f.severity == "invalid"] == []


def test_steps_are_timed_whole_and_all_of_them(one, two):
    for run in (one, two):
        series = pd.DataFrame(run.steps[run.steps["phase"] == "window"])
        assert len(series) == 24 * len(run.metrics.ranks)
        total = series.groupby("rank")["step_time_s"].sum()
        assert total.max() == pytest.approx(run.metrics.window.wall_time_s, rel=0.02)
        window = run.metrics.window
        assert window.tokens_per_s == pytest.approx(window.tokens / window.wall_time_s)
        by_step = series.groupby("step")["step_time_s"].max()
        assert window.step_time_p50_s == pytest.approx(np.median(by_step), rel=1e-6), "a step is its slowest rank's"
        assert window.step_time_p99_s is None, "24 steps have no 99th percentile"


def test_warm_up_is_kept_apart(one):
    warmup = one.steps[one.steps["phase"] == "warmup"]
    assert warmup["step"].tolist() == [0, 1, 2, 3]
    assert one.metrics.ledger.samples_consumed == 24 * 8


def test_collectives_are_counted(one, two, two_accumulating):
    parameters = two.metrics.model.parameters
    for run in (two, two_accumulating):  # DDP reduces at the boundary alone, whatever the accumulation
        reduced = run.metrics.collectives["allreduce"]
        assert reduced["bytes"] == 4 * parameters
        assert reduced["dtypes"] == ["float32"]


@pytest.mark.parametrize("name", ["one", "two"])
def test_the_folder_is_whole_and_holds_nothing_private(name, request, repository):
    run = request.getfixturevalue(name)
    names = {p.name for p in run.folder.iterdir()}
    assert names == {"training_metrics.json", "steps.csv", "launcher_metadata.json", "RUN_COMPLETE.txt", "train.log"}
    complete = (run.folder / "RUN_COMPLETE.txt").read_text()
    assert re.fullmatch(
        r"\[Rank 0\] RUN_COMPLETE checkpoint_path=\S+ world_size=\d tokens_per_sec=[\d.]+ "
        r"total_wall_time_sec=[\d.]+ timestamp_utc=\S+Z\n",
        complete,
    )
    launcher = json.loads((run.folder / "launcher_metadata.json").read_text())
    assert launcher["world_size"] == len(run.metrics.ranks)
    assert launcher["exit_code"] == 0
    everything = "".join(p.read_text() for p in run.folder.iterdir())
    assert str(repository) not in everything
    log = (run.folder / "train.log").read_text()
    assert "window: 24 steps" in log
    assert f"{run.metrics.window.tokens_per_s:,.0f} tokens/s\n" in log


def test_a_changed_series_is_noticed(two, tmp_path):
    import shutil

    from scaleproof.ground.errors import UserError
    from scaleproof.ground.records.run import read_run

    shutil.copytree(two.folder, tmp_path / "copy")
    path = tmp_path / "copy/steps.csv"
    path.write_text(path.read_text().replace("window", "windoW", 1))
    with pytest.raises(UserError, match="sha256 differs"):
        _ = read_run(tmp_path / "copy").steps


def test_validation_is_the_same_at_every_world_size_and_follows_the_window(one, two, two_accumulating):
    first = one.metrics.validation
    assert (first.samples, first.targets) == (64, 64 * 32)
    assert first.perplexity == pytest.approx(np.exp(first.loss))
    assert first.accuracy is None
    untrained = np.log(512)
    assert 0.5 * untrained < first.loss < untrained, "it has learnt something"
    for run in (two, two_accumulating):
        assert run.metrics.validation.samples_sha256 == first.samples_sha256
        assert run.metrics.validation.loss == pytest.approx(first.loss, rel=2e-5)


def test_validation_is_the_loss_of_the_held_out_samples(run_tiny, make_cell, tokens):
    """Uneven numbers too: 61 samples over two ranks with micro-batches of 4.

    The rest of the last pass is not counted.
    """
    import torch

    from scaleproof.measure.corpus.reader import TokenFile, held_out_ids
    from scaleproof.measure.model.build import build_model

    run = run_tiny(
        execution={"geometry": "1x2"}, work={"validation_samples": 61, "optimizer": {"learning_rate": 1e-30}}
    )
    file = TokenFile(tokens, "val", 32)
    model = build_model(make_cell())  # hardly changed by such a learning rate
    with torch.no_grad():
        loss = model(torch.from_numpy(file.read(held_out_ids(file.n_samples, 61))))
    assert run.metrics.validation.samples == 61
    assert run.metrics.validation.loss == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("geometry", ["1x1", "1x2"])
def test_no_validation_where_none_is_wanted(run_tiny, geometry):
    metrics = run_tiny(execution={"geometry": geometry}, work={"validation_samples": 0}).metrics
    assert (metrics.status, metrics.failure) == ("ok", None), "a failed run has no validation either"
    assert metrics.validation is None
