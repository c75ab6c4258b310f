"""What `scaleproof verify` prints of results of which a file was changed: the cause, and not what follows from it."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import scaleproof

from scaleproof.verify.manifest import check_manifest, write_manifest

PUBLISHED = next((Path(__file__).parents[2] / "results/published").glob("demo_*"))


def no_comparison(folder: Path) -> None:
    (folder / "comparison.json").write_text("null")


def column_renamed(folder: Path) -> None:
    path = folder / "cells.csv"
    path.write_text(path.read_text().replace("tokens_per_s,", "tok_per_s,", 1))


def no_charts(folder: Path) -> None:
    shutil.rmtree(folder / "charts")


def no_tables(folder: Path) -> None:
    shutil.rmtree(folder / "tables")


def steps_of_another_run(folder: Path) -> None:
    shutil.copy(folder / "runs/ddp-n1x1/rep1/steps.csv", folder / "runs/ddp-n1x2/rep1")


def cell_renamed(folder: Path) -> None:
    (folder / "runs/ddp-n1x2").rename(folder / "runs/ddp_2gpu")


def tables_of_results_gone(folder: Path) -> None:
    for name in ("runs.csv", "cells.csv", "losses.csv"):
        (folder / name).unlink()


def link_to_itself(folder: Path) -> None:
    (folder / "runs/ddp-n1x2/rep7").symlink_to("..")


def no_claims(folder: Path) -> None:
    (folder / "claims.json").unlink()


def line_ends_of_windows(folder: Path) -> None:
    (folder / "cells.csv").write_bytes((folder / "cells.csv").read_bytes().replace(b"\n", b"\r\n"))


def byte_order_mark(folder: Path) -> None:
    steps = folder / "runs/ddp-n1x2/rep1/steps.csv"
    steps.write_bytes(b"\xef\xbb\xbf" + steps.read_bytes())


def last_lines_mended(folder: Path) -> None:
    for path in (folder / "runs/ddp-n1x2/rep1/steps.csv", folder / "report.html"):
        path.write_bytes(path.read_bytes().rstrip() + b"\n" * (path.suffix == ".html"))


def all_line_ends_of_windows(folder: Path) -> None:
    for path in folder.rglob("*.csv"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def another_licence(folder: Path) -> None:
    (folder / "LICENSE").write_text("MIT")


def a_digit_of_the_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(re.sub(r'(steps.csv": "[0-9a-f]+)[0-8]"', r'\g<1>9"', path.read_text(), count=1))


def no_crate(folder: Path) -> None:
    (folder / "ro-crate-metadata.json").unlink()


def a_file_elsewhere(folder: Path) -> None:
    crate = json.loads((folder / "ro-crate-metadata.json").read_text())
    crate["@graph"].append({"@id": "/etc/passwd", "contentSize": "5"})
    (folder / "ro-crate-metadata.json").write_text(json.dumps(crate))


def pointer_of_git_lfs(folder: Path) -> None:
    (folder / "runs/ddp-n1x2/rep1/steps.csv").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\n")


def empty_page(folder: Path) -> None:
    (folder / "report.html").write_text("")


def a_run_twice(folder: Path) -> None:
    shutil.copytree(folder / "runs/ddp-n1x2/rep1", folder / "runs/ddp-n1x2/rep7")


def a_run_in_place_of_another(folder: Path) -> None:
    shutil.copytree(folder / "runs/ddp-n1x2/rep1", folder / "runs/ddp-n1x2/rep2", dirs_exist_ok=True)


def a_figure(folder: Path) -> None:
    path = folder / "cells.csv"
    path.write_text(path.read_text().replace("16162", "26162"))


def a_cell_less(folder: Path) -> None:
    path = folder / "cells.csv"
    path.write_text("".join(line for line in path.open() if not line.startswith("zero3")))


def an_empty_table(folder: Path) -> None:
    (folder / "tables/scaling.csv").write_text("")


def an_empty_chart(folder: Path) -> None:
    (folder / "charts/efficiency.svg").write_text("")


def half_a_chart(folder: Path) -> None:
    path = folder / "charts/efficiency.svg"
    path.write_text(path.read_text()[: path.stat().st_size // 2])


def half_a_page(folder: Path) -> None:
    path = folder / "report.html"
    path.write_text(path.read_text()[: path.stat().st_size // 2])


def semicolons(folder: Path) -> None:
    path = folder / "runs.csv"
    path.write_text(path.read_text().replace(",", ";"))


def decimal_commas(folder: Path) -> None:
    path = folder / "runs/ddp-n1x2/rep1/steps.csv"
    path.write_text(path.read_text().replace(".", ","))


def a_row_twice(folder: Path) -> None:
    path = folder / "cells.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")


def no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def no_page(folder: Path) -> None:
    (folder / "report.html").unlink()


def a_table_of_ones_own(folder: Path) -> None:
    for name in ("tables/mine.csv", "charts/.DS_Store", "notes.txt"):  # the others are none of a report's
        (folder / name).write_text("cell,speedup\nddp-n1x2,1.99\n")


def a_nan(folder: Path) -> None:
    path = folder / "runs/ddp-n1x2/rep1/training_metrics.json"
    path.write_text(re.sub(r'("tokens_per_sec_global": )[\d.]+', r"\1NaN", path.read_text()))


def no_window(folder: Path) -> None:
    path = folder / "runs/ddp-n1x2/rep1/training_metrics.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "window"}))


def folder_for_steps(folder: Path) -> None:
    path = folder / "runs/ddp-n1x2/rep1/steps.csv"
    path.unlink()
    path.mkdir()


def later_schema(folder: Path) -> None:
    path = folder / "scaling_report.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": "7.0"}))


def no_pairs(folder: Path) -> None:
    shutil.rmtree(folder / "compare")


def a_pair_cut_off(folder: Path) -> None:
    path = folder / "compare/accumulation/pair3/b/steps.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))


def no_run_of_a_pair(folder: Path) -> None:
    shutil.rmtree(folder / "compare/accumulation/pair4/a")
    shutil.rmtree(folder / "compare/accumulation/pair5")  # which need not be removed


def a_figure_and_a_note(folder: Path) -> None:
    a_figure(folder)
    _renew_hash(folder, folder / "cells.csv")
    (folder / "README.md").write_text("mine\n")


def a_trace_edited(folder: Path) -> None:
    path = folder / "traces/ddp-n1x2/profile_summary.json"
    path.write_text(path.read_text() + " ")


@pytest.mark.parametrize(
    ("change", "file", "most_lines"),
    [
        (a_run_twice, "runs/ddp-n1x2/rep7/training_metrics.json: is the record of ddp-n1x2/rep1", 2),
        (a_run_in_place_of_another, "runs/ddp-n1x2/rep2/training_metrics.json: is the record of ddp-n1x2/rep1", 2),
        (a_figure, "the raw files give 16162.35615; changed since the report was written", 2),
        (a_cell_less, "cells.csv: zero3-n1x2: this cell is missing in the table; changed since", 2),
        (an_empty_table, "tables/scaling.csv: not readable: it is empty; changed since", 2),
        (an_empty_chart, "charts/efficiency.svg: not readable: it is empty; changed since", 2),
        (half_a_chart, "charts/efficiency.svg: not readable: ", 2),
        (half_a_page, "report.html: not readable: it ends before </html>; cut off?; changed since", 2),
        (semicolons, "runs.csv: not readable: no comma is between the names in its first line; changed since", 2),
        (decimal_commas, "steps.csv: not readable: steps.csv, line 2: 11 values, not 8; a decimal comma?", 2),
        (a_row_twice, "cells.csv: ddp-n1x2: stands there twice; changed since the report was written", 2),
        (no_manifest, "manifest.json: is missing", 2),
        (a_table_of_ones_own, "tables/mine.csv: a file that the report does not have: move it away", 2),
        (a_nan, "not readable: window.tokens_per_sec_global is NaN, which is no number of JSON; changed since", 2),
        (no_window, "training_metrics.json: not readable: window is missing; changed since", 2),
        (folder_for_steps, "steps.csv: not readable: is a folder; a file is expected; changed since", 2),
        (later_schema, "scaling_report.json: schema_version: is 7.0, and 6.0 is the latest known", 2),
        (no_comparison, "comparison.json", 4),
        (column_renamed, "cells.csv", 4),
        (no_charts, "charts: 19 files are missing: batch_size.svg, ", 2),
        (no_tables, "tables: 15 files are missing: comparison.csv, ", 3),
        (steps_of_another_run, "runs/ddp-n1x2/rep1/steps.csv: sha256", 2),
        (cell_renamed, "runs/ddp_2gpu: was renamed since the report was written: it was runs/ddp-n1x2", 2),
        (line_ends_of_windows, "(only ends of lines or a byte order mark, as git and editors change them)", 2),
        (byte_order_mark, "steps.csv: sha256: changed since the report was written (only ends of lines or", 2),
        (last_lines_mended, "and 1 more file changed (only ends of lines or a byte order mark, as ", 2),
        (all_line_ends_of_windows, "more files changed (only ends of lines or a byte order mark, as git", 2),
        (another_licence, "LICENSE: sha256: changed since the report was written", 2),
        (a_digit_of_the_manifest, "manifest.json: ", 3),
        (no_crate, "ro-crate-metadata.json: the file is missing", 2),
        (a_file_elsewhere, "ro-crate-metadata.json: /etc/passwd: is not in this folder", 2),
        (pointer_of_git_lfs, "runs/ddp-n1x2/rep1/steps.csv: ", 3),
        (empty_page, "report.html", 3),
        (no_page, "report.html: is missing", 2),
        (no_claims, "claims.json: is missing", 2),
        (tables_of_results_gone, "results: 3 files are missing: ", 2),
        (link_to_itself, "runs: 1 run (ddp-n1x2/rep7) that the report does not have: were they taken out", 2),
        (a_pair_cut_off, "/pair3/b/steps.csv: sha256: is ", 2),
        (no_pairs, "compare: 49 files are missing: accumulation/pair1/a/RUN_COMPLETE.txt, ", 2),
    ],
)
def test_the_changed_file_is_named_and_what_follows_is_counted(
    tmp_path: Path, change: Callable[[Path], None], file: str, most_lines: int
) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    change(tmp_path / "demo")
    done = scaleproof("verify", "demo", cwd=tmp_path)
    *lines, last = done.stdout.splitlines()
    assert done.returncode == 1
    assert last.startswith("FAIL")
    assert 1 <= len(lines) < most_lines
    assert all(file in line for line in lines)


def a_slower_run_under_a_new_seal(folder: Path) -> None:
    path = folder / "runs/ddp-n1x2/rep1/training_metrics.json"
    metrics = json.loads(path.read_text())
    metrics["window"]["wall_time_sec"] *= 1.03
    path.write_text(json.dumps(metrics))
    _renew_hash(folder, path)


def a_faster_cell_under_a_new_seal(folder: Path) -> None:
    a_figure(folder)
    _renew_hash(folder, folder / "cells.csv")
    chart = folder / "charts/speedup.svg"
    chart.write_text(chart.read_text() + " ")


def _renew_hash(folder: Path, path: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_hash_that_was_edited_in_the_manifest_does_not_accuse_its_file_alone(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    path = tmp_path / "demo/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["cells.csv"] = "0" * 64
    path.write_text(json.dumps(manifest))
    lines = scaleproof("verify", "demo", cwd=tmp_path).stdout.splitlines()
    assert lines[0] == "manifest.json: manifest_sha256: changed since the report was written"
    named = [line for line in lines if line.startswith("cells.csv")]
    assert [line[:83] for line in named] == [
        "cells.csv: sha256: changed since the report was written, or manifest.json was (0000"
    ]


@pytest.mark.parametrize(
    ("change", "start"),
    [
        (a_slower_run_under_a_new_seal, "runs/ddp-n1x2/rep1/training_metrics.json: window.wall_time_sec: is "),
        (a_faster_cell_under_a_new_seal, "cells.csv: ddp-n1x2, tokens_per_s: is 26162"),
        (a_figure_and_a_note, "cells.csv: ddp-n1x2, tokens_per_s: is 26162"),  # no table is held against README.md
    ],
)
def test_what_is_computed_again_hides_behind_no_hash(
    tmp_path: Path, change: Callable[[Path], None], start: str
) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    change(tmp_path / "demo")
    lines = scaleproof("verify", "demo", cwd=tmp_path).stdout.splitlines()
    assert "manifest.json: manifest_sha256: changed since the report was written" in lines
    assert len([line for line in lines if line.startswith(start)]) == 1


def test_what_was_measured_beside_the_runs_has_a_cure(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "results/demo")
    for name in ("README.md", "campaign.yaml", "LICENSE"):  # of a publication, which is not edited
        (tmp_path / "results/demo" / name).unlink()
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/demo.yaml").touch()
    assert "Restore" not in scaleproof("verify", "results/demo", cwd=tmp_path).stdout
    for change in (a_pair_cut_off, no_run_of_a_pair, a_trace_edited):
        change(tmp_path / "results/demo")
    trace, profile = "traces/ddp-n1x2", "profile_summary.json"
    force = "snakemake --cores 2 --forcerun results/demo"
    pairs = "results/demo/compare/accumulation/pair"
    assert scaleproof("verify", "results/demo", cwd=tmp_path).stdout.splitlines()[-2:] == [
        f"Restore compare/accumulation, or make again: rm -r {pairs}3 {pairs}4 && "
        f"{force}/compare/accumulation/pairs.json -- results/demo/report.html",
        f"Restore {trace}/{profile}, or make again: {force}/{trace}/{profile} -- results/demo/report.html",
    ]


def test_raw_profiles_are_not_called_unchanged(tmp_path: Path) -> None:
    folder = shutil.copytree(PUBLISHED, tmp_path / "demo")
    for but_raw in ("", " but raw profiles"):  # a publication has none
        last = scaleproof("verify", "demo", cwd=tmp_path).stdout.splitlines()[-1]
        assert last.endswith(f"every file{but_raw} is the one that the report was made from")
        (folder / "traces/ddp-n1x2/raw").mkdir(exist_ok=True)


def test_results_of_ones_own_end_with_what_makes_a_lost_file_again(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "results/demo")
    (tmp_path / "results/demo/runs/ddp-n1x2/rep1/RUN_COMPLETE.txt").unlink()
    for name, is_advised in (("README.md", False), ("campaign.yaml", True)):  # a publication has both
        (tmp_path / "results/demo" / name).unlink()
        last = scaleproof("verify", "results/demo", cwd=tmp_path).stdout.splitlines()[-1]
        assert (last == "Restore the files of runs") == is_advised


def test_a_renamed_folder_has_its_name_back(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    (tmp_path / "demo/campaign.yaml").unlink()  # no publication
    cell_renamed(tmp_path / "demo")
    *_, cure = scaleproof("verify", "demo", cwd=tmp_path).stdout.splitlines()
    assert cure == "Name it as it was: mv demo/runs/ddp_2gpu demo/runs/ddp-n1x2"


def test_a_log_may_be_deleted_and_not_edited(tmp_path: Path) -> None:
    """As a publication has none, either."""
    log = tmp_path / "runs/ddp-n1x2/rep1/train.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1")
    write_manifest(tmp_path, "1", None)
    assert check_manifest(tmp_path) == []
    log.write_text("step 2")
    assert [difference.file for difference in check_manifest(tmp_path)] == ["runs/ddp-n1x2/rep1/train.log"]
    log.unlink()
    assert check_manifest(tmp_path) == []


def test_a_manifest_of_other_results_is_named_alone(tmp_path: Path) -> None:
    folder = shutil.copytree(PUBLISHED, tmp_path / "demo")
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    some_files = list(manifest["files"])[: len(manifest["files"]) // 2]
    for edited_files, is_of_others in ((some_files, False), (list(manifest["files"]), True)):
        edited = manifest | {"files": manifest["files"] | dict.fromkeys(edited_files, "0" * 64)}
        path.write_text(json.dumps(edited))
        problems = [one.problem for one in check_manifest(folder) if one.file == "manifest.json"]
        assert any(problem.startswith("is of other or earlier results: 0 of") for problem in problems) == is_of_others
        assert (len(check_manifest(folder)) == 1) == is_of_others


def test_without_a_manifest_a_lost_file_hides_behind_no_chart_of_it(tmp_path: Path) -> None:
    folder = shutil.copytree(PUBLISHED, tmp_path / "demo")
    (folder / "manifest.json").unlink()
    assert [one.file for one in check_manifest(folder)] == ["manifest.json"]
    (folder / "comparison.json").unlink()
    lost, verdict = scaleproof("verify", "demo", cwd=tmp_path).stdout.splitlines()[-2:]
    assert lost == "results: 2 files are missing: manifest.json, comparison.json"
    assert verdict.startswith("FAIL  2 differences; ")
