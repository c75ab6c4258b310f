"""`--profile slurm`: found by its short name, and never mistaken."""

import subprocess

import yaml
from slurm_tools import environment


def dry(repository, profile: str) -> subprocess.CompletedProcess:
    command = ["snakemake", "--profile", profile, "-n", "results/demo/report.html"]
    return subprocess.run(command, cwd=repository, env=environment(), capture_output=True, text=True)


def test_the_short_name_resolves(repository):
    assert (repository / "slurm").resolve() == repository / "profiles/slurm"
    assert (repository / "slurm").readlink().as_posix() == "profiles/slurm", "relative: a clone may lie anywhere"
    done = dry(repository, "slurm")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Using profiles slurm and workflow specific profile profiles/default" in done.stdout + done.stderr


def test_a_wrong_name_fails_loudly(repository):
    """It must not mean: run everything here."""
    done = dry(repository, "slrum")
    assert done.returncode != 0
    assert "slrum" in done.stderr


def test_a_reason_stands_beside_every_key(repository):
    lines = (repository / "profiles/slurm/profile.v9+.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            assert lines[number - 1].lstrip().startswith("#"), f"line {number + 1}: {line}"


def test_what_the_profile_must_say(repository):
    profile = yaml.safe_load((repository / "profiles/slurm/profile.v9+.yaml").read_text())
    assert profile["executor"] == "scaleproof"
    assert profile["seconds-between-status-checks"] == 30
