"""What `scaleproof retry` removes beside the runs."""

import json

from synthetic import cells, write_failure, write_run

from scaleproof.ground.records.retry import forget


def test_the_record_of_a_shared_job_goes_with_its_failed_run(tmp_path):
    """Without its record the job is sent once more; jobs whose runs are sound keep theirs."""
    cell = cells()[0]
    failed, sound = write_failure(tmp_path / "runs", cell), write_run(tmp_path / "runs", cell, 2)
    records = tmp_path / "together"
    records.mkdir()
    for name, runs in (("rep1-1", [failed.name]), ("rep2-2", [sound.name])):
        (records / f"{name}.json").write_text(json.dumps({"job": name, "runs": runs}))
    (records / "rep3-3.json").write_text("{ damaged")
    assert forget(tmp_path, [failed.folder, sound.folder]) == [failed.folder]
    assert [path.name for path in records.iterdir()] == ["rep2-2.json"]
