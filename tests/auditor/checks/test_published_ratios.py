"""Ratios of published tables: what they are over."""

from pathlib import Path

import pytest

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.findings.finding import Finding


def rows(head: str, *lines: str) -> str:
    """A Markdown table of lines whose cells are separated by bars."""
    rule = "|".join(["---"] * len(head.split("|")))
    return "\n".join(f"| {line} |" for line in (head, rule, *lines)) + "\n"


def accusations(folder: Path, text: str) -> dict[str, Finding]:
    (folder / "README.md").write_text(text)
    return {f.code: f for f in audit_paths([folder]).findings if f.severity != "note"}


OVER_ANOTHER = rows(
    "Procs | Schedule | Tokens/s | Step time (s) | {heading} | Scaling efficiency (%)",
    "2 | gpipe | 640.0 | 0.800 | 1.00 | 50.0",
    "2 | interleaved | 800.0 | 0.640 | 1.25 | 62.5",
    "4 | gpipe | 960.0 | 0.533 | 1.00 | 25.0",
    "4 | interleaved | 1024.0 | 0.500 | 1.07 | 26.7",
)


@pytest.mark.parametrize("heading", ["Speedup vs GPipe", "Speedup (over GPipe)", "Speedup"])
def test_a_speedup_over_another_configuration_is_not_one_of_devices(tmp_path, heading):
    """Each number of processes has its own baseline; over the smallest, the table gives 1.5x for gpipe on 4."""
    assert accusations(tmp_path, OVER_ANOTHER.format(heading=heading)) == {}


@pytest.mark.parametrize("heading", ["Speedup vs 1 GPU", "Speedup over single GPU", "Speedup vs baseline", "加速比"])
def test_a_speedup_over_fewer_devices_is_checked_whatever_its_heading(tmp_path, heading):
    text = rows(f"GPUs | Tokens/s | {heading}", "1 | 10240 | 1.00", "2 | 19692 | 1.92", "4 | 36571 | {ratio}")
    assert accusations(tmp_path, text.format(ratio="3.57")) == {}
    assert accusations(tmp_path, text.format(ratio="2.80"))["speedup-not-in-table"].corrected.value == 3.5714


@pytest.mark.parametrize("heading", ["speedup_pct", "speedup_percent", "speedup (%)"])
@pytest.mark.parametrize(("ratios", "is_right"), [("0,90,270", True), ("0,90,150", False), ("100,190,370", True)])
def test_speedups_in_percent_are_checked_whatever_the_heading_calls_percent(tmp_path, heading, ratios, is_right):
    """More than the baseline, or of it: 90 % and 190 % of 1,000 and 1,900."""
    rates = (1000, 1900, 3700)
    lines = [f"{n},{rate},{ratio}" for n, rate, ratio in zip((1, 2, 4), rates, ratios.split(","), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join([f"gpus,tokens_per_s,{heading}", *lines]) + "\n")
    severe = [finding for finding in audit_paths([tmp_path]).findings if finding.severity != "note"]
    assert [finding.code for finding in severe] == ([] if is_right else ["speedup-not-in-table"])


def notes(folder: Path, text: str) -> dict[str, Finding]:
    (folder / "README.md").write_text(text)
    return {f.code: f for f in audit_paths([folder]).findings}


BATCHES = rows("Strategy | GPUs | Global batch | Samples/s", "DDP | 4 | 24 | 11.76", "ZeRO-3 | 4 | 160 | 18.18")


def test_strategies_compared_at_different_batches_are_noted(tmp_path):
    found = notes(tmp_path, BATCHES)["batches-compared"]
    assert (found.severity, found.evidence) == (
        "note",
        "rates of 2 strategies at different batches: ddp 24, zero3 160",
    )


@pytest.mark.parametrize(
    "text",
    [
        BATCHES.replace("160", "32"),  # less than twice
        BATCHES.replace("ZeRO-3 | 4", "ZeRO-3 | 8"),  # weak scaling
        BATCHES + "| DDP | 4 | 160 | 15.10 |\n",  # a sweep
        BATCHES.replace("Samples/s", "Val loss"),
        rows(
            "Strategy | GPUs | Global batch | Micro batch | Samples/s",
            "DDP | 4 | 160 | - | 15.10",
            "ZeRO-3 | 4 | - | 40 | 18.18",  # of two kinds
        ),
    ],
)
def test_equal_batches_and_sweeps_over_batches_are_not(tmp_path, text):
    assert "batches-compared" not in notes(tmp_path, text + "\nIt takes 30 s on 4 GPUs.\n")


EPOCHS = rows("GPUs | Epochs | Epoch time (s)", "1 | 5 | 40.1", "2 | 5 | 61.2")


def test_an_epoch_that_takes_longer_on_more_devices_is_noted(tmp_path):
    assert "0.655x over 1 device with 2 times" in notes(tmp_path, EPOCHS)["slower-with-more"].evidence


@pytest.mark.parametrize("text", [EPOCHS.replace("61.2", "22.9"), EPOCHS.replace("2 | 5", "2 | 9")])
def test_a_faster_epoch_or_other_work_is_not(tmp_path, text):
    assert "slower-with-more" not in notes(tmp_path, text)


BY_UNITS = rows("Model | Step 1 | Step 2", "OPT-13B | 2.5hr | 0.25hr", "OPT-66B | 8.2 hr | 1.5 hr")


@pytest.mark.parametrize(
    ("headings", "cells", "shown"),
    [
        ("Latency (ms)", "1.7", "1.7 (Latency (ms))"),
        ("Memory (GB) | Speedup", "20.3 | 1.9x", "20.3 (Memory (GB))"),
        ("Memory (GB) | tokens/s", "20.3 | 390", "390 (tokens/s)"),
        ("Speedup", "1.9x", ""),
    ],
)
def test_a_row_without_a_speed_shows_its_first_result(tmp_path, headings, cells, shown):
    (tmp_path / "README.md").write_text(rows(f"Model | {headings}", f"bert | {cells}"))
    assert [line.rate for line in audit_paths([tmp_path]).readings] == [shown]


def test_beside_rows_with_a_speed_no_other_result_stands_for_one(tmp_path):
    (tmp_path / "README.md").write_text(rows("Model | Memory (GB) | tokens/s", "bert | 20.3 | 390", "vit | 17.9 | -"))
    assert [line.rate for line in audit_paths([tmp_path]).readings] == ["390 (tokens/s)", ""]


def test_figures_with_units_below_unknown_headings_are_shown_and_not_checked(tmp_path):
    (tmp_path / "README.md").write_text(BY_UNITS)
    audit = audit_paths([tmp_path])
    assert [(r.name, r.rate) for r in audit.readings] == [
        ("OPT-13B, Step 1", "2.5hr (Step 1)"),
        ("OPT-13B, Step 2", "0.25hr (Step 2)"),
        ("OPT-66B, Step 1", "8.2 hr (Step 1)"),
        ("OPT-66B, Step 2", "1.5 hr (Step 2)"),
    ]
    assert audit.findings == []
    copied = rows("GPUs | Forward", "1 | 23295.61155 s", "2 | 23295.61155 s")
    assert accusations(tmp_path, copied) == {}
    assert "figures-copied" in accusations(tmp_path, copied.replace("Forward", "Epoch time"))


def test_a_column_over_another_is_no_speedup_of_devices(tmp_path):
    """Each row compares two programs on as many devices: 2.49x on 8 is not over 1.00x on 4."""
    text = rows("NP | Plain (s) | Tuned (s) | Speedup", "4 | 11.4 | 11.4 | 1.00x", "8 | 10.7 | 4.3 | 2.49x")
    assert accusations(tmp_path, text) == {}
    assert "super-linear" in accusations(tmp_path, text.replace("11.4 | 11.4", "11.4 | 9.2"))


def test_the_rate_of_all_over_that_of_one_is_not_taken_for_such_a_column(tmp_path):
    head = "GPUs | Total tokens/s | Tokens/s/GPU | Speedup"
    text = rows(head, "1 | 100.0 | 100.0 | 1.00x", "2 | 150.0 | 75.0 | 2.00x", "4 | 240.0 | 60.0 | 4.00x")
    assert "speedup-not-in-table" in accusations(tmp_path, text)


ALL_DEVICES = rows(
    "NP | Time (s) | Speedup | Efficiency",
    "2 | 40.0 | 1.00x | 100%",
    "4 | 25.0 | 1.60x | 40%",
    "8 | 16.0 | 2.50x | 31.3%",
)


def test_efficiencies_over_all_devices_beside_a_baseline_of_two(tmp_path):
    finding = accusations(tmp_path, ALL_DEVICES)["efficiency-not-in-table"]
    assert (finding.corrected.value, finding.corrected.unit) == (62.5, "%")
    sound = ALL_DEVICES.replace("40%", "80%").replace("31.3%", "62.5%")
    assert accusations(tmp_path, sound) == {}


@pytest.mark.parametrize(("second", "published"), [("16 GPUs", "1.5"), ("2 nodes", "")])
def test_a_speedup_beside_columns_of_devices_is_of_the_largest_that_is_certain(tmp_path, second, published):
    (tmp_path / "README.md").write_text(
        rows(f"Training time | 8 GPUs | {second} | Speedup", "CRNN | 2.5 h | 1.67 h | 1.5")
    )
    assert [reading.published for reading in audit_paths([tmp_path]).readings] == ["", published]
