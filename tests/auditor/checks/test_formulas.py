"""Columns that follow from others: a figure that breaks the formula of its table is named, a sound one is not."""

from pathlib import Path

import pytest
from markdown_tables import PERHAPS_NOTES

from scaleproof.auditor.audit import NoResult, audit_paths
from scaleproof.ground.findings.finding import Finding


def accusations(folder: Path, head: str, *lines: str) -> list[Finding]:
    """What the audit of a table says above a note; its cells are separated by bars."""
    rule = "|".join(["---"] * len(head.split("|")))
    table = "\n".join(f"| {line} |" for line in (head, rule, *lines))
    (folder / "README.md").write_text(f"# Results\n\n{table}\n")
    try:
        findings = audit_paths([folder]).findings
        return [finding for finding in findings if finding.severity != "note" or finding.code in PERHAPS_NOTES]
    except NoResult:  # of a table that is not understood nothing is said
        return []


# name -> (heading, lines, the wrong cell, the right one, code, what the finding says)
FORMS = {
    "methods over the row that is 1": (
        "Method | Time (s) | Speedup",
        ("Baseline | 102.2 | 1.0x", "Compiled | 80.1 | 1.28x", "Compiled + AMP | 51.0 | {}"),
        ("2.4x", "2.00x", "speedup-not-in-table", "102.2 / 51.0 = 2.004"),
    ),
    "a baseline without a figure": (
        "Method | tokens/s | Speedup",
        ("Baseline | 1022 | -", "Compiled | 1280 | 1.25x", "Compiled + AMP | 2410 | {}"),
        ("2.86x", "2.36x", "speedup-not-in-table", "2410 / 1022 = 2.358"),
    ),
    "percent more than the baseline": (
        "Method | tokens/s | vs baseline",
        ("Baseline | 1022 | -", "Compiled | 1280 | +25.2%", "Compiled + AMP | 2410 | {}"),
        ("+115.8%", "+135.8%", "speedup-not-in-table", "2410 / 1022"),
    ),
    "columns that the heading names": (
        "GPUs | Time to train - TF32 (h) | Time to train - AMP (h) | Time to train speedup (TF32 to AMP)",
        ("8 | 38.1 | 14.2 | {}",),
        ("2.00", "2.68", "speedup-not-in-table", "38.1 / 14.2 = 2.683"),
    ),
    "the larger over the smaller": (
        "Metric | Before | After | Improvement",
        (
            "Training speed | 50,164 tok/s | 95,337 tok/s | 1.90x",
            "Step | 52 ms | 28 ms | 1.86x",
            "Inference | 15.2 tok/s | 100.7 tok/s | {}",
        ),
        ("3.7x", "6.6x", "speedup-not-in-table", "15.2 tok/s / 100.7 tok/s = 6.625"),
    ),
    "over a baseline that is not in the table": (
        "Threads | Time (s) | Speedup",
        ("2 | 133.5 | 1.650", "4 | 87.82 | {}", "8 | 65.24 | 3.377", "16 | 41.03 | 5.369", "32 | 30.11 | 7.316"),
        ("2.908", "2.508", "row-stands-out", "2.908 x 87.82"),
    ),
    "a table on its side": (
        "Figure | Baseline | Compiled | AMP",
        ("Step time (ms) | 100.2 | 80.1 | 51.0", "Speedup | 1.0 | 1.25 | {}"),
        ("2.4", "1.96", "speedup-not-in-table", "100.2 / 51.0 = 1.965"),
    ),
    "rate x time": (
        "GPUs | Images/s | Epoch time (s)",
        ("1 | 100 | 56.0", "2 | 190 | 29.5", "4 | {} | 15.53", "8 | 700 | 8.00", "16 | 1300 | 4.31"),
        ("402", "361", "row-stands-out", "402 x 15.53"),
    ),
    "the global batch": (
        "GPUs | Micro batch | Grad acc | Global batch | tokens/s",
        ("1 | 4 | 8 | 32 | 100.1", "2 | 4 | 4 | 32 | 190.2", "4 | 4 | {} | 32 | 350.3"),
        ("4", "2", "row-stands-out", "in 2 other rows 1"),
    ),
    "a row of means": (
        "Run | img/s | Epoch (s)",
        ("1 | 100.2 | 51.0", "2 | 103.1 | 49.7", "3 | 101.4 | 50.4", "Average of 3 runs | {} | 50.4"),
        ("107.9", "101.6", "totals-disagree", "the mean of 100.2, 103.1, 101.4"),
    ),
    "the mean of numbered runs": (
        "GPUs | Run 1 (s) | Run 2 (s) | Run 3 (s) | Average (s)",
        ("1 | 10.1 | 12.3 | 11.2 | {}",),
        ("12.2", "11.2", "totals-disagree", "the mean of 10.1, 12.3, 11.2"),
    ),
    "the mean of numbered rows": (
        "Seed | Step time (ms)",
        ("0 | 101.2", "1 | 110.3", "2 | 104.1", "Mean | {}"),
        ("108.9", "105.2", "totals-disagree", "the mean of 101.2, 110.3, 104.1"),
    ),
    "a total of which one part is nothing": (
        "GPUs | Compute (ms) | Comm (ms) | Total (ms)",
        ("1 | 100.0 | 0.0 | 100.0", "2 | 50.2 | 6.1 | 56.3", "4 | 25.3 | 9.2 | {}"),
        ("39.5", "34.5", "totals-disagree", "the total of 25.3, 9.2"),
    ),
    "the mark of a baseline": (
        "GPUs | img/s | Efficiency",
        ("1 | 100 | {}", "2 | 190 | 95%", "4 | 360 | 90%"),
        ("95%", "100%", "efficiency-not-in-table", "all 2 others are over this row"),
    ),
    "FLOP/s of a model": (
        "Params | tokens/s/GPU | TFLOP/s/GPU",
        ("7B | 3500 | 150", "13B | 1900 | 148", "70B | 350 | {}"),
        ("15", "148", "mfu-impossible", "0.65 FLOPs for each of 70B parameters"),
    ),
    "MFU of a model": (
        "Model | GPU | tokens/s/GPU | MFU",
        ("Llama 13B | H100 | 5200 | 50%", "Llama 70B | H100 | {} | 45%"),
        ("90", "900", "mfu-impossible", "training takes 6"),
    ),
    "memory of one device and of all": (
        "GPUs | tokens/s | Memory per GPU (GB) | Total memory (GB)",
        ("2 | 190 | 30.2 | 60.4", "4 | 380 | 28.1 | 112.4", "8 | 740 | 26.0 | {}"),
        ("268.0", "208.0", "totals-disagree", "26.0 per device x 8 = 208"),
    ),
    "the only two columns of one unit": (
        "B | D | Eager (ms) | Fused (ms) | Speedup",
        (
            "64 | 4096 | 0.99 | 0.35 | 2.8x",
            "256 | 2048 | 0.74 | 0.27 | 2.7x",
            "256 | 4096 | 2.34 | 0.83 | 2.8x",
            "1024 | 2048 | 3.10 | 1.14 | {}",
            "1024 | 4096 | 8.71 | 3.12 | 2.8x",
        ),
        ("8.7x", "2.7x", "speedup-not-in-table", "3.10 / 1.14"),
    ),
    "two columns with a unit in each cell": (
        "Requests | Ours | Theirs | Speedup",
        (
            "1 | 98 tok/s | 38 tok/s | 2.6x",
            "4 | 349 tok/s | 130 tok/s | {}",
            "16 | 1062 tok/s | 292 tok/s | 3.6x",
        ),
        ("4.7x", "2.7x", "speedup-not-in-table", "349 tok/s / 130 tok/s"),
    ),
    "the two columns that share a word with the heading": (
        "Length | Old eager (ms) | New eager (ms) | Old fused (ms) | New fused (ms) | Old speedup | New speedup",
        (
            "16 | 483.94 | 273.54 | 113.81 | 99.93 | 4.25x | 2.74x",
            "64 | 15839.38 | 4116.18 | 537.60 | 534.28 | 29.46x | {}",
        ),
        ("10.01x", "7.70x", "speedup-not-in-table", "4116.18 / 534.28 = 7.704"),
    ),
    "one row, and both columns in the heading": (
        "GPUs | BF16 tokens/sec | MXFP8 tokens/sec | MXFP8 speedup vs BF16",
        ("512 | 6169 | 7401 | {}",),
        ("1.80x", "1.20x", "speedup-not-in-table", "7401 / 6169 = 1.2"),
    ),
    "a ratio as exact as rounding": (
        "B | Eager (ms) | Fused (ms) | Speedup",
        ("64 | 3.36 | 1.01 | 3.3x", "256 | 2.21 | 0.62 | {}", "512 | 8.65 | 2.61 | 3.3x", "1024 | 28.86 | 9.22 | 3.1x"),
        ("3.3x", "3.6x", "speedup-not-in-table", "2.21 / 0.62 = 3.565"),
    ),
    "a difference to the first row": (
        "Method | Memory | Memory savings",
        ("Adam | 510.83 MB | -", "A | 2.92 MB | 507.91 MB", "B | 5.37 MB | {}", "C | 10.25 MB | 500.58 MB"),
        ("550.46 MB", "505.46 MB", "speedup-not-in-table", "5.37 MB - 510.83 MB"),
    ),
    "a unit that was lost": (
        "Batch | Throughput - TF32 | Throughput - mixed precision | Throughput speedup (mixed precision to TF32)",
        ("2048 | 1.30M | {} | 1.01",),
        ("1.31", "1.31M", "speedup-not-in-table", "speedup (mixed precision to TF32) 1.01"),
    ),
    "a gain in times": (
        "Setup | Epoch time | Gain",
        ("1 GPU | 120 s | -", "4 GPUs | 35 s | {}"),
        ("4.1x", "3.4x", "speedup-not-in-table", "120 s / 35 s = 3.429"),
    ),
    "a reduction": (
        "Method | Time (h) | Reduction",
        ("Baseline | 10.0 | -", "A | 8.0 | 20%", "B | 6.5 | {}"),
        ("45%", "35%", "speedup-not-in-table", "6.5 / 10.0 = 0.65"),
    ),
    "a column of totals": (
        "GPUs | Forward (ms) | Backward (ms) | Step (ms) | Total (ms)",
        ("1 | 30.2 | 63.1 | 11.4 | 104.7", "2 | 31.0 | 69.7 | 10.4 | 111.1", "4 | 37.1 | 66.2 | 12.9 | {}"),
        ("136.2", "116.2", "totals-disagree", "the total of 37.1, 66.2, 12.9"),
    ),
    "a row of totals": (
        "Phase | DDP (s) | FSDP (s)",
        ("Forward | 30.2 | 40.1", "Backward | 61.0 | 80.3", "Optimizer | 7.1 | 5.2", "Total | 98.3 | {}"),
        ("145.6", "125.6", "totals-disagree", "the total of 40.1, 80.3, 5.2"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_figure_that_breaks_the_formula_of_its_table_is_named(tmp_path, form):
    head, lines, (wrong, _, code, text) = FORMS[form]
    findings = accusations(tmp_path, head, *(line.format(wrong) for line in lines))
    assert code in {finding.code for finding in findings}
    assert text in " ".join(finding.evidence for finding in findings)


@pytest.mark.parametrize("form", FORMS)
def test_the_sound_table_is_not_accused(tmp_path, form):
    head, lines, (_, right, _, _) = FORMS[form]
    assert accusations(tmp_path, head, *(line.format(right) for line in lines)) == []


SOUND = {
    "speed-ups over the first row beside two columns of times": (
        "GPUs | Step time (s) | Data time (s) | Speedup",
        ("1 | 1.00 | 0.10 | 1.00x", "2 | 0.52 | 0.06 | 1.92x", "4 | 0.27 | 0.03 | 3.70x"),
    ),
    "ratios that were cut off": (
        "Tokens | Plain (ms) | Fused (ms) | Speedup",
        ("298 | 2.99 | 1.01 | 2.9x", "998 | 5.55 | 1.50 | 3.6x", "1998 | 9.05 | 2.03 | 4.4x"),
    ),
    "savings over runs that are not in the table": (
        "Method | Memory | Memory savings",
        ("A | 40.0 GB | 3.0 GB", "B | 38.0 GB | 2.0 GB", "C | 30.0 GB | 9.5 GB", "D | 28.0 GB | 4.0 GB"),
    ),
    "one speed-up of each column": (
        "Method | Forward | Fwd+Bwd | Speedup",
        (
            "BF16 | 2.00ms | 4.79ms | 1.00x",
            "FP8 row | 1.84ms | 4.55ms | 1.08x",
            "FP8 | 1.45ms | 4.06ms | 1.38x",
            "FP8 row, eager | 2.89ms | 21.86ms | 0.23x",
        ),
    ),
    "twice the batch on two devices": (
        "Config | Step (ms) | Throughput (s/s)",
        ("Single GPU | 139.86 | 229", "DDP (2GPU) | 145.48 | 440", "FSDP | 150.27 | 426", "GradOp | 143.25 | 447"),
    ),
    "over a rough time of the whole run": (
        "Run | step ms | peak GiB | full epoch | vs P0",
        (
            *("P0 | 1881 | 76.6 | ~147 min | 1.00x", "P1 | 1763 | 65.1 | 138 min | 1.07x"),
            *("P2 | 1656 | 64.9 | 130 min | 1.13x", "P4, packed | 3192 | 64.9 | 43 min | 3.42x"),
        ),
    ),
    "an MFU beside steps": (
        "Run | step ms | tokens/s/GPU | MFU active%",
        ("native baseline | 1656 | 9893 | 22.8%", "ZeRO-2 | - | - | -", "offload | 17505 | 936 | 2.2%"),
    ),
    "a change of memory, how complete parts are": (
        "Part | peak mem | tokens/s | Completion",
        ("a | +108% | 911 | 100%", "b | +20% | 702 | 100%", "c | +9% | 503 | 100%", "TOTAL | - | - | 100%"),
    ),
    "all over a baseline elsewhere": (
        "Method | tokens/s | Speedup",
        ("A | 1000 | 1.00x", "B | 1250 | 1.50x", "C | 1500 | 1.80x", "D | 2000 | 2.40x"),
    ),
    "a speed-up in percent of the time of something else": (
        "Method | Retrieve (ms) | Speedup %",
        ("none | 0.0477 | 0", "kv | 0.0380 | 14.02", "tiered | 0.0383 | 13.79", "overlap | 0.0529 | 15.05"),
    ),
    "a network called faster": (
        "Source | Mask R-CNN R-50 | Mask R-CNN X-101 | Faster R-CNN R-50",
        (
            "step time P100 (s) | 0.620 | 0.961 | 0.566",
            "step time V100 (s) | 0.4 | 0.8 | 0.5",
            "train time (h) | 8 | 16 | 9",
        ),
    ),
    "means of ratios": (
        "Metric | A vs B | C vs B | C vs A",
        (
            "Mean Speedup | 0.13x | 0.24x | 0.84x",
            "Max Speedup | 0.40x | 1.24x | 3.10x",
            "Min Speedup | 0.02x | 0.06x | 0.30x",
        ),
    ),
    "changes in other units": (
        "Metric | Before | After | Improvement",
        (
            "Throughput | 50,164 tok/s | 95,337 tok/s | +45,173 tok/s",
            "Speedup | 1.00x (baseline) | 1.90x | +90%",
            "GPU utilization | ~35% | ~92% | +57%",
            "Memory used | ~12 GB | ~70 GB | +58 GB",
            "Training time | ~3 hours | ~1.6 hours | -1.4 hours",
        ),
    ),
    "a share with its sign before its name": (
        "disk | %util | MB/s",
        ("md0 | 99.00 | 1412", "md1 | 97.20 | 1388", "md2 | 98.40 | 1402"),
    ),
    "a share that its author calls impossible": (
        "Program | MFU | tokens/s",
        ("nanoGPT | 300% (impossible!) | 1412", "ours | 45% | 1388"),
    ),
    "the mean of the runs after a warm-up": (
        "GPUs | Run 1 (s) | Run 2 (s) | Run 3 (s) | Average (s)",
        ("1 | 18.1 | 12.3 | 11.2 | 11.75",),
    ),
    "savings without a total": (
        "State | DDP | ZeRO-1 | Memory saved",
        (
            "Weights | 0.5 GB | 0.5 GB | 0%",
            "Gradients | 0.5 GB | 0.5 GB | 0%",
            "Optimizer | 2.0 GB | 0.5 GB | 75%",
            "Total | 3.0 GB | 1.5 GB | 50%",
        ),
    ),
    "a weighted mean of sizes": (
        "GPUs | tokens/s",
        ("1 | 1000", "2 | 1900", "Average | 1700"),
    ),
    "rows of means of several figures": (
        "Figure | ours | others",
        ("runs | 10 | 13", "steps | 1385 | 1398", "mean val_loss | 3.2785 | 3.2789", "step time (ms) | 51 | 53"),
    ),
}


@pytest.mark.parametrize("form", SOUND)
def test_what_has_another_reason_is_not_accused(tmp_path, form):
    head, lines = SOUND[form]
    assert accusations(tmp_path, head, *lines) == []


@pytest.mark.parametrize(
    ("efficiencies", "codes"),
    [(("50%", "47.5%", "45%"), ["baseline-below-one"]), (("100%", "95%", "90%"), [])],
)
def test_ratios_of_nodes_are_those_of_devices(tmp_path, efficiencies, codes):
    lines = (
        f"{n} | {speedup} | {e}"
        for n, speedup, e in zip((2, 4, 8), ("1.00", "1.90", "3.60"), efficiencies, strict=True)
    )
    findings = accusations(tmp_path, "Nodes | Speedup | Efficiency", *lines)
    assert [finding.code for finding in findings] == codes
    assert all("2 nodes: speed-up 1" in finding.evidence for finding in findings)
