"""A job of several runs that Slurm ends by its time limit."""

import json
import os
import signal
import subprocess

import psutil
import pytest
from patience import wait_until
from slurm_tools import environment
from workflow_texts import TINY

QUICK = ("--seconds-between-status-checks", "2", "--latency-wait", "5")
SEVERAL = (
    TINY.replace("geometry: [1x1, 1x2]", "geometry: [2x1]")
    .replace("{start: forked}", "{device: cpu}")
    .replace("repeats: 1", "repeats: 3")
    + "resources: {time_limit: 5, minutes_per_job: 30}\n"
)
RUNS = [f"ddp-n2x1/rep{k}" for k in (1, 2, 3)]


def ranks(run: str) -> list[psutil.Process]:
    """The processes of an attempt at this run: srun, launchers of nodes, and their ranks."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(f"{run}/.attempt-" in word for word in process.info["cmdline"] or [])
    ]


@pytest.mark.long
@pytest.mark.fault(
    "Slurm's time limit cuts off a job of several runs, on a real cluster",
    "finished runs are kept, the run that was cut is no row, and the next job makes the rest",
)
def test_what_the_time_limit_cut_off_is_made_by_the_next_job(checkout):
    """The second run is held in its window until Slurm, whose limit is lowered meanwhile, ends the job."""
    checkout.campaign("several", SEVERAL)
    command = checkout.command("snakemake", "--profile", "slurm", "results/several/runs.csv", *QUICK)
    driver = subprocess.Popen(
        command, cwd=checkout.root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    runs = checkout.root / "results/several/runs"
    first, cut = runs / RUNS[0], f"results/several/runs/{RUNS[1]}"
    try:
        wait_until(lambda: (first / "training_metrics.json").exists() and ranks(cut), driver)
        job = json.loads((first / "training_metrics.json").read_text())["scheduler"]["job_id"]
        for process in ranks(cut):
            os.kill(process.pid, signal.SIGSTOP)
        checkout.cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")
        wait_until(lambda: not ranks(cut), driver)
        said, _ = driver.communicate()  # the command has a limit of its own
    finally:
        driver.kill()
    assert driver.returncode == 0, said[-5000:]
    made = [json.loads((runs / name / "training_metrics.json").read_text()) for name in RUNS]
    assert [run["status"] for run in made] == ["ok"] * 3
    jobs = [run["scheduler"]["job_id"] for run in made]
    assert jobs[0] == job
    assert jobs[1] == jobs[2] != job
    ended = (checkout.cluster.folder / "log/jobcomp.log").read_text()
    assert f"JobId={job} " in ended
    assert "JobState=TIMEOUT" in next(line for line in ended.splitlines() if f"JobId={job} " in line)
