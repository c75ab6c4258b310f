"""The one figure of a table that all others contradict: of the baseline, of a stated data set, of an unknown column."""

import pytest
from markdown_tables import accusations, audited, rows

RATES = "GPUs | Images/s | Speedup"
EFFICIENCIES = "Nodes | GPUs | Throughput | Efficiency"
EPOCHS = "GPUs | Images/s | Epoch time (s)"
PRICES = "Run | Spot | Reserved | Tokens/s"
SPEEDS = "Nodes | MBS | GBS | Speed | TFLOPs"
BILL = "Run | Kilo-units | Fee | Net | Tokens/s"
SEVERAL = tuple(
    f"run {k} | {one} | {other} | 9{k}00"
    for k, one, other in [
        (1, 12.45, 33.62),
        (2, 18.31, 49.44),
        (3, 29.77, 80.38),
        (4, 41.02, 110.75),
        (5, 77.15, 208.31),
    ]
)
FEES = tuple(
    f"run {k} | {a} | {b} | {a * b:.2f} | 9{k}00"
    for k, a, b in [(1, 3.17, 12.41), (2, 4.29, 10.77), (3, 6.83, 14.09), (4, 9.47, 11.83), (5, 7.61, 17.29)]
)

FAULTS = {
    "the baseline's rate": (
        rows(RATES, "1 | 812.0 | 1.00x", "2 | 804.1 | 1.98x", "4 | 1,571.4 | 3.87x", "8 | 3,053.0 | 7.52x"),
        "speedup-not-in-table",
        "1 device: Images/s 812.0, but the ratio of each of the 3 larger rows is over 406.0",
    ),
    "the baseline's time": (
        rows("GPUs | Epoch (s) | Speedup", "1 | 240.0 | 1.00", "2 | 100.0 | 1.99", "4 | 51.4 | 3.87"),
        "speedup-not-in-table",
        "the ratio of each of the 2 larger rows is over 198.9",
    ),
    "an epoch of a data set that is named": (
        "## CIFAR-10\n\n" + rows(EPOCHS, "1 | 1,020 | 49.1", "2 | 1,980 | 25.2", "4 | 5,040 | 13.4"),
        "row-stands-out",
        "5,040 x 13.4 = 67,536",
    ),
}

FAULTS |= {
    f"{wrong} of {heading}": (
        rows(
            f"Nodes | {heading} | MFU (%)",
            f"{nodes} | 97.5{loss} | 45.1",
            f"2 | 184.2{loss} | 44.0",
            f"4 | {rate} | 43.7",
        ),
        "figure-impossible",
        f"{heading.partition(' | ')[0]} is {rate}" if wrong == "negative" else "Nodes is 0",
    )
    for wrong, heading, nodes, rate, loss in [
        ("negative", "Images/s", 1, "-371.4 img/s", ""),
        ("none", "Images/s | Loss", 0, "371.4 | 2.1", " | 2.2"),
    ]
}


# Sound where the ratios are over a run that the table does not have: compiled, without start-up, after warm-up.
OVER_ANOTHER_RUN = (
    rows(
        "GPUs | tokens/s | Speedup", "1 (eager) | 100 | 1.0x", "2 (compiled) | 250 | 2.0x", "4 (compiled) | 500 | 4.0x"
    ),
    rows(
        "GPUs | Total time (s) | Scaling efficiency",
        "1 | 500 | 100%",
        "2 | 230 | 90%",
        "4 | 115 | 90%",
        "8 | 57.5 | 90%",
    ),
    rows(
        "Nodes | Samples/s (incl. warm-up) | Speedup",
        "1 | 90 | 1.00",
        "2 | 196 | 1.90",
        "4 | 392 | 3.80",
        "8 | 780 | 7.56",
    ),
    rows(EFFICIENCIES, "1 | 8 | 72,842 | 100%", "2 | 16 | 70,292 | 96.5%", "4 | 32 | 135,486 | 93.0%"),
    rows(
        "Nodes | GPUs | DP | Batch | Tokens/s | Efficiency",
        *("8 | 64 | 2 | 192 | 112K | 100%", "16 | 128 | 4 | 384 | 110K | 98.2%"),
        *("32 | 256 | 8 | 768 | 216K | 96.4%", "64 | 512 | 16 | 1536 | 425K | 94.8%"),
    ),
)


@pytest.mark.parametrize("table", OVER_ANOTHER_RUN)
def test_a_baseline_that_no_larger_row_is_over_is_a_note(tmp_path, table):
    (finding,) = (f for f in audited(tmp_path, table).values() if f.code.endswith("-not-in-table"))
    assert finding.severity == "note"
    assert "larger rows is over" in finding.evidence


@pytest.mark.parametrize(("figures", "is_named"), [("3.8 | 3.5", False), ("3.8 | 3.8", False), ("3.1", True)])
def test_a_rate_beside_the_speed_ups_of_two_is_of_neither(tmp_path, figures, is_named):
    heads = "GPUs | Throughput | Speedup" + (" (ours) | Speedup (Horovod)" if "|" in figures else "")
    table = rows(heads, "1 | 340 | 1.0" + " | 1.0" * figures.count("|"), f"4 | 1300 | {figures}")
    assert ("speedup-not-in-table" in accusations(audited(tmp_path, table))) == is_named


@pytest.mark.parametrize("name", FAULTS)
def test_the_odd_figure_is_named_and_no_other_row(tmp_path, name):
    table, code, words = FAULTS[name]
    found = accusations(audited(tmp_path, table))
    assert list(found) == [code]
    assert words in found[code]


SOUND = {
    "a baseline of eight devices": rows(
        EFFICIENCIES, "1 | 8 | 36,421 | 100%", "2 | 16 | 70,292 | 96.5%", "4 | 32 | 135,486 | 93.0%"
    ),
    "speed-ups over a baseline of eight devices": rows(
        RATES, "8 | 3,053 | 1.00x", "16 | 5,902 | 1.93x", "32 | 11,270 | 3.69x"
    ),
    "efficiencies over one device that the table leaves out": rows(
        "GPUs | Throughput | Efficiency", "2 | 790 | 97%", "4 | 1,540 | 95%", "8 | 2,980 | 92%"
    ),
    "a baseline of another batch": rows(
        "GPUs | Batch | Steps/s | Speedup", "1 | 32 | 10.0 | 1.00", "2 | 64 | 9.8 | 1.96", "4 | 128 | 9.5 | 3.80"
    ),
    "MFU of other steps than the rate": rows(
        "GPUs | tok/s/GPU | MFU (%)",
        *("1 | 60,000 | 68.4", "2 | 52,000 | 58.7", "4 | 43,941 | 46.9", "8 | 39,000 | 44.5", "16 | 30,000 | 34.2"),
    ),
    "total times with evaluation beside speed-ups of steps": rows(
        "GPUs | Total training time (h) | Speedup | tok/s/GPU",
        *("1 | 1.9961 | 1.000 | 368,321", "4 | 0.5841 | 3.474 | 319,869", "16 | 0.2231 | 9.142 | 210,447"),
        *("32 | 0.1639 | 12.644 | 145,534", "64 | 0.1276 | 15.641 | 90,015"),
    ),
    "accuracies in the ratio of efficiencies": rows(
        "GPUs | Accuracy (%) | Efficiency", "1 | 95.0 | 1.00", "2 | 91.2 | 0.96", "3 | 89.3 | 0.94", "4 | 64.4 | 0.93"
    ),
    "weak scaling, one size twice": rows(
        "GPUs | Step time (ms) | Speedup", "1 | 100 | 1.00", "4 | 102 | 3.92", "4 | 103 | 3.88"
    ),
    "weak scaling": rows("GPUs | Step time (ms) | Speedup", "1 | 100 | 1.00", "2 | 102 | 1.96", "4 | 103 | 3.88"),
    "speed-ups of times that are not printed": rows(
        RATES, "1 | 406.0 | 1.00x", "2 | 804.1 | 1.95x", "4 | 1,571.4 | 3.93x", "8 | 3,053.0 | 7.40x"
    ),
    "a part of a data set": "## CIFAR-10, a quarter of it\n\n"
    + rows(EPOCHS, "1 | 1,020 | 12.2", "2 | 1,980 | 6.3", "4 | 3,800 | 3.8"),
    "another data set in one row": "## CIFAR-10 and SVHN\n\n"
    + rows(
        "Data | " + EPOCHS,
        *("CIFAR-10 | 1 | 1,020 | 49.1", "CIFAR-10 | 2 | 1,980 | 25.2", "SVHN | 1 | 1,020 | 71.8"),
        "SVHN | 2 | 1,980 | 37.0",
    ),
    "padded samples of an epoch": "## CIFAR-10\n\n"
    + rows(EPOCHS, "1 | 1,020 | 49.1", "2 | 1,980 | 25.2", "4 | 3,800 | 13.5"),
    "a ratio that scatters": rows(
        PRICES, *SEVERAL[:3], "run 4 | 41.02 | 115.75 | 9", "run 5 | 77.15 | 204.31 | 9", "run 6 | 55.93 | 171.01 | 5"
    ),
    "half as many bytes": rows(
        PRICES.replace("Spot | Reserved", "Millions | Megs"), *SEVERAL, "run 6 | 55.93 | 75.52 | 500"
    ),
    "columns that were measured alike": rows(
        PRICES.replace("Spot | Reserved", "Ours | Theirs"),
        *(f"{k} | {k * 7.13:.2f} | {k * 7.12:.2f} | 90" for k in (3, 4, 5, 6, 7)),
        "8 | 57.04 | 51.93 | 90",
    ),
    "widths and heads": rows(
        "Model | Width | Heads | Tokens/s",
        *("a | 768 | 12 | 9", "b | 1024 | 16 | 8", "c | 1280 | 20 | 7", "d | 1600 | 25 | 6", "e | 2048 | 32 | 5"),
        "f | 2560 | 32 | 4",
    ),
    "one row of another kind": rows(
        "Run | Tier | Spot | Reserved | Tokens/s",
        *(line.replace(" | ", " | basic | ", 1) for line in SEVERAL),
        "run 6 | large | 55.93 | 171.01 | 500",
    ),
    "a rate that is not known": rows("GPUs | Images/s", "1 | 97.5", "2 | 184.2", "4 | -1"),
    "differences of times": rows("Nodes | Step time change (ms)", "1 | 9.5", "2 | 4.2", "4 | -7.1"),
    "differences in one column": rows(
        "Metric | eager | compiled | Δ", "Step time (ms) | 9.5 | 4.2 | -5.3", "Images/s | 105.1 | 237.7 | 132.6"
    ),
    "changes in a last row": rows("Run | Images/s", "a | 97.5", "b | 184.2", "c | 171.3", "b vs a | -12.9"),
    "a first token that came late": rows(
        "Run | TTFT (ms) | Decode tokens/s | Total time (s)",
        *("a | 191.3 | 54.3 | 9.56", "b | 161.7 | 54.5 | 9.51", "c | 162.4 | 54.3 | 9.53", "d | 5115.5 | 43.5 | 16.70"),
        *("e | 158.6 | 45.5 | 11.41", "f | 162.5 | 44.7 | 11.60"),
    ),
    "answers of stated lengths": rows(
        "Prompt | Latency (ms) | tokens/s | Generated",
        *("512 | 541.1 | 118.28 | 64", "1024 | 550.5 | 116.27 | 64", "2048 | 362.6 | 79.97 | 29"),
        *("4096 | 571.2 | 112.04 | 64", "8192 | 640.9 | 99.86 | 64"),
    ),
    "overhead of a thing that is not there": rows(
        "Checkpoint Interval | Checkpoints | Memory | Recompute Overhead",
        *("k = 1 | 48 | 2M | 100% (full recompute)", "k = 7 | 7 | 14M | 33%", "k = 12 | 4 | 16M | 25%"),
        "none | 0 | 48M | 0%",
    ),
    "cold runs": rows(
        "Run | Sampling (s) | Total (s)",
        *("a cold | 255.77 | 294.37", "a warm 1 | 226.80 | 227.26", "a warm 2 | 225.80 | 226.26"),
        *("b cold | 108.15 | 139.69", "b warm 1 | 96.38 | 96.86", "b warm 2 | 95.93 | 96.40"),
    ),
    "ends of other things": rows(
        "Aspect | Value",
        *("Minimum scaling (fresh) | 100%", "Maximum scaling (stalest) | 22.3%", "Average scaling | 52.5%"),
    ),
    "no GPU at all": rows("GPUs | Images/s", "0 | 9.5", "1 | 84.2", "2 | 161.0"),
    "few rows": rows(PRICES, *SEVERAL[:4], "run 6 | 55.93 | 171.01 | 500"),
    "a speed in seconds of another model": rows(
        "Size | " + SPEEDS,
        *("70B | 48 | 1 | 2048 | 124.01s | 130.00", "70B | 48 | 2 | 2048 | 129.61s | 124.38"),
        *("70B | 48 | 4 | 2048 | 113.95s | 141.47", "7B | 48 | 8 | 2048 | 11.64s | 145.68"),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_has_a_reason_is_not_accused(tmp_path, name):
    assert accusations(audited(tmp_path, SOUND[name])) == {}


ROUNDS = """\
       Count             Time, us                     Bandwidth, GB/s
                 avg       min       max        avg       min       max
       65536    76.46     72.62     82.30      24.00     25.27     22.30
      131072   121.82    118.44    130.64      30.13     30.99     28.10
"""


@pytest.mark.parametrize(
    ("old", "new", "is_accused"),
    [("", "", False), ("25.27     22.30", "22.30     25.27", False), ("72.62", "92.62", True)],
)
def test_the_least_time_has_the_highest_rate(tmp_path, old, new, is_accused):
    """Headings of times that are centred above two rounds of names; "min" of a rate may be that of the least time."""
    assert ("figure-impossible" in audited(tmp_path, f"# Times\n\n```\n{ROUNDS.replace(old, new)}```\n")) == is_accused


@pytest.mark.parametrize(("least", "is_accused"), [(1020, True), (980, False)])
def test_the_least_rate_without_times(tmp_path, least, is_accused):
    table = rows(
        "GPUs | min tokens/s | mean tokens/s | max tokens/s", f"1 | {least} | 985 | 990", "2 | 1900 | 1910 | 1920"
    )
    assert ("figure-impossible" in audited(tmp_path, table)) == is_accused


ERRORS = "Metric | Single GPU | FSDP (4 GPUs) | Relative Error"
MEMORY = "Memory per GPU | 737.84 MB | 187.65 MB | 3.9× savings"
TENFOLD = ("Loss, step 0 | 5.2134571 | 5.2134623 | {}", "Loss, step 9 | 4.8125519 | 4.8125582 | {}")


@pytest.mark.parametrize(
    ("errors", "is_named"),
    [
        (("0.00100%", "0.00131%"), True),
        (("0.00010%", "0.00013%"), False),  # right
        (("0.00100%", "0.00013%"), False),  # one of them is right
        (("0.00100%", "0.00272%"), False),  # of something else
        (("0.001%", "0.001%"), False),  # so coarse that a power of ten is near by chance
    ],
)
def test_relative_errors_that_are_all_ten_times_too_large(tmp_path, errors, is_named):
    table = rows(ERRORS, *(line.format(error) for line, error in zip(TENFOLD, errors, strict=True)), MEMORY)
    findings = audited(tmp_path, table + "\n" + rows("GPUs | tokens/s", "1 | 1000", "4 | 3700"))
    assert ("claim-not-in-data" in findings) == is_named
    if is_named:
        assert "0.00131%, but 4.8125519 and 4.8125582 are 0.00013% apart" in findings["claim-not-in-data"].evidence
