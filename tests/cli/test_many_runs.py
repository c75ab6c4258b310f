"""Stages that share many runs between two processes write the files that one process writes."""

import shutil
from pathlib import Path

import pytest
from command_line import scaleproof
from synthetic import rewrite, write_failure, write_run

from scaleproof.ground import cores
from scaleproof.ground.campaign.loaded import LoadedCampaign, run_dir

CORPORA = Path(__file__).parents[2] / "config/corpora.yaml"
CAMPAIGN = """title: Are two processes as good as one?
work: {global_batch: 16, steps: 30, warmup_steps: 5}
vary: {strategy: [ddp, fsdp, zero1], geometry: [1x1, 1x2]}
repeats: 3
"""
STAGES = ("collect", "findings", "analyse")
FILES = ("runs.csv", "findings.json", "cells.csv", "losses.csv", "scaling_report.json")


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The results of a campaign in which one run failed and one is too fast."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config/campaigns/many.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(CAMPAIGN)
    shutil.copy(CORPORA, tmp_path / "config")
    loaded = LoadedCampaign(path)
    planned = loaded.planned(tmp_path / "results")
    for number, (_, cell, k) in enumerate(planned):
        place = run_dir(tmp_path / "results", loaded.name, cell.slug, k).parents[1]
        write = write_failure if number == 3 else write_run
        run = write(place, cell, k)
        if number == 7:
            rewrite(run, lambda data: data["window"].update(tokens_per_sec_global=1e9))
    return tmp_path / "results/many"


def written(results, *stages) -> dict[str, bytes]:
    for stage in stages:
        done = scaleproof("stage", stage, "config/campaigns/many.yaml", cwd=results.parents[1])
        assert done.returncode == 0, done.stderr
    return {name: (results / name).read_bytes() for name in FILES}


def test_two_processes_write_what_one_writes(results, monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: 2)
    alone = written(results, *STAGES)
    monkeypatch.setattr(cores, "MANY_RUNS", 1)
    assert written(results, *STAGES) == alone
    assert all(code in alone["findings.json"] for code in (b"rate-times-time", b"repeat-failed"))


@pytest.mark.parametrize("cell", ["ddp-n1x1", "zero1-n1x2"])
def test_a_series_that_is_lost_is_found_by_either(results, monkeypatch, cell):
    monkeypatch.setattr(cores, "available_cores", lambda: 2)
    written(results, *STAGES)
    (results / f"runs/{cell}/rep2/steps.csv").unlink()
    alone = written(results, "findings")
    monkeypatch.setattr(cores, "MANY_RUNS", 1)
    assert written(results, "findings") == alone
    assert b"record-unusable" in alone["findings.json"]
