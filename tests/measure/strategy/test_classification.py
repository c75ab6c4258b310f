"""Text classification with every strategy on real ranks: the same work, the same learning, padding not counted."""

import json
import re

import numpy as np
import pytest

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.comparability import CLASSIFIER_TOLERANCE
from scaleproof.ground.records.steps import loss_series
from scaleproof.measure.corpus.reader import LabelledFile, SamplePlan


def of(classifying, strategy: str, precision: str = "fp32"):
    return classifying[f"{strategy}-{precision}-n1x2-ga2"]


def test_all_were_measured(classifying):
    assert len(classifying) == 15
    assert all(run.ok for run in classifying.values())


def test_tokens_are_those_of_the_documents_and_not_the_padding(classifying, labelled):
    file = LabelledFile(labelled, "train", 48)
    plan = SamplePlan(file.n_samples, 16, 1)
    tokens = sum(file.count(plan.step(s)) for s in range(4, 34))
    assert tokens < 0.95 * 16 * 30 * 48, "there is padding"
    for run in classifying.values():
        ledger, window = run.metrics.ledger, run.metrics.window
        assert ledger.tokens_consumed == ledger.tokens_planned == window.tokens == tokens
        assert ledger.samples_consumed == 480
        assert ledger.equal
        assert window.tokens_per_s == pytest.approx(tokens / window.wall_time_s)
        assert run.metrics.training_config.dataset_subset_sizes == {"train": 300, "val": 100}


def test_the_same_samples_make_the_same_losses(classifying):
    assert len({run.metrics.ledger.consumed_sha256 for run in classifying.values()}) == 1
    reference = loss_series(classifying["single-n1x1"].steps)
    for run in classifying.values():
        precision = run.metrics.training_config.precision
        difference = abs(loss_series(run.steps) - reference).max()
        assert difference <= CLASSIFIER_TOLERANCE[precision] / 2, (run.name, difference)


def test_it_learns_and_validation_agrees(classifying):
    reference = classifying["single-n1x1"].metrics.validation
    assert (reference.samples, reference.targets, reference.perplexity) == (50, 50, None)
    assert reference.loss < 0.9 * np.log(4)
    assert reference.accuracy > 0.6, "one in four is chance"
    for run in classifying.values():
        found, low = run.metrics.validation, run.metrics.training_config.precision == "bf16"
        assert found.samples_sha256 == reference.samples_sha256
        assert found.loss == pytest.approx(reference.loss, rel=1e-2 if low else 1e-4), run.name
        assert found.accuracy == pytest.approx(reference.accuracy, abs=0.04)  # two samples of fifty


def test_the_audit_finds_nothing_invalid(classifying):
    found = [f for f in audit("classes", list(classifying.values())).findings if f.severity == "invalid"]
    assert [(f.code, f.runs, f.evidence) for f in found] == []


def test_padding_that_is_counted_is_found(classifying):
    run = of(classifying, "ddp")
    data = json.loads((run.folder / "training_metrics.json").read_text())
    data["ledger"]["tokens_consumed"] = 16 * 30 * 48
    counted = type(run)(run.folder, type(run.metrics).model_validate(data))
    found = {f.code: f for f in audit("classes", [counted]).findings}
    assert re.search(r"480 with 23,040 counted", found["tokens-differ-from-batches"].evidence)


def test_the_model_is_named_and_its_arithmetic_counted(classifying):
    metrics = of(classifying, "ddp").metrics
    assert metrics.training_config.model_size == "num_layers=2, n_heads=2, d_model=32, dim_feedforward=64"
    assert metrics.model.flops_per_token_causal is None
    assert "padding is no work" in metrics.utilization.convention
    per_sample = metrics.ledger.tokens_consumed / metrics.ledger.samples_consumed
    layers = 2 * (4 * 32**2 + 2 * 32 * 64)
    assert metrics.model.flops_per_token == pytest.approx(
        6 * layers + 12 * 2 * 32 * per_sample + 6 * 128 / per_sample, rel=1e-3
    )
