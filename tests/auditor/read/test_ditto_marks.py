"""Cells that stand for the text above them, and columns that count more than what a name says."""

import pytest

from scaleproof.auditor.read.discover import gather


def rows_of(folder, text):
    (folder / "t.md").write_text(text)
    return gather([folder]).tables[0].rows


CLUSTERS = """
| Cluster | GPUs | store | epoch time (s) |
|---|---|---|---|
| GTX980 | 1 | local | 13210 |
| - | 2 | - | 7198 |
| - | 3 | - | 4952 |
| TitanX | 1 | none | 10666 |
| - | 2 | local | 5161 |
| - | 3 | - | 3460 |
"""


@pytest.mark.parametrize("mark", ["-", "—", '"', "〃", ""])
def test_a_ditto_mark_is_of_the_row_above(tmp_path, mark):
    rows = rows_of(tmp_path, CLUSTERS.replace("| - |", f"| {mark} |"))
    assert [row.words["device"] for row in rows] == ["GTX980"] * 3 + ["TitanX"] * 3
    assert [row.label.split(", ")[1] for row in rows[1:]] == ["local", "local", "none", "local", "local"]


@pytest.mark.parametrize(
    ("first", "labels"),
    [
        (("-", "DDP", "-", "FSDP"), ["", "DDP", "", "FSDP"]),  # it begins with none
        (("DDP", "-", "DDP", "-"), ["DDP", "", "DDP", ""]),  # of one name
    ],
)
def test_a_dash_that_may_mean_none_is_no_ditto_mark(tmp_path, first, labels):
    lines = "".join(f"| {name} | {k + 1} | {k * 90 + 100} |\n" for k, name in enumerate(first))
    rows = rows_of(tmp_path, f"| Method | GPUs | tokens/s |\n|---|---|---|\n{lines}")
    assert [row.label for row in rows] == labels


@pytest.mark.parametrize(
    ("names", "devices"),
    [
        (("a", "b", "c", "d"), ["A100", None, "V100", None]),  # "-" in a row of another name may mean unknown
        (("a", "a", "b", "b"), ["A100", "A100", "V100", "V100"]),
    ],
)
def test_a_ditto_mark_stands_in_a_row_without_a_name_of_its_own(tmp_path, names, devices):
    marks = zip(names, ("A100", "-", "V100", "-"), (8, 16, 8, 16), strict=True)
    lines = "".join(f"| {name} | {mark} | {count} | {count * 100} |\n" for name, mark, count in marks)
    rows = rows_of(tmp_path, f"| Paper | GPU | GPUs | tokens/s |\n|---|---|---|---|\n{lines}")
    assert [row.words.get("device") for row in rows] == devices


@pytest.mark.parametrize(
    ("name", "column", "devices"),
    [("rank = 64", "4", 4), ("8 GPUs", "4", 4), ("ranks = 8", "", 8), ("rank = 8", "", None)],
)
def test_a_column_of_devices_counts_more_than_a_name(tmp_path, name, column, devices):
    (row,) = rows_of(tmp_path, f"| Config | GPUs | tokens/s |\n|---|---|---|\n| {name} | {column} | 400 |\n")
    assert row.devices == devices


def test_a_quantity_that_names_a_program_is_no_configuration(tmp_path):
    """Its row had the rate of the other program."""
    of_each = "Achieved teraFLOP/s per GPU"
    text = f"| case | Tensor parallel size | A {of_each} | Megatron-LM Percentage of peak | Megatron-LM {of_each} |\n"
    text += "|---|---|---|---|---|\n| x | 1 | 49.43 | 35 | 43.25 |\n"
    rates = {row.words.get("strategy"): row.value("flops_per_s") for row in rows_of(tmp_path, text)}
    assert rates["megatron"] == pytest.approx(43.25e12)
