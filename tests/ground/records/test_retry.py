"""What `scaleproof retry` removes beside the runs."""

import json

from synthetic import cells, write_failure, write_run

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


def test_what_no_rule_makes_again_is_kept(tmp_path):
    failed = write_failure(tmp_path / "runs", cells()[0])
    for name in ("plans/1.json", "logs/snakemake.json", "jobs.jsonl", "report.html", "tables/scaling.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    remove_failed(tmp_path, [failed.folder])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.jsonl", "logs", "plans", "runs"]
