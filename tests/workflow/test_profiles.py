"""Profiles: what plain `snakemake` does by itself."""

import subprocess
import sys

import yaml


def test_the_default_profile_is_used(built):
    done = built.snakemake("-n", "results/tiny/report.html")
    assert "profiles/default" in done.stdout + done.stderr


def test_the_default_profile_shares_no_key_with_another_one(repository):
    """It would win over `--profile`, key by key, without a word."""
    profiles = {p.parent.name: yaml.safe_load(p.read_text()) for p in repository.glob("profiles/*/*.yaml")}
    default = profiles.pop("default")
    assert default
    for name, keys in profiles.items():
        assert not set(keys) & set(default), name


def test_commands_are_found_where_no_environment_is_active(built):
    line = [sys.executable, "-m", "snakemake", "--cores", "1", "--force", "results/tiny/tables/strong.md"]
    done = subprocess.run(
        line, cwd=built.root, env=built.env | {"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
