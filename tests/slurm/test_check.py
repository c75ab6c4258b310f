"""`scalebench cluster check`, and what is said before the first job is submitted."""

import re
import subprocess
import sys


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
    done = checkout.run("scalebench", "cluster", "check")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("OK    ") for line in lines)
    assert re.fullmatch(r"OK    Slurm [0-9.]+, cluster box", lines[0])
    for node in ("n1", "n2"):
        assert f"OK    {node}: results/ is shared and can be written" in lines
        assert f"OK    {node}: reaches the other node by eth0" in lines
        assert any(line.startswith(f"OK    {node}: torch 2.") for line in lines)
    assert list((checkout.root / "results").glob(".cluster-check*")) == []


def test_a_partition_that_is_not_there(checkout):
    profile = edited(checkout, "no-partition", r"^  slurm_partition: gpu", "  slurm_partition: a100")
    done = checkout.run("scalebench", "cluster", "check", "--profile", profile)
    assert done.returncode == 1
    assert 'MEND  partition "a100" of the profile does not exist' in done.stdout
    assert "cpu, gpu" in done.stdout


def test_a_cluster_without_accounting_is_noticed(checkout):
    profile = edited(checkout, "no-accounting", r"^slurm-status-command: squeue", "slurm-status-command: sacct")
    done = checkout.run("scalebench", "cluster", "check", "--profile", profile)
    assert done.returncode == 1
    assert "write `slurm-status-command: squeue`" in done.stdout


def test_snakemake_does_not_wait_for_ever_without_accounting(checkout):
    """The plugin would, without a word."""
    checkout.campaign("silent")
    target = "results/corpora/prose/bpe-300/tokenizer.json"
    done = checkout.snakemake("--slurm-status-command", "sacct", target, limit=30)
    assert done.returncode == 2
    assert "nothing was submitted" in done.stderr + done.stdout
    assert "slurm-status-command: squeue" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert checkout.cluster.run("squeue", "--noheader").stdout == ""


def test_a_machine_without_slurm(checkout):
    code = "import os, sys; os.environ['PATH'] = ''; sys.argv[1:] = ['cluster', 'check']; from scalebench.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=checkout.root, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no Slurm here" in done.stderr
