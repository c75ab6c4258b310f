"""Faults of everyday tables that no check of a single column sees; and tables that only look like them."""

import pytest
from markdown_tables import accusations, audited, rows

SCALING = "GPUs | Ideal Speedup | Real Speedup | Efficiency"
SIZES = "Model | Params | GPUs | MFU | Tokens/sec/GPU"
PHASES = "Run | Forward (s) | Backward (s) | Step (s) | TFLOPS/GPU"
FLOPS = "Run | TFLOPS/GPU | MFU"
POWER = "Model | GPU power | GPU-hours | Total power consumption"
BILL = "Run | GPU | $/hr | Hours | Cost"
GRIDS = "Grid Size | GPUs | Time (s) | Speedup | Efficiency"
FASTER = "Model | Training Time | Speedup vs Serial"
PEAKS = "Model | GPU | TFLOP/s/GPU (bf16) | MFU"
MODES = "Mode | GPUs | Samples/sec | Scaling Efficiency"
RATES_OF_TWO = rows("GPUs | tokens/s", "1 | 900", "2 | 1700") + "\n"
WORKERS = RATES_OF_TWO + rows(
    "p | Tp (s) | Sp = T1/Tp | Ep = Sp/p",
    *("1 | 10.0071 | 1.000 | 1.000", "2 | 5.0032 | 2.000 | 1.000", "3 | 3.40258 | 2.941 | 0.980"),
    *("4 | 2.60268 | 3.845 | {}", "5 | 2.00262 | 4.997 | 0.999"),
)
MODES_OF_13B = rows(
    "Model | GPUs | Throughput (T/s) | Throughput (T/s/GPU) | MP Mode",
    *("13b | 64 | 307209 | 4800 | DEFAULT", "13b | 32 | 153960 | {} | DEFAULT", "13b | 16 | 76280 | 4767 | DEFAULT"),
)
BATCHES_IN_TOKENS = rows(
    "GPUs | Global batch | SeqLen (T) | GlobalBatchSize (T)",
    *("8 | 512 | 2048 | 1048576", "16 | 1024 | 2048 | 2097152", "64 | 2048 | 2048 | {}", "128 | 4096 | 2048 | 8388608"),
)
DEFAULTS = rows(
    "Config | GPUs | Throughput (T/s) | Throughput (T/s/GPU)",
    *("Default | 8 | 100 | 100", "A | 4 | 400 | 100", "B | 2 | 202 | 101", "C | 2 | 204 | 102"),
)
OWN_EFFICIENCY = rows(
    "Threads | Time (s) | Speedup | Efficiency",
    *("1 | 2.094 | 1.00x | -", "2 | 1.340 | 1.56x | 50.0%", "3 | 1.037 | 2.02x | 33.3%", "4 | 0.874 | 2.40x | 60.0%"),
)

FAULTS = {
    "a speed-up beside the ideal one": (
        rows(SCALING, "2 | 2× | 1.9× | 95%", "4 | 4× | 3.6× | 90%", "8 | 8× | 6.8× | 58%", "16 | 16× | 12.8× | 80%"),
        "efficiency-not-in-table",
        "58%, but its speed-up is 6.8×",
    ),
    "fewer FLOPs than parameters": (
        rows(SIZES, "GPT on A100 | 1.3B | 8 | 52.1% | 14200", "GPT on A100 | 13B | 128 | 53.2% | 13600"),
        "mfu-impossible",
        "0.94 FLOPs for each of 13B parameters",
    ),
    "a sum of columns": (
        rows(
            PHASES,
            *("a | 223.2 | 992.0 | 1215.2 | 165.1", "b | 185.4 | 780.9 | 966.3 | 209.8"),
            *("c | 183.1 | 748.7 | 831.8 | 218.8", "d | 219.1 | 988.9 | 1208.0 | 165.6"),
        ),
        "totals-disagree",
        "183.1 + 748.7 = 931.8, Step (s) 831.8",
    ),
    "the baseline's own efficiency": (
        rows("GPUs | Images/s | Efficiency", "1 | 406.0 | 50%", "2 | 804.1 | 99.0%", "4 | 1,571.4 | 96.8%"),
        "efficiency-not-in-table",
        "Efficiency 50%, but all 2 others are over this row",
    ),
    "a bill in cents": (
        rows(
            BILL,
            *("a | RTX 5090 | 0.360 | 1.50 | $0.94", "b | RTX 5090 | 0.337 | 1.31 | $0.44"),
            *("c | RTX 3090 | 0.130 | 1.46 | $0.19", "d | RTX 3090 | 0.211 | 2.25 | $0.47"),
        ),
        "totals-disagree",
        "0.360 x 1.50",
    ),
    "a speed-up on a grid": (
        rows(
            GRIDS,
            "257×257 | 1 | 0.124 | 1.0× | 100%",
            "257×257 | 2 | 0.071 | 1.75× | 87%",
            "257×257 | 4 | 0.042 | 2.15× | 54%",
        ),
        "speedup-not-in-table",
        "2.15×",
    ),
    "an efficiency by threads": (
        rows(
            "Threads | Time (s) | Speedup | Efficiency",
            *(
                "1 | 464.1 | 1.00x | 100%",
                "4 | 118.5 | 3.92x | 98%",
                "8 | 63.3 | 7.34x | 92%",
                "16 | 34.4 | 13.49x | 48%",
            ),
        ),
        "efficiency-not-in-table",
        "16 threads: efficiency 48%, but its speed-up is 13.49x with 16 times the threads",
    ),
    "efficiencies by threads, as the text defines them": (
        "Efficiency: speedup / number of threads.\n\n" + OWN_EFFICIENCY,
        "efficiency-not-in-table",
        "3 threads: efficiency 33.3%, but its speed-up is 2.02x",
    ),
    "an efficiency whose heading is its formula": (
        WORKERS.format("0.861"),
        "efficiency-not-in-table",
        "4: Ep = Sp/p: 0.861, but 3.845 / 4 = 0.961",
    ),
    "a rate of one device beside a mode": (
        MODES_OF_13B.format(4181),
        "totals-disagree",
        "4181 per device x 32 = 133,792, the total is given as 153960",
    ),
    "a lost digit of the tokens of a batch": (
        RATES_OF_TWO + BATCHES_IN_TOKENS.format(419430),
        "totals-disagree",
        "2048 x 2048 = 4,194,304, given is 419430; 3 other rows follow this",
    ),
    "an MFU beside rows of one peak": (
        rows(PEAKS, "1B | H100 SXM | 371 | 37.5%", "3B | H100 SXM | 388 | 39.2%", "7B | H100 SXM | 402 | 61.0%"),
        "peak-of-another-device",
        "MFU 61.0% of 402 is of 659 TFLOP/s; H100 SXM has 989",
    ),
    "DataParallel over a single GPU": (
        rows(
            MODES,
            "Single GPU | 1 | 15.2 | 100%",
            "DataParallel | 4 | 48.5 | 60%",
            "DDP | 4 | 58.1 | 96%",
            "DDP | 8 | 115.8 | 95%",
        ),
        "efficiency-not-in-table",
        "60%",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_named_and_nothing_else(tmp_path, name):
    table, code, words = FAULTS[name]
    found = accusations(audited(tmp_path, table))
    assert code in found
    assert words in found[code]


SOUND = {
    "a speed-up beside the ideal one": rows(
        SCALING, "2 | 2× | 1.9× | 95%", "4 | 4× | 3.6× | 90%", "8 | 8× | 6.8× | 85%"
    ),
    "experts are not all used": rows(
        SIZES, "GPT on A100 | 1.3B | 8 | 52.1% | 14200", "MoE GPT on A100 | 13B | 128 | 53.2% | 13600"
    ),
    "fp8 has another peak": rows(
        SIZES, "GPT on H100 | 7B | 8 | 40.0% | 45000", "GPT on H100 | 13B | 8 | 42.0% | 21000"
    ),
    "a step has other parts": rows(
        PHASES,
        *("a | 223.2 | 992.0 | 1235.2 | 165.1", "b | 185.4 | 780.9 | 976.3 | 209.8"),
        *("c | 183.1 | 748.7 | 931.8 | 218.8", "d | 219.1 | 988.9 | 1218.0 | 165.6"),
    ),
    "an MFU of another precision": rows(
        FLOPS, "bf16 | 51.36 | 6.53%", "bf16, late | 64.79 | 8.24%", "fp8 | 134.37 | 8.545%", "tf32 | 134.86 | 34.3%"
    ),
    "an MFU with recomputed activations, and of tf32": rows(
        PEAKS,
        *("1B | H100 SXM | 371 | 37.5%", "3B | H100 SXM | 388 | 39.2%", "4B | H100 SXM | 388 | 39.2%"),
        *("7B | H100 SXM | 402 | 30.5%", "7B tf32 | H100 SXM | 402 | 81.3%"),
    ),
    "an MFU with recomputed activations, in tf32": rows(
        "GPU | Precision | TFLOP/s per GPU | MFU", "H100 SXM | tf32 | 264 | 40.0%"
    ),
    "an efficiency whose heading is its formula": WORKERS.format("0.961"),
    "a heading with another quotient": WORKERS.format("0.861").replace("Ep = Sp/p", "Ep = Sp/w"),
    "a rate of one device beside a mode": MODES_OF_13B.format(4811),
    "the tokens of a batch": RATES_OF_TWO + BATCHES_IN_TOKENS.format(4194304),
    "a column of defaults": DEFAULTS,
    "an efficiency of its own beside threads": OWN_EFFICIENCY,
    "an efficiency over nodes, which are no column": "Efficiency: speedup / nodes.\n\n" + OWN_EFFICIENCY,
    "an efficiency over one device": rows(
        "GPUs | Images/s | Efficiency", "2 | 790.0 | 97%", "4 | 1,550.1 | 95%", "8 | 3,010.4 | 92%"
    ),
    "a bill with storage": rows(
        BILL,
        "a | RTX 5090 | 0.360 | 1.50 | $0.94",
        "b | RTX 5090 | 0.337 | 1.31 | $0.84",
        "c | RTX 3090 | 0.130 | 1.46 | $0.59",
    ),
    "a larger grid has a baseline of its own": rows(
        GRIDS,
        *("257×257 | 1 | 0.124 | 1.0× | 100%", "257×257 | 2 | 0.071 | 1.75× | 87%"),
        *("257×257 | 4 | 0.042 | 2.95× | 74%", "513×513 | 4 | 0.189 | 3.1× | 78%"),
    ),
    "devices of two kinds": rows(
        "Devices | Training Time | Speedup | Efficiency",
        *("1x XPU | 100.0s | 1.0x | 100%", "2x XPU | 52.0s | 1.92x | 96%"),
        *("4x XPU | 27.5s | 3.64x | 91%", "2x XPU + 2x CUDA | 25.0s | 4.0x | 100%"),
    ),
    "two models on one page": rows(
        "Size | GPU | Sequences/Sec | Walltime (days)",
        *("126M | A100 | 2098.16 | 0.85", "5B | A100 | 594.13 | 2.99", "126M | A100 | 2526.72 | 0.70"),
        *(
            "5B | A100 | 718.19 | 2.48",
            "175B | A100 | 20.44 | 65.24",
            "5B | A100 | 1657.24 | 1.07",
            "175B | A100 | 51.0 | 26.15",
        ),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_only_looks_like_it_is_not_accused(tmp_path, name):
    assert accusations(audited(tmp_path, SOUND[name])) == {}


def test_efficiencies_of_another_definition_are_noted_by_threads_as_by_devices(tmp_path):
    for heading in ("Threads", "GPUs"):
        found = audited(tmp_path, OWN_EFFICIENCY.replace("Threads", heading))["efficiency-not-in-table"]
        assert (found.severity, found.corrected, heading) == ("note", None, heading)
