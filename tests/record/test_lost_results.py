"""What is missing behind a report is named, and nothing that the campaign no longer plans."""

import json
import os
from pathlib import Path

import pytest

from scalebench.campaign.loaded import LoadedCampaign
from scalebench.record.lost_results import lost_results, lost_text

CAMPAIGN = "title: x\nworkload: {corpus: python-docs}\nvary: {geometry: [1x1, 1x2]}\nrepeats: 2\n"
RUN_FILES = ("training_metrics.json", "steps.csv", "launcher_metadata.json", "RUN_COMPLETE.txt")


@pytest.fixture
def reported(tmp_path, repository, monkeypatch):
    """A campaign and the files of its report, all of one byte."""
    monkeypatch.chdir(tmp_path)
    Path("config/campaigns").mkdir(parents=True)
    Path("config/corpora.yaml").write_bytes((repository / "config/corpora.yaml").read_bytes())
    path = Path("config/campaigns/mine.yaml")
    path.write_text(CAMPAIGN)
    names = [f"runs/ddp-n1x{n}/rep{k}/{name}" for n in (1, 2) for k in (1, 2) for name in RUN_FILES]
    names += ["runs/ddp-n1x4/rep1/steps.csv", "runs.csv", "charts/speedup.svg", "charts/energy.svg", "report.html"]
    folder = Path("results/mine")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "manifest.json").write_text(json.dumps({"files": dict.fromkeys(names, "0")}))
    return LoadedCampaign(path)


def lost(reported) -> list[str]:
    return [os.path.relpath(path, "results/mine") for path in lost_results(reported, Path("results"), {"speedup"})]


def test_nothing_is_lost(reported):
    assert lost(reported) == []


@pytest.mark.parametrize(
    "name",
    ["runs/ddp-n1x1/rep2/steps.csv", "runs/ddp-n1x2/rep1/launcher_metadata.json", "runs.csv", "charts/speedup.svg"],
)
@pytest.mark.fault(
    "a raw result or a chart behind a report is deleted", "the next snakemake says so and makes it again"
)
def test_a_lost_file_is_named(reported, name):
    (Path("results/mine") / name).unlink()
    assert lost(reported) == [name]


@pytest.mark.parametrize(
    "name", ["runs/ddp-n1x4/rep1/steps.csv", "charts/energy.svg", "report.html", "runs/ddp-n1x1/rep1/RUN_COMPLETE.txt"]
)
def test_what_nothing_plans_or_no_rule_makes_is_not(reported, name):
    (Path("results/mine") / name).unlink()
    assert lost(reported) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3}', "{"])
def test_without_a_sound_manifest_nothing_is_known(reported, text):
    (Path("results/mine") / "runs.csv").unlink()
    Path("results/mine/manifest.json").write_text(text)
    assert lost(reported) == []


def test_it_says_what_follows():
    run = Path("results/mine/runs/a/rep1")
    assert lost_text([run / "steps.csv", run / "training_metrics.json"]) == (
        f"{run} is no longer complete and will be measured again"
    )
    assert lost_text([Path("results/mine/runs.csv")]) == "results/mine/runs.csv is missing and will be made again"
