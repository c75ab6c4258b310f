"""What `scaleproof stale` says of missing texts, failed runs, and files that the report was not made from."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from synthetic import rewrite, write_failure, write_run
from workflow_texts import TINY

from scaleproof.driver.snakemake_view import Seen
from scaleproof.driver.stale import stale_runs
from scaleproof.driver.stale_text import _file_texts, stale_text
from scaleproof.ground.campaign.loaded import LoadedCampaign, _corpus_table
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.records.run import METRICS, read_run

COMPARISON = "Restore compare/ab, or make again: "
PAIRS = "snakemake --cores 2 --forcerun results/demo/compare/ab/pairs.json -- results/demo/report.html"
CAPTURE = "snakemake --cores 2 --forcerun results/demo/traces/c/capture.json -- results/demo/report.html"


@pytest.mark.parametrize(
    ("file", "cures"),
    [
        (
            "compare/ab/pair3/b/steps.csv",
            [f"{COMPARISON}rm -r results/demo/compare/ab/pair3 && "],
        ),
        ("compare/ab/pair4/b/steps.csv", [COMPARISON]),  # the whole pair is gone
        ("traces/c/benchmark.tsv", ["Restore traces/c/benchmark.tsv, or make again: "]),  # which no rule makes alone
        ("cells.csv", []),
    ],
)
def test_what_was_measured_beside_the_runs_has_the_cure_that_verify_prints(tmp_path, monkeypatch, file, cures):
    monkeypatch.chdir(tmp_path)
    Path("results/demo/compare/ab/pair3/a").mkdir(parents=True)
    files = SimpleNamespace(texts=[], tokens=[], newer=[], changed=[file], unplanned=[])
    lines = _file_texts(SimpleNamespace(loaded=SimpleNamespace(name="demo"), results=Path("results"), files=files))
    _, verify, *advice = lines
    assert verify.endswith("scaleproof verify results/demo")
    command = PAIRS if file.startswith("compare") else CAPTURE
    assert advice == [f"  {cure}{command}" for cure in cures]


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A campaign with a text of its own, its results, and how Snakemake sees its runs: as out of date."""
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/corpora.yaml").write_text("prose: {source: text, files: [prose.txt], document: line}\n")
    (tmp_path / "prose.txt").write_text("a line\n")
    monkeypatch.chdir(tmp_path)
    _corpus_table.cache_clear()
    path, results = Path("config/campaigns/tiny.yaml"), Path("results")
    path.write_text(TINY)
    view = {}
    monkeypatch.setattr("scaleproof.driver.stale.ask_snakemake", lambda _: view)
    yield LoadedCampaign(path), results, view
    _corpus_table.cache_clear()


def of_today(metrics: dict) -> None:
    metrics["code_sha256"] = code_sha256(*MEASURING)


def test_a_text_that_is_not_there_is_named(measured):
    loaded, results, _ = measured
    for folder, cell, repeat in loaded.planned(results):
        rewrite(write_run(folder.parents[1], cell, repeat), of_today)
    sound = stale_runs(loaded.path, results)
    assert (stale_text(sound), sound.has_faults) == ("tiny: no finished run would be measured again", False)
    Path("prose.txt").unlink()
    answer = stale_runs(loaded.path, results)
    assert answer.has_faults
    text = stale_text(answer)
    assert text.startswith('tiny: config/corpora.yaml: prose.files: "prose.txt" matches no file')
    assert text.endswith("\n  snakemake and scaleproof keep start nothing until the text of the corpus is there")


@pytest.mark.parametrize("failed", [0, 1, 2])
def test_runs_that_had_failed_are_not_offered_to_be_kept(measured, failed):
    loaded, results, view = measured
    for k, (folder, cell, repeat) in enumerate(loaded.planned(results)):
        (write_failure if k < failed else write_run)(folder.parents[1], cell, repeat)
        rewrite(read_run(folder), of_today)
        view[folder / METRICS] = Seen("train", pending=True, recorded=True)
    text = stale_text(stale_runs(loaded.path, results))
    assert "2 of 2 runs would be measured again" in text
    assert ("to keep them: scaleproof keep" in text) == (failed < 2)
    retried = ["", " --cell ddp-n1x1", " --cell ddp-n1x1 --cell ddp-n1x2"][failed]
    assert (f"scaleproof retry {loaded.path}{retried} && snakemake" in text) == (failed > 0)
