"""Results that were damaged or cut short are told with the way out, and never read as if they were whole."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from scaleproof.conclude.report.campaign_page import check_records
from scaleproof.conclude.report.read_results import read_csv, read_inputs, read_losses, row_dicts
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.records.waterfall_report import read_waterfall


@pytest.fixture
def results(results, tmp_path_factory):
    """In a folder in which rules make such files."""
    folder = tmp_path_factory.mktemp("clone") / "results/synthetic"
    shutil.copytree(results.folder, folder)
    results.folder = folder
    return results


def test_an_empty_cell_is_none_of_whatever_type_its_column_is():
    frame = pd.DataFrame({"n": pd.array([1, None], "Int64"), "x": [None, 2.5], "text": ["a", None]})
    assert row_dicts(frame) == [{"n": 1, "x": None, "text": "a"}, {"n": None, "x": 2.5, "text": None}]


@pytest.mark.parametrize(("words", "is_known"), [("None", True), ("nan", True), ("8", True), ("", False)])
def test_a_setting_of_a_command_may_be_called_none(tmp_path, words, is_known):
    """`vary: {checkpointing: [None, full]}`; what pandas takes for unknown had no colour in charts."""
    (tmp_path / "cells.csv").write_text(f"cell,strategy,n\nx,{words},\n")
    ((cell, strategy, n),) = read_csv(tmp_path / "cells.csv").to_numpy()
    assert cell == "x"
    assert (strategy == words) == is_known
    assert pd.isna(n)


@pytest.mark.parametrize("name", ["runs.csv", "cells.csv", "scaling_report.json"])
@pytest.mark.parametrize(
    "content", [b"", b"[1,2]", b"{}", b"\x00\xff\xfe", b"a,b\n1"], ids=["empty", "list", "object", "binary", "other"]
)
def test_a_damaged_file_is_told_with_the_way_out(results, name, content):
    path = results.folder / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"rm {path} && snakemake --cores 2 {path}"):
        read_inputs(results.folder)


@pytest.mark.parametrize(("version", "is_read"), [("6.9", True), ("7.0", False)])
def test_a_report_of_a_newer_version_is_not_read(results, version, is_read):
    path = results.folder / "scaling_report.json"
    path.write_text(re.sub(r'(?<="schema_version": ")6\.\d', version, path.read_text(), count=1))
    if is_read:
        assert read_scaling_report(path).schema_version == version
    else:
        with pytest.raises(UserError, match=r'schema_version "7\.0": String should match pattern'):
            read_scaling_report(path)


@pytest.mark.parametrize("name", ["runs.csv", "cells.csv"])
def test_a_table_that_ends_too_early_is_not_a_smaller_campaign(results, name):
    path = results.folder / name
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]))
    with pytest.raises(UserError, match=f"{name} is damaged .it has no "):
        read_inputs(results.folder)


def test_tables_of_a_campaign_that_was_edited_since_are_not_its_own(results):
    cells = [*read_inputs(results.folder)[1]["cell"]]
    assert [*read_inputs(results.folder, cells)[1]["cell"]] == cells
    with pytest.raises(UserError, match=rf"has {min(cells)}, which the campaign lacks\); rebuild it with: rm .*/runs"):
        read_inputs(results.folder, [cell for cell in cells if cell != min(cells)])
    with pytest.raises(UserError, match=r"runs\.csv is damaged \(it lacks new-n1x1, which the campaign has\); rebuild"):
        read_inputs(results.folder, [*cells, "new-n1x1"])


def test_another_file_under_the_name_of_a_table_is_said_in_words(results):
    (results.folder / "cells.csv").write_text("<html>\n<p>a\n<p>b, c\n")
    with pytest.raises(UserError, match=r"cells.csv is damaged \(no table: Expected 1 fields in line 3, saw 2\)"):
        read_inputs(results.folder)
    (results.folder / "cells.csv").write_bytes(b"cell,\xbc\n")
    with pytest.raises(UserError, match=r"cells.csv is damaged \(it is not UTF-8 text\)"):
        read_inputs(results.folder)


@pytest.mark.parametrize("bytes_", [1, 30])
def test_a_table_that_ends_within_its_last_row(results, bytes_):
    path = results.folder / "cells.csv"
    path.write_bytes(path.read_bytes()[:-bytes_])
    with pytest.raises(UserError, match="ends too early"):
        read_inputs(results.folder)


def test_a_column_that_tables_print_is_there(results):
    path = results.folder / "cells.csv"
    path.write_text(path.read_text().replace("strategy", "strat", 1))
    with pytest.raises(UserError, match=r"cells.csv is damaged \(it has no column strategy"):
        read_inputs(results.folder)


def test_a_record_that_changed_since_its_row_is_named(results):
    table, *_ = read_inputs(results.folder)
    check_records(results.folder, table)
    record = results.folder / "runs/ddp-n1x2/rep1/training_metrics.json"
    record.write_text(re.sub(r'("wall_time_sec": )[\d.]+', r"\1NaN", record.read_text(), count=1))
    with pytest.raises(UserError) as refused:
        check_records(results.folder, table)
    assert str(refused.value).startswith(f"{record} changed since {results.folder}/runs.csv was made from it; restore")


def test_losses_of_all_cells_are_there(results):
    path = results.folder / "losses.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(UserError, match=r"losses.csv is damaged .it has no "):
        read_losses(results.folder)


def test_what_is_missing_is_told_with_the_command(tmp_path):
    path = tmp_path / "results/mine/waterfall.json"
    path.parent.mkdir(parents=True)
    with pytest.raises(UserError, match=f"no such file; build it with: snakemake --cores 2 {path}"):
        read_waterfall(path)
    path.write_text("{}")
    with pytest.raises(UserError, match=r"is damaged \(campaign is missing\)"):
        read_waterfall(path)


@pytest.mark.parametrize("place", ["results", "results/published/mine_2026", "elsewhere/mine", ""])
def test_no_command_is_told_where_no_rule_makes_the_file(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    path = Path(place, "scaling_report.json")
    for wrong in (path, tmp_path / path):
        with pytest.raises(UserError, match="no rule makes it there: the results of a campaign are in results/NAME"):
            read_scaling_report(wrong)


def test_a_target_is_named_as_snakemake_knows_it(tmp_path, monkeypatch):
    """From the folder of the Snakefile, however it was found."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"--cores 2 results/mine/scaling_report\.json$"):
        read_scaling_report(tmp_path / "results/mine/scaling_report.json")
