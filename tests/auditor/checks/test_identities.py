"""Figures that are products of others in their row, what the text around a table says of them, and what it does not."""

import pytest
from markdown_tables import accusations, audited, rows

MODELS = "Model | Training tokens | Tokens/s/GPU | GPUs | Training time"
BILL = "Run | GPUs | Hours | $ per GPU-hour | Total cost"
TOKEN_BILL = "GPUs | tokens/s | EUR/h | EUR per 1M tokens"
SIZES = "GPUs | tokens/s/GPU | MFU"
WORK = "GPUs | images/s | Time for 90 epochs"
LOSSES = "Run | Step time (ms) | Training loss"
OVER_ONE = "GPUs | Median speedup | Median efficiency"
STEP_FLOPS = "Sec/it | TFLOPs"
SHARES = "SeqLen | MFU | HFU"
MESH = "Nodes | Size | DP | TP | PP | GBS | Sec/it | TFLOPs"
MESHES = ("32 | 70B | 4 | 8 | 8 | 1024 | 61.4 | 121.7", "32 | 70B | 8 | 4 | 8 | 1024 | 66.0 | 113.2")
STEPS = (*MESHES, "32 | 70B | 16 | 4 | 4 | 1024 | 58.3 | 128.2", "32 | 70B | 8 | 8 | 4 | 1024 | 54.8 | 136.3")
CHUNKS = "GPUs | DP | PP | Mic-BS | PP chunks | Glob-BS | TFLOPs"

# name -> (table, code, words of the evidence)
FAULTS = {
    "a bill in another currency": (
        rows(
            BILL.replace("$", "€"),
            *("a | 8 | 6.0 | 2.49 | €119.52", "b | 8 | 9.5 | 2.49 | €289.24", "c | 16 | 31.0 | 2.49 | €1,235.04"),
        ),
        "totals-disagree",
        "given is €289.24",
    ),
    "a price of tokens": (
        rows(TOKEN_BILL, "1 | 10000 | 2.50 | 0.0694", "2 | 19000 | 5.00 | 0.0731", "4 | 36000 | 10.00 | 0.0972"),
        "totals-disagree",
        "10.00 / 36000 = 0.07716, given is 0.0972",
    ),
    "tokens, rate and days": (
        rows(MODELS, "1.3B | 300B | 11,200 | 64 | 4.84 days", "7B | 1T | 3,000 | 256 | 15.1 days")[:-1]
        + "\n| 13B | 1T | 1,650 | 256 | 12.2 days |\n",
        "totals-disagree",
        "1,650 x 12.2 days x 256 = 0.4452T",
    ),
    "tokens of the heading": (
        rows(
            "Model | GPUs | Tokens/s/GPU | Training Time (9T tokens)",
            *("1B | 1024 | 52,000 | 2.0 days", "3B | 1024 | 19,400 | 5.2 days", "8B | 1024 | 8,000 | 2.7 days"),
        ),
        "totals-disagree",
        "1.911T tokens, given are 9T tokens",
    ),
    "days for a stated number of tokens and GPUs": (
        rows(
            "Model | GPUs | Tokens / sec / GPU | Est. time to train in days (10T tokens, 1K GPUs)",
            *("8B | 8 | 12,064 | 9.4", "15B | 64 | 7,200 | 41.3", "70B | 64 | 1,632 | 69.3"),
        ),
        "totals-disagree",
        "7,200 x 41.3 x 1024 = 26.31T tokens",
    ),
    "GPU hours of a rate of one": (
        rows(
            " | Total Token | GPU hours | Speed token/s/gpu", "7B | 173.7B | 13412 | 3587", "13B | 500B | 38590 | 1616"
        ),
        "totals-disagree",
        "1616 x 38590 = 224.5B",
    ),
    "a rate over the whole time": (
        rows(
            "GPUs | Batch per GPU | Steps | Total time (s) | Samples/s",
            *("1 | 16 | 500 | 98.1 | 81.5", "2 | 16 | 500 | 110.2 | 145.2", "4 | 16 | 500 | 126.4 | 507.2"),
        ),
        "totals-disagree",
        "16 x 500 x 4 / 126.4 = 253.2",
    ),
    "a perplexity": (
        rows(
            "Model | Val loss | Perplexity | tokens/s",
            "a | 3.28 | 26.6 | 9",
            "b | 3.12 | 22.6 | 5",
            "c | 2.97 | 29.5 | 2",
        ),
        "totals-disagree",
        "e to the Val loss 2.97 is 19.49",
    ),
    "hours of all GPUs": (
        rows(
            "Nodes | GPUs | Wall time (h) | GPU-hours",
            "1 | 8 | 19.2 | 153.6",
            "2 | 16 | 10.1 | 161.6",
            "4 | 32 | 5.4 | 72.8",
        ),
        "totals-disagree",
        "5.4 x 32 = 172.8",
    ),
    "a bill": (
        rows(BILL, "a | 8 | 6.0 | 2.49 | $119.52", "b | 8 | 9.5 | 2.49 | $289.24", "c | 16 | 31.0 | 2.49 | $1,235.04"),
        "totals-disagree",
        "2.49 x 9.5 x 8 = 189.2",
    ),
    "a bill by a price in the text": (
        "On demand, $2.50 per H100 hour.\n\n"
        + rows("GPUs | Hours | Total cost", "1 | 20.0 | $50.00", "4 | 6.0 | $60.00", "8 | 4.0 | $60.00"),
        "totals-disagree",
        "$2.50 per H100 hour x 4.0 x 8 = 80.00",
    ),
    "a sequence length above the table": (
        "## Sequence length 2048\n\n"
        + rows("GPUs | samples/s | tokens/s", "1 | 2.41 | 4,936", "2 | 4.70 | 9,626", "4 | 9.12 | 28,678"),
        "totals-disagree",
        "9.12 x 2048 = 18,678",
    ),
    "a batch in the paragraph above": (
        "All runs use 8 GPUs with a batch size of 32 per GPU.\n\n"
        + rows("Model | s/step | images/s", "a | 0.121 | 2,116", "b | 0.198 | 1,293", "c | 0.187 | 1,869"),
        "rate-times-time",
        "as in 2 other rows",
    ),
    "a loss above guessing": (
        "## GPT-2 124M, vocabulary of 50,257 tokens\n\n" + rows(LOSSES, "DDP | 212 | 3.91", "FSDP fp8 | 171 | 11.84"),
        "did-not-train",
        "random guessing among 50,257 tokens has 10.82",
    ),
    "about": (
        rows(
            "GPUs | Throughput | Speedup", "1 | ~310 img/s | 1x", "2 | ~600 img/s | ~1.9x", "4 | ~1,150 img/s | ~5.2x"
        ),
        "speedup-not-in-table",
        "3.7x",
    ),
    "a sum of phases without units": (
        rows(
            "Config | forward | backward | optimizer | total",
            "a | 61.2 | 121.9 | 12.3 | 195.4",
            "b | 70.1 | 140.2 | 8.0 | 218.3",
        )[:-1]
        + "\n| c | 82.0 | 160.3 | 6.1 | 208.4 |\n",
        "totals-disagree",
        "the total of 82.0, 160.3, 6.1",
    ),
    "an efficiency over one device that the table leaves out": (
        rows(OVER_ONE, "2 | 1.91x | 95.5%", "4 | 3.72x | 93.0%", "8 | 7.05x | 44.1%"),
        "efficiency-not-in-table",
        "44.1%, but its speed-up is 7.05x with 8 times the devices",
    ),
    "a global batch of replicas and chunks": (
        rows(
            CHUNKS,
            "64 | 4 | 16 | 2 | 64 | 512 | 48.1",
            *(
                "64 | 2 | 32 | 4 | 64 | 512 | 46.2",
                "64 | 8 | 8 | 2 | 64 | 2048 | 51.0",
                "64 | 2 | 32 | 2 | 64 | 256 | 45",
            ),
        ),
        "row-stands-out",
        "Glob-BS",
    ),
    "a sentence that names the strategy of the table below": (
        "FSDP keeps 78% scaling efficiency at 64 GPUs.\n\n"
        + rows("GPUs | tokens/s", "8 | 24,100", "16 | 47,500", "64 | 178,800"),
        "claim-not-in-data",
        "7.42x",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_does_not_follow_is_named(tmp_path, name):
    text, code, words = FAULTS[name]
    findings = audited(tmp_path, text)
    assert words in findings[code].evidence
    assert accusations(findings).keys() == {code}


SOUND = {
    "three rows, of which two agree by their coarse digits": rows(STEP_FLOPS, "140 | 115", "131 | 123", "121 | 98"),
    "a step of twice what the text says": (
        "B=4, T=256\n\n" + rows("Model | ms/step | tok/s", "small | 3126 | 328", "large | 1600 | 1280")
    ),
    "MFU and HFU without and with recomputation": rows(
        SHARES, "2048 | 41.25 | 55.0", "4096 | 42.42 | 56.56", "8192 | 43.36 | 43.36", "16384 | 46.9 | 46.9"
    ),
    "tokens, rate and days": rows(
        "Model | Tokens | Tokens/s/GPU | GPUs | Days", "65B | 1.4T | 380 | 2048 | 21", "33B | 1.4T | 700 | 2048 | 11.3"
    ),
    "a rate of steps without start-up": rows(
        "GPUs | Batch per GPU | Steps | Total time (s) | Samples/s",
        *("1 | 16 | 500 | 98.1 | 91.5", "2 | 16 | 500 | 110.2 | 175.2", "4 | 16 | 500 | 126.4 | 327.2"),
    ),
    "perplexities of words, losses of tokens": rows(
        "Model | Val loss | Perplexity | tokens/s", "a | 3.28 | 41.6 | 9", "b | 3.12 | 35.6 | 5", "c | 2.97 | 29.5 | 2"
    ),
    "FLOPs that recompute activations, beside MFU": rows(
        "GPU | Micro batch | TFLOP/s per GPU | MFU", "A100 | 1 | 198 | 47.6%", "A100 | 2 | 211 | 50.7%"
    ),
    "samples that are padded": rows(
        "Method | Seq len | samples/s | tokens/s",
        "full | 2048 | 1.2 | 2,110",
        "lora | 2048 | 2.0 | 3,480",
        "packed | 2048 | 1.9 | 3,890",
    ),
    "days with restarts": rows(
        "Stage | Tokens | GPUs | tokens/s/GPU | Days",
        "1 | 1.0T | 256 | 3,000 | 15.1",
        "2 | 200B | 256 | 2,400 | 3.8",
        "3 | 50B | 128 | 2,350 | 2.9",
    ),
    "GPU-hours with failed runs": rows(
        "Model | GPUs | Wall time (h) | GPU-hours",
        "1B | 64 | 100 | 6,400",
        "3B | 128 | 150 | 24,800",
        "7B | 256 | 310 | 97,000",
    ),
    "energy at the wall": rows(
        "Run | Avg power (W) | Time (h) | Energy (kWh)",
        "a | 300 | 10.0 | 4.1",
        "b | 280 | 5.0 | 2.2",
        "c | 350 | 2.0 | 0.9",
    ),
    "a bill by two prices in the text": "Spot: $1.10/GPU-hour, else $2.50/GPU-hour.\n\n"
    + rows("GPUs | Hours | Total cost", "1 | 20.0 | $50.00", "4 | 6.0 | $60.00", "8 | 4.0 | $35.20"),
    "a bill with storage": rows(
        BILL, "a | 8 | 6.0 | 2.49 | $131.20", "b | 8 | 9.5 | 2.49 | $204.10", "c | 16 | 31.0 | 2.49 | $1,610.00"
    ),
    "a price of tokens": rows(
        TOKEN_BILL, "1 | 10000 | 2.50 | 0.0694", "2 | 19000 | 5.00 | 0.0731", "4 | 36000 | 10.00 | 0.0772"
    ),
    "list prices of tokens": rows(
        TOKEN_BILL, "1 | 10000 | 2.50 | 0.50", "2 | 19000 | 5.00 | 0.50", "4 | 36000 | 10.00 | 0.60"
    ),
    "a bill of which one run has storage": rows(BILL, "a | 8 | 6.0 | 2.49 | $119.52", "b | 8 | 9.5 | 2.49 | $289.24"),
    "efficiencies over one device that the table leaves out": rows(
        OVER_ONE, "2 | 1.91x | 95.5%", "4 | 3.72x | 93.0%", "8 | 7.05x | 88.1%"
    ),
    "efficiencies of something else": rows(OVER_ONE, "2 | 1.91x | 80%", "4 | 3.72x | 74%", "8 | 7.05x | 61%"),
    "meshes of equally many nodes": rows(MESH, *STEPS),
    "half of the nodes idle": rows(MESH, MESHES[0], "32 | 70B | 4 | 4 | 8 | 1024 | 130.0 | 57.5"),
    "ranks that share a context": rows(
        MESH.replace("GBS", "CP"), "32 | 7B | 4 | 8 | 8 | 1 | 61 | 121", "32 | 7B | 8 | 4 | 8 | 1 | 66 | 113"
    )[:-1]
    + "\n| 32 | 7B | 4 | 8 | 4 | 2 | 60 | 119 |\n",
    "steps of another model": rows(MESH, *STEPS, "32 | 7B | 8 | 8 | 4 | 1024 | 6.1 | 122.0"),
    "steps of another batch": rows(MESH, *STEPS, "32 | 70B | 8 | 8 | 4 | 2048 | 109.0 | 137.0"),
    "a strategy called DP": rows("GPUs | DP (s) | DDP (s)", "1 | 61.0 | 61.2", "2 | 40.4 | 31.9", "4 | 30.9 | 16.4"),
    "longer sequences": rows(
        "Sequence length | tokens/s/GPU | MFU",
        *("4,096 | 10,300 | 51.8%", "32,768 | 8,100 | 55.0%", "131,072 | 4,350 | 57.9%"),
    ),
    "MFU of several models": rows(
        "Model | GPUs | tokens/s/GPU | MFU",
        *("1B | 8 | 21,800 | 48.1%", "1B | 16 | 21,500 | 47.4%", "7B | 8 | 3,410 | 51.0%"),
    ),
    "a batch of some of the rows": "At 8 GPUs and a batch size of 32 per GPU the first model is best.\n\n"
    + rows("Model | s/step | images/s", "a | 0.121 | 2,116", "b | 0.198 | 2,593", "c | 0.187 | 1,869"),
    "losses of another task": "## Detection, 80 classes\n\n" + rows(LOSSES, "a | 61 | 11.90", "b | 88 | 0.72"),
    "losses of the first steps": "## GPT-2\n\n"
    + rows("Step | Training loss | tokens/s", "0 | 11.02 | 900", "900 | 3.9 | 990"),
    "about": rows(
        "GPUs | Throughput | Speedup", "1 | ~300 img/s | 1x", "2 | ~600 img/s | ~1.9x", "4 | ~1,100 img/s | ~3.5x"
    ),
    "a sentence that names another strategy": "FSDP keeps 78% scaling efficiency at 64 GPUs, DDP does better:\n\n"
    + rows("GPUs | tokens/s", "8 | 24,100", "16 | 47,500", "64 | 178,800"),
    "a sentence that names another model": "Our ViT-L keeps 78% efficiency at 64 GPUs. ResNet-50 does better:\n\n"
    + rows("GPUs | images/s", "8 | 24,100", "16 | 47,500", "64 | 178,800"),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_follows_or_is_not_said_is_not_accused(tmp_path, name):
    assert accusations(audited(tmp_path, SOUND[name])) == {}


def test_a_micro_batch_below_one_breaks_no_check(tmp_path):
    table = rows("GPUs | micro-batch | accumulation | global batch", "1 | 0.5 | 4 | 2", "2 | 0.5 | 4 | 4")
    assert "file-unreadable" not in audited(tmp_path, table)
