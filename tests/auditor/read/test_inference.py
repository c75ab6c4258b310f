"""Inference is told apart from training: it is marked, and never held against training."""

import pytest
from markdown_tables import accusations, audited, rows

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.words import is_inference

TABLE = rows("GPUs | images/s", "1 | 810", "8 | 6,310")
SERVED = rows("Concurrency | Throughput (tok/s) | p99 latency (ms)", "1 | 92 | 1412", "16 | 1120 | 2210")


def work(folder, text):
    (folder / "README.md").write_text(text)
    return [line.work for line in audit_paths([folder]).readings]


@pytest.mark.parametrize(
    "texts",
    [
        ["Inference performance"],
        ["A100", "Prefill and decode"],
        ["vLLM on one H100", "Training"],
        ["Time to first token"],
        ["benchmarks inference results csv"],
    ],
)
def test_inference_is_known(texts):
    assert is_inference(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["Training performance", "Inference"],
        ["Training and inference"],
        ["Latency (ms)"],  # of anything
        ["Step latency (ms)"],
        ["Latency (ms)", "Fine-tuning"],
        ["A new generation of GPUs"],
        ["images/s"],
    ],
)
def test_training_is_no_inference(texts):
    assert not is_inference(texts)


def test_rows_of_inference_are_marked(tmp_path):
    lines = work(tmp_path, f"# Training\n\n{TABLE}\n# Inference\n\n{TABLE}")
    assert ["inference" in line for line in lines] == [False, False, True, True]
    assert work(tmp_path, f"# A model\n\n{SERVED}") == ["inference"] * 2


def test_a_sentence_on_training_is_not_held_against_inference(tmp_path):
    table = rows("GPUs | images/s", "1 | 810", "8 | 2,310")
    sentence = "On 8 GPUs we reach a speedup of 7.8x.\n\n"
    assert "claim-not-in-data" in accusations(audited(tmp_path, sentence + table))
    assert accusations(audited(tmp_path, f"{sentence}## Inference\n\n{table}")) == {}


MEASURED = "gpus,samples_per_sec,epoch_time_s\n1,201.1,60.2\n2,384.6,31.5\n4,741.5,16.4\n"


@pytest.mark.parametrize(("name", "differs"), [("results.csv", True), ("inference.csv", False)])
def test_files_of_inference_are_not_held_against_training(tmp_path, name, differs):
    (tmp_path / name).write_text(MEASURED.replace("epoch_time_s", "time_s"))
    text = rows("GPUs | Samples/s | Time (s)", "1 | 201.1 | 60.2", "2 | 384.6 | 31.5", "4 | 873.0 | 16.4")
    assert ("files-disagree" in audited(tmp_path, text)) is differs
