"""A campaign that is edited while its jobs wait in a real queue: alone, as an array, and several runs in one job."""

import re
import subprocess

import pytest
from patience import wait_until
from slurm_tools import environment
from workflow_texts import TINY

QUICK = ("--seconds-between-status-checks", "2", "--latency-wait", "5", "--retries", "0")
ALONE = (
    TINY.replace("[1x1, 1x2]", "[1x1]").replace("repeats: 1", "repeats: 2").replace("{start: forked}", "{device: cpu}")
)
TOGETHER = ALONE + "resources: {time_limit: 5, minutes_per_job: 30}\n"
KEPT = ALONE.replace("repeats: 2", "repeats: 1")


@pytest.fixture
def closed(checkout):
    """No training starts before this is called."""
    cluster = checkout.cluster

    def open_() -> None:
        cluster.run("scontrol", "update", "PartitionName=gpu", "State=UP")

    # The tokens are there: what waits are trainings.
    done = checkout.snakemake("results/corpora/prose/bpe-512/train.bin", *QUICK)
    assert done.returncode == 0, done.stderr[-3000:]
    cluster.run("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    yield open_
    open_()


@pytest.mark.long
@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.fault("a campaign is edited while its jobs wait in Slurm", "they end, saying so; no row of the old plan")
def test_jobs_that_wait_end_without_a_row(checkout, closed, arrays):
    name = "tasks" if arrays else "single"
    texts = {f"edited-{name}": ALONE, f"together-{name}": TOGETHER, f"kept-{name}": KEPT}
    for campaign, text in texts.items():
        checkout.campaign(campaign, text)
    results = checkout.root / "results"
    runs = [f"results/edited-{name}/runs/ddp-n1x1/rep{k}/steps.csv" for k in (1, 2)]
    kept = f"results/kept-{name}/runs/ddp-n1x1/rep1/steps.csv"
    targets = [*runs, f"results/together-{name}/runs.csv", kept]
    options = (*QUICK, "--scaleproof-array-jobs", "train") if arrays else QUICK
    driver = subprocess.Popen(
        checkout.command("snakemake", "--profile", "slurm", *targets, *options),
        cwd=checkout.root,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        # Each of four runs or jobs is one in the queue; of an array, each task (-r).
        queue = ("squeue", "--noheader", "--array", "--partition=gpu", "--format=%i")
        wait_until(lambda: len(checkout.cluster.run(*queue).stdout.split()) == 4, driver)
        for campaign in (f"edited-{name}", f"together-{name}"):
            checkout.campaign(campaign, texts[campaign].replace("steps: 4", "steps: 5"))
        closed()
        said, _ = driver.communicate()  # the command has a limit of its own
    finally:
        driver.kill()
    assert driver.returncode == 1, said[-5000:]
    assert (": scaleproof-train, 3 tasks" in said) == arrays
    assert re.search(r"Slurm says of job \d+(_\d+)?: FAILED on n[12], NonZeroExitCode, exit code \d", said)
    assert f"edited-{name}.yaml: cell ddp-n1x1 was changed while the workflow ran; start snakemake again" in said
    assert f"together-{name}.yaml: job 1x1-rep1-2 was changed while the workflow ran; start snakemake again" in said
    made = {str(path.relative_to(checkout.root)) for path in results.glob(f"*-{name}/runs/*/rep*/steps.csv")}
    assert made == {kept}
