"""Products and settings that a document writes out: each with the wrong figure, which is named, and the right one."""

import pytest
from markdown_tables import accusations, audited, rows

from scaleproof.auditor.audit import NoResult, audit_paths
from scaleproof.auditor.read.discover import gather
from scaleproof.ground.findings.registry import FILE_UNREADABLE

RESULTS = rows("GPUs | tokens/s", "1 | 911", "2 | 1,702")
RECIPE = rows(
    "Field | Value",
    *("Micro batch size | 6 sequences", "Gradient accumulation | 43", "Global batch size | {} sequences"),
    *("Sequence length | 2048 tokens", "Tokens per optimizer step | {}"),
)
MESH = "Model | #-GPUs | GBS | MBS | Sequence Length | TP | PP | CP | GA"
COSTS = rows(
    "GPUs | Time to 90 epochs | Cost",
    *("1 | 720 hours | $2,160", "8 | 97 hours | $2,328", "16 | 51 hours | ${}", "32 | 27 hours | $2,592"),
    "64 | 16 hours | $3,072",
)
EPOCHS = "MNIST, 5 epochs:\n\n" + rows(
    "Mode | GPUs | Total time (s) | Avg epoch time (s)",
    *("Single | 1 | 44.69 | 8.94", "DDP | 2 | 34.69 | 6.94", "FSDP | 2 | 34.63 | {}"),
)

# text with a place for the figure -> (wrong, right, words of the finding)
CASES = {
    "Training: {} nodes × 4 GPUs = 16 GPUs (ZeRO-3)": ("9", "4", "it is 36"),
    "- Attention: 10.9 MB × 28 = {} MB": ("503", "305", "it is 305.2"),
    "A layer: 2 × 64 × 2048 × 128 × 0.5 bytes = {} MB": ("8.4", "16.8", "it is 1.678e+07"),
    "- effective batch = 8 × 4 * 2 = {}": ("46", "64", "it is 64"),
    "7B x 18 bytes ÷ 8 GPUs = {} GB": ("51.7", "15.75", "it is 15.75"),
    "That is 100 GPUs × 24 h × $2 = ${}.": ("8,400", "4,800", "in any unit"),
    "```python\naccumulation=4,  # Effective batch = 2*4*8 = {}\n```": ("46", "64", "it is 64"),
    "E.g. 4096 * 256 / 3.13 = {}": ("353008", "335008", "in any unit"),
    "30.5 + 20.1 s = {} s": ("56.0", "50.6", "it is 50.6"),
    "MLP total: 82.5 MB × 28    = {} MB": ("3,210", "2,310", "it is 2310"),
    rows("Total GPUs | GPUs per node | Number of nodes", "8 | 8 | 1", "64 | 8 | 8", "128 | 8 | 16", "256 | 8 | {}"): (
        *("23", "32", "8 x 23 = 184"),
    ),
    RECIPE.format("{}", "528,384"): ("285", "258", "= 258, which gives no global batch of 285"),
    RECIPE.format("258", "{}"): ("582,384", "528,384", "258 sequences x 2048 tokens = 528,384"),
    rows(MESH, "70B | 64 | 128 | 1 | 8192 | 2 | 4 | 2 | {}"): ("23", "32", "= 23, which gives no global batch of 128"),
    EPOCHS: ("1.92", "6.92", "5 epochs x 1.92 = 9.600"),
    "- GPUs: 8\n- **Micro batch size per GPU**: 4\n- Accumulation steps: 8\n- LR: 3e-4\n- Global batch size: {}": (
        *("512", "256", "= 32, which gives no global batch of 512"),
    ),
    "- Runtime: 494s ({} min)": ("2.8", "8.2", "not one time"),
    "A **{}x** TTFT improvement at c=50 (24,554ms → 143ms)": ("127", "172", "between the two"),
    rows(
        "Task | Base | SFT | Δ",
        "MMLU | 51.25% | 54.31% | +3.06pp",
        "ARC | 40.1% | 39.2% | -0.9pp",
        "QA | 71.21% | 73.42% | +{}pp",
    ): (*("5.2", "2.21", "71.21%"),),
    rows(
        "Config | Val loss | Δ vs baseline",
        "a | 3.2814 | -",
        "b | 3.2533 | -{}",
        "c | 3.2611 | -0.0203",
        "d | 3.3107 | +0.0293",
    ): (*("0.0821", "0.0281", "3.2533 - 3.2814"),),
    rows(
        "Len | Standard | Flash | Saved",
        "1,024 | 8.0 MB | 0.5 MB | 94% ↓",
        "4,096 | 120.5 MB | 2.3 MB | 98% ↓",
        "8,192 | 512 MB | 42.1 MB | {}% ↓",
    ): (*("42", "92", "42.1 MB / 512 MB"),),
    rows(
        "Part | Type | Bytes | Old bytes",
        "a | fp16 | 2 | 4",
        "b | fp16 | 2 | 4",
        "c | fp32 | 4 | 4",
        "d | fp32 | 4 | 4",
        "Total | | {} | 16",
    ): (*("21", "12", "given as the total of 2, 2, 4, 4"),),
    rows(
        "Config | before | after | gain",
        "a | 22.8 | 23.5 | +3.1%",
        "b | 592 | 613 | +3.5%",
        "c | {} | 586 | +4.3%",
        "d | 18.4 | 18.8 | +2.2%",
        "e | 386 | 413 | +7.0%",
    ): (*("265", "562", "265 / 586 = 2.211"),),
    "28 × 7 = {} layers here": ("169", "196", "it is 196"),
    "`max_steps` = 19,073 × 5 = {} steps": ("35,965", "95,365", "it is 9.536e+04"),
    "6 tasks × 20 examples = {} examples/method": ("150", "120", "it is 120"),
    "All: 10.9 MB × 28 = {} MB": ("350", "305", "it is 305.2"),  # no MiB
    rows("Field | Value", "Tokens per step | 528,384", "Max steps | {}", "Planned tokens | 10,001,252,352"): (
        *("19,828", "18,928", "528,384 x 19,828 = 10,476,797,952"),
    ),
    rows(
        "Strategy | Tokens/$ | Relative cost",
        "A | 3,025 | 1.00x",
        "B | 2,663 | 1.14x",
        "C | 2,037 | {}",
        "D | 1,571 | 1.93x",
    ): (*("1.94x", "1.49x", "3,025 / 2,037 = 1.485"),),
    rows("Metric | Original | 4 bits | Improvement", "Size | {} | 550 MB | 4.0x", "Width | 16 | 4 | 4.0x"): (
        *("2,700 MB", "2,200 MB", "2,700 MB / 550 MB = 4.9"),
    ),
    rows(
        "Batch | Throughput (TF32) | Throughput (AMP) | Throughput speedup (TF32 - AMP)",
        *("1024 | 316913 | 582721 | x1.84", "512 | 161980 | {} | x1.84", "128 | 45755 | 82618 | x1.81"),
    ): ("198741", "298741", "speedup (TF32 - AMP) x1.84"),
    "### Expected performance\n\n"
    + rows(
        "GPUs | img/s | Scaling efficiency", "1 | 450 | 100%", "2 | 880 | {}", "4 | 1,720 | 96%", "8 | 3,360 | 93%"
    ): (*("48%", "98%", "880 / 450"),),
    "From seq=256 → seq=4096 ({}× sequence) it grows.": ("4", "16", "between the two"),
    "Acceptance dropped {} percentage points (77.8 → 60.8).": ("22", "17", "between the two it is 17"),
    "16.8 ms → {} ms/token, 1.6x on a CPU": ("15.0", "10.5", "between the two"),
    "from 120 to 90 s, {} % less.": ("35", "25", "between the two it is 0.25"),
    "- Parameters: {} → 372 (44x reduction)": ("11,399", "16,399", "between the two"),
    "- TP=2 (14.68 vs {}, +20.7%)": ("62.16", "12.16", "between the two"),
    "Blocks: 72.2 MiB -> 18.1 MiB, {}% savings vs fp32": ("47.9", "74.9", "it is 0.749"),
    "It rises from 70.6 to {} t/s (2.69x vs the last build).": ("490.0", "190.0", "between the two"),
    "Q5 {} → 24.2 (−25%)": ("82.3", "32.3", "between the two"),
    rows(
        "Depth | A f16 | A q4 | ratio | B f16 | B q4 | ratio",
        *("0 | 67.42 | 66.76 | 0.99x | 58.16 | 58.47 | 1.01x", "32768 | 33.68 | 42.69 | 1.27x | 47.32 | 52.09 | 1.10x"),
        "65536 | 22.69 | 32.56 | 1.43x | 40.71 | 48.47 | {}x",
    ): ("9.11", "1.19", "40.71 / 48.47 = 1.191"),
    "MFU: 38.2% → 52.1% (+{} pp)": ("19.3", "13.9", "it is 13.9"),
    "Memory: 24.1 GB → 18.3 GB (−{} GB)": ("8.5", "5.8", "it is 5.8"),
    rows(
        "Backend | base TPS | tuned TPS | TPS ratio",
        *("a | 6.453 | 12.228 | 1.895x", "b | 11.210 | {} | 1.514x", "c | 0.869 | 6.101 | 7.021x"),
    ): ("19.667", "16.967", "11.210 / 19.667"),
    rows(
        "Part | Within | Across | Δ",
        *("a | 32.9 ms | 0.0 ms | −32.9", "b | 95.2 ms | 106.0 ms | +{}", "c | 68.9 ms | 51.2 ms | −17.7"),
        "d | 12.0 ms | 67.2 ms | +55.2",
    ): ("13.8", "10.8", "95.2 ms - 106.0 ms"),
    rows(
        "Task | Full | Top 2048 | Δ 2048 | Top 1024 | Δ 1024",
        *("a | 0.172 | 0.145 | −0.027 | 0.153 | −0.019", "b | 0.380 | 0.329 | −0.051 | 0.281 | −0.099"),
        *("c | 0.644 | 0.731 | +{} | 0.773 | +0.129", "d | 0.181 | 0.178 | −0.003 | 0.183 | +0.002"),
    ): ("0.807", "0.087", "0.644 - 0.731"),
    rows(
        "Length | Standard | Flash | Savings",
        *("512 | 2 MB | 0.25 MB | 88%", "1024 | 8 MB | {} MB | 94%", "2048 | 32 MB | 1 MB | 97%"),
        *("4096 | 128 MB | 2 MB | 98%", "8192 | 512 MB | 4 MB | 99%"),
    ): ("5.0", "0.5", "5.0 MB / 8 MB"),
    rows(
        "Context | @24t | @4t | Δ",
        *("4096 | 564.4 | 561.6 | +0.5%", "16384 | {} | 596.1 | +0.2%", "32768 | 596.8 | 597.2 | −0.1%"),
    ): ("795.6", "597.6", "795.6 / 596.1"),
    rows(
        "Item | Before | Our platform | Saved", "a | $432 | $155 | $277", "b | $180 | ${} | $60", "c | $84 | $71 | $13"
    ): (*("210", "120", "$180 - $210"),),
}
SOUND = (
    "~23 layers per card × ~4.3 GiB × 2 ≈ ~200 GiB per card",
    "**Fraction**: $0.30 / 0.60 = 50\\%$",
    "Thus, $134.924 / 459 = 29.40$%.",
    "8 GPUs / 1 GPU = 6.1x",
    "Random crops of 32x32 with padding=4",
    rows("频率 | 时间 | 能耗 | 相对", "1380 MHz | 454.5s | 779,045J | —", "1260 MHz | 511.0s | 596,680J | 能耗 -23.4%"),
    rows(
        "Script | Time/epoch | Best eval acc", "a | ~40 s | — (loss 0.398)", "b | 65.5 min | 94.56%", "c | 82 min | 94%"
    ),
    "Batch 16 → 32 (1.8x fewer), hidden 1024 → 512 (1.4x smaller), 16.2 vs 14.1, +20% of time",
    "Links from 300 to 600 GB/s, 1.4x faster. Memory 40 GB vs 80 GB — 1.5x speedup. 1 to 4 GPUs, 3.1x.",
    "From batch=8 → batch=16 (1.6x throughput), rank=1 → rank=4 (3.1x faster); about 20 percentage points of it.",
    rows(
        "Metric | New | Old | Δ",
        *("Prefill 2K | 1,220 tok/s | 1,930 | -37%", "Prefill 4K | 1,360 tok/s | 2,040 | -33%"),
        *("Decode | 32.61 tok/s | 65.44 | -50%", "Accepted | 0.97 | 2.48 | -61%", "VRAM | 22.5 GiB | 20.7 GiB | +1.8"),
    ),
    "Latency 95 ms vs 210 ms, 3.1x higher throughput; utilization 34% → 52% (1.8x)",
    "loss 3.12 (ppl 24.1) as the mean of batches; bits: loss 3.12, ppl 8.69; loss 3.12 / 40.5",
    rows("Config | before | after | gain", "a | 22.8 | 23.5 | +3.1%", "b | 592 | 613 | +6.5%", "c | 562 | 586 | +4.3%"),
    "Accuracy: 71.2 → 75.3 (+4.1%), recall 0.71 → 0.75 (+4%)",
    rows(
        "Length | Noise | INT8 acc. | FP32 vs INT8",
        *("16 | 0.05 | 100.0% | 0.0%", "16 | 0.30 | 100.0% | 0.0%", "16 | 0.80 | 62.7% | 0.55%"),
        *("64 | 0.05 | 100.0% | 0.0%", "64 | 0.30 | 100.0% | 0.0%", "64 | 0.80 | 97.0% | 0.10%"),
    ),
    rows(
        "Recompute | Step | Peak mem",
        "none | 2.20 s | 47.7 GiB",
        "some | 2.45 s (+11%) | 36 GiB",
        "all | 2.9 s (+32%) | 28 GiB",
    ),
    rows("Length | Standard | Flash | Savings", "512 | 2 MB | 0.25 MB | 88%", "1024 | 8 MB | 5 MB | 94%"),
    rows("Part | Within | Across | Δ", "a | 32.9 ms | 0.0 ms | −32.9", "b | 95.2 ms | 106.0 ms | +0.0138 s"),
    "27 ms × 100 = 2.68 s, and 512 MB + 512 MB = 1 GB, and 312 TFLOPS x 50% = 156",
    "2 + 4 × 8 = 34, (2 + 3) × 4 × 5 = 100, 2^4 × 3 = 48, 2 * 8 * 4 * 2 = 128",
    "8 x 7B = 46.7B parameters; 2 x 4090 = 48 GB; 2 x 3090 = 48GB of memory; 10 x 3 days = 1 month; 5 x 2 = 8 slots",
    "phases 1 + 2 = 8 hours; 1 h + 30 min = 90 min",
    "batch 8 × 4 = 32 × 2 GPUs = 64; 1.5B params × 2B = ~3.0 GB; v1.5 × 2 = 4",
    "Fold 3/30 (95.2%), 8/10 (85%), 4/100 (96%), TP=4/8 (12% overhead), 12/2024 (15.1%), 5/40 (12%)",
    "```\nTrain Epoch: 1 [1280/60000 (4%)] Loss: 2.3\n```\nTrial 30/100 (62.5%) was best, GPU 31/32 (41%) idle",
    "```python\nx = 2 * 3 == 7\nassert 2 * 3 = 7  # it fails\n```",
    rows(
        "Setting | Default | Value",
        *("micro batch size | 1 | 4", "gradient accumulation | 8 | 2", "global batch size | 512 | 64"),
    ),
    rows(
        "Field | Value",
        *("Micro batch | 12", "Gradient accumulation | 40", "Batch | 491,520 tokens", "Sequence length | 1024"),
    ),
    "On 8 GPUs:\n\n"
    + rows("Field | Value", "Micro batch | 4", "Gradient accumulation | 2", "Global batch | 64", "Seq length | 512"),
    COSTS.format("2,448").replace("$2,592", "$5,184").replace("$3,072", "$6,144"),  # two kinds of machines
    rows(
        "Run | s/it | Speedup vs FP32",
        *("A FP32 | 160.7195 | 1.000x", "A FP16 | 48.7121 | 3.299x", "B FP32 | 185.2034 | 1.000x"),
        *("B FP16 | 54.2174 | 3.416x", "B + 1 | 51.9470 | 3.565x", "B + 2 | 49.8680 | 3.714x"),
    ),
    rows(
        "Workflow | FP32 | First FP16 | First speedup | Best FP16 | Best speedup",
        *("A | 160.72 s/it | 48.71 s/it | 3.299x | 48.71 s/it | 3.299x",),
        "B | 185.20 s/it | 54.22 s/it | 3.416x | 49.87 s/it with 5 GiB | 3.714x",
    ),
    rows(
        "qps_target | achieved_qps | p50 latency (ms) | tokens/s",
        *("1 | 1.005 | 683 | 61.5", "2 | 1.994 | 690 | 60.8", "5 | 4.992 | 721 | 58.2", "10 | 9.981 | 760 | 55.3"),
        "50 | 36.01 | 868 | 45.5",
    ),
    rows(
        "Tier | Unique (B) | Epochs | Seen (B) | Share",
        *("web | 3,000 | 1 | 3,000 | 20.0%", "code | 1,100 | 2 | 2,200 | 14.7%", "math | 500 | 2 | 1,000 | 6.7%"),
        *("natural | 300 | 4 | 1,200 | 8.0%", "other | 900 | 1.5 | 1,350 | 9.0%"),
    ),
    rows(
        "Metric | A | B | Gain",
        *(
            "MFU | 25.2% | 41.3% | +16.1pp",
            "Busy | 70.5% | 81.9% | +11.4pp",
            "Rate | 57,826 tok/s | 94,760 tok/s | +63.9%",
        ),
        "Idle | 9.5% | 18.1% | +8.6pp",
    ),
    rows("Part | Bytes", "a | 2", "b | 2", "c | 4", "Total | 16"),  # perhaps of more
    "58 s (2.1 min); a step took 350 ms (1.2 s)",
    rows("Model | Plateau | vs Real", "a (256) | 0.54 | 22%", "b (1024) | 0.85 | 34%", "c (1024) | 1.72 | 69%"),
    rows(
        "Config | Loss A | Loss B | Diff", "a | 3.2814 | 3.2533 | 0.9%", "b | 3.2611 | 3.2512 | 0.02", "c | 3 | 4 | 1"
    ),
    rows("Field | Value", "Tokens per step | 524,288", "Max steps | 19,073", "Total tokens | 10B"),
    rows("Field | Value", "Tokens per step | 524,288", "Max steps | 19,073", "Dataset tokens | 15,000,000"),
    rows("Way | Cost ($) | Relative cost", "A | 3,025 | 1.00x", "B | 2,663 | 1.14x", "C | 2,037 | 1.94x"),  # of quality
    rows("Metric | Original | 4 bits | Improvement", "Size | 2,700 MB | 550 MB | 4.0x", "Loss | 2.1 | 2.2 | none"),
    rows("GPUs | Batch Size | Time (s)", "2 | 1 | 3,277", "4 | 4 | 1,266", "8 | 4 | 672"),  # perhaps of each device
)


@pytest.mark.parametrize("text", CASES)
def test_the_wrong_figure_is_named_and_the_right_one_is_not(tmp_path, text):
    wrong, right, words = CASES[text]
    found = accusations(audited(tmp_path, f"{RESULTS}\n## Setup\n\n{text.replace('{}', wrong)}\n"))
    assert any(words in evidence for evidence in found.values()), found
    assert accusations(audited(tmp_path, f"{RESULTS}\n## Setup\n\n{text.replace('{}', right)}\n")) == {}


UNKNOWN = rows(
    "Part | Layers | Heads | All", "a | 12.5 | 25.1 | 37.6", "b | 13.1 | 40.2 | 53.3", "c | 17.4 | 51.3 | {}"
)


@pytest.mark.parametrize(
    ("text", "figure", "is_wrong"),
    [
        *((UNKNOWN + "| d | 20.8 | 60.9 | 81.7 |\n", figure, figure == "86.7") for figure in ("86.7", "68.7")),
        *(("We have 2 nodes x 8 GPUs = {} GPUs.", figure, figure == "61") for figure in ("61", "16")),
    ],
)
def test_what_is_not_understood_counts_where_it_is_wrong(tmp_path, text, figure, is_wrong):
    try:
        found = accusations(audited(tmp_path, text.format(figure)))
    except NoResult:
        found = {}
    assert bool(found) is is_wrong


@pytest.mark.parametrize("text", SOUND)
def test_what_is_right_or_unclear_is_not_accused(tmp_path, text):
    assert accusations(audited(tmp_path, f"{RESULTS}\n## Setup\n\n{text}\n")) == {}


NODES = rows(
    "Cluster | Nodes | GPUs | DP size | Tokens/s",
    *("a | 1 | 8 | 8 | 8,000", "a | 2 | 16 | 16 | 15,900", "a | 4 | 32 | 32 | 31,000", "a | 8 | 64 | 64 | 60,000"),
    *("b | 1 | 8 | - | 7,000", "b | 2 | 16 | - | 13,900", "b | 4 | 32 | - | 27,000"),
)
ZEROS = rows(
    "Config | GPUs | forward (ms) | backward (ms) | Total (ms)",
    *("a | 1 | 0.0 | 0.0 | 5.0", "b | 2 | 1.0 | 2.0 | 9.0", "c | 4 | 1.0 | 3.0 | 8.0"),
)


@pytest.mark.parametrize("table", [NODES, ZEROS])
def test_cells_without_a_figure_and_zeros_break_no_check(tmp_path, table):
    assert FILE_UNREADABLE.name not in audited(tmp_path, table)


def test_a_product_is_printed_to_the_last_digit(tmp_path):
    table = rows(
        "GPUs | images/s | epoch time (s)", "1 | 812 | 1578", "2 | 1583 | 809", "4 | 3036 | 522", "8 | 5602 | 229"
    )
    finding = audited(tmp_path, table)["row-stands-out"]
    assert "3036 x 522 = 1,584,792 (images/s, epoch time (s)); in 3 other rows 1,281,336" in finding.evidence


@pytest.mark.parametrize(("batch", "is_named"), [(99, True), (24, False), (12, True)])
def test_tokens_of_a_step_are_held_against_the_batch_that_a_person_states(tmp_path, batch, is_named):
    lines = [f"iter {step}: loss {3 - step / 100:.4f}, time {50 + step / 10:.2f}ms, mfu 2.13%" for step in range(9)]
    (tmp_path / "t.log").write_text("\n".join(["tokens per iteration will be: 24,576", *lines]))
    stated = {"": {"global_batch": batch, "seq_len": 1024, "world_size": 1}}
    found = [finding.code for finding in audit_paths([tmp_path], given=stated).findings]
    assert ("batch-arithmetic" in found) == is_named


@pytest.mark.parametrize(("devices", "is_noted"), [(4, True), (2, False)])
def test_a_number_of_a_claims_file_that_the_log_contradicts_is_noted(tmp_path, devices, is_noted):
    lines = [f"step: {step} loss: {3 - step / 100:.4f} tokens/s: {4000 + step}" for step in range(9)]
    (tmp_path / "t.log").write_text("\n".join(["world_size: 2", *lines]))
    (tmp_path / "c.yaml").write_text(f'scaleproof_claims: "1.0"\nruns: {{t: {{world_size: {devices}}}}}\n')
    reasons = [file.reason for file in gather([tmp_path]).unread]
    said = f"runs.t: world_size is {devices}, which is not used: t.log itself says 2"
    assert reasons == [said] * is_noted
