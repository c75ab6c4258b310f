"""Reading and writing what a run leaves behind."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from synthetic import as_rows, cells, steps_frame, write_failure, write_run

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import scrub, write_atomic, write_json
from scaleproof.ground.records.retry import remove_failed
from scaleproof.ground.records.run import read_planned, read_run
from scaleproof.ground.records.steps import loss_series, read_steps, step_ends_s, window_steps, write_steps


def test_a_run_reads_back_as_it_was_written(tmp_path):
    run = write_run(tmp_path, cells()[1])
    again = read_run(run.folder)
    assert again.metrics == run.metrics
    assert again.ok
    assert again.name == "ddp-n1x2/rep1"


def test_a_failed_run_reads_back(tmp_path):
    run = write_failure(tmp_path, cells()[0])
    assert not run.ok
    assert run.metrics.failure.failure_class == "oom"
    assert json.loads((run.folder / "training_metrics.json").read_text())["failure"]["class"] == "oom"


def test_step_times_are_maxima_over_ranks_and_losses_means(tmp_path):
    run = write_run(tmp_path, cells()[1])
    rows = run.steps.copy()
    rows["step_time_s"][(rows["step"] == 10) & (rows["rank"] == 1)] = 9.0
    window = window_steps(rows)
    assert window["step_time_s"][window["step"] == 10] == 9.0
    assert loss_series(rows)[10] == pytest.approx(7.0 - 0.02 * 10)
    assert len(loss_series(rows)) == 35


def test_steps_keep_their_digits(tmp_path):
    frame = steps_frame(cells()[1], 0.1, np.random.default_rng(1), spread=0.02)
    write_steps(as_rows(frame), tmp_path / "steps.csv")
    again = pd.DataFrame(read_steps((tmp_path / "steps.csv").read_text()))
    pd.testing.assert_frame_equal(again, frame[list(again)], rtol=1e-8, check_dtype=False)


def test_rows_in_another_order_give_the_same_series(tmp_path):
    rows = write_run(tmp_path, cells(vary={"geometry": ["1x8"]})[0]).steps
    rows["step_time_s"] *= np.random.default_rng(1).lognormal(0, 0.1, len(rows))
    mixed = rows[np.random.default_rng(2).permutation(len(rows))]
    assert not np.array_equal(rows["step"], mixed["step"])
    pd.testing.assert_frame_equal(pd.DataFrame(window_steps(mixed)), pd.DataFrame(window_steps(rows)))
    assert loss_series(mixed) == pytest.approx(loss_series(rows))
    assert np.array_equal(step_ends_s(mixed), step_ends_s(rows))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "not a metrics file"),
        (lambda text: text.replace('"3.3"', '"9.9"'), "schema_version"),
        (lambda text: text.replace('"repeat"', '"repaet"'), "repeat"),
        (lambda text: text[:200], "not a metrics file"),
    ],
)
@pytest.mark.fault("training_metrics.json is damaged", "one message with the file and the field")
def test_a_damaged_metrics_file(tmp_path, change, message):
    run = write_run(tmp_path, cells()[0])
    path = run.folder / "training_metrics.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message):
        read_run(run.folder)


def test_no_run_in_the_folder(tmp_path):
    with pytest.raises(UserError, match="there is no run in this folder"):
        read_run(tmp_path)


def test_a_run_whose_folder_was_renamed_is_named(tmp_path):
    folder = write_run(tmp_path / "runs", cells()[0]).folder
    moved = folder.parent.rename(tmp_path / "runs/ddp-2gpus") / folder.name
    with pytest.raises(UserError, match=f"there is no run in this folder; it is in {moved}: was"):
        read_run(folder)
    with pytest.raises(UserError, match=r"there is no run in this folder$"):
        read_run(folder.with_name("rep9"))


@pytest.mark.fault("a write fails half-way", "the old file stays")
def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    write_atomic(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_scrub_knows_the_places_of_this_machine():
    text = f"{Path.cwd()}/src and {sys.prefix}/lib and {Path.home()}/secret"
    clean = scrub(text)
    assert clean.startswith("./src and <env>/lib and ")
    assert str(Path.home()) not in clean


def test_a_run_that_was_not_planned_there_is_refused(tmp_path):
    one, two = cells()
    run = write_run(tmp_path, one)
    assert read_planned(run.folder, one, 1).ok
    with pytest.raises(UserError, match="is ddp-n1x1/rep1; the campaign plans ddp-n1x2/rep1 there") as misplaced:
        read_planned(run.folder, two, 1)
    assert "undo" not in str(misplaced.value)
    longer, _ = cells(work={"global_batch": 16, "steps": 40, "warmup_steps": 5})
    with pytest.raises(
        UserError, match=r"of another configuration \(work.steps 30 -> 40\); the campaign plans"
    ) as edited:
        read_planned(run.folder, longer, 1)
    assert "\n  to keep the old ones: undo the change in config/campaigns/synthetic.yaml, and" in str(edited.value)


@pytest.mark.fault("a damaged run is to be repeated", "`scaleproof retry` removes it")
def test_damaged_runs_are_taken_away_too(tmp_path):
    runs = [write_run(tmp_path / "runs", cells()[0], k) for k in (1, 2, 3)]
    (runs[0].folder / "training_metrics.json").write_text("{")
    (runs[1].folder / "steps.csv").write_text("phase\n")
    (tmp_path / "runs.csv").touch()
    pair = write_run(tmp_path / "compare/fused/pair1", cells()[0])
    gone = remove_failed(tmp_path, [run.folder for run in runs])
    assert gone == [runs[0].folder, runs[1].folder]
    assert not (tmp_path / "runs.csv").exists()
    assert runs[2].folder.exists()
    assert pair.folder.exists(), "what was measured stays, comparisons too"


def test_a_home_that_is_a_link_is_scrubbed_under_both_names(tmp_path, monkeypatch):
    """As on most clusters: what programs print may hold either."""
    (tmp_path / "gpfs/alice").mkdir(parents=True)
    (tmp_path / "home").symlink_to("gpfs")
    monkeypatch.setenv("HOME", str(tmp_path / "home/alice"))
    assert scrub(f"{tmp_path}/home/alice/x {tmp_path}/gpfs/alice/y") == "~/x ~/y"


@pytest.mark.fault("a trace failed", "`scaleproof retry` removes it; sound ones stay")
def test_a_trace_that_failed_is_taken_away_and_a_sound_one_stays(tmp_path):
    import json

    folders = [tmp_path / "traces" / name for name in ("sound", "failed", "broken", "none")]
    for folder, text in zip(folders, ('{"status": "ok"}', '{"status": "failed"}', "{", None), strict=True):
        folder.mkdir(parents=True)
        if text:
            (folder / "capture.json").write_text(text)
    (tmp_path / "traces.json").write_text(json.dumps({}))
    assert remove_failed(tmp_path, [], traces=folders) == folders[1:3]
    assert [f.exists() for f in folders] == [True, False, False, True]
    assert not (tmp_path / "traces.json").exists(), "it was computed from them"
    assert remove_failed(tmp_path, [], anyway=True, traces=folders) == folders[:1]
