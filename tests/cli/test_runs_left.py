"""What a finished run says of those that are left, and collected ones of another campaign."""

import re
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic import write_failure, write_run

from scaleproof.cli import libraries
from scaleproof.cli import run as commands
from scaleproof.cli.analyse import collect
from scaleproof.cli.libraries import check_this_folder, unusable_library
from scaleproof.cli.prepare import keep, stale
from scaleproof.cli.run import _plan_run, _remaining_text, retry
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.run import read_run
from scaleproof.measure.launch import local
from scaleproof.measure.launch import run as launch

TEXT = """title: sizes
workload: {model: gpt2-tiny, corpus: python-docs, tokenizer: bpe-2048, seq_len: 128}
work: {global_batch: 8, steps: 25}
vary: {geometry: [1x1, 1x2]}
repeats: 2
"""


@pytest.fixture
def campaign(tmp_path, repository, monkeypatch) -> LoadedCampaign:
    monkeypatch.chdir(repository)
    (tmp_path / "sizes.yaml").write_text(TEXT)
    return LoadedCampaign(tmp_path / "sizes.yaml")


def test_runs_are_left_until_all_are_there(campaign, tmp_path):
    answers = []
    for folder, cell, repeat in campaign.planned(tmp_path):
        write_run(folder.parents[1], cell, repeat)
        run = read_run(folder).metrics.model_copy(update={"total_wall_time_s": 40.0})
        answers.append(_remaining_text(campaign, tmp_path, run))
    assert answers == [
        "; 3 of 4 runs left, about 2 min or less",
        "; 2 of 4 runs left, about 80 s",
        "; 1 of 4 runs left, about 40 s",
        "",
    ]


def test_on_a_cluster_nothing_is_said(campaign, tmp_path):
    folder, cell, repeat = campaign.planned(tmp_path)[0]
    write_run(folder.parents[1], cell, repeat)
    sent = read_run(folder).metrics.model_copy(update={"scheduler": {"type": "slurm"}})
    assert _remaining_text(campaign, tmp_path, sent) == ""


def test_a_job_of_several_runs_prints_each_outcome(campaign, tmp_path, monkeypatch, capsys):
    """Rates and failures go to the console, though the rule sends the error stream of the job into its log."""
    text = campaign.path.read_text() + "resources: {same_allocation: true}\n"
    campaign.path.write_text(text)

    def make(plan, out, read):
        if plan.repeat == 2:
            write_failure(out.parents[1], plan.cell, plan.repeat, "oom")
        else:
            write_run(out.parents[1], plan.cell, plan.repeat)
        return read_run(out).metrics

    monkeypatch.setattr(launch, "run_one_of_several", make)
    for job in LoadedCampaign(campaign.path).shared_jobs:
        out = tmp_path / f"sizes/together/{job}.json"
        commands.shared_job(
            Namespace(campaign=campaign.path, results=tmp_path, job=job, fingerprints=None, out=out, read_log=None)
        )
    printed = capsys.readouterr().out.splitlines()
    assert [re.sub(r": .*;|, about.*", ":", line) for line in printed if " left" in line] == [
        f"ddp-n1x{ranks}/rep1: {left} of 4 runs left:" for ranks, left in ((1, 3), (2, 2))
    ]
    failed = sorted(line for line in printed if " left" not in line)
    assert [line.partition(": ")[0] for line in failed] == ["ddp-n1x1/rep2", "ddp-n1x2/rep2"]
    assert failed[0].endswith(f"(log: {tmp_path}/sizes/runs/ddp-n1x1/rep2/train.log)")


def test_without_a_torch_that_serves_no_run_is_begun_and_a_command_needs_none(campaign, tmp_path, monkeypatch):
    cell = campaign.cell("ddp-n1x1")
    assert _plan_run(campaign, cell, 2, tmp_path).repeat == 2
    for version in ("2.13.0a0+1b2c3d", "3.0"):
        monkeypatch.setattr(libraries.metadata, "version", {"torch": version}.get)
        assert _plan_run(campaign, cell, 2, tmp_path).repeat == 2
    monkeypatch.setattr(libraries.metadata, "version", {"torch": "2.9.1"}.get)
    with pytest.raises(ImportError) as too_old:
        _plan_run(campaign, cell, 2, tmp_path)
    message = unusable_library(too_old.value)
    assert message.startswith(
        "torch cannot be imported (ImportError: version 2.9.1 is too old). Install it: pip install "
    )
    monkeypatch.undo()

    monkeypatch.setattr(libraries, "find_spec", {}.get)
    with pytest.raises(ModuleNotFoundError, match="'torch'"):
        _plan_run(campaign, cell, 2, tmp_path)
    of_command = replace(cell, workload=cell.workload.model_copy(update={"command": "python train.py"}))
    assert _plan_run(campaign, of_command, 2, tmp_path).repeat == 2


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [("torch.py", True), ("random.py", True), ("numpy/__init__.py", True), ("os.py", False), ("my_random.py", False)],
)
def test_a_file_that_ranks_would_import_in_place_of_a_module(campaign, tmp_path, monkeypatch, name, is_refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    refusal = pytest.raises(UserError, match=r"is imported by all ranks in place of the module \w+: rename it")
    with refusal if is_refused else nullcontext():
        check_this_folder()
    assert {library.partition(".")[0] for library in local.LIBRARIES} == libraries.OF_RANKS


@pytest.mark.parametrize(
    ("content", "rank"),
    [
        ("raise OSError('libcudart.so.12')", None),
        ("raise ImportError('libcudart.so.12')", None),
        ("", None),
        ("1 / 0", 1),
    ],
)
def test_a_crash_of_a_torch_that_cannot_be_loaded_is_no_row(campaign, tmp_path, monkeypatch, content, rank):
    (tmp_path / "torch.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    cell = campaign.cell("ddp-n1x1")
    run = write_failure(tmp_path, cell, 1, "crash")
    metrics = run.metrics.model_copy(update={"failure": run.metrics.failure.model_copy(update={"rank": rank})})
    if not content or rank is not None:  # torch is sound, or has been imported
        commands._refuse_broken_torch(cell, metrics, run.folder)
        assert read_run(run.folder).metrics.failure
        return
    with pytest.raises(ImportError) as broken:
        commands._refuse_broken_torch(cell, metrics, run.folder)
    message = unusable_library(broken.value)
    name = "OSError: " if "OSError" in content else ""
    assert message.startswith(
        f"torch cannot be imported (ImportError: {name}libcudart.so.12). Install it: pip install "
    )
    assert not list(run.folder.iterdir())


def test_a_campaign_of_another_checkout_means_no_runs_of_this_one(campaign, tmp_path, monkeypatch):
    other = tmp_path / "other/config/campaigns/sizes.yaml"
    other.parent.mkdir(parents=True)
    other.write_text(campaign.path.read_text())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for folder, cell, repeat in campaign.planned(Path("results")):
        write_run(folder.parents[1], cell, repeat)
    given = Namespace(campaign=Path("../other/config/campaigns/sizes.yaml"), cell=["all"], results=Path("results"))
    given.campaigns = [given.campaign]
    for command in (retry, keep, stale):
        with pytest.raises(UserError, match=f"is of another folder, and results is of this one: cd {tmp_path}/other$"):
            command(given)
    assert list(Path("results/sizes/runs").glob("*/*/*.json"))
    retry(Namespace(campaign=campaign.path, cell=["all"], results=Path("results")))
    assert not list(Path("results/sizes/runs").glob("*/*/*.json"))


def test_several_cells_may_stand_with_commas(campaign, tmp_path):
    for folder, cell, repeat in campaign.planned(tmp_path):
        write_run(folder.parents[1], cell, repeat)
    retry(Namespace(campaign=campaign.path, cell=["ddp-n1x2, ddp-n1x1/rep1"], results=tmp_path))
    assert [run.parts[-3:-1] for run in (tmp_path / "sizes/runs").glob("*/*/*.json")] == [("ddp-n1x1", "rep2")]


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("ddp-n1\u04451", 'Did you mean "ddp-n1x1"? Its "\u0445" is Cyrillic (U+0445). Cells: ddp-n1x'),
        ("dddp-n1x2", 'Did you mean "ddp-n1x2"? Cells: ddp-n1x'),
    ],
)
def test_a_letter_of_a_cell_that_only_looks_latin_is_named(campaign, tmp_path, cell, hint):
    with pytest.raises(UserError) as unknown:
        retry(Namespace(campaign=campaign.path, cell=[cell], results=tmp_path))
    assert hint in str(unknown.value)


def test_all_cells_can_be_repeated_at_once(campaign, tmp_path, capsys):
    for folder, cell, repeat in campaign.planned(tmp_path):
        write_run(folder.parents[1], cell, repeat)
    retry(Namespace(campaign=campaign.path, cell=["all"], results=tmp_path))
    assert "4 runs will be repeated by: " in capsys.readouterr().out
    assert not list((tmp_path / "sizes/runs").glob("*/*/*.json"))


def test_runs_of_another_campaign_and_damaged_ones_are_named(campaign, tmp_path, capsys):
    for folder, cell, repeat in campaign.planned(tmp_path):
        write_run(folder.parents[1], cell, repeat)
    first = campaign.planned(tmp_path)[0][0]
    for path in (tmp_path / "sizes/runs").glob("*/*/training_metrics.json"):
        of = "others" if path.parent == first else "sizes"
        path.write_text(path.read_text().replace('"campaign": "synthetic"', f'"campaign": "{of}"'))
    collect(Namespace(campaign=campaign.path, results=tmp_path))
    assert capsys.readouterr().err == f"scaleproof: {first}: of campaign others, says its record\n"

    (first / "training_metrics.json").write_text("<<<<<<< HEAD\n")
    collect(Namespace(campaign=campaign.path, results=tmp_path))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"scaleproof: {first.parent.name}/rep1/training_metrics.json is not a metrics file")
    assert line.endswith("; its row has no figures")


def test_the_runs_of_a_cell_that_was_taken_out_are_moved(campaign, tmp_path):
    cell = campaign.cell("ddp-n1x1")
    runs = tmp_path / "sizes/runs"
    write_run(runs, replace(cell, slug="zero1-n1x1"), 1)
    with pytest.raises(UserError) as gone:
        retry(Namespace(campaign=campaign.path, cell=["zero1-n1x1"], results=tmp_path))
    assert str(gone.value) == (
        f"--cell zero1-n1x1: zero1-n1x1 is no cell of {campaign.path} any more; to take its runs out of the results: "
        f"mv {runs}/zero1-n1x1 ANOTHER_FOLDER"
    )
    with pytest.raises(UserError, match=r'there is no cell "\.\."'):
        retry(Namespace(campaign=campaign.path, cell=[".."], results=tmp_path))
    with pytest.raises(UserError, match=r'--cell ALL: there is no such cell\. Did you mean "all"'):
        retry(Namespace(campaign=campaign.path, cell=["ALL"], results=tmp_path))
    with pytest.raises(UserError, match=r"--cell rep1: a cell is named by its slug, and a run as CELL/rep1\. Cells: "):
        retry(Namespace(campaign=campaign.path, cell=["rep1"], results=tmp_path))
