"""What is missing behind a report is named, and nothing that the campaign no longer plans."""

import json
import os
import shutil
from pathlib import Path

import pytest

from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.records.lost_results import lost_results, lost_text, records_without_runs

CAMPAIGN = "title: x\nworkload: {corpus: python-docs}\nvary: {geometry: [1x1, 1x2]}\nrepeats: 2\n"
RUN_FILES = ("training_metrics.json", "steps.csv", "launcher_metadata.json", "RUN_COMPLETE.txt")


COMPARE = "compare:\n  - {name: fused, a: {fused_optimizer: false}, b: {fused_optimizer: true}}\n"


def campaign_file(repository: Path, text: str) -> Path:
    """A campaign in the folder of today, with the table of corpora."""
    Path("config/campaigns").mkdir(parents=True, exist_ok=True)
    Path("config/corpora.yaml").write_bytes((repository / "config/corpora.yaml").read_bytes())
    path = Path("config/campaigns/mine.yaml")
    path.write_text(text)
    return path


@pytest.fixture
def reported(tmp_path, repository, monkeypatch):
    """A campaign and the files of its report, all of one byte."""
    monkeypatch.chdir(tmp_path)
    path = campaign_file(repository, CAMPAIGN)
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
    "a raw result or a chart behind a report is deleted",
    "`scaleproof stale` says so, with the command that makes it again",
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
    assert lost_text([run / "steps.csv", run / "training_metrics.json"]) == (f"{run} is no longer complete")
    assert lost_text([Path("results/mine/runs.csv")]) == "results/mine/runs.csv is missing"


@pytest.fixture
def tabled(reported):
    """The same campaign after a report that failed: Snakemake has removed the page and the list of its files."""
    folder = Path("results/mine")
    rows = [f"ddp-n1x{n},{k},ok" for n in (1, 2, 4) for k in (1, 2)]  # 1x4 is no longer planned
    (folder / "runs.csv").write_text("\n".join(["cell,repeat,status", *rows, ""]))
    (folder / "manifest.json").unlink()
    (folder / "report.html").unlink()
    return reported


def test_without_a_report_the_tables_say_which_runs_there_were(tabled):
    assert lost(tabled) == []
    shutil.rmtree("results/mine/runs")
    files = ("training_metrics.json", "steps.csv", "launcher_metadata.json")
    assert lost(tabled) == [f"runs/ddp-n1x{n}/rep{k}/{name}" for n in (1, 2) for k in (1, 2) for name in files]
    assert lost_text([Path("results/mine", name) for name in lost(tabled)]).startswith("4 runs (")


def test_a_run_that_was_never_made_is_not_lost(tabled):
    """Snakemake makes it, as the table of the runs does not have it."""
    shutil.rmtree("results/mine/runs/ddp-n1x2/rep2")
    table = Path("results/mine/runs.csv")
    table.write_text("\n".join(row for row in table.read_text().splitlines() if not row.startswith("ddp-n1x2,2")))
    assert lost(tabled) == []


@pytest.mark.parametrize("text", ["", "cell\nddp-n1x1\n", "\0", "x,y\n1,2\n", "cell,repeat\nddp-n1x1\n"])
def test_a_damaged_table_names_nothing(tabled, text):
    shutil.rmtree("results/mine/runs")
    Path("results/mine/runs.csv").write_text(text)
    assert lost(tabled) == []


def test_pairs_and_traces_are_missed_as_well(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = campaign_file(repository, CAMPAIGN + "trace: {cells: [ddp-n1x2]}\n" + COMPARE)
    folder = Path("results/mine")
    folder.mkdir(parents=True)
    (folder / "comparison.json").write_text('{"comparisons": [{"name": "fused"}, {"name": "of-old"}]}')
    (folder / "traces.json").write_text('{"traces": [{"cell": "ddp-n1x2"}, {"cell": "ddp-n1x1"}]}')
    traces = ["traces/ddp-n1x2/" + name for name in ("capture.json", "profile_summary.json", "timeline.csv")]
    assert lost(LoadedCampaign(path)) == ["compare/fused/pairs.json", *traces]
    (folder / "traces.json").write_text('{"traces": [3]}')
    assert lost(LoadedCampaign(path)) == ["compare/fused/pairs.json"]
    for name in ("comparison.json", "traces.json"):
        (folder / name).unlink()
    (folder / "manifest.json").write_text('{"files": {"comparison.json": "0", "traces.json": "0"}}')
    assert lost(LoadedCampaign(path)) == ["comparison.json", "traces.json"]
    assert lost(LoadedCampaign(campaign_file(repository, CAMPAIGN))) == [], "it asks for neither any more"


def test_a_job_of_several_runs_is_missed_with_its_record(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = campaign_file(repository, CAMPAIGN + "resources: {same_allocation: true}\n")
    loaded, results = LoadedCampaign(path), Path("results")
    assert records_without_runs(loaded, results) == {}  # nothing has run
    Path("results/mine").mkdir(parents=True)
    Path("results/mine/runs.csv").write_text("cell,repeat\nddp-n1x1,1\nddp-n1x2,1\n")
    records = records_without_runs(loaded, results)
    assert set(records) == {record for record, job in loaded.records(results).items() if job.rounds[0][0] == 1}
    assert lost_text(next(iter(records.values()))).endswith("no longer complete")


def test_a_cell_that_is_newer_than_the_record_of_its_job_is_not_lost(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = campaign_file(repository, CAMPAIGN + "resources: {same_allocation: true}\n")
    loaded, results = LoadedCampaign(path), Path("results")
    record, job = next(iter(loaded.records(results).items()))
    made = [f"{cell.slug}/rep{repeat}" for cell, repeat in job.runs]
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"job": job.name, "runs": made}))
    assert len(records_without_runs(loaded, results)[record]) == 3 * len(made)
    record.write_text(json.dumps({"job": job.name, "runs": made[1:]}))
    assert len(records_without_runs(loaded, results)[record]) == 3 * len(made[1:])
    record.unlink()  # of a publication
    Path("results/mine/runs.csv").write_text("cell,repeat\nddp-n1x1,1\n")
    assert len(records_without_runs(loaded, results)[record]) == 3
