"""Publishing: a run is there as a whole or not at all."""

import pytest
from synthetic import cells

from scalebench.errors import UserError
from scalebench.launch import run as launch
from scalebench.launch.watch import Interrupted


@pytest.fixture
def cell():
    return cells(workload={"tokenizer": "bpe-512", "seq_len": 32})[0]


def test_an_interrupted_run_publishes_nothing(monkeypatch, tmp_path, tokens, cell):
    def interrupted(*arguments):
        raise Interrupted("stopped by SIGTERM", 143)

    monkeypatch.setattr(launch, "run_watched", interrupted)
    with pytest.raises(Interrupted):
        launch.run_cell(cell, "c", 1, tokens, tmp_path / "rep1", 60)
    assert list((tmp_path / "rep1").iterdir()) == []


def test_a_new_attempt_clears_what_an_old_one_left(monkeypatch, tmp_path, tokens, cell):
    out = tmp_path / "rep1"
    (out / ".attempt-old").mkdir(parents=True)
    for name in ("training_metrics.json", "RUN_COMPLETE.txt", "train.log"):
        (out / name).write_text("old")
    monkeypatch.setattr(launch, "run_watched", lambda *arguments: launch.Outcome(7, False, ["last words"]))
    metrics = launch.run_cell(cell, "c", 1, tokens, out, 60)
    assert metrics.failure.reason == "the ranks ended with exit code 7"
    assert metrics.failure.log_tail == ["last words"]
    left = {p.name for p in out.iterdir()}
    assert left == {"training_metrics.json", "steps.csv", "launcher_metadata.json", "train.log"}
    assert "old" not in (out / "training_metrics.json").read_text()[:10]


def test_an_attempt_whose_folder_was_taken_away_cannot_publish(monkeypatch, tmp_path, tokens, cell):
    """A launcher that was given up on, and comes to its end later than the one that replaced it."""
    out = tmp_path / "rep1"

    def replaced(*arguments):
        launch._begin(out, "the-next-attempt")
        return launch.Outcome(0, False, [])

    monkeypatch.setattr(launch, "run_watched", replaced)
    with pytest.raises(FileNotFoundError):
        launch.run_cell(cell, "c", 1, tokens, out, 60)
    assert [p.name for p in out.iterdir()] == [".attempt-the-next-attempt"]


def test_too_few_tokens_are_said_before_anything_starts(tmp_path, tokens):
    large = cells(workload={"tokenizer": "bpe-512", "seq_len": 1024}, work={"global_batch": 4096})[0]
    with pytest.raises(UserError, match="fewer than one global batch of 4096"):
        launch.run_cell(large, "c", 1, tokens, tmp_path / "rep1", 60)
