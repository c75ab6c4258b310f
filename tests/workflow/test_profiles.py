"""Profiles: what plain `snakemake` does by itself."""

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
