"""Everyday tables with one gross fault each: what their figures imply, whichever columns they happen to have."""

import pytest
from markdown_tables import accusations, audited, rows

RATES = "GPUs | Throughput (tokens/s)"
FOLLOWS = rows(
    "Run | Tokens/s | Step time (ms)", "1 | 1000 | 512", "2 | 1010 | 507", "3 | 1020 | 502", "Avg | {} | 507"
)
BATCHES = ("1 | 32 | 400 | 80.0", "2 | 32 | 780 | 82.1", "4 | 32 | 1540 | 83.1")
EACH = ("1 | 1000 | 1000", "2 | 1960 | 980", "4 | 3840 | 960")

# name -> (table, code, words of the evidence, right figure or None)
FAULTS = {
    "speed-up": (
        rows(f"{RATES} | Speedup", "1 | 10000 | 1.00x", "2 | 19500 | 2.28x", "4 | 38000 | 3.80x"),
        "speedup-not-in-table",
        "2.28x",
        1.95,
    ),
    "efficiency beside a speed-up": (
        rows(f"{RATES} | Speedup | Efficiency", "1 | 10000 | 1.00x | 100%", "2 | 19500 | 1.95x | 50%"),
        "efficiency-not-in-table",
        "50%",
        97.5,
    ),
    "speed-up beside an efficiency that the rates give": (
        rows(f"{RATES} | Speedup | Efficiency", "1 | 21.3k | 1.00x | 100%", "2 | 41.8k | 1.96x | 98.1%")
        + "| 4 | 80.1k | 3.67x | 94.0% |\n",
        "efficiency-not-in-table",
        "gives 3.76x",
        3.7606,
    ),
    "MFU above its peak": (
        rows("GPUs | tokens/s | MFU", "1 | 10000 | 45%", "2 | 19500 | 130%"),
        "mfu-impossible",
        "130%",
        None,
    ),
    "efficiency of devices that names state": (
        rows(
            "Setup | images/sec | Scaling efficiency",
            *("1x V100 | 385 | 100%", "4x V100 | 1,502 | 97.5%", "8x V100 | 2,940 | 98.7%", "16x V100 | 5,610 | 91.1%"),
        ),
        "speedup-not-in-table",
        "0.9545",
        None,
    ),
    "nodes x GPUs": (
        rows(
            "Nodes x GPUs | tok/s/GPU | Total tok/s",
            "2x8 | 3,832 | 61,312",
            "4x8 | 3,723 | 119,136",
            "8x8 | 3,561 | 127,904",
        ),
        "totals-disagree",
        "227,904",
        None,
    ),
    "overhead": (
        rows(
            "Strategy | Time per step (ms) | Overhead vs DDP",
            "DDP | 182 | 0%",
            "FSDP | 203 | +11.5%",
            "ZeRO-3 | 240 | +21.9%",
        ),
        "speedup-not-in-table",
        "1.319",
        None,
    ),
    "efficiency beside rates": (
        rows(f"{RATES} | Efficiency", "1 | 10000 | 100%", "2 | 19500 | 98%", "4 | 39200 | 50%"),
        "efficiency-not-in-table",
        "3.92x",
        98.0,
    ),
    "efficiency beside epoch times": (
        rows("GPUs | Epoch time (s) | Efficiency", "1 | 100.0 | 100%", "2 | 51.5 | 97%", "4 | 26.0 | 70%"),
        "efficiency-not-in-table",
        "70%",
        96.2,
    ),
    "efficiency above 1": (
        rows("GPUs | Throughput (samples/s) | Efficiency", "1 | 201.1 | 100%", "2 | 458.4 | 114%"),
        "super-linear",
        "2.28x",
        None,
    ),
    "rates above linear": (
        rows(RATES, "1 | 10000", "2 | 26000", "4 | 55000"),
        "super-linear",
        "times the devices",
        None,
    ),
    "a rate that falls": (rows(RATES, "1 | 10000", "2 | 9000"), "slower-with-more", "0.9x", None),
    "a time that rises": (rows("GPUs | Total time (s)", "1 | 69", "2 | 97"), "slower-with-more", "0.71x", None),
    "a batch of each device": (
        rows("GPUs | Batch per GPU | Images/s | Step time (ms)", *BATCHES, "8 | 32 | 1525 | 83.9"),
        "rate-times-time",
        "as in 3 other rows",
        3051.25,
    ),
    "a rate of all and one of each": (
        rows("GPUs | Tokens/s | Tokens/s per GPU", *EACH, "8 | 7200 | 950"),
        "totals-disagree",
        "= 7,600",
        None,
    ),
    "columns of devices": (
        rows("Model | 1 GPU | 8 GPU | Scaling", "ResNet-50 | 400 | 2800 | 95%"),
        "efficiency-not-in-table",
        "7x",
        87.5,
    ),
    "columns of devices with units": (
        rows("Model | 1 GPU (images/s) | 8 GPUs (images/s) | Scaling", "ResNet-50 | 400 | 2800 | 95%"),
        "efficiency-not-in-table",
        "7x",
        87.5,
    ),
    "a mean that is none": (FOLLOWS.format(1100), "totals-disagree", "the mean of 1000, 1010, 1020", 1010.0),
    "a sentence": (
        "We reach a 3.8x speedup on 2 GPUs.\n\n" + rows(RATES, "1 | 10000", "2 | 19000"),
        "claim-not-in-data",
        "“3.8x speedup”",
        1.9,
    ),
    "MFU beside FLOP/s": (
        rows("GPU | TFLOP/s per GPU | MFU", "A100 | 160 | 61%"),
        "peak-of-another-device",
        "262 TFLOP/s",
        51.3,
    ),
    "an MFU of a third more than the peak in tf32": (
        rows("GPU | TFLOP/s per GPU | MFU", "NVIDIA H100 80GB HBM3 | 470 | 70 %"),
        "peak-of-another-device",
        "671 TFLOP/s; NVIDIA H100 80GB has 756 or 835 or 989",
        47.5,
    ),
    "a speed-up over one device without a strategy": (
        rows("Method | GPUs | Samples/s | Speedup", "Single GPU | 1 | 54.2 | 1x", "DDP | 2 | 84.9 | 57x"),
        "speedup-not-in-table",
        "the figure is in percent",
        1.566,
    ),
    "devices in the name of the hardware": (
        rows("Hardware | Images/s | Speedup", "1xA100 | 790 | 1.0x", "4xA100 | 2950 | 3.73x", "8xA100 | 4690 | 7.4x"),
        "speedup-not-in-table",
        "5.94x",
        5.937,
    ),
    "hours": (
        rows("Setup | Hours | Speedup", "1 GPU | 24.2 | 1.0x", "2 GPUs | 12.6 | 1.92x", "4 GPUs | 6.7 | 4.5x"),
        "speedup-not-in-table",
        "4.5x",
        3.612,
    ),
    "a mean below two columns": (
        rows("Run | Step time (ms)", "1 | 212.0", "2 | 214.5", "3 | 213.1", "mean | 231.2"),
        "totals-disagree",
        "the mean of 212.0",
        213.2,
    ),
    "the peak of the other rows": (
        rows("Model | TFLOP/s per GPU | MFU", "7B | 157.3 | 50.4%", "13B | 157.2 | 61.2%", "30B | 149.8 | 48.0%"),
        "peak-of-another-device",
        "the device of the other rows has 312",
        50.4,
    ),
    "efficiencies over all devices": (
        rows(f"{RATES} | Scaling Eff (%)", "2 | 8369 | 50.0", "4 | 12220 | 36.5"),
        "baseline-below-one",
        "1 / 2 over itself",
        73.0,
    ),
    "energy": (
        rows("Run | Power (W) | Time (s) | Energy (kJ)", "fp32 | 300 | 1000 | 300", "bf16 | 280 | 600 | 268"),
        "totals-disagree",
        "280 x 600",
        None,
    ),
    "energy in kWh": (
        rows("Run | Power (W) | Time (h) | Energy (kWh)", "fp32 | 390 | 10.1 | 3.94", "bf16 | 770 | 5.2 | 14.0"),
        "totals-disagree",
        "770 x 5.2 = 4.004, given is 14.0",
        None,
    ),
    "percentiles of nothing named": (
        rows("Strategy | p50 (ms) | p95 (ms)", "DDP | 101 | 118", "FSDP | 122 | 117"),
        "figure-impossible",
        "p50 (ms) 122 is above",
        None,
    ),
    "a step that is a time": (
        rows("GPUs | it/s | step (ms)", "1 | 4.00 | 250", "2 | 3.85 | 260", "4 | 3.70 | 370"),
        "totals-disagree",
        "1.37 steps, not 1",
        None,
    ),
    "a slowdown that is called a speed-up": (
        rows(
            "Method | Time/Epoch | Speedup",
            "a | 0.041s | 1.0x",
            "b | 0.090s | 2.2x",
            "c | 0.213s | 5.2x",
            "d | 0.361s | 8.8x",
        ),
        "row-stands-out",
        "the inverse of what it is called",
        None,
    ),
    "more tokens than the rate allows": (
        rows("GPUs | Tokens | tokens/s (total) | Training time", "8 | 10B | 1.10M | 2.6 h", "8 | 10B | 400K | 2.6 h"),
        "totals-disagree",
        "given are 10B",
        None,
    ),
    "shares of one whole": (
        rows(
            "GPUs | Compute (%) | Communication (%) | Other (%)", "2 | 88 | 9 | 3", "4 | 81 | 16 | 3", "8 | 78 | 29 | 3"
        ),
        "totals-disagree",
        "78 + 29 + 3 is 110 %",
        None,
    ),
    "more memory than there is": (
        "Memory of 8x V100:\n\n" + rows("Strategy | Peak memory per GPU (GB)", "DDP | 24.1", "ZeRO-2 | 44.8"),
        "figure-impossible",
        "V100 has at most 32 GB",
        None,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_the_right_figure(tmp_path, name):
    text, code, words, figure = FAULTS[name]
    findings = audited(tmp_path, text)
    assert words in findings[code].evidence
    if figure is not None:
        assert findings[code].corrected.value == pytest.approx(figure, rel=2e-3)
    assert accusations(findings).keys() <= {code}


SOUND = {
    "a lost sign of percent": rows(
        "GPUs | Tokens/s | Efficiency", "1 | 1000 | 100%", "2 | 1900 | 95%", "4 | 3700 | 92.5"
    ),
    "overhead": rows("Strategy | Step (ms) | Overhead vs DDP", "DDP | 182 | 0%", "FSDP | 203 | +11.5%"),
    "weak scaling": rows(
        "GPUs | Batch per GPU | Step time (ms) | Speedup | Efficiency",
        "1 | 64 | 100 | 1.0x | 100%",
        "8 | 64 | 104 | 7.7x | 96%",
        "64 | 64 | 130 | 49.0x | 77%",
    ),
    "weak scaling with a row that is faster": rows(
        "GPUs | Step time (ms) | Speedup", "2 | 417 | 1.0", "4 | 454 | 1.84", "8 | 431 | 3.87"
    ),
    "a rate of each device": rows(f"{RATES} | Efficiency", "1 | 10000 | 100%", "4 | 9600 | 96%"),
    "a batch of each device": rows("GPUs | Batch per GPU | Images/s | Step time (ms)", *BATCHES),
    "a larger batch of each device": rows(
        "GPUs | Batch per GPU | Images/s", "1 | 16 | 400", "2 | 64 | 900", "4 | 64 | 1800"
    ),
    "a setting that is not understood": rows("GPUs | Width | Tokens/s", "1 | 4096 | 400", "2 | 1024 | 2000"),
    "a mean": FOLLOWS.format(1010),
    "a mean of ratios": rows("Task | Tokens/s", "a | 1000", "b | 3000", "Mean | 1500"),
    "a mean of more than the table shows": rows("Run | Tokens/s", "1 | 1000", "... | ...", "9 | 1020", "Avg | 1100"),
    "another definition of efficiency": rows(
        f"{RATES} | Efficiency", "1 | 10000 | 100%", "2 | 19500 | 49%", "4 | 39200 | 24%", "8 | 78000 | 12%"
    ),
    "MFU of a sibling": rows("GPU | TFLOP/s per GPU | MFU", "H100 | 400 | 52.9%", "H100 | 400 | 40.4%"),
    "FLOP/s of all": rows("GPU | GPUs | TFLOP/s | MFU", "A100 | 8 | 1280 | 51.3%"),
    "a sentence with another baseline": "We reach a 3.8x speedup over the CPU on 2 GPUs.\n\n"
    + rows(RATES, "1 | 10000", "2 | 19000"),
    "a sentence of another strategy": "FSDP reaches a 3.8x speedup on 4 GPUs.\n\n"
    + rows("Strategy | GPUs | Tokens/s", "DDP | 1 | 10000", "DDP | 4 | 31000"),
    "accuracy in columns of devices": rows("Model | 1 GPU | 8 GPU | Scaling", "ResNet-50 | 76.1 | 76.3 | 95%"),
    "the rate of several runs of one size": rows(RATES, "1 | 9000", "1 | 14000", "2 | 26000"),
    "one device without a strategy that is another program": rows(
        "Method | GPUs | Tokens/s", "Single GPU | 1 | 1000", "DDP | 2 | 2500"
    ),
    "larger systems of another kind": rows(
        "System | GPUs | Time to train (h)", "1 x DGX-1 With 16G | 8 | 153.16", "16 x DGX-2H With 32G | 16 | 3.94"
    ),
    "an efficiency near a ratio of times less one": rows(
        "nodes | GPUs | s/step | speedup | scaling efficiency",
        "1 | 8 | 33.7 | 1.00x | -",
        "2 | 16 | 17.0 | 1.98x | 99%",
        "8 | 64 | 4.5 | 7.49x | 94%",
    ),
    "an efficiency of two devices over one": rows(f"{RATES} | Efficiency", "2 | 8369 | 50%", "4 | 16100 | 48%"),
    "energy of another time": rows(
        "Run | Power (W) | Time (s) | Energy (kJ)", "fp32 | 300 | 10 | 300", "bf16 | 280 | 6 | 168"
    ),
    "percentiles of rates": rows(
        "Batch | Avg (tok/s) | 50% (tok/s) | 99% (tok/s)", "1 | 985.5 | 990.1 | 855.8", "2 | 667.5 | 670.0 | 529.8"
    ),
    "means and percentiles of latencies": rows(
        "Batch | Avg (ms) | 50% (ms) | 90% (ms)",
        "1 | 58.35 | 53.92 | 96.43",
        "4 | 91.62 | 89.44 | 126.05",
        "8 | 106.57 | 106.08 | 137.45",
        "16 | 137.1 | 136.5 | 160.1",
        "32 | 190.2 | 189.3 | 218.4",
        "64 | 271.0 | 269.8 | 305.5",
    ),
    "times and speed-ups of weak scaling": rows(
        "GPUs | Time per epoch (s) | Speedup", "1 | 100 | 1.0", "2 | 104 | 1.92", "4 | 109 | 3.67", "8 | 118 | 6.78"
    ),
    "tokens at the rate of one device": rows(
        "GPUs | Tokens | tokens/s | Training time", "8 | 10B | 1.10M | 2.6 h", "8 | 10B | 31K | 11.5 h"
    ),
    "shares of several wholes": rows(
        "GPUs | GPU util (%) | Memory (%) | MFU (%)", "2 | 98 | 71 | 41", "4 | 97 | 62 | 40", "8 | 91 | 55 | 38"
    ),
    "memory of the largest device": "Memory of 8x A100:\n\n"
    + rows("Strategy | Peak memory per GPU (GB)", "DDP | 79.1", "ZeRO-2 | 44.8"),
    "another peak": rows("Model | TFLOP/s per GPU | MFU", "7B | 157.3 | 31.5%", "13B | 157.2 | 61.2%"),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_table_is_not_accused(tmp_path, name):
    assert accusations(audited(tmp_path, SOUND[name])) == {}


COMPLETE = {
    "GPUs": ("1", "2", "4", "8"),
    "Images/s": ("400.0", "784.3", "1521.0", "2930.0"),
    "Epoch time (s)": ("100.00", "51.00", "26.30", "13.65"),
    "Speedup": ("1.00", "1.96", "3.80", "7.33"),
    "Efficiency": ("100.0%", "98.0%", "95.1%", "91.6%"),
}
ENOUGH = [
    ("Images/s", "Efficiency"),
    ("Epoch time (s)", "Efficiency"),
    ("Speedup", "Efficiency"),
    ("Images/s", "Epoch time (s)", "Efficiency"),
    ("Images/s", "Speedup", "Efficiency"),
]


@pytest.mark.parametrize("columns", ENOUGH)
@pytest.mark.parametrize("wrong", [None, "70.0%"])
def test_any_sufficient_subset_of_columns_decides(tmp_path, columns, wrong):
    chosen = {name: list(COMPLETE[name]) for name in ("GPUs", *columns)}
    if wrong:
        chosen["Efficiency"][2] = wrong
    lines = [" | ".join(cells) for cells in zip(*chosen.values(), strict=True)]
    findings = accusations(audited(tmp_path, rows(" | ".join(chosen), *lines)))
    assert list(findings) == (["efficiency-not-in-table"] if wrong else [])


SERIES = rows("Model | 1 GPU (s) | 2 GPUs (s)", "a | 41.37 | {}", "b | 52.91 | {}", "c | 63.18 | {}")


def test_a_column_that_is_a_copy(tmp_path):
    assert "figures-copied" in accusations(audited(tmp_path, SERIES.format("41.37", "52.91", "63.18")))
    assert accusations(audited(tmp_path, SERIES.format("21.37", "27.11", "33.40"))) == {}


PARTS = "## {}\n\n" + rows(
    "Library | Forward (ms) | Step time (ms) | Epoch time (s)", "A | 11.3 | {}", "B | 9.4 | 81.5 | 71.3", "C | 8 | {}"
)


def test_one_row_in_two_tables_is_noted(tmp_path):
    text = (
        PARTS.format("AlexNet", "963.2 | 388.4", "70.1 | 60.3")
        + "\n"
        + PARTS.format("VGG", "963.2 | 388.4", "99.7 | 82.6")
    )
    assert "figures-copied" not in audited(tmp_path, text)  # two equal figures may be chance


def test_statistics_out_of_order(tmp_path):
    head = "GPUs | p50 step time (ms) | p95 step time (ms)"
    assert "figure-impossible" in accusations(audited(tmp_path, rows(head, "1 | 95.0 | 81.0", "2 | 50.0 | 60.0")))
    assert accusations(audited(tmp_path, rows(head, "1 | 81.0 | 95.0", "2 | 50.0 | 60.0"))) == {}


MEASURED = "gpus,samples_per_sec,epoch_time_s\n1,201.1,60.2\n2,384.6,31.5\n4,{},16.4\n"


@pytest.mark.parametrize(("rate", "differs"), [("741.5", False), ("873.0", True)])
def test_a_table_beside_its_data(tmp_path, rate, differs):
    (tmp_path / "results.csv").write_text(MEASURED.format("741.5"))
    text = rows("GPUs | Samples/s | Epoch time (s)", "1 | 201.1 | 60.2", "2 | 384.6 | 31.5", f"4 | {rate} | 16.4")
    findings = audited(tmp_path, text)
    assert ("files-disagree" in findings) is differs
    if differs:
        assert findings["files-disagree"].runs == ["README.md:7", "results.csv:4"]


def test_data_of_other_measurements_are_not_held_against_a_table(tmp_path):
    (tmp_path / "results.csv").write_text(
        "gpus,samples_per_sec,epoch_time_s\n1,301.1,40.2\n2,584.6,21.5\n4,901.5,13.4\n"
    )
    text = rows("GPUs | Samples/s | Epoch time (s)", "1 | 201.1 | 60.2", "2 | 384.6 | 31.5", "4 | 741.5 | 16.4")
    assert accusations(audited(tmp_path, text)) == {}
