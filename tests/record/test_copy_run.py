"""Runs that were made together: where they go, and how a failed one is made anew."""

from synthetic import cells, write_failure, write_run

from scalebench.record.copy_run import copy
from scalebench.record.retry import forget
from scalebench.record.run import read_run


def test_a_run_is_copied_whole(tmp_path):
    made = write_run(tmp_path / "together", cells()[0])
    out = tmp_path / "runs/rep1"
    out.mkdir(parents=True)
    (out / "RUN_COMPLETE.txt").write_text("of an older run")
    copy(made.folder, out)
    assert read_run(out).metrics == made.metrics
    assert {p.name for p in out.iterdir()} == {"training_metrics.json", "steps.csv"}


def test_a_failed_one_takes_its_pair_along(tmp_path):
    failed = write_failure(tmp_path / "runs", cells()[0])
    for repeat in (1, 2):
        (tmp_path / f"together/rep{repeat}").mkdir(parents=True)
    assert forget(tmp_path, [failed.folder]) == [failed.folder]
    assert [p.name for p in (tmp_path / "together").iterdir()] == ["rep2"]
