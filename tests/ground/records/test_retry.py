"""What `scaleproof retry` removes beside the runs."""

import json
import os
import re
from types import SimpleNamespace

import pytest
from synthetic import cells, write_failure, write_run

from scaleproof.ground.errors import UserError
from scaleproof.ground.records.retry import remove_failed


def test_the_record_of_a_shared_job_goes_with_its_failed_run(tmp_path):
    """Without its record the job is sent once more; jobs whose runs are sound keep theirs."""
    cell = cells()[0]
    failed, sound = write_failure(tmp_path / "runs", cell), write_run(tmp_path / "runs", cell, 2)
    records = tmp_path / "together"
    records.mkdir()
    for name, runs in (("rep1-1", [failed.name]), ("rep2-2", [sound.name])):
        (records / f"{name}.json").write_text(json.dumps({"job": name, "runs": runs}))
    (records / "rep3-3.json").write_text("{ damaged")
    assert remove_failed(tmp_path, [failed.folder, sound.folder]) == [failed.folder]
    assert [path.name for path in records.iterdir()] == ["rep2-2.json"]


def test_a_folder_that_cannot_be_removed_is_named(tmp_path, monkeypatch):
    failed = write_failure(tmp_path / "runs", cells()[0])

    def refuse(path, *_, **__):
        raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OSError, match=re.escape(str(failed.folder))):
        remove_failed(tmp_path, [failed.folder])


def test_a_link_is_not_followed(tmp_path):
    """What it leads to may be anybody's: nothing is removed, also not of the runs before it."""
    first, second = (write_failure(tmp_path / "runs", cells()[0], repeat) for repeat in (1, 2))
    second.folder.rename(tmp_path / "elsewhere")
    second.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"{second.folder} is a link: nothing was removed"):
        remove_failed(tmp_path, [first.folder, second.folder])
    assert first.folder.is_dir()
    assert (tmp_path / "elsewhere").is_dir()


def test_a_cell_whose_folder_is_closed_loses_nothing(tmp_path, monkeypatch):
    failed = write_failure(tmp_path / "runs", cells()[0])
    monkeypatch.setattr(os, "access", lambda path, _: path != failed.folder.parent)
    with pytest.raises(UserError, match=f"{failed.folder.parent} is closed to this user's changes: nothing"):
        remove_failed(tmp_path, [failed.folder])
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(UserError, match=f"{failed.folder.parent} is on a disk that cannot be written: nothing"):
        remove_failed(tmp_path, [failed.folder])
    assert failed.folder.is_dir()


def test_what_no_rule_makes_again_is_kept(tmp_path):
    failed = write_failure(tmp_path / "runs", cells()[0])
    kept = ("plans/1.json", "logs/snakemake.json", "jobs.jsonl", "sweep/1x2/sweep.json", "frontier/a/frontier.json")
    kept += ("forecasts/1.json", "forecast_before.json")  # sealed before the runs
    kept += ("notes.md", "LICENSE", "environment.json", "mine/figures.csv")  # somebody's own, or of a publication
    for name in (*kept, "report.html", "tables/scaling.csv", "forecast.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    remove_failed(tmp_path, [failed.folder])
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {*kept}


@pytest.mark.parametrize(
    ("record", "is_removed"), [("[]", True), ("{}", True), ('{"status": "failed"}', True), ('{"status": "ok"}', False)]
)
def test_a_trace_is_removed_unless_its_record_says_that_it_is_sound(tmp_path, record, is_removed):
    trace = tmp_path / "traces/ddp-n1x2"
    trace.mkdir(parents=True)
    (trace / "capture.json").write_text(record)
    assert remove_failed(tmp_path, [], traces=[trace]) == ([trace] if is_removed else [])
