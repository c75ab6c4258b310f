"""Sums and products of columns that all rows but one fulfil: wrong, right, and where another reason may be."""

import pytest
from markdown_tables import accusations, audited, rows

# Name -> (table with one figure that is wrong, that cell, the right one, code, words of the finding).
RELATIONS = {
    "ms a token": (
        rows("Model | tokens/s | ms/token", "7B | 81.3 | 12.3", "13B | 47.6 | 21.0", "70B | 11.2 | 98.3"),
        *("98.3", "89.3", "row-stands-out", "70B: 11.2 x 98.3 = 1,101"),
    ),
    "latency of one image": (
        rows("Model | Latency (ms) | FPS", "n | 3.1 | 322.6", "s | 4.8 | 208.3", "m | 9.6 | 134.2"),
        *("134.2", "104.2", "row-stands-out", "m: 9.6 x 134.2 = 1,288"),
    ),
    "cost of a million tokens": (
        rows(
            "GPU | $/h | tokens/s | $ per 1M tokens",
            *("L4 | 0.71 | 310 | 0.636", "A100 | 3.67 | 2400 | 0.425", "H100 | 6.98 | 5100 | 0.580"),
        ),
        *("0.580", "0.380", "totals-disagree", "H100: 6.98 / 5100 = 0.3802, given is 0.580"),
    ),
    "the parts of a step": (
        rows(
            "GPUs | Forward (ms) | Backward (ms) | Optimizer (ms) | Step time (ms)",
            *("1 | 41.2 | 88.4 | 10.1 | 139.7", "2 | 41.5 | 93.1 | 10.2 | 144.8", "4 | 41.9 | 99.7 | 10.2 | 161.8"),
        ),
        *("161.8", "151.8", "totals-disagree", "41.9 + 99.7 + 10.2 = 151.8, Step time (ms) 161.8"),
    ),
    "parts whose units are in their names": (
        rows(
            "gpus | forward_ms | backward_ms | optimizer_ms | total_ms",
            *(
                "1 | 101.2 | 203.4 | 22.1 | 326.7",
                "2 | 102.8 | 214.0 | 22.3 | 339.1",
                "4 | 103.1 | 229.6 | 22.2 | 345.9",
            ),
        ),
        *("345.9", "354.9", "totals-disagree", "103.1 + 229.6 + 22.2 = 354.9, total_ms 345.9"),
    ),
    "hours in all, fewer than those of a part": (
        rows("Stage | GPU hours", "tokenise | 12.5", "train | 410.0", "tune | 33.0", "**Total** | 355.5"),
        *("355.5", "455.5", "totals-disagree", "GPU hours 355.5 is given as the total of 12.5, 410.0, 33.0"),
    ),
    "a difference": (
        rows(
            "Epochs | DDP time (s) | FSDP time (s) | Difference (s)",
            *(
                "1 | 43.2 | 51.8 | 8.6",
                "2 | 86.9 | 103.1 | 16.2",
                "4 | 171.3 | 206.7 | 25.4",
                "8 | 344.0 | 411.2 | 67.2",
            ),
        ),
        *("25.4", "35.4", "totals-disagree", "171.3 + 25.4 = 196.7, FSDP time (s) 206.7"),
    ),
    "a relative difference": (
        rows(
            "Model | Eager (ms) | Compiled (ms) | Improvement (%)",
            *("R50 | 152.1 | 119.4 | 21.5", "BERT | 98.7 | 71.2 | 27.9", "GPT-2 | 203.4 | 160.9 | 30.9"),
        ),
        *("30.9", "20.9", "speedup-not-in-table", "GPT-2: Improvement (%) 30.9"),
    ),
    "a speed-up in brackets": (
        "## Throughput (tokens/s)\n\n"
        + rows(
            "Model | Baseline | Ours",
            *("125M | 41200 | 61800 (1.50x)", "350M | 17100 | 27360 (1.90x)", "1.3B | 5200 | 9360 (1.80x)"),
        ),
        *("1.90x", "1.60x", "speedup-not-in-table", "17100 / 27360 (1.90x) = 1.6"),
    ),
    "a change in brackets": (
        "## Step time (ms)\n\n"
        + rows(
            "Model | Eager | Compiled",
            *("125M | 112.0 | 84.0 (-25.0%)", "350M | 271.0 | 189.7 (-30.0%)", "1.3B | 804.0 | 643.2 (-35.0%)"),
        ),
        *("-35.0%", "-20.0%", "speedup-not-in-table", "643.2 (-35.0%) / 804.0 = 0.8"),
    ),
    "speed-ups over the row above": (
        rows(
            "Step | ms/iter | Speedup vs previous",
            *("Baseline | 1000 | -", "TF32 | 480 | 2.08x", "compile | 210 | 2.29x", "flash | 140 | 1.90x"),
        ),
        *("1.90x", "1.50x", "speedup-not-in-table", "flash: Speedup vs previous 1.90x"),
    ),
    "a mean of ranks, in the unit of the title": (
        "## Latency (ms)\n\n"
        + rows("Backend | Rank 0 | Rank 1 | Rank 2 | Mean ± std", "eager | 41.2 | 41.9 | 41.5 | 43.5 ± 0.3"),
        *("43.5", "41.5", "totals-disagree", "43.5 ± 0.3 is given as the mean of 41.2, 41.9, 41.5"),
    ),
    "a mean below one of several blocks of rows": (
        rows(
            "GPUs | run | epoch time (s)",
            *("1 | 1 | 100.1", "1 | 2 | 102.3", "1 | 3 | 101.2", "1 | avg | 101.2"),
            *("2 | 1 | 52.1", "2 | 2 | 53.3", "2 | 3 | 54.5", "2 | avg | 53.3"),
            *("4 | 1 | 28.1", "4 | 2 | 29.3", "4 | 3 | 27.2", "4 | avg | 29.1"),
        ),
        *("29.1", "28.2", "totals-disagree", "epoch time (s) 29.1 is given as the mean of 28.1, 29.3, 27.2"),
    ),
    "a total before its parts": (
        rows(
            "Config | Total (s) | Load (s) | Train (s) | Eval (s)",
            *("fp32 | 335.5 | 12.1 | 301.4 | 22.0", "bf16 | 244.0 | 12.0 | 190.2 | 21.8"),
        ),
        *("244.0", "224.0", "totals-disagree", "244.0 is given as the total of 12.0, 190.2, 21.8"),
    ),
    "costs that are more than their total": (
        rows("Stage | Hours | Cost ($)", "train | 88 | 176", "tune | 9 | 18", "eval | 5 | 10", "Total | 102 | 184"),
        *("184", "204", "totals-disagree", "Cost ($) 184 is given as the total of 176, 18, 10"),
    ),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_the_row_that_breaks_a_relation_is_named(tmp_path, name):
    table, _, _, code, words = RELATIONS[name]
    found = accusations(audited(tmp_path, table))
    assert list(found) == [code]
    assert words in found[code]


@pytest.mark.parametrize("name", RELATIONS)
def test_the_right_figure_is_not_accused(tmp_path, name):
    table, wrong, right, *_ = RELATIONS[name]
    assert table.count(wrong) == 1
    assert accusations(audited(tmp_path, table.replace(wrong, right))) == {}


SOUND = {
    "best runs below blocks of rows, which one of them calls a mean": rows(
        "GPUs | run | epoch time (s)",
        *("1 | 1 | 100.1", "1 | 2 | 102.3", "1 | 3 | 101.9", "1 | avg | 100.1"),
        *("2 | 1 | 52.1", "2 | 2 | 53.3", "2 | 3 | 54.5", "2 | avg | 52.1"),
    ),
    "time over messages and their size, where small ones are slow": rows("GPUs | tokens/s", "1 | 911", "2 | 1,702")
    + "\n\n"
    + rows(
        "Size | 个数 | 平均大小/MB | 速率/Mbps | 总时间/s | 平均时间/ms | 时间占比",
        *("1 MB | 34 | 0.31 | 2747.28 | 0.04 | 1.26 | 0.34%", "10 MB | 93 | 4.42 | 9489.68 | 0.52 | 5.60 | 4.08%"),
        *("20 MB | 11 | 15.55 | 9629.16 | 0.22 | 19.59 | 1.69%", "30 MB | 8 | 25.38 | 8861.49 | 0.28 | 34.78 | 2.18%"),
        *("40 MB | 3 | 35.27 | 9022.04 | 0.14 | 48.16 | 1.13%", "50 MB | 3 | 41.88 | 8079.28 | 0.19 | 63.47 | 1.49%"),
        *("60 MB | 2 | 53.63 | 9778.78 | 0.13 | 65.80 | 1.03%", "70 MB | 6 | 65.95 | 8827.43 | 0.55 | 91.19 | 4.28%"),
        *("80 MB | 6 | 75.21 | 9446.81 | 0.57 | 95.81 | 4.50%", "90 MB | 11 | 86.30 | 8851.71 | 1.3 | 118.02 | 10.16%"),
        "100 MB | 73 | 93.40 | 9313.05 | 8.83 | 121.02 | 69.13%",
    ),
    "changes of what is added up": rows(
        "Part | Formula | Measured | Error",
        *("Verify (ms) | 43.3 | 68.9 | +59%", "Draft (ms) | 67.3 | 128.1 | +90%", "Total (ms) | 110.6 | 197.0 | +78%"),
    ),
    "another batch": rows(
        "Batch | Latency (ms) | FPS", "1 | 3.1 | 322.6", "1 | 4.8 | 208.3", "4 | 9.6 | 416.7", "8 | 17.9 | 446.9"
    ),
    "measured apart": rows(
        "Model | Latency (ms) | FPS", "n | 3.1 | 322.6", "s | 4.8 | 201.2", "m | 9.6 | 114.2", "l | 17.0 | 51.2"
    ),
    "a peak of another device": rows(
        "Device | Kernel | TFLOPS | % of peak",
        *("A100 | a | 101.2 | 32.4", "A100 | b | 154.3 | 49.5", "A100 | c | 214.3 | 68.7", "H100 | a | 401.2 | 40.6"),
    ),
    "parts that overlap in one row": rows(
        "GPUs | Forward (ms) | Backward (ms) | Reduce (ms) | Step time (ms)",
        *("1 | 41.2 | 88.4 | 1.1 | 131.9", "2 | 41.5 | 93.1 | 10.2 | 144.9", "4 | 41.9 | 99.7 | 10.2 | 141.8"),
    ),
    "percentiles of a latency": rows(
        "Batch | Throughput (sent/s) | Latency-Average (ms) | Latency-99% (ms)",
        *("1 | 95.87 | 10.43 | 11.27", "2 | 168.02 | 11.90 | 12.02", "4 | 263.08 | 15.20 | 15.32"),
        *("8 | 379.78 | 21.07 | 21.20", "16 | 401.20 | 39.88 | 40.11"),
    ),
    "scaling of one precision beside the rate of another": rows(
        "GPUs | Throughput - mixed precision (seq/s) | Weak scaling - FP32",
        *("1 | 36 | 1.00", "4 | 137 | 3.81", "8 | 273 | 7.58", "16 | 551 | 13.00"),
    ),
    "a mark of thousands": rows(
        "GPUs | tok/s/GPU | Epoch time (s)",
        *("1 | 48.842 | 8.260", "8 | 30.756 | 1.640", "16 | 21.577 | 1.169", "32 | 13.642 | 924"),
    ),
    "an MFU beside an efficiency": rows(
        "GPUs | Efficiency | MFU (%)",
        *("1 | 1.000 | 54.1", "2 | 0.930 | 50.4", "4 | 0.826 | 44.7", "8 | 0.671 | 33.7", "64 | 0.188 | 10.0"),
    ),
    "an MFU of other steps than the rate": rows(
        "GPUs | tok/s/GPU | MFU",
        *("1 | 48,842.1 | 47.4%", "8 | 36,756.3 | 35.7%", "16 | 31,577.0 | 30.7%", "32 | 23,237.7 | 23.9%"),
    ),
    "times as long, in brackets": rows(
        "Tool | Command | Time",
        "rg | a | **0.082s (1.00x)**",
        "ag | b | 0.167s (2.04x)",
        "git grep | c | 0.273s (3.34x)",
    ),
    "small whole numbers": rows(
        "Layers | Heads | Batch | Tokens/s", "2 | 2 | 4 | 911", "4 | 2 | 6 | 702", "6 | 2 | 8 | 503", "8 | 4 | 8 | 404"
    ),
    "two rows that agree and one that does not": rows(
        "Run | Foo | Bar | Tokens/s", "a | 12.45 | 24.90 | 911", "b | 18.31 | 36.62 | 702", "c | 21.07 | 47.14 | 503"
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_may_have_another_reason_is_not_accused(tmp_path, name):
    assert accusations(audited(tmp_path, SOUND[name])) == {}
