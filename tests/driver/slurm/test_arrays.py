"""Tasks of a job array on different nodes: each is a run of its own."""

import json

import pytest
from workflow_texts import TINY

QUICK = ("--seconds-between-status-checks", "2", "--latency-wait", "5")
TWO_TASKS = (
    TINY.replace("[1x1, 1x2]", "[1x1]").replace("repeats: 1", "repeats: 2").replace("{start: forked}", "{device: cpu}")
)


@pytest.mark.long
def test_each_task_runs_on_its_own_node_and_has_its_own_number(checkout):
    """The array's last task has the array's own number, by which Slurm describes all of its tasks."""
    checkout.campaign("tasks", TWO_TASKS)
    runs = [f"results/tasks/runs/ddp-n1x1/rep{k}" for k in (1, 2)]
    done = checkout.snakemake(*(f"{run}/steps.csv" for run in runs), *QUICK, "--scaleproof-array-jobs", "train")
    assert done.returncode == 0, done.stderr[-5000:]
    assert ": scaleproof-train, 2 tasks" in done.stderr
    found = [json.loads((checkout.root / run / "training_metrics.json").read_text()) for run in runs]
    assert [run["status"] for run in found] == ["ok", "ok"], [run["failure"] for run in found]
    for run in found:
        assert run["scheduler"]["nodelist"] == run["ranks"][0]["host"]
    assert {run["scheduler"]["nodelist"] for run in found} == {"n1", "n2"}
    arrays, tasks = zip(*(run["scheduler"]["job_id"].split("_") for run in found), strict=True)
    assert len(set(arrays)) == 1
    assert set(tasks) == {"1", "2"}
