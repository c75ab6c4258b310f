"""What public files were accused of and had not done; beside each the fault that is still named."""

import json
from pathlib import Path

import pytest
from markdown_tables import PERHAPS_NOTES

from scaleproof.auditor.audit import Audit, audit_paths

ROOT = Path(__file__).parents[3]


def audited(folder: Path, text: str, name: str = "README.md") -> Audit:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return audit_paths([folder])


def codes(audit: Audit) -> set[str]:
    return {finding.code for finding in audit.findings}


def test_the_published_demo_accuses_itself_of_nothing():
    """Its table has the median rate of three runs beside the median time of all their steps."""
    audit = audit_paths([ROOT / "results" / "published"])
    assert [(f.code, f.evidence) for f in audit.findings if f.severity != "note"] == []
    assert not codes(audit) & {"single-run", "devices-unknown"}


WORK = "| GPUs | {} | {} | Global batch | Seq len |\n|---|---|---|---|---|\n| 2 | 13146 | 0.0754 | 8 | 128 |\n"
STATISTICS = [
    ("tokens/s (median)", "step time (s, median)"),
    ("tokens/s", "p50 step time (s)"),
    ("tokens/s (median)", "step time (s)"),
    ("mean tokens/s", "p95 step time (s)"),
    ("max tokens/s", "min step time (s)"),
]


@pytest.mark.parametrize(("rate", "time"), STATISTICS)
def test_a_product_of_medians_is_not_the_work(tmp_path, rate, time):
    assert "rate-times-time" not in codes(audited(tmp_path, WORK.format(rate, time)))


@pytest.mark.parametrize(("rate", "time"), [("tokens/s", "step time (s)"), ("mean tokens/s", "mean step time (s)")])
def test_a_product_of_means_is(tmp_path, rate, time):
    assert "rate-times-time" in codes(audited(tmp_path, WORK.format(rate, time)))


def test_a_rate_below_0_is_named_though_it_is_all_of_its_row(tmp_path):
    rows = "| GPUs | Samples/s |\n|---|---|\n| 1 | 100 |\n| 2 | {} |\n| 4 | 380 |\n"
    (finding,) = audited(tmp_path, rows.format("-196")).findings
    assert (finding.code, finding.evidence) == ("figure-impossible", "2 devices: Samples/s is -196")
    assert audited(tmp_path, rows.format("-1")).findings == []  # not known


def test_a_rate_is_not_corrected_by_a_time_in_another_unit(tmp_path):
    rows = "| GPUs | Samples/s | Step time (ms) | Global batch |\n|---|---|---|---|\n| 1 | 100 | 640 | 64 |\n"
    rows += "| 2 | 196 | 326 | 64 |\n| 4 | 380 | {} | 64 |\n"
    (finding,) = audited(tmp_path, rows.format("0.168")).findings
    assert "380 x 0.168 ms = 0.0638, but" in finding.evidence
    assert finding.corrected is None


def test_a_row_stands_out_by_its_means_only(tmp_path):
    head = "| GPUs | samples/s ({0}) | epoch time (s, {0}) |\n|---|---|---|\n"
    rows = "".join(f"| {n} | {r} | {t} |\n" for n, r, t in ((1, 56, 100), (2, 112, 50), (4, 224, 25), (8, 560, 12.5)))
    assert "row-stands-out" not in codes(audited(tmp_path, head.format("median") + rows))
    assert "row-stands-out" in codes(audited(tmp_path, head.format("mean") + rows))


PRECISIONS = "| Precision | tok/s | Device |\n|---|---|---|\n| fp32 | 100 | {0} |\n| fp16 | 290 | {0} |\n"
WITHOUT = ["T4", "V100", "P100", "GTX Titan X", "K80", "CPU", "TPU v3", "M2 Max", "MI100", "RTX 2080 Ti", "unknown"]
WITH = ["A100", "NVIDIA H100 80GB", "L4", "RTX 3090", "RTX A6000", "A10G", "GH200", "RTX 4090", "A800", "B200"]


@pytest.mark.parametrize("device", WITHOUT)
def test_a_device_without_tf32_is_not_asked_for_it(tmp_path, device):
    assert "fp32-without-tf32" not in codes(audited(tmp_path, PRECISIONS.format(device)))


@pytest.mark.parametrize("device", WITH)
def test_a_device_with_tf32_is(tmp_path, device):
    assert "fp32-without-tf32" in codes(audited(tmp_path, PRECISIONS.format(device)))


def test_memory_in_fp32_is_the_same_with_tf32(tmp_path):
    text = "| Precision | Memory (GB) | Device |\n|---|---|---|\n| fp32 | 30 | A100 |\n| bf16 | 17 | A100 |\n"
    assert "fp32-without-tf32" not in codes(audited(tmp_path, text))


STATES = "| GPUs | tok/s | {} |\n|---|---|---|\n| 1 | 100 | {} |\n| 2 | 190 | {} |\n| 4 | 380 | |\n"


@pytest.mark.parametrize(
    ("heading", "first", "second"),
    [
        ("Status", "Expected", "Target Met"),
        ("Result", "Target Met", "Target not met"),
        ("Notes", "as expected", ""),
        ("Target met?", "Expected", "Exceeds target"),
    ],
)
def test_a_verdict_on_a_row_does_not_make_it_a_projection(tmp_path, heading, first, second):
    assert "projected-beside-measured" not in codes(audited(tmp_path, STATES.format(heading, first, second)))


@pytest.mark.parametrize("note", ["projected", "estimated", "extrapolated from 1"])
def test_a_projection_is_one(tmp_path, note):
    assert "projected-beside-measured" in codes(audited(tmp_path, STATES.format("Notes", "", note)))


NVPROF = """==7== NVPROF is profiling process 7, command: python train.py
==7== Profiling result:
   Start  Duration   Grid Size   Block Size  Regs*  SSMem*  DSMem*           Device  Context  Stream  Name
421.20ms   3.104us   (392 1 4)    (256 1 1)     32      0B      0B  Tesla V100-SXM2        1       7  kernel_a
422.20ms   5.104us   (784 1 4)    (256 1 1)     32      0B      0B  Tesla V100-SXM2        1       7  kernel_b
423.20ms   9.104us   (588 1 6)    (256 1 1)     32      0B      0B  Tesla V100-SXM2        2       7  kernel_b
"""
KERNELS = (
    "| Device | Duration (us) | Grid Size |\n|---|---|---|\n| 1 | 3.1 | (392 1 4) |\n| 2 | 5.1 | (784 1 4) |\n",
    "| Name | Calls | Avg | Min | Max |\n|---|---|---|---|---|\n" + "| a | 7 | 1.2ms | 1.1ms | 1.3ms |\n" * 3,
)


def test_a_list_of_kernels_is_no_table_of_results(tmp_path):
    log = "".join(f"iter {k}: loss 3.0, time 500.00ms\n" for k in range(5))
    audit = audited(tmp_path, log, "train.log")
    for number, text in enumerate((NVPROF, *KERNELS)):
        audit = audited(tmp_path, text, f"kernels{number}.{'md' if number else 'txt'}")
    assert audit.formats == {"nanoGPT log": 1}
    assert not codes(audit) & {"slower-with-more"}


RUNS = [
    {"strategy": "ddp", "gpus": n, "tokens_per_sec": r, "speedup": s}
    for n, r, s in ((1, 100, 1), (2, 190, 1.9), (4, 380, 5.2))
]


@pytest.mark.parametrize(("indent", "wrong"), [(None, "r.json#runs[2]"), (1, "r.json:16")])
def test_rows_of_one_line_are_told_apart_by_their_place_in_the_json(tmp_path, indent, wrong):
    audit = audited(tmp_path, json.dumps({"runs": RUNS}, indent=indent), "r.json")
    assert len({reading.place for reading in audit.readings}) == 3
    assert {place for f in audit.findings if f.severity != "note" for place in f.runs} == {wrong}


def test_names_in_one_line_are_told_apart(tmp_path):
    figures = '{"tokens_per_sec": 9, "step_time_ms": 10}'
    text = f'{{"ddp": {figures}, "2 GPUs": {figures}}}'
    assert [r.place for r in audited(tmp_path, text, "r.json").readings] == ["r.json#ddp", "r.json#['2 GPUs']"]


def test_a_loss_alone_needs_no_devices_and_no_repeats(tmp_path):
    for name in ("a", "b"):
        audit = audited(tmp_path, "step,loss\n" + "".join(f"{k},{3 - k / 9}\n" for k in range(9)), f"{name}/loss.csv")
    assert not codes(audit) & {"single-run", "devices-unknown"}


MLLOG = ':::MLLOG {{"key": "run_{}", "value": null, "time_ms": {}, "metadata": {{}}}}\n'


def test_numbered_results_of_one_folder_are_repeats(tmp_path):
    for number in range(3):
        text = MLLOG.format("start", 1000) + MLLOG.format("stop", 61000 + 17 * number)
        audit = audited(tmp_path, text, f"system/bert/result_{number}.txt")
    assert "single-run" not in codes(audit)


def test_a_run_in_a_folder_of_tests_is_none_of_the_results(tmp_path):
    run = next((ROOT / "results").rglob("training_metrics.json")).parent
    for place in ("tests/records/ddp/rep1", "results/ddp/rep1"):
        (tmp_path / place).mkdir(parents=True)
        for file in run.iterdir():
            (tmp_path / place / file.name).write_bytes(file.read_bytes())
    assert len(audit_paths([tmp_path]).runs) == 1


CLUSTER = "| cluster | gpus | tokens/s |\n|---|---|---|\n" + "".join(
    f"| Snellius | {n}x{device} | {rate} |\n"
    for device, rates in (("A100", (17500, 34100, 66400)), ("H100", (31100, 59800, 118600)))
    for n, rate in zip((1, 2, 4), rates, strict=True)
)


def test_devices_of_two_kinds_in_one_cluster_are_two_configurations(tmp_path):
    """One A100 was the baseline of all: two H100s were 3.4 times as fast, two A100s 1.1 times as fast as an H100."""
    audit = audited(tmp_path, CLUSTER)
    assert [f.evidence for f in audit.findings if f.severity != "note" or f.code == "slower-with-more"] == []
    assert {line.configuration for line in audit.scaling} == {"A100", "H100"}


PIPELINES = (
    "| Experiment | Throughput | {} | Huang et al. |\n|---|---|---|---|\n| n=2, m=1 | 26.733/s | 1× | 1× |\n"
    "| n=2, m=4 | 41.133/s | 1.54× | 1.07× |\n| n=2, m=32 | 47.386/s | {}× | 1.21× |\n"
    "| n=4, m=32 | 72.412/s | 2.71× | 1.84× |\n| n=8, m=32 | 132.413/s | 4.96× | 3.48× |\n"
)


@pytest.mark.parametrize("heading", ["torchgpipe", "Speed-up"])
def test_ratios_of_another_paper_are_not_over_the_rates_beside_them(tmp_path, heading):
    accused = [
        [f.runs for f in audited(tmp_path, PIPELINES.format(heading, ratio)).findings if f.severity != "note"]
        for ratio in ("1.77", "7.17")
    ]
    assert accused == [[], [["README.md:5"]]]


@pytest.mark.parametrize(("fewest", "devices"), [("0", None), ("1", 2)])
def test_workers_from_none_on_are_those_of_a_data_loader(tmp_path, fewest, devices):
    table = f"| Workers | Throughput (items/s) |\n|---|---|\n| {fewest} | 88.55 |\n| 2 | 146.84 |\n"
    assert audited(tmp_path, table).readings[1].devices == devices


@pytest.mark.parametrize(("precision", "work"), [("80.3", ""), ("bf16", "bf16, ")])
def test_a_precision_with_decimals_is_one_of_answers(tmp_path, precision, work):
    table = (
        f"| Model | Precision | Speed (fps) |\n|---|---|---|\n| a | {precision} | 18.6 |\n| b | {precision} | 17 |\n"
    )
    assert {reading.work for reading in audited(tmp_path, table).readings} == {f"{work}a", f"{work}b"}


def test_of_two_models_in_a_sentence_it_is_not_known_which_one_a_figure_is_of(tmp_path):
    both = "Horovod achieves 90% scaling efficiency for ResNet-101, and 68% for VGG-16 on 512 GPUs.\n"
    one = "Horovod achieves 68% scaling efficiency for VGG-16 on 512 GPUs.\n"
    works = [{reading.work for reading in audited(tmp_path, text).readings} for text in (both, one)]
    assert works == [{"horovod"}, {"horovod, vgg-16"}]


ZERO = (
    "| Metric | ZeRO-2 | ZeRO-3 | Difference |\n|---|---|---|---|\n| Throughput (tokens/s) | 8,415 | 8,214 | {} |\n"
    "| Steps/sec | 1.03 | 1.00 | +3.0% |\n| Peak tokens/s | 9,000 | 8,000 | +12.5% |\n"
)
CPU = (
    "| Metric | CPU | GPU | Speedup |\n|---|---|---|---|\n| Total time | 811.02s | 35.97s | 22.5x faster |\n"
    "| Time per epoch | 162.20s | 7.19s | {}x faster |\n| Evaluation | 6.98s | 2.24s | 3.1x faster |\n"
    "| Training speed | 370 samples/sec | 8,340 samples/sec | 22.5x faster |\n"
)
LENGTHS = (
    "| Data set | {} | {} |\n|---|---|---|\n| 10K | 1000 | 100 |\n| 50K | 3000 | 200 |\n| 100K | 5000 | 500 |\n"
    "| 500K | 10000 | 1000 |\n"
)
OF_OTHERS = {  # text with a place -> (right, wrong)
    ZERO: ("+201 (+2.4%)", "+42.4%"),
    CPU: ("22.6", "26.2"),
    "Exposed: 106.8ms × 1.94% = {}ms\n": ("2.07", "7.02"),
}


@pytest.mark.parametrize("text", OF_OTHERS)
def test_cells_of_their_own_meaning_are_not_accused_by_those_of_other_rows(tmp_path, text):
    results = "| GPUs | tokens/s |\n|---|---|\n| 1 | 911 |\n| 2 | 1,702 |\n\n"
    texts = [results + text.format(figure) for figure in OF_OTHERS[text]]
    named = [
        [f for f in audited(tmp_path, text).findings if f.severity != "note" or f.code in PERHAPS_NOTES]
        for text in texts
    ]
    assert list(map(bool, named)) == [False, True]


def test_settings_that_a_person_chose_follow_from_nothing(tmp_path):
    results = "| GPUs | tokens/s |\n|---|---|\n| 1 | 911 |\n| 2 | 1,702 |\n\n"
    names = "Architecture: 32L × 4096H = 6.89B params\n\n"
    audit = audited(tmp_path, results + names + LENGTHS.format("max_iters", "eval_interval"))
    assert [f.evidence for f in audit.findings if f.severity != "note"] == []


@pytest.mark.parametrize(("unit", "rate"), [("GFLOPs", ""), ("Flops", ""), ("GFLOP/s", "26.8 (GFLOP/s)")])
def test_the_operations_of_a_model_are_no_rate(tmp_path, unit, rate):
    table = f"| Model | Weights | {unit} |\n|---|---|---|\n| S | 9.0M | 26.8 |\n| M | 25.3M | 73.8 |\n"
    audit = audited(tmp_path, table + "\n| GPUs | tokens/s |\n|---|---|\n| 1 | 911 |\n| 2 | 1,702 |\n")
    assert [reading.rate for reading in audit.readings if reading.name.startswith("S")] == ([rate] if rate else [])


@pytest.mark.parametrize(("speed", "is_training"), [("97368224.17", False), ("2.17", True)])
def test_a_bar_of_a_download_is_no_training(tmp_path, speed, is_training):
    bars = [f"100%|#####| {i}0/100 [00:0{i}<00:09, {speed}it/s]" for i in range(1, 9)]
    (tmp_path / "train.log").write_text("\n".join(bars))
    (tmp_path / "README.md").write_text("| GPUs | tokens/s |\n|---|---|\n| 1 | 911 |\n| 2 | 1,702 |\n")
    assert bool(audit_paths([tmp_path]).runs) is is_training


HONEST = {
    "two jobs": "ResNet and BERT took 20 h on a single GPU and 2 h on 4 GPUs, respectively.\n",
    "two kinds of devices": "It takes 48 h on a single GPU or 3.0 h on 4 TPUs.\n",
    "two efficiencies": "| GPUs | tokens/s | DDP efficiency | Cost efficiency |\n|---|---|---|---|\n"
    "| 1 | 1000 | 100% | 100% |\n| 2 | 1900 | 95% | 80% |\n| 4 | 3600 | 90% | 62% |\n",
    "two speed-ups": "| GPUs | DDP speedup | Kernel speedup |\n|---|---|---|\n"
    "| 1 | 1.0x | 1.0x |\n| 2 | 1.9x | 2.6x |\n| 4 | 3.6x | 5.1x |\n",
    "a projection": "| GPUs | tokens/s |\n|---|---|\n| 1 | 1000 |\n| 4 | 3800 |\n| 16 | 20000 (projection) |\n",
}


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_what_only_looks_alike_is_not_accused(tmp_path, text):
    assert [finding.code for finding in audited(tmp_path, text).findings if finding.severity != "note"] == []


def test_a_comma_in_the_last_remark_of_a_csv_moves_no_figure(tmp_path):
    rows = [
        f"{step},{3 - step / 100},0.5{step % 10},{'lr cut, see log' if step == 7 else 'ok'}" for step in range(1, 30)
    ]
    audit = audited(tmp_path, "step,loss,step_time_s,note\n" + "\n".join(rows), "log.csv")
    assert codes(audit) <= {"single-run"}


OVERLAPPING = "| GPUs | compute (ms) | communication (ms) | total (ms) |\n|---|---|---|---|\n"
MEASURED = ["| 1 | 171.2 | 0.0 | 171.2 |", "| 2 | 85.9 | 23.3 | 105.5 |", "| 4 | 43.1 | 12.2 | 48.9 |"]


def test_a_total_that_is_measured_beside_its_parts_is_smaller_where_they_overlap(tmp_path):
    rows = [*MEASURED, "| 8 | 21.7 | 3.2 | 24.4 |"]
    assert "totals-disagree" not in codes(audited(tmp_path, OVERLAPPING + "\n".join(rows) + "\n"))
    rows = ["| 1 | 171.2 | 1.5 | 172.7 |", "| 2 | 85.9 | 23.3 | 109.2 |", "| 4 | 43.1 | 12.2 | 48.9 |"]
    assert "totals-disagree" in codes(audited(tmp_path, OVERLAPPING + "\n".join(rows) + "\n"))


DIFFERENCES = """| Metric | Vanilla | 4b | Δ |
|---|---|---|---|
| MMLU | 68.32% | 67.29% | **-1.03 pp** |
| HellaSwag acc_norm | 79.51% | 79.07% | -0.44 pp |
| ARC-C acc_norm | 60.84% | 61.43% | +0.59 pp (noise) |
| PPL | 7.055 | 7.256 | **+0.20** |
| greedy_match | 1.000 | 0.5047 | -0.50 |
| tokens/sec | 335.8 | **521.7** | **1.55×** |
| peak VRAM | 18.50 GB | 18.41 GB | -0.09 GB |
"""  # of a public repository


def test_a_ratio_in_a_column_of_differences_is_no_summand(tmp_path):
    assert "totals-disagree" not in codes(audited(tmp_path, DIFFERENCES))
    assert "totals-disagree" in codes(audited(tmp_path, DIFFERENCES.replace("1.55×", "155.9")))


def test_two_rows_of_one_product_that_is_far_off_are_of_another_model(tmp_path):
    heading = "| batch | tokens/s | step time (ms) |\n|---|---|---|\n"
    times = (200, 100, 50, 40, 25, 20)
    rows = [f"| 8 | {round(160_000 / time)} | {time} |" for time in times]
    odd = ["| 8 | 154 | 202 |", "| 8 | 311 | 100 |"]
    assert "row-stands-out" not in codes(audited(tmp_path, heading + "\n".join(rows + odd) + "\n"))
    assert "row-stands-out" in codes(audited(tmp_path, heading + "\n".join([*rows, odd[0]]) + "\n"))


SCORES = """| Method | Memory Reduction | Speed Gain | Accuracy Loss | Complexity |
|---|---|---|---|---|
| FP16 | 50 | 20 | 0 | 20 |
| INT8 | 75 | 30 | 10 | 40 |
| INT4 | 87 | 60 | 30 | 60 |
| GPTQ | 68 | 45 | 20 | 80 |
"""
SIGMAS = """| ablation | TS Δ | over σ of TS | OWT Δ | over σ of OWT | speedup |
|---|---|---|---|---|---|
| SiLU | +0.0027 | 0.5 | **−0.0018** | 0.5 | - |
| post-norm | +0.0385 | 7.3 | **+3.544** | ~950 | **92×** |
| NoPE | +0.0568 | 10.7 | **+2.048** | ~550 | **36×** |
"""


@pytest.mark.parametrize("table", [SCORES, SIGMAS])
def test_a_quotient_of_columns_that_no_heading_names_accuses_nobody_by_chance(tmp_path, table):
    assert "speedup-not-in-table" not in codes(audited(tmp_path, table))


TEXTS_WITHOUT_A_FAULT = {
    "a capacity": "- Weights: 14 GB\n- KV cache: 20 GB\n- Total VRAM: 80 GB\n",
    "a count": "- Parameters: 7B\n- Weights: 14 GB\n- KV cache: 2 GB\n- Total: 16 GB\n",
    "more than weights": "A 7B with full Adam (112 GB in bf16); 300B tokens (1200 GB as int16)\n",
    "shares of two devices": "- RTX 4090: 2 GB (8.3% of VRAM)\n- A100 80GB: 2 GB (2.5% of VRAM)\n",
    "layers": "W [4096, 4096] fp16 = 1 GB (32 layers)\n",
    "a winner by accuracy": "| Task | A accuracy (%) | B accuracy (%) | A time (s) | B time (s) | Winner |\n"
    "|---|---|---|---|---|---|\n| qa | 91.2 | 88.0 | 12.1 | 9.3 | A |\n| sum | 71.2 | 68.0 | 14.1 | 10.3 | A |\n",
    "a change over the last release": "| context | llama (tok/s) | ours |\n|---|---|---|\n"
    "| 4k | 44.1 tok/s | 50.0 tok/s (+18.1%) |\n| 8k | 40.1 tok/s | 45.0 tok/s (+16.0%) |\n",
}


@pytest.mark.parametrize("name", TEXTS_WITHOUT_A_FAULT)
def test_what_a_figure_is_of_is_not_guessed(tmp_path, name):
    speed = "Throughput: 390 images/s on 4 GPUs\n\n"
    assert not codes(audited(tmp_path, speed + TEXTS_WITHOUT_A_FAULT[name]))


def test_a_ratio_is_shown_as_the_printed_figures_give_it(tmp_path):
    """15.2 / 2 is 7.6, though the printed 2 may have been anything from 1 to 3."""
    audit = audited(tmp_path, "| GPUs | images/s |\n|---|---|\n| 1 | 2 |\n| 8 | 15.2 |\n")
    assert [(line.speedup, line.efficiency) for line in audit.scaling] == [("", ""), ("7.6x", "95%")]
    assert [line.recomputed for line in audit.readings] == ["", "7.6x"]
