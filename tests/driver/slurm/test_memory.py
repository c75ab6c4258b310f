"""A job with so little memory that Slurm ends the launcher, which could have written a row."""

import json
import re

import pytest
from workflow_texts import TINY

QUICK = ("--seconds-between-status-checks", "2", "--latency-wait", "5")
ROOMY = TINY.replace("[1x1, 1x2]", "[1x1]").replace("{start: forked}", "{device: cpu}")
STARVED = ROOMY + "resources: {memory_per_device: 0.06}\n"  # less than Snakemake alone takes


@pytest.mark.long
@pytest.mark.fault(
    "so little memory that Slurm ends the launcher as well",
    "the console says what to raise, exit code 1; then the next snakemake makes the run",
)
def test_a_run_without_memory_for_its_launcher_is_made_when_it_has_more(checkout):
    metrics = "results/starved/runs/ddp-n1x1/rep1/training_metrics.json"
    checkout.campaign("starved", STARVED)
    done = checkout.snakemake(metrics, *QUICK)
    assert done.returncode == 1, done.stderr[-5000:]
    assert re.search(r"Slurm says of job \d+: OUT_OF_MEMORY on n[12],", done.stderr)
    assert "It took more memory than it had asked for. Raise resources.memory_per_device" in done.stderr
    assert not (checkout.root / metrics).exists()
    checkout.campaign("starved", ROOMY)
    done = checkout.snakemake(metrics, *QUICK)
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads((checkout.root / metrics).read_text())["status"] == "ok"
