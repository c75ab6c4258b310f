"""The registry of columns: complete, used by the writers, and the text of docs/reference.md."""

import math

import pandas as pd
import pytest
from conclude.report.conftest import Results
from synthetic import cells, write_run

from scaleproof.conclude.analysis.run_tables import MEASURED
from scaleproof.conclude.report.tables.scaling import write_series
from scaleproof.ground import columns
from scaleproof.ground.columns import CELLS_TABLE, COLUMNS, MAIN, SERIES_TABLE, Column, columns_reference
from scaleproof.ground.records.result_file import Estimated

FILES = {
    "runs.csv": (columns.RUNS, columns.BOTH),
    "cells.csv": (columns.CELLS, columns.BOTH),
    "tables/scaling.csv": (columns.CELLS, columns.BOTH, columns.SCALING),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Results:
    folder = tmp_path_factory.mktemp("columns")
    members = cells(vary={"strategy": ["ddp"], "geometry": ["1x1", "1x2"]})
    results = Results(folder, [write_run(folder / "runs", cell, k, 0.1 / k) for cell in members for k in (1, 2)])
    write_series(results.report, "strong", results.tables())
    return results


@pytest.mark.parametrize("column", COLUMNS.values(), ids=lambda column: column.name)
def test_an_entry_is_complete(column: Column):
    assert column.definition or column.group in ("cell", "configured"), "what it means"
    assert column.is_text == (column.factor == 1 and column.unit == columns.TEXT)
    assert not column.interval or column.heading, "an interval is printed"
    assert column.factor == 1 or column.heading.endswith((")", "mJ/token")), "the heading names the printed unit"
    assert bool(column.heading) == (column.name in (*CELLS_TABLE, *SERIES_TABLE)), "what is printed has a heading"
    assert not column.figure or column.figure in COLUMNS


def test_headings_name_one_column():
    for table in (CELLS_TABLE, SERIES_TABLE):
        labels = [COLUMNS[name].series_heading for name in table]
        assert len(labels) == len(set(labels))
    assert set(MAIN) <= set(CELLS_TABLE)
    assert set(columns.CONFIGURED) <= set(CELLS_TABLE)


@pytest.mark.parametrize("file", FILES)
def test_every_column_of_a_file_is_an_entry_and_every_entry_a_column(results, file):
    header = pd.read_csv(results.folder / file).columns
    entries = {column.name for column in COLUMNS.values() if column.file in FILES[file]}
    bounds = {f"{name}_{end}" for name in entries if COLUMNS[name].interval for end in ("low", "high", "n")}
    assert entries <= set(header)
    assert set(header) <= entries | bounds


def test_the_tables_of_series_have_the_registered_columns(results):
    header = set(pd.read_csv(results.folder / "tables/strong.csv").columns)
    assert {name for name, column in COLUMNS.items() if column.file == columns.SERIES} <= header
    assert set(SERIES_TABLE) <= header


def test_what_a_run_adds_is_registered():
    assert {name for name in MEASURED if COLUMNS[name].group not in ("rate", "figure", "learnt")} == set()


def test_a_figure_is_printed_in_the_unit_of_its_heading():
    assert COLUMNS["step_time_p50_s"].text(0.0123) == "12.3"
    assert COLUMNS["state_bytes"].text(None) == "–"
    assert COLUMNS["tokens_per_s"].estimate(Estimated(value=1234.5, low=None, high=None, n=1)) == "1,234 (n=1)"


@pytest.mark.parametrize(
    ("name", "value", "sound"),
    [
        ("tokens_per_s", 12.5, True),
        ("tokens_per_s", math.nan, True),
        ("tokens_per_s", -1.0, False),
        ("tokens_per_s", "fast", False),
        ("accuracy", 1.5, False),
        ("karp_flatt", -0.1, True),
        ("strategy", "ddp", True),
        ("loss_first", -0.1, True),  # of somebody's GAN
        ("perplexity", -0.1, False),
    ],
)
def test_a_stored_value_is_checked(name, value, sound):
    assert (not COLUMNS[name].fault_of([None, value])) == sound


def test_the_reference_has_the_columns(repository):
    text = (repository / "docs/reference.md").read_text()
    listed = text.split("<!-- columns: python -m scaleproof.ground.columns -->\n\n")[1].split("\n<!-- end -->")[0]
    assert listed == columns_reference(), "python -m scaleproof.ground.columns writes this part of docs/reference.md"
