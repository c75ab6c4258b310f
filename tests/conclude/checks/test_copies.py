"""When runs were made, and in which order."""

import shutil
from datetime import UTC, datetime, timedelta

from explained_findings import codes
from sound_records import begin_at, sealed
from synthetic import cells, write_run

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.copies import start_epoch_s
from scaleproof.ground.records.run import METRICS, read_run


def test_cells_of_different_days_are_noted(sound):
    for place in (3, 4, 5):
        sound[place] = sealed(sound[place], lambda d: begin_at(d, f"2026-01-09T00:0{d['repeat']}:00Z"))
    assert codes(sound) == {"measured-apart": "note"}


def test_a_cell_that_was_added_half_an_hour_later_is_noted_and_not_the_next_in_line(sound):
    last_s = max(map(start_epoch_s, sound[:3]))
    for minutes, expected in ((5, {}), (30, {"measured-apart": "note"})):
        for place in (3, 4, 5):
            start = datetime.fromtimestamp(last_s + 60 * minutes + place, UTC).isoformat()
            sound[place] = sealed(sound[place], lambda d, start=start: begin_at(d, start))
        assert codes(sound) == expected
    on_cluster = [sealed(run, lambda d: d.update(scheduler={"name": "slurm"})) for run in sound]
    assert "measured-apart" not in codes(on_cluster)


def test_a_run_that_was_made_again_later_is_noted(sound):
    last_start = sound[2].metrics.timestamp_utc
    assert sound[0].metrics.cell == sound[2].metrics.cell
    later = (datetime.fromisoformat(last_start) + timedelta(minutes=11)).isoformat()
    sound[2] = sealed(sound[2], lambda d: begin_at(d, later))
    assert codes(sound) == {}, "the last repeat is the last"
    sound[2] = sealed(sound[2], lambda d: begin_at(d, last_start))
    sound[0] = sealed(sound[0], lambda d: begin_at(d, later))
    assert codes(sound) == {"repeat-made-later": "note"}
    on_cluster = [sealed(run, lambda d: d.update(scheduler={"name": "slurm"})) for run in sound]
    assert "repeat-made-later" not in codes(on_cluster)


def test_a_copy_over_another_repeat_is_no_edited_record(tmp_path):
    run = write_run(tmp_path / "runs", cells()[0])
    copied = shutil.copytree(run.folder, run.folder.parent / "rep2")
    assert codes([run, read_run(copied)]).keys() & {"record-edited", "run-copied"} == {"run-copied"}
    (alone,) = (one for one in audit("x", [read_run(copied)]).findings if one.code == "record-edited")
    assert alone.evidence == f"the folder {copied.parent.name}/rep2 has a copy of its record"
    with (copied / METRICS).open("a") as metrics:
        metrics.write(" ")
    assert "record-edited" in codes([run, read_run(copied)])  # it is no copy any more
