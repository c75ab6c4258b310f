"""How the jobs of runs have ended, as the driver's ledger has it."""

from synthetic import cells, rewrite, write_run

from scaleproof.ground.records.jobs import FILE, job_end_counts
from scaleproof.ground.records.run import read_run

LINES = """{"id": "7", "makes": "a", "submitted": "2026-11-24T20:00:00Z"}
{"id": "8", "makes": "b", "submitted": "2026-11-24T20:00:00Z"}
{"id": "7", "makes": "a", "submitted": "2026-11-24T20:00:00Z", "ended": "2026-11-24T20:09:00Z", "state": "TIMEOUT"}
{"id": "9", "makes": "another run", "submitted": "2026-11-24T20:00:00Z", "ended": "x", "state": "COMPLETED"}
{"id": "8", "makes": "cut o"""


def test_the_last_line_of_a_job_says_how_it_ended(tmp_path):
    runs = []
    for repeat, job in ((1, "7"), (2, "7"), (3, "8"), (4, None)):
        run = write_run(tmp_path / "demo/runs", cells()[0], repeat)
        scheduler = {"type": "slurm", "job_id": job} if job else None
        rewrite(run, lambda metrics, scheduler=scheduler: metrics.update(scheduler=scheduler))
        runs.append(read_run(run.folder))
    assert job_end_counts(runs) == "", "without a ledger"
    (tmp_path / "demo" / FILE).write_text(LINES)
    assert job_end_counts(runs) == "1 TIMEOUT, 1 unknown"
    assert job_end_counts(runs[3:]) == "", "made on this machine"
