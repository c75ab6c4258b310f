"""Finished runs are kept if they are runs of this campaign on these tokens, as they were written."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic import rewrite, write_run

from scaleproof.driver import snakemake_view, stale
from scaleproof.driver.keep import cut_off_text, keep, measured_beside, unrecorded_text
from scaleproof.driver.snakemake_view import Seen
from scaleproof.driver.stale import stale_runs
from scaleproof.driver.stale_text import stale_text
from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.kept_code import is_same_code
from scaleproof.ground.records.run import read_run
from scaleproof.measure.reference.schema import workload_name

TEXT = """title: sizes
workload: {model: gpt2-tiny, corpus: python-docs, tokenizer: bpe-2048, seq_len: 128}
work: {global_batch: 8, steps: 25}
vary: {geometry: [1x1, 1x2]}
repeats: 2
"""
RUN = "sizes/runs/ddp-n1x2/rep1"


def changed(folder: Path, change: Callable[[dict], None]) -> None:
    """Edit the metrics of a run, and seal them as the launcher does."""
    rewrite(read_run(folder), change)
    seal = hashlib.sha256((folder / "training_metrics.json").read_bytes()).hexdigest()
    (folder / "launcher_metadata.json").write_text(json.dumps({"metrics_sha256": seal}))


@pytest.fixture
def noted(monkeypatch) -> list[Path]:
    """The files that Snakemake is told to take as they are."""
    files: list[Path] = []
    monkeypatch.setattr(snakemake_view, "mark_up_to_date", files.extend)
    monkeypatch.setattr(snakemake_view, "make_files", lambda targets: pytest.fail(f"{targets} are there"))
    return files


@pytest.fixture
def measured(tmp_path, repository, monkeypatch, noted) -> tuple[LoadedCampaign, Path]:
    """A campaign whose runs are all there, with their tokens."""
    monkeypatch.chdir(repository)
    path, results = tmp_path / "sizes.yaml", tmp_path / "results"
    path.write_text(TEXT)
    loaded = LoadedCampaign(path)
    for folder, cell, repeat in loaded.planned(results):
        write_run(folder.parents[1], cell, repeat)
        changed(folder, lambda data: data["data"].update(train_sha256="a" * 64, val_sha256="b" * 64))
        tokens = tokens_dir(results, cell) / "tokens.json"
        tokens.parent.mkdir(parents=True, exist_ok=True)
        split = {"file": "-", "bytes": 0, "tokens": 0}
        splits = {"train": split | {"sha256": "a" * 64}, "val": split | {"sha256": "b" * 64}}
        tokens.write_text(json.dumps({"vocab_size": 2048, "dtype": "uint16", **splits}))
    return loaded, results


def test_all_finished_runs_are_kept(measured, noted):
    loaded, results = measured
    folders = keep(loaded, results)
    assert folders == loaded.runs(results)
    assert noted == [folder / "training_metrics.json" for folder in folders]


def test_a_job_that_lacks_a_run_is_made_again(measured, noted, monkeypatch):
    """A cell that was added makes it another job of the same name."""
    loaded, results = measured
    folders = loaded.runs(results)
    records = {folder: results / f"sizes/together/{folder.name}.json" for folder in folders}
    for record in records.values():
        record.parent.mkdir(exist_ok=True)
        record.write_text("{}")
    shutil.rmtree(results / RUN)
    monkeypatch.setattr("scaleproof.driver.keep.records_of_runs", lambda *_: records)
    keep(loaded, results)
    assert [record.name for record in sorted(set(records.values())) if record.exists()] == ["rep2.json"]


@pytest.mark.parametrize("pending", [True, False])
def test_runs_that_snakemake_would_not_make_are_led_to_keep(measured, noted, monkeypatch, pending):
    """Of a copied campaign it has no record of what its table was made from."""
    loaded, results = measured
    shutil.rmtree(results / RUN)
    table = results / "sizes/runs.csv"
    monkeypatch.setattr(stale, "ask_snakemake", lambda _: {table: Seen("collect", pending, recorded=pending)})
    text = stale_text(stale_runs(loaded.path, results))
    advice = f"would make none of these; first: scaleproof keep {loaded.path} --results {results}"
    assert "sizes: not made yet: 1 run" in text
    assert (advice in text) == (not pending)


@pytest.mark.parametrize("change", ["none", "a run is put back", "a run is lost"])
def test_tables_that_are_not_of_the_kept_runs_are_made_again(measured, change):
    """Snakemake goes by times and records, which do not say it."""
    loaded, results = measured
    tables = [results / "sizes" / name for name in ("runs.csv", "findings.json")]
    rows = [f"{cell.slug},{repeat}" for _, cell, repeat in loaded.planned(results)]
    tables[0].write_text("\n".join(["cell,repeat", *rows[change == "a run is put back" :]]))
    tables[1].write_text("{}")
    if change == "a run is lost":
        shutil.rmtree(results / RUN)
    keep(loaded, results)
    assert [table.exists() for table in tables] == [change == "none"] * 2


def test_other_code_of_kept_runs_counts_as_todays(measured):
    loaded, results = measured
    keep(loaded, results)
    assert is_same_code("c" * 64, code_sha256(*MEASURING), results / RUN)  # the code of all synthetic runs
    assert not is_same_code("c" * 64, "other", results / RUN)
    assert not is_same_code("d" * 64, code_sha256(*MEASURING), results / RUN)


def test_nothing_is_there_to_keep(measured, noted, tmp_path):
    with pytest.raises(UserError, match="nothing to keep"):
        keep(measured[0], tmp_path / "elsewhere")


def other_configuration(folder: Path) -> None:
    changed(folder, lambda data: data.update(fingerprint="0" * 16))


def other_steps(folder: Path) -> None:
    with (folder / "steps.csv").open("a") as file:
        file.write("window,99,0,0.1,0,1,1,1\n")


def other_figures(folder: Path) -> None:
    path = folder / "training_metrics.json"
    path.write_text(path.read_text().replace('"tokens_per_sec_global": ', '"tokens_per_sec_global": 9'))


def without_launcher(folder: Path) -> None:
    (folder / "launcher_metadata.json").unlink()


def other_tokens(folder: Path) -> None:
    changed(folder, lambda data: data["data"].update(train_sha256="0" * 64))


@pytest.mark.parametrize(
    ("spoil", "part"),
    [
        (other_configuration, "is a run of another configuration"),
        (other_steps, "its sha256 differs"),
        (other_figures, "was changed after the run"),
        (without_launcher, "launcher_metadata.json is missing or damaged"),
        (other_tokens, "is of other tokens than"),
    ],
)
def test_a_run_that_cannot_stand_here_is_refused(measured, noted, spoil, part):
    loaded, results = measured
    spoil(results / RUN)
    with pytest.raises(UserError, match=part) as refused:
        keep(loaded, results)
    assert f"scaleproof retry {loaded.path} --cell ddp-n1x2/rep1 --results {results} && snakemake" in str(refused.value)
    assert str(refused.value).endswith(f"; what changed: scaleproof stale --results {results}")
    assert noted == []


def test_a_cell_of_which_no_run_can_stay_is_named_as_a_whole(measured, noted):
    loaded, results = measured
    for folder in (results / RUN).parent.iterdir():
        without_launcher(folder)
    with pytest.raises(UserError) as refused:
        keep(loaded, results)
    assert f"scaleproof retry {loaded.path} --cell ddp-n1x2 --results {results} && snakemake" in str(refused.value)


def test_a_run_of_another_program_is_refused(measured, noted, monkeypatch):
    monkeypatch.setattr("scaleproof.driver.keep.changed_files", lambda *_: ["train.py"])
    with pytest.raises(UserError, match="was measured before train"):
        keep(*measured)
    assert noted == []


def test_what_snakemake_would_do_unasked_is_said(measured):
    loaded, results = measured
    outputs = {folder / "training_metrics.json" for folder in loaded.runs(results)}
    assert unrecorded_text(loaded, results, set()) is None
    text = unrecorded_text(loaded, results, outputs) or ""
    assert "no record of 4 finished runs of sizes" in text
    assert f"to keep them: scaleproof keep {loaded.path} --results {results}\n" in text
    assert f"snakemake --cores 2 --forcerun train -- {results}/sizes/report.html" in text
    other_configuration(results / RUN)
    assert "3 finished runs" in (unrecorded_text(loaded, results, outputs) or "")
    assert unrecorded_text(loaded, results, {results / RUN / "training_metrics.json"}) is None


def test_what_is_there_of_a_killed_snakemake_is_said_before_it_is_measured_again(measured):
    loaded, results = measured
    outputs = {folder / "training_metrics.json" for folder in loaded.runs(results)}
    assert cut_off_text(loaded, results, set()) is None
    command = f"unless you first type: scaleproof keep {loaded.path} --results {results}"
    assert (cut_off_text(loaded, results, outputs) or "").endswith(f": they are measured again, {command}")
    of_one = {results / RUN / "training_metrics.json"}
    assert "1 finished run of sizes is there" in (cut_off_text(loaded, results, of_one) or "")
    other_configuration(results / RUN)
    assert cut_off_text(loaded, results, of_one) is None


def test_what_is_measured_beside_the_runs_is_kept_where_it_is_of_this_campaign(measured, noted):
    loaded, results = measured
    path = loaded.path
    path.write_text(TEXT + "trace: {cells: [ddp-n1x2]}\n")
    loaded = LoadedCampaign(path)
    (reference,) = {f"{workload_name(cell.config)}.json" for cell in loaded.cells}
    trace, reference = results / "sizes/traces/ddp-n1x2/capture.json", results / "sizes/reference" / reference
    for file in (trace, reference):
        file.parent.mkdir(parents=True)
    reference.write_text("{}")
    trace.write_text(json.dumps({"fingerprint": loaded.cell("ddp-n1x2").fingerprint}))
    text = unrecorded_text(loaded, results, {trace, reference}) or ""
    assert f"no record of 1 trace, 1 reference of sizes ({trace}, ...) and would measure them again" in text
    assert f"--forcerun trace_capture reference -- {results}/sizes/report.html" in text
    keep(loaded, results)
    assert noted[-2:] == [trace, reference]
    trace.write_text(json.dumps({"fingerprint": "0" * 16}))
    assert unrecorded_text(loaded, results, {trace}) is None
    assert measured_beside(loaded, results) == {reference: "reference"}


def test_a_job_of_several_runs_makes_again_what_is_of_other_code(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    path, results = tmp_path / "sizes.yaml", tmp_path / "results"
    path.write_text(TEXT + "resources: {same_allocation: true}\n")
    loaded = LoadedCampaign(path)
    for folder, cell, repeat in loaded.planned(results):
        write_run(folder.parents[1], cell, repeat)
    text = unrecorded_text(loaded, results, loaded.records(results)) or ""
    assert "no record of 4 finished runs" in text
    assert "--forcerun shared_job --" in text
    monkeypatch.setattr("scaleproof.driver.keep.finished_run", lambda folder, cell: read_run(folder).metrics)
    assert unrecorded_text(loaded, results, loaded.records(results)) is None


@pytest.mark.parametrize("is_seen", [True, False])
def test_pairs_of_another_configuration_are_measured_again_by_force(measured, monkeypatch, is_seen):
    """Without a record of its own, Snakemake takes them for up to date."""
    loaded, results = measured
    arms = "compare: [{name: fused, a: {fused_optimizer: false}, b: {fused_optimizer: true}}]\n"
    loaded.path.write_text(TEXT + arms)
    _, *cells = LoadedCampaign(loaded.path).comparisons["fused"]
    pairs = results / "sizes/compare/fused/pairs.json"
    for arm, cell in zip("ab", cells, strict=True):
        run = write_run(results / "other", cell, 1)
        shutil.copytree(run.folder, pairs.with_name("pair1") / arm)
    pairs.write_text("{}")
    view = {pairs: Seen("pairs", pending=False, recorded=False)} if is_seen else {}
    monkeypatch.setattr(stale, "ask_snakemake", lambda targets: view)
    monkeypatch.setattr(stale, "code_sha256", lambda *entries: "c" * 64)
    assert "comparison" not in stale_text(stale_runs(loaded.path, results))

    again = f"snakemake --cores 2 --forcerun {pairs} -- {results}/sizes/report.html"
    loaded.path.write_text(TEXT + arms.replace("false", "false, seed: 7").replace("true", "true, seed: 7"))
    text = stale_text(stale_runs(loaded.path, results))
    assert "sizes: 1 comparison would be measured again, because its configuration changed\n" in text
    assert f"to measure them again: {again}\n" in text
    loaded.path.write_text(TEXT.replace("25", "26") + arms)
    text = stale_text(stale_runs(loaded.path, results))
    assert "; with them 1 comparison\n" in text
    assert f" --results {results} && {again}\n" in text
