"""The scaling table in its three forms."""

import pandas as pd
import pytest
from conclude.report.conftest import Results
from result_models import estimated, ranked, ranking, scaling
from synthetic import cells, rewrite, write_failure, write_run

from scaleproof.conclude.report.tables.cells import letters_of_rows, restated_time_note, scaling_rows
from scaleproof.conclude.report.tables.table import escape_latex, latex_table
from scaleproof.ground.columns import CELLS_TABLE, COLUMNS
from scaleproof.ground.number_format import estimate, number, with_spaces
from scaleproof.ground.records.run import read_run


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (12345.6, 3, "12,346"),
        (0.8639, 3, "0.864"),
        (1.7, 3, "1.70"),
        (0, 3, "0"),
        (None, 3, "–"),
        (float("nan"), 3, "–"),
        (0.00012345, 2, "0.00012"),
        (9.999, 2, "10.0"),
    ],
)
def test_numbers(value, digits, text):
    assert number(value, digits) == text


def test_an_interval_or_its_absence_is_always_written():
    assert estimate(estimated(1.7, 1.6, 1.8)) == "1.70 (1.60-1.80)"
    assert estimate(estimated(0.01, -0.02, 0.04)) == "0.0100 (-0.0200 to 0.0400)"
    assert estimate(estimated(1.7, n=1)) == "1.70 (n=1)"
    assert estimate(None) == "–"
    assert estimate(estimated(1.7, 0.01, 900.0, 2)) == "1.70 (n=2: too wide)"


def test_percentages_have_a_space_everywhere():
    assert with_spaces("97% of 5 % (0.5%)") == "97\u00a0% of 5\u00a0% (0.5\u00a0%)"


def test_of_one_size_the_fastest_is_first_and_a_failure_last(tmp_path):
    members = cells(vary={"strategy": ["zero2", "ddp"], "geometry": ["1x2", "1x1"]})
    times = {("ddp", "1x1"): 0.1, ("zero2", "1x1"): 0.09, ("ddp", "1x2"): 0.05}
    runs = [write_run(tmp_path / "runs", c, 1, times[key]) for c in members if (key := key_of(c)) in times]
    runs += [write_failure(tmp_path / "runs", c) for c in members if key_of(c) not in times]
    tables = Results(tmp_path, runs).tables()
    order = ["zero2-n1x1", "ddp-n1x1", "ddp-n1x2", "zero2-n1x2"]
    assert pd.read_csv(tables / "scaling.csv")["cell"].tolist() == order
    rows = (tables / "scaling.md").read_text().splitlines()[2:6]
    assert [row.split("|")[1].strip() for row in rows] == ["zero2 (overhead only)", "ddp", "ddp", "zero2"]


def key_of(cell) -> tuple[str, str]:
    return cell.execution.strategy, str(cell.execution.geometry)


def test_csv_is_for_programs(results):
    table = pd.read_csv(results.tables() / "scaling.csv")
    assert len(table) == 4
    row = table.set_index("cell").loc["ddp-n1x2"]
    assert row["speedup_low"] < row["speedup"] < row["speedup_high"]
    assert row["speedup"] == pytest.approx(100 / 60, rel=0.02)
    assert row["baseline"] == "ddp-n1x1"
    assert table["n"].tolist() == [3, 3, 3, 0]


def test_a_finding_of_a_curve_stands_in_every_table(impossible):
    tables = impossible.tables()
    assert pd.read_csv(impossible.folder / "cells.csv").set_index("cell").loc["ddp-n1x2", "findings"] == "super-linear"
    assert pd.read_csv(tables / "scaling.csv").set_index("cell").loc["ddp-n1x2", "findings"] == "super-linear"
    marked = [line for line in (tables / "scaling.md").read_text().splitlines() if "super-linear" in line]
    assert len(marked) == 1
    assert "1x2" in marked[0]
    assert "super-linear" in (tables / "scaling.tex").read_text()


def test_markdown_has_every_column_a_row_a_cell_and_the_reason_of_a_failure(results):
    lines = (results.tables() / "scaling.md").read_text().splitlines()
    header = [c.strip() for c in lines[0].strip("|").split("|")]
    assert {"strategy", "nodes x devices", "tokens/s (95 %)", "speed-up (95 %)", "n"} <= set(header)
    assert [h for name in CELLS_TABLE if (h := COLUMNS[name].heading) in header] == header, "always in the same order"
    assert "seq len" not in header, "what never changes is said once, below"
    assert "seq len 128" in lines[-3] + lines[-2] + lines[-1]
    rows = [dict(zip(header, (c.strip() for c in line.strip("|").split("|")), strict=True)) for line in lines[2:6]]
    assert [r["nodes x devices"] for r in rows] == ["1x1", "1x2", "1x4", "1x8"]
    assert rows[0]["speed-up (95 %)"] == "1 (baseline)"
    assert rows[1]["speed-up (95 %)"].startswith("1.6")
    assert rows[1]["n"] == "3"
    assert rows[3]["tokens/s (95 %)"] == "oom: CUDA out of memory"
    assert rows[3]["n"] == "0 of 1"


def test_a_number_with_a_finding_names_it(broken):
    text = (broken.tables() / "scaling.md").read_text()
    assert "rate-times-time" in next(line for line in text.splitlines() if "1x2" in line)


@pytest.mark.parametrize("cells_busy", [1, 2])
def test_a_finding_of_all_rows_stands_once(tmp_path, cells_busy):
    members = cells(vary={"geometry": ["1x1", "1x2"]})
    runs = [write_run(tmp_path / "runs", c, k, 0.1 / c.batch.n_devices) for c in members for k in (1, 2, 3)]
    for run in runs[: 3 * cells_busy]:
        rewrite(run, lambda data: data["host"].update(cpu_busy_before=0.5))
    folder = Results(tmp_path, [read_run(run.folder) for run in runs]).tables()
    for name in ("scaling.tex", "scaling.md"):
        text = (folder / name).read_text()
        assert text.count("machine-busy") == 1
        assert ("findings machine-busy." in text) == (cells_busy == 2)
    assert (folder / "scaling.csv").read_text().count("machine-busy") == cells_busy


def test_one_run_is_written_as_such(single):
    text = (single.tables() / "scaling.md").read_text()
    assert "(n=1)" in text
    assert "(n=1.0)" not in text
    assert "single-run" in text


def test_latex_is_a_whole_booktabs_table(results):
    text = (results.tables() / "scaling.tex").read_text()
    body = text[text.index("\\toprule") : text.index("\\bottomrule")]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 5
    assert len({row.count("&") for row in rows}) == 1
    assert r"\%" in rows[0]
    assert "%" not in rows[1].replace(r"\%", "")
    columns = text.split(r"\begin{tabular}{")[1].split("}")[0]
    assert len(columns) == rows[0].count("&") + 1
    assert len(columns) <= 9, "it fits a page over two columns"
    assert "\\caption{Does it scale?}" in text


def test_latex_of_any_text_is_text():
    assert escape_latex("a\n\\input{/etc/passwd} 50 % of $x_1 & #2 ~^") == (
        r"a \textbackslash input\{/etc/passwd\} 50 \% of \$x\_1 \& \#2 \textasciitilde \textasciicircum "
    )
    table = latex_table(pd.DataFrame({"a_b": ["\\input{x}"]}), "title\n\\input{y}", "t")
    assert r"\input" not in table
    assert r"\textbackslash input\{x\}" in table
    assert r"\caption{title \textbackslash input\{y\}}" in table


def test_tables_without_any_number(nothing):
    text = (nothing.tables() / "scaling.md").read_text()
    assert text.count("oom: CUDA out of memory") == 2


def test_what_was_learnt_stands_beside_the_throughput(results):
    lines = (results.tables() / "scaling.md").read_text().splitlines()
    header = [c.strip() for c in lines[0].strip("|").split("|")]
    rows = [dict(zip(header, (c.strip() for c in line.strip("|").split("|")), strict=True)) for line in lines[2:6]]
    assert [r["val. loss"] for r in rows] == ["6.4000"] * 3 + ["–"]
    assert rows[0]["time to loss (s) (95 %)"].startswith("3.0")
    assert rows[3]["time to loss (s) (95 %)"] == "–"
    assert "target loss 6.3664" in "".join(lines[-4:])
    assert "accuracy" not in header, "tokens have none"


def test_cells_of_one_size_that_cannot_be_told_apart_share_a_letter(results, tmp_path):
    """Without others of its size a cell has no letter, and a table without letters has no column for them."""
    assert "| group" not in (results.tables() / "scaling.md").read_text().splitlines()[0]
    report = scaling(ranking=[ranking(ranked("a", letters="a"), ranked("b", letters="ab"))])
    rows = scaling_rows(pd.DataFrame({"cell": ["a", "b", "c"]}), report)
    assert rows["letters"].tolist()[:2] == ["a", "ab"]
    assert pd.isna(rows["letters"][2])


def test_the_ratio_to_the_fastest_of_its_size_stands_in_the_row(tmp_path):
    members = cells(vary={"strategy": ["ddp", "zero2"], "geometry": ["1x2"]})
    times = {"ddp": (0.06, 0.061, 0.062), "zero2": (0.08, 0.082, 0.081)}
    runs = [
        write_run(tmp_path / "runs", cell, k, seconds)
        for cell in members
        for k, seconds in enumerate(times[cell.execution.strategy], start=1)
    ]
    results = Results(tmp_path, runs)
    text = (results.tables() / "scaling.md").read_text()
    ratio = results.report.ranking[0].cells[1].relative_to_fastest
    assert "| fastest over this (95 %) " in text
    assert "| 1 (highest) " in text
    assert f"| {estimate(ratio.inverse)} " in text
    assert f"| {estimate(ratio)} " not in text


def test_a_time_to_loss_that_says_no_more_than_the_rate_says_so(results):
    note = "All cells reach the target loss after about the same number of steps: time to loss says what tokens/s says."
    assert note in (results.tables() / "scaling.md").read_text()
    cells = pd.read_csv(results.folder / "cells.csv")
    cells["steps_to_loss"] = [30, 20, 25, None]
    assert restated_time_note(cells) == ""


@pytest.mark.parametrize(("sizes", "letters"), [((2, 4), ["a (of 2)", "b (of 2)", "a (of 4)"]), ((2,), ["a", "b"])])
def test_letters_of_several_sizes_name_their_size(sizes, letters):
    rows = [("ddp-n1x2", 2, "a"), ("fsdp-n1x2", 2, "b"), ("ddp-n1x4", 4, "a")]
    table = pd.DataFrame([row for row in rows if row[1] in sizes], columns=["cell", "devices", "letters"])
    assert letters_of_rows(table) == letters
