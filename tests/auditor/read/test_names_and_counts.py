"""Numbers in names are no counts; rates of one device, statistics and spreads are known in all their forms."""

from pathlib import Path

import pytest
from markdown_tables import rows

from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.reported_tables import remarks_of
from scaleproof.auditor.read.sentences import stated_figures
from scaleproof.auditor.read.words import describe, devices_in

NAMES = [
    "A100 GPU",
    "T4 GPU",
    "V100 GPUs",
    "MI300 GPUs",
    "RTX 3090 GPU",
    "GTX 1080 GPU",
    "TPU v4 chip",
    "GPT-2 GPU",
    "llama2 gpu",
    "ZeRO-3 GPU",
    "fp16 gpu",
    "resnet50 GPU",
    "AI MAX+ 395 GPU",
    "RX 7900 XTX GPU",
    "Adreno 740 GPU",
    "Arc 770 GPU",
    "--config.prefetch_num_workers=8",
    "A100两机8卡",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_a_name_is_no_number_of_devices(name):
    assert "devices" not in describe(name).numbers
    assert devices_in(name) is None


@pytest.mark.parametrize("name", ["M4 GPU", "Apple M4", "Apple M4 GPU", "M2 Max GPU"])
def test_an_apple_chip_is_one_device(name):
    assert describe(name).numbers["devices"] == 1


COUNTS = {"4 GPUs": 4, "2 3090 GPUs": 2, "4xA100": 4, "A100x8": 8, "resnet50-4gpu": 4, "ddp_4gpu": 4, "llama 8 gpus": 8}


@pytest.mark.parametrize("name", COUNTS)
def test_a_number_of_devices_is_one(name):
    assert describe(name).numbers["devices"] == COUNTS[name]


def test_a_sentence_about_an_a100_is_not_about_a_hundred():
    figure = stated_figures([(1, "On one A100 GPU: 2.3x faster.", ())], "README.md")[0]
    assert figure.devices != 100


PER_DEVICE = (
    "tok_s_gpu tok/s/gpu tokens_per_sec_per_gpu samples_per_second_per_device img/s/GPU toks_per_s_per_gpu tgs "
    "tokens/sec/chip ips_per_gpu tokens/day/gpu tokens/s/rank tok/s/H100 img_s_gcd tok_s_gpu_mean mean_tok_s_gpu "
    "tps_per_gpu tokens/gpu/s throughput_gpu TFLOPS/chip tok_s_npu"
)


@pytest.mark.parametrize("heading", PER_DEVICE.split())
def test_a_rate_of_one_device_is_known(heading):
    assert column_of(heading).per_device is True
    assert column_of(heading).kind in ("tokens_per_s", "samples_per_s", "rate", "flops_per_s")


TIMES = [
    *[(f"{words} (min)", "epoch_time_s", 60.0) for words in ("time per epoch", "duration per epoch", "epoch time")],
    *[(f"{words} (h)", "total_time_s", 3600.0) for words in ("wall clock", "training time", "elapsed", "runtime")],
    *[(f"{words} (ms)", "step_time_s", 0.001) for words in ("step time", "time per iteration", "batch time")],
    ("wall-clock per epoch (min)", "epoch_time_s", 60.0),
    ("step time (us)", "step_time_s", 1e-6),
    ("communication time [s]", "communication_time_s", 1.0),
]


@pytest.mark.parametrize(("heading", "kind", "seconds"), TIMES)
def test_a_time_is_known_with_its_unit(heading, kind, seconds):
    column = column_of(heading)
    assert (column.kind, column.scale) == (kind, pytest.approx(seconds))


DEVICES = ["B300", "B200", "GB300", "GB200", "GH200", "H200", "H100", "A100", "MI300X", "L40S", "V100", "T4"]


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_is_known_by_its_name(device):
    assert describe(f"8x {device}").words == {"device": device}
    assert describe(f"8x {device}").numbers == {"devices": 8}


@pytest.mark.parametrize("heading", ["tok_s", "tok/s", "step_s", "batch_s", "tok_s_total", "gpu_s"])
def test_another_figure_is_none(heading):
    assert not column_of(heading).per_device
    assert column_of(heading).kind != "steps_per_s"


@pytest.mark.parametrize("heading", ["Throughput Std. Dev", "step_time_std_ms", "throughput_stderr", "tok/s stdev"])
def test_a_column_of_spreads_is_no_column_of_rates(heading):
    assert column_of(heading).statistic == "std"


@pytest.mark.parametrize(
    "heading", ["tok/s (mean ± std)", "Throughput [95% CI]", "tok/s +/- sd", "Step time (ms ± std)"]
)
def test_a_mean_with_its_spread_is_the_mean(heading):
    assert column_of(heading).kind in ("tokens_per_s", "rate", "step_time_s")
    assert column_of(heading).statistic in (None, "mean")


def test_a_column_of_differences_is_no_time():
    assert column_of("Time +/-").kind is None


JUDGED = [
    "Target Met",
    "✅ Exceeds target",
    "as expected",
    "Below target",
    "First 8 targets complete",
    "Meets the goal",
]


@pytest.mark.parametrize("text", JUDGED)
def test_a_judgement_is_no_estimate(text):
    assert remarks_of(text) == set()


@pytest.mark.parametrize("text", ["Target", "Expected (linear)", "estimated", "12.3 (expected)", "Goal: 4x"])
def test_an_estimate_is_one(text):
    assert remarks_of(text) & {"estimated", "theoretical"}


def test_the_target_of_a_draft_is_a_model():
    assert remarks_of("Mamba (130M) as draft model with a Qwen2.5-3B target") == set()


def test_what_one_table_makes_of_a_heading_does_not_reach_the_next(tmp_path):
    """Headings are understood once, and each table may change its columns."""
    before = column_of("DDP").words
    (tmp_path / "a.md").write_text("## Throughput (img/s)\n\n| Model | DDP | FSDP |\n|---|---|---|\n| vit | 10 | 9 |\n")
    assert gather([tmp_path]).tables
    assert column_of("DDP").words == before == {}


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("INT8 KV cache (incl. fp32 scales)", "precision", "int8"),
        ("FP16 KV cache", "precision", "fp16"),
        ("llama.cpp-hip", "model", None),
        ("llama 3.1 8b", "model", "llama 3.1 8b"),
        ("vLLM serial latency", "strategy", None),
        ("serial", "strategy", "single"),
        ("llama 70B, pp512", "strategy", None),
        ("PP2DP4TP1", "strategy", "pipeline parallel"),
    ],
)
def test_a_word_of_another_thing_is_not_taken(text, kind, word):
    assert describe(text).words.get(kind) == word


@pytest.mark.parametrize(("text", "is_projected"), [("Q projection", 0), ("120 (proj)", 1), ("Projection (8 GPUs)", 1)])
def test_a_layer_called_projection_is_measured(text, is_projected):
    assert ("projected" in remarks_of(text)) == is_projected


@pytest.mark.parametrize(
    ("heading", "kind", "note"),
    [("DDP speed (img/s)", "samples_per_s", "DDP"), ("speed (A100)", "rate", "A100"), ("1 GPU (images/s)", None, "")],
)
def test_a_unit_in_brackets_is_no_note(heading, kind, note):
    column = column_of(heading)
    assert (column.kind, column.note) == (kind, note)


def of_nodes(folder: Path, *lines: str) -> list[int | None]:
    """The devices of each row of a table of nodes and GPUs."""
    (folder / "README.md").write_text("# Runs\n\n" + rows("Nodes | GPUs | Runtime (s)", *lines))
    (table,) = gather([folder]).tables
    return [row.devices for row in table.rows]


def test_fewer_gpus_than_nodes_are_those_of_each_node(tmp_path: Path) -> None:
    lines = ("1 | 1 | 900", "1 | 4 | 240", "2 | 1 | 460", "3 | 1 | 310", "2 | 4 | 125")
    assert of_nodes(tmp_path, *lines) == [1, 4, 2, 3, 8]


def test_gpus_that_may_be_of_all_nodes_are(tmp_path: Path) -> None:
    assert of_nodes(tmp_path, "1 | 1 | 900", "1 | 4 | 240", "2 | 8 | 125", "4 | 16 | 64") == [1, 4, 8, 16]
    assert of_nodes(tmp_path, "1 | 4 | 240", "2 | 1 | 460", "2 | 8 | 125") == [4, 1, 8]  # one may be mistyped
