"""Figures of strangers that mean something else than the column, the row or the file beside them suggests."""

import json

import pytest
from markdown_tables import accusations, audited, rows

from scaleproof.auditor.audit import audit_paths

POOL = "On 4 threads:\n\n```\n    ID      WORK      IDLE    (%)  TASKS  WORK/TASK\n{}```\n"
THREADS = (
    "     0   38.8584    0.4447  98.87     50     0.7772\n     1   38.8188    0.4838  98.77     50     0.7764\n"
    "     2   38.7191    0.5762  98.53     50     0.7744\n     3   38.6531    0.6467  98.35     50     0.7731\n"
)


def test_below_a_column_of_ratios_stands_their_mean(tmp_path):
    total = " Total  155.0494    2.1514  98.63    200     0.7752\n"
    rate = "| GPUs | tokens/s |\n|---|---|\n| 1 | 100 |\n| 2 | 190 |\n"
    assert not accusations(audited(tmp_path, rate + POOL.format(THREADS + total)))


SHARES = ("unfused | 495.202 | 2417.168 | 2912.370 | {}", "fused | 99.521 | 2719.312 | 2818.833 | 3.5%")
TRITON = "triton | 50.528 | 2411.375 | 2461.903 | 2.1%"


@pytest.mark.parametrize("heading", ["norm share", "norm, % of peak"])
def test_per_cents_that_are_called_no_ratio(tmp_path, heading):
    """17.0 % of the total, though 2.1 % is also 50.528 / 2411.375."""
    table = rows(f"implementation | norm us | matmul us | total us | {heading}", *SHARES, TRITON).format("17.0%")
    assert not accusations(audited(tmp_path, table))


CLONES = (
    *("add | 8 | 9.920 | 0.753", "clone | 8 | 13.168 | 1.000", "triton | 8 | 15.248 | 1.158"),
    *("add | 64 | 9.632 | 0.724", "clone | 64 | 13.296 | 1.000", "triton | 64 | 15.200 | 1.143"),
    *("add | 128 | 11.264 | {}", "clone | 128 | 15.360 | 1.000", "triton | 128 | 15.360 | 1.000"),
)


@pytest.mark.parametrize(("ratio", "is_named"), [("0.733", False), ("0.337", True)])
def test_a_baseline_behind_the_rows_that_are_over_it(tmp_path, ratio, is_named):
    table = rows("implementation | tokens | latency us | speed-up", *CLONES).format(ratio)
    assert bool(accusations(audited(tmp_path, table))) == is_named


LOG = "epoch,step,loss,eval_loss,elapsed_seconds\n{0},10,1.83,,2.2\n{1},20,1.86,,3.9\n"
LOG += "{2},30,1.80,,7.2\n{2},30,,1.77,8.1\n"


@pytest.mark.parametrize(
    ("epochs", "severity"), [(("0.25", "0.5", "1.0"), None), (("1", "2", "3"), "note"), (("3", "1", "2"), "invalid")]
)
def test_an_epoch_with_a_fraction_is_a_position_and_one_of_two_rows_is_no_second_run(tmp_path, epochs, severity):
    (tmp_path / "train_log.csv").write_text(LOG.format(*epochs))
    found = {finding.code: finding.severity for finding in audit_paths([tmp_path]).findings}
    assert found.get("runs-interleaved") == severity


@pytest.mark.parametrize("heading", ["cap_gb", "train_time"])
def test_two_times_are_in_no_proportion(tmp_path, heading):
    """Caps of 6144m are MB: over wall times they are no constant that one row could break."""
    figures = (("6144m", 73), ("5632m", 67), ("5376m", 64), ("5120m", 72), ("21504m", 256), ("20480m", 244))
    lines = [json.dumps({"arm": "a", heading: cap, "wall_s": wall, "model": "gemma-4"}) for cap, wall in figures]
    (tmp_path / "ladder.jsonl").write_text("\n".join(lines))
    assert not [finding for finding in audit_paths([tmp_path]).findings if finding.severity != "note"]


@pytest.mark.parametrize(
    ("job", "column", "work"),
    [("1", "msg_size", ""), ("1", "batch", "batch 64"), ("serving", "batch", "inference, batch 64")],
)
def test_latencies_of_messages_are_no_inference(tmp_path, job, column, work):
    (tmp_path / "a.csv").write_text(f"job,{column},avg_latency_ms\n{job},64,144.78\n{job},64,218.65\n")
    assert {line.work for line in audit_paths([tmp_path]).readings} == {work}


@pytest.mark.parametrize(
    ("verb", "is_estimate"), [("estimates Pi", False), ("is target-only", False), ("runs: estimated", True)]
)
def test_a_program_that_estimates_something_was_measured(tmp_path, verb, is_estimate):
    table = rows("threads | mean time (ms)", "2 | 136.26", "4 | 70.26")
    (tmp_path / "a.md").write_text(f"**Table 4.1** Time of the program that {verb}\n\n{table}")
    works = [line.work for line in audit_paths([tmp_path]).readings]
    assert all("estimated" in work for work in works) == is_estimate


@pytest.mark.parametrize(("name", "precision"), [("cublaslt_nvfp4_fp32", "fp4"), ("cublaslt_fp32", "fp32")])
def test_the_accumulator_is_not_the_precision(tmp_path, name, precision):
    (tmp_path / "a.csv").write_text(f"us,tflops,backend\n9.808,2189.52,{name}_run30\n9.708,2199.52,{name}_run31\n")
    assert {line.work for line in audit_paths([tmp_path]).readings} == {precision}


MINUS = rows(
    "Metric | SGLang | vLLM | SGLang {} vLLM",
    "Mean throughput | 673.9 tok/s | 880.5 tok/s | -206.6 tok/s",
    "Peak GPU memory | 6,551 MB | 6,372 MB | +179 MB",
)


@pytest.mark.parametrize(("word", "is_named"), [("minus", False), ("as", True)])
def test_a_column_of_differences_is_no_configuration(tmp_path, word, is_named):
    assert bool(accusations(audited(tmp_path, MINUS.format(word)))) == is_named


CHANGES = ("a | 709.09 | +1.6%", "b | 699.50 | +0.2%", "base | 698.19 | {}", "c | 696.44 | -0.3%")
MORE_CHANGES = ("d | 643.97 | -7.8%", "e | 636.95 | -8.8%", "f | 633.13 | {}")


@pytest.mark.parametrize(("base", "last", "is_named"), [("1.00x", "-9.3%", False), ("baseline", "-19.3%", True)])
def test_the_baseline_of_changes_is_one(tmp_path, base, last, is_named):
    table = rows("Variant | FPS | vs base", *CHANGES, *MORE_CHANGES).format(base, last)
    assert bool(accusations(audited(tmp_path, table))) == is_named


DELTAS = ("a | 2.025 | 60.882", "b | 0.100 | 3.166", "c | 0.807 | 24.342", "d | 0.025 | 0.922", "e | 0.739 | 22.333")


@pytest.mark.parametrize("word", ["delta", "Δ"])
def test_differences_are_in_no_proportion(tmp_path, word):
    table = rows(f"scene | {word} train (ms/step) | {word} total wall (s) | GPUs", *(f"{row} | 1" for row in DELTAS))
    assert not accusations(audited(tmp_path, table))


SERVED = ("a | 1 | 50.12 | 50.34", "a | 4 | 40.44 | 156.35", "b | 1 | 44.07 | 44.26", "c | 1 | 51.20 | 51.43")


@pytest.mark.parametrize("heading", ["concurrency", "seed"])
def test_rates_of_requests_side_by_side_are_in_no_proportion(tmp_path, heading):
    table = rows(
        f"method | {heading} | mean tokens/s | total tokens/s", *SERVED, "b | 4 | 7.47 | 27.74", "d | 1 | 9.81 | 9.85"
    )
    assert not accusations(audited(tmp_path, table))


BATCH = " Minibatch[{0}]: loss = 6.8{0} * {1}; time = {2}s; samplesPerSecond = {3}\n"
BATCHES = (
    (1, 8192, 0.1487, 55089.7),
    (2, 8192, 0.1456, 56276.1),
    (34, 3840, 0.0757, 50697.8),
    (42, 8192, 0.1414, 57950.9),
)


@pytest.mark.parametrize("name", ["a.log", "a.txt"])
def test_the_last_batch_of_an_epoch_is_smaller(tmp_path, name):
    (tmp_path / name).write_text("".join(BATCH.format(*batch) for batch in BATCHES))
    assert not [finding for finding in audit_paths([tmp_path]).findings if finding.severity != "note"]


LAYERS = (
    "v | 1.172 | 8.019 (6.84x) | 3.343 ({})",
    "mlp | 3.755 | 9.618 (2.56x) | 9.619 (2.56x)",
    "o | 2.0 | 4.1 (2.05x) | 6.2 (3.10x)",
)


@pytest.mark.parametrize(("ratio", "is_named"), [("2.85x", False), ("8.25x", True)])
def test_a_ratio_in_brackets_is_of_its_own_cell(tmp_path, ratio, is_named):
    table = rows("param | base time (ms) | a time (ms) | b time (ms)", *LAYERS).replace("{}", ratio)
    assert bool(accusations(audited(tmp_path, table))) == is_named


BY_SIZE = "Batch | 2 GPU {0} | 2 GPU Total (s) | 4 GPU {0} | 4 GPU Total (s) | Epoch time (s)"
EQUAL = ("32 | 20.15 | 58.31 | {} | 76.15 | 91.8231", "128 | 17.63 | 17.48 | 17.63 | 19.16 | 88.1234")


@pytest.mark.parametrize(
    ("heading", "other", "copied"), [("Compute (s)", "20.15", False), ("(s)", "11.31", False), ("(s)", "20.15", True)]
)
def test_columns_of_one_line_are_shared_by_its_configurations(tmp_path, heading, other, copied):
    """Their totals are not measured twice, and the part that one device computes may be one figure for all sizes."""
    table = rows(BY_SIZE.format(heading), *EQUAL, "512 | 19.66 | 10.57 | 19.66 | 10.11 | 80.4321").format(other)
    assert ("figures-copied" in accusations(audited(tmp_path, table))) == copied


SLIP = rows("GPUs | Images/s | Speedup", "1 | 100.0 | 1.00", "2 | 190.0 | 1.90", "4 | 360.0 | 3.10", "8 | 700.0 | 7.00")


@pytest.mark.parametrize(("text", "named"), [(f"<!-- of before\n{SLIP}-->\n\nAll is new.\n", False), (SLIP, True)])
def test_what_is_commented_out_is_not_published(tmp_path, text, named):
    rate = "| GPUs | tokens/s |\n|---|---|\n| 1 | 100 |\n| 2 | 190 |\n\n"
    assert bool(accusations(audited(tmp_path, rate + text))) == named


STATISTICS = ("10 | 1.1641 | 1.2785 | 1.2177", "6 | 1.2424 | 1.6195 | {}", "2 | 2.3072 | 2.4787 | 2.4158")


@pytest.mark.parametrize(("heading", "accused"), [("Chunks | Min (s) | Max (s) | Mean (s)", False)])
@pytest.mark.parametrize("mean", ["1.4866", "1.2999"])
def test_a_mean_beside_extremes_is_not_theirs(tmp_path, heading, accused, mean):
    table = rows(heading, *STATISTICS, "1 | 4.0109 | 4.2727 | 4.1388").format(mean)
    assert bool(accusations(audited(tmp_path, table))) == accused
    named = table.replace("Min (s)", "Run 1 (s)").replace("Max (s)", "Run 2 (s)")
    assert accusations(audited(tmp_path, named))  # the mean of two runs is


LEVELS = rows(
    "Size | Level 6 (TFLOPS) | Level 7 (TFLOPS) | Speedup | cuBLAS (TFLOPS)",
    *("4096 | ~624 | 1242 | 2.0x | 1659", "6144 | ~700 | 1414 | ~2.0x | 1632", "8192 | ~700 | 1277 | ~1.8x | 1708"),
    "10240 | — | 1267 | — | 1458",
)


def test_a_row_that_was_not_measured_is_no_baseline(tmp_path):
    assert not accusations(audited(tmp_path, LEVELS))


REGISTERS = ("8 | 32 | 64 | 96", "16 | 16 | 48 | 64", "24 | 24 | 48 | {}", "32 | 8 | 24 | 32", "48 | 64 | 72 | 136")


@pytest.mark.parametrize(("heading", "accused"), [("C", False), ("Total", True)])
def test_sizes_that_add_up_in_all_rows_but_one_are_no_total(tmp_path, heading, accused):
    rate = "| GPUs | tokens/s |\n|---|---|\n| 1 | 100 |\n| 2 | 190 |\n\n## Blocks\n\n"
    table = rows(f"D | A | B | {heading}", *REGISTERS).format("16")
    assert bool(accusations(audited(tmp_path, rate + table))) == accused


@pytest.mark.parametrize(("figure", "accused"), [("0.92", False), ("1.08", False), ("0.82", True)])
def test_a_quotient_may_be_turned_round(tmp_path, figure, accused):
    rate = "| GPUs | tokens/s |\n|---|---|\n| 1 | 100 |\n| 2 | 190 |\n\n"
    text = f"forwards / tokens: 277 / 256 = {figure} tok/fwd\n"
    assert bool(accusations(audited(tmp_path, rate + text))) == accused


WINNERS = (
    "small | 0.004 ms | 0.240 ms | {} | {}",
    "medium | 0.582 ms | 0.455 ms | **GPU** | 1.28x",
    "large | 6.467 ms | 2.744 ms | **GPU** | 2.36x",
    "other | 1.500 ms | 0.321 ms | **GPU** | 4.67x",
)


@pytest.mark.parametrize(
    ("winner", "printed", "accused"), [("**CPU**", "60x", False), ("**CPU**", "37x", True), ("", "60x", True)]
)
def test_a_ratio_is_turned_round_where_the_other_one_wins(tmp_path, winner, printed, accused):
    table = rows("Operation | CPU time | GPU time | Winner | Speedup", *WINNERS).format(winner, printed)
    assert bool(accusations(audited(tmp_path, table))) == accused


def test_a_mean_below_percentiles_is_not_theirs(tmp_path):
    lines = ("P50 | 783.41 | 764.11", "P90 | 792.08 | 774.95", "P95 | 793.29 | 781.37", "Mean | 777.73 | 764.98")
    assert not accusations(audited(tmp_path, rows("Metric | Before (tok/s) | Now (tok/s)", *lines)))


ABOUT = rows(
    "Framework | GFLOPS | Our ratio", *("A | {0}60 | 54%", "B | {0}90 | 36%", "Ours | 32.52 | 100% (new baseline)")
)


def test_about_as_many_have_no_common_factor(tmp_path):
    table = ABOUT.format("~") + "| C | ~30 | 108% |\n| D | ~8 | 407% |\n"
    assert not accusations(audited(tmp_path, table))
