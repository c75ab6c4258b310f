"""What figures of strangers may mean beside what their neighbours suggest: nobody is accused of it."""

from pathlib import Path

import pytest
from markdown_tables import accusations, audited, rows

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.findings.finding import Finding

RATES = rows("GPUs | tokens/s", "1 | 911", "2 | 1,702")

# text with a place -> (a figure that is right, one that is not)
SENTENCES = {
    "Steps of 128, 512 and 2048 tokens take 36.5→40.7→51.4ms ({})": ("+41%", None),
    "The step went from 36.5 → 51.4ms ({})": ("+41%", "+14%"),
    "The tail saves 5.27 → 2 ms × 28 token = {} ms": ("92", None),
    "Scenarios 2·4·5·6·7 = {}, each once": ("1", None),
    "For 50K chunks at 769 dims × 4 bytes = ~{}MB": ("150", None),
    "On the top-left 64×16 block = **{}**": ("0.0002", None),
    "S=64 228→53ns ({})": ("~4.3×", "~8.3×"),
    "`64 KiB / 16 = {}`": ("4096", "5096"),
    "The tile of floats takes 64 × 65 = {} B": ("16,640", "12,640"),
    "The floor gives `6250 / 3072 = {}`": ("3", "4"),
    "**Intensity**: `17.2 GFLOP / 48 MB ≈ {} FLOP/byte`": ("358", "858"),
}


@pytest.mark.parametrize("text", SENTENCES)
def test_what_is_written_out(tmp_path, text):
    right, wrong = SENTENCES[text]
    assert not accusations(audited(tmp_path, f"{RATES}\n{text.format(right)}\n"))
    if wrong:
        findings = audited(tmp_path, f"{RATES}\n{text.format(wrong)}\n")
        assert findings["claim-not-in-data"].severity == "note"


# heading, lines with a place -> (a figure that is right, one that is not)
TABLES = {
    ("Workload | tok/s | GPU util med % (p95)", "a | 60 | 94 (95)", "b | 400 | {}"): ("80 (94)", None),
    ("Workload | tok/s | GPU util %", "a | 60 | 94%", "b | 400 | {}"): ("80%", "180%"),
    ("Load | TRT | masked | Δ", "b1 | 30.4 ms | 25.4 | −16 %", "b2 | 39.0 | 30.9 | {}", "b4 | 47.3 | 36.4 | −23 %"): (
        "−21 %",
        None,
    ),
    (
        "Task | fp16 | base | Turbo | CARE | Δ vs base | Δ vs Turbo",
        *("MMLU | 0.56 | 0.56 | 0.51 | 0.52 | −0.04 | +0.01", "ARC | 0.53 | 0.51 | 0.52 | 0.51 | +0.00 | −0.01"),
        *("norm | 0.55 | 0.53 | 0.48 | 0.54 | +0.01 | +0.06", "LAMBADA | 0.85 | 0.81 | 0.85 | 0.86 | +0.05 | {}"),
    ): ("+0.01", None),
    (
        "Metric | Baseline | SonicMoE | Improvement",
        *("Latency | 1.0x | 1.86x | 86% faster", "Memory | 1.0x | 0.55x | {}", "Experts | 100% | 116% | 16% higher"),
        "Tokens/day | 100B | 186B | 86% increase",
    ): ("45% reduction", "15% reduction"),
    ("case | pesto | nyuu | pesto/nyuu", "a | 1477 MiB/s | 1333 | 1.11x", "b | 1355 | 475 | {}"): ("2.85x", None),
    ("GPUs | NNODES | TP | PP", "96 | 12 | 8 | 12", "128 | 16 | 8 | 16", "256 | 32 | 8 | 16", "512 | 64 | {} | 16"): (
        "1",
        None,
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_figures_of_a_column_that_mean_two_things(tmp_path, table):
    right, wrong = TABLES[table]
    text = f"{RATES}\n{rows(*table)}"
    assert not accusations(audited(tmp_path, text.format(right)))
    assert wrong is None or accusations(audited(tmp_path, text.format(wrong)))


KERNELS = ("a | 120.1 | 60.0 | 2.00x", "b | 90.4 | 30.1 | 3.00x", "c | 80.2 | 20.0 | 4.01x", "d | 70.3 | 35.1 | {}")
OF_GPUS = ("8B, 1 | 173.8 | 231.7 | 1.33x", "8B, 8 | 803.1 | 599.7 | 0.75x", "70B, 1 | 45.81 | 44.1 | 1.93x")


def test_few_witnesses_make_a_note(tmp_path):
    """ "Normalized to the GPU count", says the page: twice the ratio for 70B, whose baseline runs on two."""
    findings = audited(tmp_path, rows("Batch | Eager (ms) | Fused (ms) | Speedup", *KERNELS).format("3.00x"))
    assert findings["speedup-not-in-table"].severity == "suspect"
    lines = (*OF_GPUS, "70B, 8 | 182.6 | 94 | 1.03x")
    findings = audited(tmp_path, rows("Model, batch | BF16 tok/s | INT4 tok/s | Speedup", *lines))
    assert findings["speedup-not-in-table"].severity == "note"


def of_files(folder: Path, texts: dict[str, str], passed_over: str = "note") -> set[str]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    findings: list[Finding] = audit_paths([folder]).findings
    return {finding.code for finding in findings if finding.severity != passed_over}


ASKED = "tag,num_tokens,decode_tokens,total_ms,tok_per_s\n" + "".join(
    f"{row}\n"
    for row in (
        "w1,50,49,2742,18.2",
        "c1,50,49,2796,17.9",
        "w2,50,49,2806,17.8",
        "w3,50,{},2446,12.3",
        "k1,50,49,3117,16",
    )
)


@pytest.mark.parametrize(("count", "is_named"), [(29, False), (49, True)])
def test_an_answer_that_ended_early(tmp_path, count, is_named):
    """12.3 tokens/s for 2.446 s are 30 of the 50 tokens; that 29 came stands beside them."""
    assert ("totals-disagree" in of_files(tmp_path, {"summary.csv": ASKED.format(count)})) == is_named


OF_8B = "model,label,tp,pp,tps\n" + "".join(f"8b,p{k},{k},1,{1500.5 + 7 * k}\n" for k in range(1, 7))
OF_70B = OF_8B + "".join(f"70b,p{k},{k},1,{900.5 + 7 * k}\n" for k in range(7, 9))


@pytest.mark.parametrize(("size", "is_named"), [("8b", True), ("70b", False)])
def test_models_of_two_sizes_are_two(tmp_path, size, is_named):
    other = "cell,label,tp,pp,tps\n" + "".join(f"8b_p{k},p{k},{k},1,{1500.5 + 7 * k}\n" for k in range(1, 9))
    texts = {"calibration.csv": OF_70B.replace("70b", size), "sweep.csv": other}
    assert ("files-disagree" in of_files(tmp_path, texts, "suspect")) == is_named


SCALING = ("1 | 2.079 | 1.00x | 100%", "4 | 0.828 | 2.51x | {}", "8 | 0.806 | 2.58x | {}")


@pytest.mark.parametrize(
    ("figures", "severities"),
    [(("63%", "32%"), set()), (("81%", "32%"), {"suspect"}), (("81%", "79%"), {"note"})],
)
def test_where_most_efficiencies_are_wrong_they_may_be_of_another_kind(tmp_path, figures, severities):
    text = rows("GPUs | Time (s) | Speedup | Efficiency", *SCALING).format(*figures)
    findings = audited(tmp_path, text).values()
    assert {finding.severity for finding in findings if finding.code == "efficiency-not-in-table"} == severities


INSTRUCTIONS = (
    *("small | 344,102 | 990,713 | +664,601", "large | 335,179 | 979,903 | +663,796"),
    *("grow | 824,375 | 4,482,381 | +664,814", "x16 | 389,584 | 1,049,340 | +666,629"),
    *("x64 | 389,587 | 1,055,522 | +666,643", "y16 | 445,851 | 1,117,709 | +669,772"),
)
WITH_ALL = (
    *("small | 344,102 | 990,713 | +646,611", "large | 335,179 | 979,903 | +644,724"),
    *("grow | 824,375 | 4,482,381 | +664,814", "x16 | 389,584 | 1,049,340 | +659,756"),
)


@pytest.mark.parametrize(("lines", "is_named"), [(INSTRUCTIONS, False), (WITH_ALL, True)])
def test_a_difference_to_a_column_that_is_not_shown(tmp_path, lines, is_named):
    """Two rows of six are 1 % from it by chance."""
    text = f"{RATES}\n{rows('bench | hardened Ir | hardened EC | Δ EC', *lines)}"
    assert bool(accusations(audited(tmp_path, text))) == is_named


@pytest.mark.parametrize(("names", "is_named"), [(("a_1.csv", "a_2.csv"), False), (("a.csv", "table.csv"), True)])
def test_files_of_two_runs(tmp_path, names, is_named):
    heading = "strategy,threads,gflops,speedup\n"
    lines = [f"s{k},{k},{100.5 + 31 * k},{1 + k / 8}\n" for k in range(1, 9)]
    other = [*lines[:-1], "s8,8,136.2,2.0\n"]
    texts = {name: heading + "".join(text) for name, text in zip(names, (lines, other), strict=True)}
    assert ("files-disagree" in of_files(tmp_path, texts, "suspect")) == is_named
    assert "files-disagree" not in of_files(tmp_path, texts)  # one may be the other, measured again in part


PHASES = (
    "a | 223.2 | 992.0 | 1215.2",
    "b | 185.4 | 780.9 | 966.3",
    "c | 183.1 | 748.7 | 831.8",
    "d | 219.1 | 988.9 | 1208",
)


@pytest.mark.parametrize(("heading", "severity"), [("Step (s)", "note"), ("Total (s)", "suspect")])
def test_a_sum_that_no_heading_calls_a_total_is_perhaps_none(tmp_path, heading, severity):
    findings = audited(tmp_path, rows(f"Run | Forward (s) | Backward (s) | {heading}", *PHASES))
    assert findings["totals-disagree"].severity == severity


BLOCKS = (
    *("llama, Q4 | 302.07 | 0.78 | 1.16x", "quant, Q4 | ~350 | ~0.67 | 1.00x"),
    *("llama, Q8 | 822.11 | 0.29 | {}", "quant, Q8 | ~900 | ~0.26 | 1.00x"),
)


@pytest.mark.parametrize(("ratio", "is_named"), [("1.09x", False), ("1.90x", True)])
def test_a_baseline_below_the_rows_of_its_block(tmp_path, ratio, is_named):
    text = rows("Program | Time (µs) | TFLOPS | Speedup", *BLOCKS).format(ratio)
    assert bool(accusations(audited(tmp_path, text))) == is_named


SIZES = (
    *("Serial | 6656 | 0.0216 | 1.0", "MPI | 6656 | 0.0125 | 1.728", "Serial | 13312 | 0.0408 | 1.0"),
    *("MPI | 13312 | 0.0217 | 1.880", "Serial | 26624 | 0.1374 | 1.0", "MPI | 26624 | 0.0712 | 1.930"),
    *("GPU | 6656 | 0.2780 | 0.0777", "GPU | 13312 | 0.2961 | {}", "GPU | 26624 | 0.3621 | 0.3795"),
)


@pytest.mark.parametrize(("ratio", "is_named"), [("0.1378", False), ("0.8731", True)])
def test_the_baseline_of_a_size_stands_far_above(tmp_path, ratio, is_named):
    text = rows("Version | Linhas | Tempo (s) | Speedup", *SIZES).format(ratio)
    assert bool(accusations(audited(tmp_path, text))) == is_named


@pytest.mark.parametrize(("ratio", "is_named"), [("~1.0x", False), ("~1.9x", True)])
def test_about_as_fast_as_something(tmp_path, ratio, is_named):
    pairs = ("norm", 0.32, 0.04, "8.0x"), ("sum", 0.33, 0.05, "6.6x"), ("glu", 0.18, 0.10, "1.8x")
    lines = [line for n, a, b, r in pairs for line in (f"{n} (eager) | {a} | 1.0x", f"{n} (fused) | {b} | {r}")]
    text = rows("Kernel | Latency (ms) | Speedup", *lines, "fp16 GEMM | 0.76 | 1.0x", f"int8 GEMM | 0.09 | {ratio}")
    assert bool(accusations(audited(tmp_path, text))) == is_named


ANSWERS = "business | 130 | 7.74s", "reasoning | 160 | 9.26s"


@pytest.mark.parametrize(("heading", "is_named"), [("Latencia", False), ("ms/token", True)])
def test_answers_of_as_many_tokens(tmp_path, heading, is_named):
    """130 x 7.74 and 6 x 186.91 are about 1,000 tokens; ms/token x tokens/s is 1,000 by its units."""
    cells = ANSWERS if heading == "Latencia" else ("business | 130 | 7.74", "reasoning | 160 | 9.26")
    last = "decision | 6 | 186.91s" if heading == "Latencia" else "decision | 5.35 | 186.91"
    text = rows(f"Test | tok/s | {heading}", *cells, last)
    assert bool(accusations(audited(tmp_path, text))) == is_named


SPANS = "a | 45,000 | 23,000 | 12,000 | 80,000", "b | 52,000 | 25,000 | 15,000 | 92,000"


@pytest.mark.parametrize(("end", "is_named"), [("97", False), ("97.000 |", False), ("79,000 |", True)])
def test_a_row_that_is_cut_off_and_a_thousand(tmp_path, end, is_named):
    text = rows("Run | Data (s) | Compute (s) | Other (s) | Total (s)", *SPANS)
    findings = audited(tmp_path, f"{text}| c | 48,000 | 31,000 | 18,000 | {end}\n")
    assert bool(accusations(findings)) == is_named


@pytest.mark.parametrize(("epochs", "severity"), [(78, "note"), (20, "invalid")])
def test_more_work_makes_no_speedup_look_larger(tmp_path, epochs, severity):
    """Larger batches need more epochs to the same accuracy; fewer epochs for the same time flatter."""
    table = rows("GPUs | Epochs | Time (min) | Speedup", "8 | 40 | 62 | 1.0", f"512 | {epochs} | 2.4 | 25.8")
    assert audited(tmp_path, table)["unequal-work"].severity == severity


@pytest.mark.parametrize(
    ("devices", "time", "beside", "is_named"),
    [
        (2, "mean step time (s)", "p50 step time (s)", False),
        (1, "mean step time (s)", "p50 step time (s)", True),
        (2, "mean step time (s)", "loss", True),
        (2, "step time (s)", "loss", True),
    ],
)
def test_a_mean_time_may_be_of_the_slowest_rank_of_each_step(tmp_path, devices, time, beside, is_named):
    """4 % more than the window's, where two ranks share a busy machine. A median beside it: steps were timed singly."""
    headings = f"GPUs | tokens/s | {time} | Global batch | Seq len | {beside}"
    found = audited(tmp_path, rows(headings, f"{devices} | 14100 | 0.0754 | 8 | 128 | 0.071"))
    assert ("rate-times-time" in found) == is_named
