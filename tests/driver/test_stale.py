"""What would be measured again is said before it is: how many runs, why, how many device hours."""

import re
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from synthetic import rewrite, write_run

from scaleproof.cli.run import retry
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.driver import stale
from scaleproof.driver.snakemake_view import Seen
from scaleproof.driver.stale import stale_runs
from scaleproof.driver.stale_text import stale_text
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_json
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.failed_runs import ended_early_text
from scaleproof.ground.records.run import CAPTURE, METRICS, STEPS, read_run
from scaleproof.measure.launch.attempt import begin_attempt
from scaleproof.measure.reference.schema import workload_name
from scaleproof.verify.manifest import write_manifest

TEXT = """title: sizes
workload: {model: gpt2-tiny, corpus: python-docs, tokenizer: bpe-2048, seq_len: 128}
work: {global_batch: 8, steps: 25}
vary: {geometry: [1x1, 1x2]}
repeats: 2
"""


@pytest.fixture
def measured(tmp_path, repository, monkeypatch) -> tuple[Path, Path]:
    """A campaign file, and the folder of its results, measured by the code of today in 36 s a run."""
    monkeypatch.chdir(repository)
    path, results = tmp_path / "sizes.yaml", tmp_path / "results"
    path.write_text(TEXT)
    for folder, cell, repeat in LoadedCampaign(path).planned(results):
        run = write_run(folder.parents[1], cell, repeat)
        rewrite(run, lambda data: data.update(code_sha256=code_sha256(*MEASURING), total_wall_time_sec=36.0))
    return path, results


def test_nothing_is_stale_after_the_runs(measured):
    answer = stale_runs(*measured)
    assert (answer.runs, answer.planned) == ([], 4)
    assert stale_text(answer) == "sizes: no finished run would be measured again"


def test_runs_of_other_code_and_another_configuration(measured):
    path, results = measured
    path.write_text(TEXT.replace("steps: 25", "steps: 26"))
    changed = stale_runs(path, results)
    assert [run.reason for run in changed.runs] == ["its configuration changed: work.steps 25 -> 26"] * 4
    text = stale_text(changed)
    assert f"scaleproof retry {path} --cell ddp-n1x1 --cell ddp-n1x2 --results {results} && snakemake" in text
    assert not any(word in text for word in ("--touch", "scaleproof keep"))
    assert sum(run.device_hours for run in changed.runs) == pytest.approx((2 * 36 + 2 * 2 * 36) / 3600)

    path.write_text(TEXT)
    run = read_run(results / "sizes/runs/ddp-n1x2/rep1")
    rewrite(run, lambda data: data.update(code_sha256="0" * 64))
    answer = stale_runs(path, results)
    assert [run.reason for run in answer.runs] == ["code that takes part in a run changed"]
    assert "1 of 4 runs would be measured again (72 seconds of a device)" in stale_text(answer)
    assert f"to keep them: scaleproof keep {path} --results {results}\n" in stale_text(answer)
    assert f"to measure them again: snakemake --cores 2 {results}/sizes/report.html" in stale_text(answer)


def test_an_added_cell_is_not_stale(measured):
    path, results = measured
    path.write_text(TEXT.replace("[1x1, 1x2]", "[1x1, 1x2, 1x4]"))
    answer = stale_runs(path, results)
    assert answer.runs == []
    assert stale_text(answer) == "sizes: no finished run would be measured again\nsizes: not made yet: 2 runs"


@pytest.mark.parametrize("meanwhile", ["ask_snakemake", "read_run"])
def test_a_run_that_is_being_made_is_neither_damaged_nor_lost(measured, monkeypatch, meanwhile):
    path, results = measured
    run = results / "sizes/runs/ddp-n1x2/rep1"
    usual = getattr(stale, meanwhile)

    def begin(place):
        begin_attempt(run, "now", (METRICS, STEPS))
        return {} if meanwhile == "ask_snakemake" else usual(place)

    monkeypatch.setattr(stale, meanwhile, begin)  # a campaign under way comes to it while something else is read
    for _ in range(2):
        assert stale_text(stale_runs(path, results)) == (
            "sizes: no finished run would be measured again\n"
            "sizes: not made yet: 1 run; 1 of them being made now, or cut off"
        )
    shutil.rmtree(run / ".attempt-now")
    monkeypatch.setattr(stale, meanwhile, usual)
    assert stale_text(stale_runs(path, results)).endswith("sizes: not made yet: 1 run"), "it was given up"


def test_runs_whose_cells_were_renamed_are_named(measured):
    path, results = measured
    path.write_text(TEXT.replace("[1x1, 1x2]}", "[1x1, 1x2], precision: [fp32, bf16]}"))
    text = stale_text(stale_runs(path, results))
    assert "no finished run" not in text, "of the cells that there are now none is finished"
    assert "sizes: not made yet: 8 runs\n  the runs of ddp-n1x1, ddp-n1x2 are of no cell any more: a key that" in text
    assert (
        "these runs stay, which have the same fingerprints (ddp-n1x1 is ddp-fp32-n1x1, ddp-n1x2 is ddp-fp32-n1x2)"
        in text
    )
    path.write_text(path.read_text().replace("fp32, ", ""))
    text = stale_text(stale_runs(path, results))
    assert "renames all cells" not in text or "same fingerprints" not in text, "none of these is what was measured"
    path.write_text(TEXT.replace("[1x1, 1x2]", "[1x1]"))
    assert "renames" not in stale_text(stale_runs(path, results)), "a cell that was left out"


def test_what_is_missing_behind_results_is_named_with_what_to_type(measured):
    path, results = measured
    folder = results / "sizes"
    rows = [f"ddp-n1x{n},{k}" for n in (1, 2) for k in (1, 2)]
    (folder / "runs.csv").write_text("\n".join(["cell,repeat", *rows, ""]))
    for run in LoadedCampaign(path).runs(results):
        (run / "launcher_metadata.json").write_text("{}")
    assert stale_runs(path, results).lost == []
    (folder / "runs/ddp-n1x2/rep1/steps.csv").unlink()
    text = stale_text(stale_runs(path, results))
    assert f"sizes: {folder}/runs/ddp-n1x2/rep1 is no longer complete" in text
    assert f"snakemake --cores 2 {folder}/runs/ddp-n1x2/rep1/steps.csv {folder}/report.html" in text


def test_a_lost_chart_is_asked_for_alone(measured, monkeypatch):
    path, results = measured
    folder = results / "sizes"
    names = ("speedup", "step_time", "trace-steps")  # the last one is no chart of the report alone
    files = [f"charts/{name}.{kind}" for name in names for kind in ("png", "svg")]
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    write_manifest(folder, "1", None)
    shutil.rmtree(folder / "charts")
    rules = dict.fromkeys(files, "charts") | dict.fromkeys(files[4:], "trace_charts")
    view = {folder / name: Seen(rule, pending=False, recorded=True) for name, rule in rules.items()}
    monkeypatch.setattr("scaleproof.driver.stale.ask_snakemake", lambda targets: view)
    text = stale_text(stale_runs(path, results))
    charts = f"{folder}/charts/speedup.svg {folder}/charts/trace-steps.svg"
    assert text.endswith(f"to make what is missing again: snakemake --cores 2 {charts}")
    assert "not what the report was made from" not in text


def test_a_reference_that_would_be_replayed_is_stale(measured, monkeypatch):
    path, results = measured
    name = workload_name(LoadedCampaign(path).cells[0].config)
    reference = results / "sizes/reference" / f"{name}.json"
    reference.parent.mkdir()
    reference.write_text("{}")
    monkeypatch.setattr(
        "scaleproof.driver.stale.ask_snakemake", lambda targets: {reference: Seen("reference", True, False)}
    )
    text = stale_text(stale_runs(path, results))
    assert text.startswith("sizes: 1 reference would be measured again, because snakemake has no record of it")
    assert "to keep them: scaleproof keep" in text
    assert "--forcerun reference -- " in text
    monkeypatch.setattr(
        "scaleproof.driver.stale.ask_snakemake", lambda targets: {reference: Seen("reference", False, False)}
    )
    assert stale_text(stale_runs(path, results)) == "sizes: no finished run would be measured again"


def test_runs_of_a_job_that_snakemake_holds_for_done_are_not_stale(measured, monkeypatch):
    """As after `scaleproof keep`, whatever their code."""
    path, results = measured
    path.write_text(TEXT + "resources: {same_allocation: true}\n")
    records = LoadedCampaign(path).records(results)
    monkeypatch.setattr("scaleproof.driver.stale.code_sha256", lambda *entries: "other")
    for pending, number in ((False, 0), (True, 4)):
        view = dict.fromkeys(records, Seen("shared_job", pending, recorded=True))
        monkeypatch.setattr("scaleproof.driver.stale.ask_snakemake", lambda targets, view=view: view)
        assert len(stale_runs(path, results).runs) == number


def test_a_run_whose_command_names_an_edited_file_is_stale(measured, monkeypatch):
    monkeypatch.setattr("scaleproof.driver.stale.changed_files", lambda *_: ["train.py"])
    text = viewed(monkeypatch, measured, Seen("train", True, recorded=True))
    assert "4 because a file of its command changed: train.py;" in text
    assert "keep" not in text.replace("to keep the old ones: undo the change of the file", "")


def test_a_campaign_that_ended_early_says_how_it_goes_on(measured):
    path, results = measured
    loaded = LoadedCampaign(path)
    planned = {folder / "training_metrics.json" for folder in loaded.runs(results)}
    assert ended_early_text(loaded, results, planned, ()) is None
    lost = results / "sizes/runs/ddp-n1x2/rep1/training_metrics.json"
    lost.unlink()
    left = "1 of 4 runs of sizes left; the same command goes on with them"
    assert ended_early_text(loaded, results, planned, {lost}) == left
    ended_meanwhile = results / "sizes/runs/ddp-n1x1/rep1/training_metrics.json"  # snakemake makes it again
    keep = f"scaleproof keep {path} --results {results}"
    again = f"{left.replace('1 of', '2 of')}, and measures 1 again that is there, unless you first type: {keep}"
    assert ended_early_text(loaded, results, planned, {lost, ended_meanwhile}) == again
    (results / "sizes/runs.csv").write_text("cell,repeat\nddp-n1x2,1\n")
    assert ended_early_text(loaded, results, planned, {lost}) == left
    said = f"{lost.parent} is no longer complete; what to type: scaleproof stale {path} --results {results}"
    assert ended_early_text(loaded, results, planned - {lost}, ()) == said


def test_a_record_of_a_newer_version_is_not_damaged(measured):
    record = measured[1] / "sizes/runs/ddp-n1x2/rep1" / METRICS
    record.write_text(re.sub('"schema_version": "[0-9.]+"', '"schema_version": "9.0"', record.read_text()))
    text = "update scaleproof: a newer version has written the records of ddp-n1x2/rep1, which are left out"
    assert stale_text(stale_runs(*measured)) == f"sizes: no finished run would be measured again\nsizes: {text}"


def test_a_damaged_run_is_named_alone(measured):
    """Sound repeats of its cell are kept; the command makes what is missing behind it as well."""
    path, results = measured
    folder = results / "sizes"
    series = folder / "runs/ddp-n1x2/rep1/steps.csv"
    series.write_bytes(series.read_bytes()[:200])
    text = stale_text(stale_runs(path, results))
    assert "1 of 4 runs would be measured again: 1 because its files are damaged\n" in text
    assert f"scaleproof retry {path} --cell ddp-n1x2/rep1 --results {results} && snakemake" in text
    assert text.endswith("to keep the old ones: restore their files")

    (folder / "runs.csv").write_text("cell,repeat\nddp-n1x1,1\n")
    assert "--forcerun" not in stale_text(stale_runs(path, results))
    retry(Namespace(campaign=path, cell=["ddp-n1x2/rep1"], results=results))
    assert not series.exists()
    assert (folder / "runs/ddp-n1x2/rep2/steps.csv").exists()


def test_a_run_that_is_not_planned_cannot_be_repeated(measured):
    path, results = measured
    with pytest.raises(UserError, match=r"ddp-n1x2/rep3: the campaign plans no such run; of this cell: .*rep1, .*rep2"):
        retry(Namespace(campaign=path, cell=["ddp-n1x2/rep3"], results=results))


def viewed(monkeypatch, measured, seen: Seen) -> str:
    """What is said if Snakemake sees all runs like this."""
    path, results = measured
    records = [folder / "training_metrics.json" for folder in LoadedCampaign(path).runs(results)]
    view = dict.fromkeys([results / "sizes/runs.csv", *records], seen)
    monkeypatch.setattr("scaleproof.driver.stale.ask_snakemake", lambda targets: view)
    return stale_text(stale_runs(path, results))


def test_what_snakemake_has_no_record_of_is_stale(monkeypatch, measured):
    text = viewed(monkeypatch, measured, Seen("train", pending=True, recorded=False))
    assert "4 because snakemake has no record of it" in text
    assert "to keep them: scaleproof keep" in text
    assert f"snakemake --cores 2 --forcerun train -- {measured[1]}/sizes/report.html" in text


def test_a_changed_input_is_stale(monkeypatch, measured):
    text = viewed(monkeypatch, measured, Seen("train", pending=True, recorded=True))
    assert "4 because an input of it changed, or its job was cut off" in text


def test_a_run_whose_job_was_cut_off_is_made_again_without_being_forced(monkeypatch, measured):
    text = viewed(monkeypatch, measured, Seen("train", pending=True, recorded=True, cut_off=True))
    assert "4 because snakemake ended before their jobs were done, and holds them for incomplete" in text
    assert f"to measure them again: snakemake --cores 2 {measured[1]}/sizes/report.html" in text


def test_what_a_changed_key_measures_again_beside_the_runs_is_named(monkeypatch, measured):
    path, results = measured
    traced = TEXT.replace("steps: 25", "steps: 26") + "trace: {cells: [ddp-n1x2]}\n"
    traced += "compare: [{name: fused, a: {fused_optimizer: false}, b: {fused_optimizer: true}}]\n"
    path.write_text(traced)
    made = [results / "sizes/traces/ddp-n1x2" / CAPTURE, results / "sizes/compare/fused/pairs.json"]
    for file in made:
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    reference = results / "sizes/reference" / f"{workload_name(LoadedCampaign(path).cells[0].config)}.json"
    reference.parent.mkdir()
    reference.with_name("of-other-steps.json").write_text("{}")
    view = dict.fromkeys([*made, reference], Seen("any", pending=True, recorded=True))
    monkeypatch.setattr("scaleproof.driver.stale.ask_snakemake", lambda targets: view)
    assert "; with them 1 trace, 1 comparison, 1 reference\n" in stale_text(stale_runs(path, results))
    path.write_text(traced.replace("steps: 26", "steps: 25"))  # runs as planned: what else has changed is not theirs
    assert stale_text(stale_runs(path, results)) == "sizes: no finished run would be measured again"


@pytest.mark.parametrize("recorded", [True, False])
def test_what_snakemake_would_not_make_again_is_not_stale(monkeypatch, measured, recorded):
    monkeypatch.setattr("scaleproof.driver.stale.code_sha256", lambda *entries: "other")  # kept knowingly
    text = viewed(monkeypatch, measured, Seen("train", pending=False, recorded=recorded))
    assert text.startswith("sizes: no finished run would be measured again")
    assert ("first: scaleproof keep" in text) is not recorded


def test_a_run_of_another_configuration_is_stale_whatever_snakemake_thinks(monkeypatch, measured):
    """After `snakemake --touch` it thinks that nothing is to be done, and no report can be made."""
    measured[0].write_text(TEXT.replace("steps: 25", "steps: 26"))
    for recorded in (True, False):
        text = viewed(monkeypatch, measured, Seen("train", pending=False, recorded=recorded))
        assert "4 because its configuration changed: " in text
        assert ("scaleproof retry" in text, "scaleproof keep" in text) == (True, False), "keep would refuse"


def test_a_run_that_lost_a_file_is_not_offered_to_be_kept(monkeypatch, measured):
    """It would be refused: without the file there is nothing to keep."""
    path, results = measured
    rows = [f"ddp-n1x{n},{k}" for n in (1, 2) for k in (1, 2)]
    (results / "sizes/runs.csv").write_text("\n".join(["cell,repeat", *rows, ""]))
    for run in LoadedCampaign(path).runs(results):
        (run / "launcher_metadata.json").write_text("{}")
    lost = results / "sizes/runs/ddp-n1x1/rep1/steps.csv"
    lost.unlink()
    view = {folder / "training_metrics.json": Seen("train", True, True) for folder in results.glob("sizes/runs/*/*")}
    monkeypatch.setattr("scaleproof.driver.stale.ask_snakemake", lambda targets: view)
    answer = stale_runs(path, results)
    assert lost in answer.lost
    assert lost.parent not in [run.folder for run in answer.runs]
    assert len(answer.runs) == 3


def test_tables_that_were_made_in_another_folder_are_named(measured, monkeypatch):
    path, results = measured
    view = {results / "sizes/runs.csv": Seen("bench_collect", pending=False, recorded=True)}
    monkeypatch.setattr("scaleproof.driver.stale.ask_snakemake", lambda targets: view)
    runs = [read_run(folder) for folder in results.glob("sizes/runs/*/*")]
    report = scaling_report("sizes", "", runs, Findings(campaign="sizes", checks=[], findings=[]))
    for made_in, is_named in (("elsewhere/results", True), ("results", False)):
        report.results = made_in
        write_json(results / "sizes/scaling_report.json", report)
        text = stale_text(stale_runs(path, results))
        assert ("its tables were made in elsewhere/results, which they name" in text) == is_named
        assert (f"--forcerun {results}/sizes/runs.csv {results}/sizes/findings.json -- " in text) == is_named

    view.clear()  # as in a folder that no rule makes
    report.results = "elsewhere/results"
    write_json(results / "sizes/scaling_report.json", report)
    assert "to make them here" not in stale_text(stale_runs(path, results))


def reported(folder: Path) -> None:
    (folder / "cells.csv").write_text("cell\n")
    (folder / "report.html").touch()
    write_manifest(folder, "1", None)


def test_files_that_the_report_was_not_made_from_are_named(measured):
    path, results = measured
    folder = results / "sizes"
    reported(folder)
    assert stale_text(stale_runs(path, results)) == "sizes: no finished run would be measured again"
    (folder / "cells.csv").write_text("")
    rewrite(read_run(folder / "runs/ddp-n1x2/rep1"), lambda data: data.update(run_id="edited"))
    text = stale_text(stale_runs(path, results))
    assert (
        "2 files are not what the report was made from (cells.csv, runs/ddp-n1x2/rep1/training_metrics.json)\n" in text
    )
    assert text.endswith(f"what is wrong, and what to type: scaleproof verify {folder}")

    shutil.rmtree(folder / "runs/ddp-n1x2/rep1")  # as before it is measured again: this is not yet a change
    (folder / "cells.csv").write_text("cell\n")
    assert "not what the report" not in stale_text(stale_runs(path, results))
    (folder / "manifest.json").unlink()
    assert f"sizes: {folder}/manifest.json is missing" in stale_text(stale_runs(path, results))


def test_runs_of_other_places_and_line_ends_of_git_are_told_from_damage(measured):
    path, results = measured
    folder = results / "sizes"
    reported(folder)
    steps = folder / "runs/ddp-n1x2/rep1/steps.csv"
    steps.write_bytes(steps.read_bytes().replace(b"\n", b"\r\n"))
    shutil.rmtree(folder / "runs/ddp-n1x1/rep1")
    shutil.copytree(folder / "runs/ddp-n1x1/rep2", folder / "runs/ddp-n1x1/rep1")
    answer = stale_runs(path, results)
    assert [run.reason for run in answer.runs] == ["its files are those of ddp-n1x1/rep2", stale.ENDS]
    assert "--cell ddp-n1x1/rep1 --cell ddp-n1x2/rep1" in stale_text(answer)
    assert answer.files.changed == []
    shutil.copytree(folder / "runs/ddp-n1x2", folder / "runs/ddp-n1x1", dirs_exist_ok=True)
    reasons = [run.reason for run in stale_runs(path, results).runs]
    assert reasons[1] == "the folder ddp-n1x1 has the files of ddp-n1x2", "one cause of all its runs"


def test_runs_that_are_not_planned_are_named(measured):
    path, results = measured
    (results / "sizes/runs/ddp-n1x1/rep7").symlink_to("..")
    path.write_text(TEXT.replace("repeats: 2", "repeats: 1"))
    runs = "ddp-n1x1/rep2, ddp-n1x1/rep7, ddp-n1x2/rep2"
    assert f"sizes: the campaign does not plan 3 runs ({runs})" in stale_text(stale_runs(path, results))


def test_what_is_out_of_date_before_the_runs_is_named(monkeypatch, measured):
    path, results = measured
    runs = [folder / METRICS for folder in LoadedCampaign(path).runs(results)]
    view = dict.fromkeys(runs, Seen("train", pending=True, recorded=True))
    view[Path("results/corpora/c/tokenizer.json")] = Seen("x", True, True, cause="updated input files")
    view[results / "sizes/cells.csv"] = Seen("analyse", True, True, cause="params changed")
    monkeypatch.setattr(stale, "ask_snakemake", lambda targets: view)
    text = stale_text(stale_runs(path, results))
    assert "4 because results/corpora/c/tokenizer.json is out of date (updated input files);" in text
