"""The command by which a campaign goes on: never on this machine what was measured on a cluster."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from synthetic import cells, rewrite, write_failure, write_run

from scaleproof.cli import main
from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.driver.snakemake_view import note_options
from scaleproof.ground.campaign import loaded
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.html import link_cells
from scaleproof.ground.records.failed_runs import failed_runs_text
from scaleproof.ground.snakemake_command import NOTE, snakemake_command
from scaleproof.verify.manifest import check_manifest

ELSEWHERE = "--profile profiles/cluster-generic"


@pytest.fixture(autouse=True)
def forgotten_corpora() -> Iterator[None]:
    """What a test reads in a folder of its own is read again by the next."""
    yield
    loaded._corpus_table.cache_clear()
    loaded.load_named.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """results/demo, and in it what `by_slurm` and `noted` write."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/demo").mkdir(parents=True)
    return Path("results/demo")


def by_slurm(folder: Path, name: str = "training_metrics.json") -> None:
    """A record as a job of Slurm leaves it, as far as it matters here."""
    path = folder / "runs/ddp-n1x1/rep1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"scheduler": {"type": "slurm", "job_id": "25_2"}}))


def noted(folder: Path, text: str = json.dumps({"options": ELSEWHERE})) -> None:
    (folder / NOTE).parent.mkdir()
    (folder / NOTE).write_text(text)


def test_here_if_nothing_else_is_known(folder):
    assert snakemake_command("results/demo/report.html") == "snakemake --cores 2 results/demo/report.html"
    assert snakemake_command("results/new/report.html") == "snakemake --cores 2 results/new/report.html"


@pytest.mark.parametrize("target", ["report.html", "runs.csv", "runs/ddp-n1x1/rep1/steps.csv", "charts/speedup.svg"])
def test_the_records_of_runs_say_that_slurm_made_them(folder, target):
    by_slurm(folder)
    assert snakemake_command(folder / target) == f"snakemake --profile slurm {folder / target}"
    assert snakemake_command(f"{folder.resolve() / target}").startswith("snakemake --profile slurm ")


def test_the_profile_that_was_used_is_known_by_its_name(folder):
    by_slurm(folder)
    noted(folder)
    assert snakemake_command(folder / "report.html") == f"snakemake {ELSEWHERE} results/demo/report.html"


@pytest.mark.parametrize("text", ["{ damaged", "[]", '"x"', "{}"])
def test_a_damaged_note_or_record_is_passed_over(folder, text):
    noted(folder, text)
    by_slurm(folder)
    record = folder / "runs/a-first/rep1/training_metrics.json"
    record.parent.mkdir(parents=True)
    record.write_text(text)
    assert snakemake_command(folder / "report.html") == "snakemake --profile slurm results/demo/report.html"


@pytest.mark.parametrize(
    ("profile", "executor", "options"),
    [
        ("profiles/lsf", "lsf", "--profile profiles/lsf"),
        ("a b", "slurm", "--profile 'a b'"),
        (str(Path.home() / "mine"), "lsf", "--profile ~/mine"),
        (None, "slurm", "--profile slurm"),
        (None, "scaleproof", "--profile slurm"),
        (None, "lsf", "--executor lsf --jobs 20"),
    ],
)
def test_how_jobs_are_sent_is_noted_in_the_campaign(folder, profile, executor, options):
    note_options(folder, profile, executor, 20)
    assert snakemake_command(folder / "report.html") == f"snakemake {options} results/demo/report.html"


def test_failed_runs_are_repeated_where_they_failed(folder, capsys, monkeypatch):
    Path("config/campaigns").mkdir(parents=True)
    Path("config/corpora.yaml").write_text("prose: {source: text, files: [prose.txt], document: line}\n")
    Path("demo.yaml").write_text("title: x\nworkload: {corpus: prose}\nvary: {geometry: [1x1]}\nrepeats: 1\n")
    failed = write_failure(folder / "runs", LoadedCampaign(Path("demo.yaml")).cells[0])
    rewrite(failed, lambda metrics: metrics.update(scheduler={"type": "slurm", "job_id": "7"}))
    command = "snakemake --profile slurm results/demo/report.html"
    text = failed_runs_text(LoadedCampaign(Path("demo.yaml")), Path("results"))
    assert text.endswith(f"scaleproof retry demo.yaml && {command}")
    difference, *_ = check_manifest(folder)
    assert command.replace("report.html", "manifest.json") in str(difference)
    monkeypatch.setattr("sys.argv", ["scaleproof", "retry", "demo.yaml"])
    main()
    assert f"1 run will be repeated by: {command}" in capsys.readouterr().out


@pytest.mark.parametrize("scheduler", [None, {"type": "slurm", "job_id": "7"}])
def test_the_next_step_of_a_report_is_one_on_its_cluster(tmp_path, scheduler):
    runs = [write_run(tmp_path / "runs", cell) for cell in cells(vary={"geometry": ["1x1", "1x2"]})]
    runs = [rewrite(run, lambda metrics: metrics.update(scheduler=scheduler)) for run in runs]
    report = scaling_report("demo", "Which?", runs, campaign_findings("demo", runs))
    command = f"snakemake {'--profile slurm' if scheduler else '--cores 2'} results/demo/report.html"
    (sentence,) = (bullet.sentence for bullet in answer_campaign(report).bullets if bullet.topic == "next")
    assert f"run {command} again" in sentence
    assert f"<code>{command}</code>" in link_cells(sentence, ())
