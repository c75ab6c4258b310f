"""Sound tables of public repositories that were once accused, each beside a faulty one of its form, which is named."""

import pytest
from markdown_tables import audited, rows

BATCHES = rows(
    "B | total (ms) | tokens/s",
    *("1 | 1126 | 113.7", "2 | 1042 | 245.9", "4 | 1048 | 489.1", "8 | 1044 | 982.9", "16 | 1060 | 1943.2"),
    *("32 | 1062 | 3922.1", "64 | 1093 | 7790.0", "128 | 1126 | 15858.2", "256 | 1235 | 31755.3"),
)
CACHED = rows("B | uncached (ms) | cached (ms) | Speedup", "1 | 4961 | 5439 | 0.91x", "4 | 9040 | 5325 | 1.70x")
CACHED += "\n| 8 | 15306 | 5252 | 2.91x |"
PHASES = rows(
    "| uncached | cached",
    *("TTFT (ms) | 8.6 | 10.0", "TPOT (ms/token) | 35.41 | 9.50", "total (ms) | 17678.4 | 4749.0"),
)
ABOUT_ONE = rows(
    "Kernel | Latency (ms) | Speedup",
    *("RMSNorm (PyTorch) | 0.300 | 1.0x", "RMSNorm (Triton) | 0.037 | 8.1x", "SwiGLU (PyTorch) | 0.180 | 1.0x"),
    *("SwiGLU (Triton) | 0.110 | 1.6x", "GEMM (cuBLAS) | 0.760 | 1.0x", "GEMM (Triton) | 0.740 | ~1.0x"),
    "GEMM (int8) | 0.730 | 1.04x",
)
PARTS = rows(
    "Part | Naive | Flat",
    *("forward | 0.155 s (13.9%) | 0.154 s (13.4%)", "backward | 0.295 s (26.3%) | 0.295 s (25.7%)"),
    *("sync | 0.398 s (35.5%) | 0.428 s (37.2%)", "optimizer | 0.272 s (24.3%) | 0.273 s (23.7%)"),
)
PERCENTILES = (
    rows(
        " | FP16 Latency (ms) Percentiles | | | FP32 Latency (ms) Percentiles | | | FP16/FP32 speed up",
        *(
            "BS | 90% | 99% | Avg | 90% | 99% | Avg | Avg",
            "8 | 54.80 | 66.23 | 52.95 | 130.65 | 132.91 | 129.82 | 2.45",
        ),
        *("16 | 73.02 | 75.83 | 71.96 | 157.53 | 160.73 | 155.51 | 2.16",),
        *("1 | 48.10 | 52.71 | 47.20 | 73.34 | 74.19 | 72.69 | 1.54",),
        *("2 | 64.21 | 65.56 | 56.06 | 129.48 | 131.78 | 126.36 | 2.25",),
    )
    + "\n"
    + rows("GPUs | tokens/s", "1 | 9", "2 | 17")
)
LARGEST_OF_ALL = "We trained on 4 nodes with 8 GPUs each.\n\n" + rows("GPUs | tokens/s", "8 | 90,000", "32 | 340,000")
OF_NODES = "We had 4 nodes with 8 GPUs each.\n\n" + rows(
    "Nodes | GPUs | tokens/s", "1 | 8 | 90,000", "4 | 32 | 340,000"
)
POWERS = "Bandwidth: `3996*10**6 * 1024 * 2 / 10**12 = 8.184` TBps\n\n" + rows("GPUs | tokens/s", "1 | 9", "2 | 17")
PRODUCT = "It takes **3 GPUs** x **8 GB** = 24 GB\n\n" + rows("GPUs | tokens/s", "1 | 9", "2 | 17")
TIMES = "batch_size,seq_len,B_c,time_ms\n" + "".join(
    f"5,4096,{n},{t}\n" for n, t in ((1, 23584.2), (2, 14491.4), (4, 9675.07))
)


@pytest.mark.parametrize("table", [BATCHES, CACHED, PHASES, ABOUT_ONE, PARTS, PERCENTILES, LARGEST_OF_ALL, OF_NODES])
def test_a_sound_table_is_not_accused(tmp_path, table):
    findings = audited(tmp_path, f"# Results\n\n{table}\n")
    assert [code for code, finding in findings.items() if finding.severity in ("suspect", "invalid")] == []


@pytest.mark.parametrize(
    ("table", "right", "wrong"),
    [
        (ABOUT_ONE, "8.1x", "3.1x"),
        (PERCENTILES, "2.25", "2.02"),
        (OF_NODES, "| 4 | 32 |", "| 4 | 64 |"),
    ],
)
def test_a_fault_in_it_is(tmp_path, table, right, wrong):
    findings = audited(tmp_path, f"# Results\n\n{table.replace(right, wrong)}\n")
    assert any(finding.severity in ("suspect", "invalid") for finding in findings.values())


@pytest.mark.parametrize(("last", "is_accused"), [("-2.0", False), ("-1", False), ("-7326.5", True)])
def test_a_small_number_below_zero_stands_for_none(tmp_path, last, is_accused):
    (tmp_path / "times.csv").write_text(f"{TIMES}5,4096,128,{last}\n")
    assert ("figure-impossible" in audited(tmp_path, "# Times\n")) == is_accused


@pytest.mark.parametrize(("latency", "differs"), [("0.224", False), ("1.261", True)])
def test_equal_memory_does_not_make_two_runs_one(tmp_path, latency, differs):
    heading = "Model | Latency (s) | Throughput (samples/s) | Epoch time (s) | Peak memory (GB)"
    first = rows(heading, "Qwen 7B | 1.260 | 0.790 | 113.8 | 13.81", "Qwen 2B | 0.244 | 4.101 | 61.42 | 4.431")
    rate, teacher = ("4.471", "0.771 | 120.9") if not differs else ("4.671", "0.790 | 113.8")
    second = rows(heading, f"Qwen 7B | {latency} | {teacher} | 13.81", f"Qwen 2B | 0.224 | {rate} | 61.42 | 4.431")
    (tmp_path / "other.md").write_text(f"# Results\n\n{second}\n")
    assert ("files-disagree" in audited(tmp_path, f"# Results\n\n{first}\n")) == differs


@pytest.mark.parametrize(("text", "is_noted"), [(POWERS, False), (PRODUCT, False), (PRODUCT.replace("24", "42"), True)])
def test_powers_are_no_bold_figures(tmp_path, text, is_noted):
    assert ("claim-not-in-data" in audited(tmp_path, f"# Results\n\n{text}\n")) == is_noted


def test_a_ratio_is_over_the_baseline_that_most_rows_follow(tmp_path):
    table = rows(
        "Dimension | GPUs | Batch size / GPU | Throughput [img/s] | Weak scaling",
        *(
            "2 | 1 | 32 | 748.56 | -",
            "2 | 1 | 64 | 804.23 | -",
            "2 | 1 | 128 | 881.87 | -",
            "2 | 8 | 32 | 5420.51 | 6.91",
        ),
        *(
            "2 | 8 | 64 | 6250.52 | 7.77",
            "2 | 8 | 128 | 6841.78 | 7.76",
            "3 | 1 | 1 | 11.63 | -",
            "3 | 1 | 2 | 11.81 | -",
        ),
        *("3 | 1 | 4 | 12.17 | -", "3 | 8 | 1 | 91.11 | 7.83", "3 | 8 | 2 | 92.91 | 7.87", "3 | 8 | 4 | 96.52 | 7.93"),
    )
    wrong = audited(tmp_path, f"# Results\n\n{table.replace('6.91', '5.91')}\n")["speedup-not-in-table"].evidence
    assert "5420.51 / 748.56" in wrong
    right = audited(tmp_path, f"# Results\n\n{table.replace('6.91', '7.24')}\n")
    assert "speedup-not-in-table" not in right
