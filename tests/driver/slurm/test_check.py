"""`scaleproof cluster check`, and what is said before the first job is submitted."""

import re
import shutil
import subprocess
import sys

import pytest
from workflow_texts import COMPARE, TINY


def edited(checkout, name: str, pattern: str, replacement: str) -> str:
    """A folder with the profile, one line of it changed."""
    folder = checkout.root / name
    folder.mkdir(exist_ok=True)
    text = (checkout.root / "profiles/slurm/profile.v9+.yaml").read_text()
    changed, n = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    assert n == 1
    (folder / "profile.v9+.yaml").write_text(changed)
    return name


def test_a_sound_cluster(checkout):
    done = checkout.run("scaleproof", "cluster", "check")
    lines = done.stdout.splitlines()
    # The devices of this cluster are names in its configuration: that no node shows one is all there is to find.
    failed = sorted(line for line in lines if line.startswith("FAIL"))
    assert failed == [f"FAIL  {node}: no GPU is visible, although one was asked for" for node in ("n1", "n2")], done
    assert done.returncode == 1
    assert re.fullmatch(r"OK    Slurm [0-9.]+, cluster box", lines[0])
    for node in ("n1", "n2"):
        assert f"OK    {node}: results/ is shared and can be written" in lines
        assert f"OK    {node}: reaches another node by eth0" in lines
        assert any(line.startswith(f"OK    {node}: torch 2.") for line in lines)
    assert list((checkout.root / "results").glob(".cluster-check*")) == []


@pytest.mark.fault("a partition that does not exist", "`cluster check` names those that do")
def test_a_partition_that_is_not_there(checkout):
    profile = edited(checkout, "no-partition", r"^  slurm_partition: gpu", "  slurm_partition: a100")
    done = checkout.run("scaleproof", "cluster", "check", "--profile", profile)
    assert done.returncode == 1
    assert 'FAIL  partition "a100" of the profile does not exist' in done.stdout
    assert "cpu, gpu" in done.stdout


def test_looks_that_are_too_far_apart_are_noticed(checkout):
    interval = "seconds-between-status-checks"
    profile = edited(checkout, "rare-looks", rf"^{interval}: 30", f"{interval}: 200")
    done = checkout.run("scaleproof", "cluster", "check", "--profile", profile)
    assert done.returncode == 1
    assert f"set {interval} to 150 or less" in done.stdout


@pytest.mark.fault("a job asks for more than the partition has", "`cluster check` says so in Slurm's words")
def test_a_campaign_whose_jobs_the_cluster_would_refuse(checkout):
    """Twenty-four runs after each other ask for more time than the partition gives."""
    checkout.campaign("long", TINY.replace("[1x1, 1x2]", "[1x1, 4x1]") + COMPARE.replace("pairs: 2", "pairs: 6"))
    done = checkout.run("scaleproof", "cluster", "check", "config/campaigns/long.yaml")
    assert done.returncode == 1
    assert "OK    Slurm takes ddp-n1x1: 1 node with 4 cores, 8000 MB, gpu:1 for 17 minutes" in done.stdout
    assert "FAIL  Slurm refuses ddp-n4x1" in done.stdout
    assert "FAIL  Slurm refuses the 12 pairs of fused" in done.stdout
    assert "for 408 minutes: Requested time limit is invalid" in done.stdout


@pytest.mark.fault("jobs of a dead snakemake are still in the queue", "nothing is submitted; says which to end")
def test_jobs_that_a_dead_snakemake_has_left_are_ended_first(checkout):
    """One of them, started late, would take away what its successor has made."""
    checkout.campaign("after")
    left = (
        "sbatch",
        "--parsable",
        "--job-name",
        "scaleproof-train-after-ddp-n1x1-1",
        "--chdir",
        str(checkout.root),
        "--wrap",
        "sleep infinity",
    )
    job = checkout.cluster.run(*left, "--output=/dev/null").stdout.strip()
    try:
        done = checkout.snakemake("results/corpora/prose/bpe-301/tokenizer.json")
    finally:
        checkout.cluster.run("scancel", job)
    assert done.returncode == 1
    assert "nothing was submitted: jobs of an earlier snakemake" in done.stderr
    assert f"`scancel {job}`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_machine_without_slurm(checkout, tmp_path):
    for name in ("bash", "sh", "which"):  # which Snakemake calls
        (tmp_path / name).symlink_to(shutil.which(name))
    code = (
        f"import os, sys; os.environ['PATH'] = {str(tmp_path)!r}; sys.argv[1:] = ['cluster', 'check']; "
        "from scaleproof.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout.root, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no Slurm here" in done.stderr
