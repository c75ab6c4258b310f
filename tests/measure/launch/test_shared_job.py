"""Several runs in one job: nothing is measured twice, and a job that was cut off goes on where it stopped."""

import json
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from synthetic import campaign, rewrite, write_failure, write_run

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.shared_jobs import plan_shared_jobs
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.files import sha256_of
from scaleproof.ground.records.kept_code import KEPT, keep_code
from scaleproof.ground.records.metrics import Failed, Printed
from scaleproof.ground.records.run_sections import Program
from scaleproof.measure.command.program import files_of_command
from scaleproof.measure.launch.shared_job import changed_files, run_shared_job


class Cut(Exception):
    """The job ends: its time is over, or a node is lost."""


class Job:
    """A job of two rounds of two cells, whose runs are written and not trained."""

    def __init__(self, root: Path, same_nodes: bool) -> None:
        keys = {"same_allocation": True} if same_nodes else {}
        given = campaign(vary={"strategy": ["ddp", "fsdp"]}, repeats=2, resources={"minutes_per_job": 1000} | keys)
        self.cells = expand_cells(given)
        (self.job,) = plan_shared_jobs(given, lambda repeat: self.cells)
        self.root, self.record = root, root / "together/rep1-2.json"
        self.failed: dict[str, str] = {}  # run -> class of its failure

    def folder(self, cell, repeat: int) -> Path:
        return self.root / "runs" / cell.slug / f"rep{repeat}"

    def go(self, runs: int = 100, host: str = "node") -> list[str]:
        """What a job on `host` makes until it is cut off after so many runs."""
        made: list[str] = []

        def run(cell, repeat, folder):
            if len(made) == runs:
                raise Cut
            for path in folder.glob("*"):
                path.unlink()
            if folder.is_dir():
                folder.rmdir()
            name = f"{cell.slug}/rep{repeat}"
            kind = self.failed.get(name)
            made.append(name)
            root = self.root / "runs"
            written = write_failure(root, cell, repeat, kind) if kind else write_run(root, cell, repeat)
            here = {"hostname": host, "os": "Linux"}
            rewrite(written, lambda data: data.update(code_sha256=code_sha256(*MEASURING), host=here))
            (folder / "launcher_metadata.json").write_text("{}")

        with patch("socket.gethostname", lambda: host), suppress(Cut):
            run_shared_job(self.job, self.folder, run, self.record)
            return made
        assert not self.record.exists()
        return made


@pytest.fixture(params=[False, True], ids=["by geometry", "same nodes"])
def job(request, tmp_path):
    return Job(tmp_path, request.param)


ALL = ["ddp-n1x1/rep1", "fsdp-n1x1/rep1", "ddp-n1x1/rep2", "fsdp-n1x1/rep2"]


def test_a_job_makes_all_of_its_runs_and_then_its_record(job):
    assert job.go() == ALL
    assert json.loads(job.record.read_text()) == {
        "job": "1x1-rep1-2" if not job.job.same_nodes else "rep1-2",
        "runs": ALL,
    }


@pytest.mark.fault(
    "a job of several runs is cut off", "finished runs are kept; the next job makes the others", cluster=True
)
def test_a_job_that_was_cut_off_goes_on_where_it_stopped(job):
    assert job.go(3) == ALL[:3]
    assert job.go() == ALL[3:]
    assert job.go() == []


def test_on_other_nodes_an_unfinished_round_is_made_as_a_whole_where_nodes_must_be_shared(job):
    assert job.go(3) == ALL[:3]
    assert job.go(host="other") == (ALL[2:] if job.job.same_nodes else ALL[3:])


def test_no_round_is_of_two_jobs_where_nodes_must_be_shared(tmp_path):
    job = Job(tmp_path, same_nodes=True)
    assert job.go() == ALL
    (job.folder(job.cells[0], 1) / "steps.csv").unlink()
    job.record.unlink()
    assert job.go(1, host="other") == ALL[:1], "cut off after the run that was missing: the next one is on node"
    assert job.go(host="third") == ALL[:2]


def test_a_queue_that_does_not_name_its_nodes_gives_no_two_jobs_the_same(tmp_path, monkeypatch):
    job = Job(tmp_path, same_nodes=True)
    monkeypatch.setenv("PBS_JOBID", "7.head")
    assert job.go(1) == ALL[:1]
    assert job.go() == ALL, "the first run's record names no job of this queue"


def test_failed_runs_are_results_but_for_those_whose_node_was_lost(job):
    job.failed = {ALL[0]: "oom", ALL[3]: "node_fail"}
    assert job.go() == ALL
    job.failed = {}
    assert job.go() == ALL[3:]


def test_runs_of_other_code_are_made_again(job):
    job.go()
    for cell, repeat in job.job.runs:
        path = job.folder(cell, repeat) / "training_metrics.json"
        path.write_text(path.read_text().replace(code_sha256(*MEASURING), "0" * 64))
    (job.folder(job.cells[0], 1) / "steps.csv").unlink()
    job.record.unlink()
    keep_code(job.root, code_sha256(*MEASURING), {"0" * 64})
    assert job.go() == ALL[:1], "kept runs stay, with whatever is missing beside them"
    (job.root / KEPT).unlink()
    assert job.go() == ALL[1:]


def test_runs_of_a_command_are_made_again_once_its_script_has_changed(tmp_path, monkeypatch):
    """By its hash; of a failed run, which has none in its record, by its time."""
    monkeypatch.chdir(tmp_path)
    script = Path("train.py")
    script.write_text("print(1)")
    given = Campaign.model_validate(
        {"title": "x", "workload": {"command": "python train.py {mode}"}, "vary": {"mode": ["a"]}}
    )
    (cell,) = expand_cells(given)
    record = tmp_path / "training_metrics.json"
    record.write_text("{}")
    printed = Printed.model_construct(program=Program.model_construct(files=files_of_command(cell.words)))
    failed = Failed.model_construct()
    assert printed.program.files.keys() == {"train.py"}
    assert not any(changed_files(metrics, cell, record) for metrics in (printed, failed))
    hashed = []
    once = cache(lambda path: hashed.append(path) or sha256_of(path))
    assert not any(changed_files(printed, cell, record, once) for _ in range(9))
    assert hashed == [script], "a file is read once for all of its runs"
    script.write_text("print(2)")
    os.utime(script, (time.time() + 10,) * 2)
    assert all(changed_files(metrics, cell, record) for metrics in (printed, failed))
