"""Units that stand beside a table: in the paragraph above it, or in a row below its headings."""

import pytest

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.words import describe
from scaleproof.ground.errors import UserError

BY_BATCH = "| Framework | 16 | 32 |\n|---|---|---|\n| PyTorch | 100 | 180 |\n| TensorFlow | 90 | 170 |\n"
TWO_BY_TWO = "| | A100 | V100 |\n|---|---|---|\n| DDP | 1000 | 500 |\n| FSDP | 900 | 450 |\n"


def rows(tmp_path, text):
    (tmp_path / "README.md").write_text(text)
    return [row for table in gather([tmp_path]).tables for row in table.rows]


def cells(tmp_path, text, kind):
    return [(row.value("batch"), row.value(kind)) for row in rows(tmp_path, text)]


def test_a_column_for_each_batch_size_has_the_unit_of_the_paragraph_above(tmp_path):
    above = "Throughput in images/sec for different batch sizes,\nResNet-50 in fp32.\n\n"
    assert cells(tmp_path, above + BY_BATCH, "samples_per_s") == [(16, 100), (32, 180), (16, 90), (32, 170)]
    named = BY_BATCH.replace("16", "BS=16").replace("32", "BS=32")
    above = "The model is small.\nBelow is the step time in ms.\n\n"
    assert cells(tmp_path, above + named, "step_time_s") == [(16, 0.1), (32, 0.18), (16, 0.09), (32, 0.17)]


@pytest.mark.parametrize(
    "above",
    [
        "",
        "Throughput for different batch sizes.",  # of what, in which unit
        "Images/sec and step time in ms for different batch sizes.",  # two quantities
        "Throughput in images/sec and memory in GB for several batch sizes.",
        "With larger batch sizes the throughput reaches 350 images/sec.",  # a figure of the sentence
        "Throughput in images/sec on 16 and 32 GPUs; the batch size is 8.",  # the columns may be GPUs
    ],
)
def test_a_unit_that_is_not_certain_is_not_taken(tmp_path, above):
    assert [row for row in rows(tmp_path, f"{above}\n\n{BY_BATCH}") if row.value("batch")] == []


def test_strategies_by_devices_are_read_with_the_unit_above_and_else_listed(tmp_path):
    read = rows(tmp_path, "Training throughput in samples/s.\n\n" + TWO_BY_TWO)
    assert [(r.words["strategy"], r.words["device"], r.value("samples_per_s")) for r in read] == [
        ("ddp", "A100", 1000),
        ("ddp", "V100", 500),
        ("fsdp", "A100", 900),
        ("fsdp", "V100", 450),
    ]
    (tmp_path / "README.md").write_text("Some words.\n\n" + TWO_BY_TWO)
    with pytest.raises(UserError, match=r"README.md:3: a table whose headings are not understood"):
        audit_paths([tmp_path])


def test_units_in_a_row_of_their_own_belong_to_the_headings(tmp_path):
    header = "| GPUs | Throughput | Time |\n|---|---|---|\n"
    text = header + "| # | (img/s) | s/epoch |\n| 1 | 320 | 100 |\n| 2 | 620 | 53 |\n"
    first, second = rows(tmp_path, text)
    assert (first.devices, first.value("samples_per_s"), first.value("epoch_time_s")) == (1, 320, 100)
    assert (second.devices, second.value("samples_per_s"), second.value("epoch_time_s")) == (2, 620, 53)


@pytest.mark.parametrize(("row", "count"), [("| 4 | 100 | 50 |", 3), ("| 4 | fast | s |", 3), ("| | | |", 2)])
def test_a_row_that_has_more_than_units_is_a_row(tmp_path, row, count):
    text = f"| GPUs | Throughput (img/s) | Time (s) |\n|---|---|---|\n{row}\n| 1 | 320 | 100 |\n| 2 | 620 | 53 |\n"
    read = rows(tmp_path, text)
    assert [r.value("samples_per_s") for r in read][-2:] == [320, 620]
    assert len(read) == count


@pytest.mark.parametrize(
    ("heading", "devices"),
    [("1080 TI x 2", 2), ("V100 x 8", 8), ("A100 PCIe x16", None), ("V100 x 2 nodes", None), ("RTX 3090", None)],
)
def test_a_device_times_a_number_is_so_many_devices(heading, devices):
    assert describe(heading).numbers.get("devices") == devices


PRECISIONS = (
    "| GPUs | Throughput - TF32 | Throughput - mixed precision | Speedup (TF32 to mixed precision) | TF32 scaling |"
    " Mixed precision scaling |\n|---|---|---|---|---|---|\n"
    "| 1 | 1000 img/s | 2700 img/s | 2.7 x | 1.0 x | 1.0 x |\n"
    "| 8 | 8000 img/s | 20250 img/s | 2.5 x | 8.0 x | 7.5 x |\n"
)


def test_columns_of_two_precisions_are_two_configurations(tmp_path):
    table = "| GPUs | Throughput - TF32 (img/s) | Throughput - FP16 (img/s) |\n|---|---|---|\n"
    read = rows(tmp_path, table + "| 1 | 1000 | 2700 |\n| 8 | 8000 | 20250 |\n")
    assert [(r.devices, r.words["precision"], r.value("samples_per_s")) for r in read] == [
        (1, "fp16", 2700),
        (1, "tf32", 1000),
        (8, "fp16", 20250),
        (8, "tf32", 8000),
    ]


def test_a_speedup_of_one_precision_is_not_held_against_a_rate_of_another(tmp_path):
    (tmp_path / "README.md").write_text(PRECISIONS)
    assert [f.code for f in audit_paths([tmp_path]).findings if f.severity != "note"] == []
    (tmp_path / "README.md").write_text(PRECISIONS.replace("| 8.0 x |", "| 6.0 x |"))
    assert {f.code for f in audit_paths([tmp_path]).findings if f.severity != "note"} == {"speedup-not-in-table"}


def test_a_ratio_of_precisions_is_no_speedup_over_devices():
    assert column_of("Throughput speedup (FP32 to mixed precision)").kind is None
    assert column_of("Speedup (fp16)").kind == "speedup"


def test_a_corrected_figure_stands_at_the_configuration_that_it_is_of(tmp_path):
    (tmp_path / "README.md").write_text(PRECISIONS.replace("| 8.0 x |", "| 6.0 x |"))
    marks = [(r.name, r.devices, r.corrected, r.mark) for r in audit_paths([tmp_path]).readings]
    assert marks[2:] == [("mixed precision", 8, "", ""), ("tf32", 8, "8x", "suspect")]


def test_a_heading_with_a_command_and_figures_below_it_is_a_configuration(tmp_path):
    block = "## {0}\n```\npython -m train_{1}.py\n```\nTotal elapsed time: **{2}** seconds \\\n\n"
    read = rows(tmp_path, block.format("Single GPU", "single", 69.03) + block.format("DDP 2 GPU", "ddp", 47.03))
    assert [(r.label, r.devices, r.value("total_time_s")) for r in read] == [
        ("Single GPU", 1, 69.03),
        ("DDP 2 GPU", 2, 47.03),
    ]


BATCHES = "| batch size | 8 | 16 |\n|---|---|---|\n| Ours | 24.15 | 26.94 |\n| ZeRO3 | 14.88 | 21.69 |\n"
ABOVE = "We measured the throughput of each GPU (samples per GPU per second).\n\nModel:\n* 40 layers\n* 5120 hidden\n\n"


def test_a_unit_that_the_section_states_once(tmp_path):
    read = rows(tmp_path, f"# Performance\n\n{ABOVE}{BATCHES}")
    assert [(row.value("batch"), row.value("samples_per_s")) for row in read] == [
        (8, 24.15),
        (16, 26.94),
        (8, 14.88),
        (16, 21.69),
    ]
    assert all(row.figure("samples_per_s").per_device for row in read)


@pytest.mark.parametrize(
    "text",
    [
        f"{ABOVE}# Memory\n\n{BATCHES}",  # another section
        f"{ABOVE}Peak memory of all runs.\n\n{BATCHES}",  # another quantity
        f"{ABOVE}Step time in ms.\n\n{BATCHES}",
        f"{ABOVE}| batch size | 8 | 16 |\n|---|---|---|\n| 1 | 24.15 | 26.94 |\n| 2 | 14.88 | 21.69 |\n",  # of the rows
    ],
)
def test_a_unit_of_the_section_that_is_not_certain_is_not_taken(tmp_path, text):
    assert [row for row in rows(tmp_path, text) if row.value("samples_per_s")] == []


def test_a_lone_column_of_durations_is_a_time_where_its_heading_says_so(tmp_path):
    text = "| Corpus | {} |\n|---|---|\n| A | 960 h |\n| B | 151 h |\n"
    assert [row.value("time_s") for row in rows(tmp_path, text.format("Preparation wait"))] == [960 * 3600, 151 * 3600]
    assert rows(tmp_path, text.format("Hours of Speech")) == []


def test_the_marketed_peak_of_a_device_is_no_rate(tmp_path):
    text = "| Card | {} | Host |\n|---|---|---|\n| A100 | 312 TFLOPS | 32 GB |\n| H100 | 989 TFLOPS | 64 GB |\n"
    assert all(row.value("flops_per_s") is None for row in rows(tmp_path, text.format("Marketed Peak Compute")))
    assert rows(tmp_path, text.format("Reached"))[0].value("flops_per_s") == 312e12


@pytest.mark.parametrize(
    ("cell", "rate"), [("36.10 samples/sec  0.07 tflops/gpu", 36.1), ("36 samples/sec 40 samples/sec", None)]
)
def test_a_cell_with_two_figures_has_the_first(tmp_path, cell, rate):
    text = f"| Nodes | Speed |\n|---|---|\n| 1 | {cell} |\n| 2 | 70 samples/sec 0.07 tflops/gpu |\n"
    assert [row.value("samples_per_s") for row in rows(tmp_path, text)] == [rate, 70]


def test_figures_are_no_part_of_a_name(tmp_path):
    text = "| Method | 512 | 256 | Speed Up |\n|---|---|---|---|\n| Quantized, 80 GB | 388ms | 5ms/sample | 2x |\n"
    assert [row.label for row in rows(tmp_path, text)] == ["Quantized, 80 GB"]


def test_a_speedup_is_of_the_faster_of_two_versions(tmp_path):
    head = "| Batch | Baseline speed (tok/s) | EAGLE speed (tok/s) | Speedup |\n|---|---|---|---|\n"
    read = rows(tmp_path, head + "| 1 | 100 | 148 | 1.48x |\n| 8 | 700 | 910 | 1.30x |\n")
    assert [(row.label, row.value("tokens_per_s"), row.value("speedup")) for row in read] == [
        ("Baseline", 100, None),
        ("EAGLE", 148, 1.48),
        ("Baseline", 700, None),
        ("EAGLE", 910, 1.30),
    ]


BLOCKS = """PERFORMANCE SUMMARY

Model: W8
Naive
-----
  Average Latency:            1.36 s
  Average Output Throughput:  1669.06 tok/s

Model: W8
GPTQ
-----
  Average Latency:            1.01 s
  Average Output Throughput:  2065.67 tok/s
}
  Average Latency:            1.02 s
  Average Output Throughput:  2066.67 tok/s
"""


def test_a_block_has_the_model_above_it_and_no_bracket_for_a_name(tmp_path):
    (tmp_path / "summary.txt").write_text(BLOCKS)
    (table,) = gather([tmp_path]).tables
    read = [(row.label.partition(", ")[0], row.words["model"], row.value("tokens_per_s")) for row in table.rows]
    assert read == [
        ("PERFORMANCE SUMMARY Naive", "W8", 1669.06),
        ("W8 GPTQ", "W8", 2065.67),
        ("W8 GPTQ", "W8", 2066.67),
    ]
