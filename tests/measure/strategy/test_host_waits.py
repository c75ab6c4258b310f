"""No host wait in a step, and causal attention without a mask in what is compiled: one rank, every strategy."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from patience import HANGS
from torch._dynamo.utils import counters

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.corpus.reader import NO_TOKEN, open_split
from scaleproof.measure.model.build import build_model
from scaleproof.measure.strategy.native import Single
from scaleproof.measure.trainer.request import Request

MODEL = {"layers": 1, "width": 32, "heads": 2, "context": 32}
EAGER = [
    ("single", "fp32"),
    ("ddp", "fp32"),
    ("fsdp", "bf16"),
    ("zero0", "fp32"),
    ("zero1", "bf16"),
    ("zero2", "bf16"),
    ("zero3", "bf16"),
]
COMPILED = [
    ("single", "fp32"),
    ("ddp", "bf16"),
    ("fsdp", "bf16"),
    ("zero0", "fp32"),
    ("zero1", "bf16"),
    ("zero2", "bf16"),
    ("zero3", "bf16"),
]
# Reasons for which torch.compile leaves a graph to read a value of the device: the read would be in no graph.
READS = re.compile(r"Tensor\.item|data.dependent|dynamic shape operator", re.IGNORECASE)
PROGRAM = Path(__file__).parent / "program_host_waits.py"


@pytest.fixture(scope="module")
def results(tokens: Path, tmp_path_factory: pytest.TempPathFactory, run_ranks) -> dict[tuple[str, str, bool], dict]:
    data = {
        "title": "waits",
        "workload": {"model": MODEL, "seq_len": 16, "tokenizer": "bpe-512"},
        "work": {"global_batch": 4, "micro_batch": 2},
        "execution": {"device": "cpu", "loss": "fused"},
        "cells": [
            {"strategy": strategy, "precision": precision, "compile": chosen is COMPILED}
            for chosen in (EAGER, COMPILED)
            for strategy, precision in chosen
            if (strategy, chosen) != ("zero0", EAGER)
        ],
        "vary": {"strategy": ["zero0"]},  # the one that is not listed above
    }
    root = tmp_path_factory.mktemp("waits")
    paths = []
    for cell in expand_cells(Campaign.model_validate(data)):
        path = root / f"{cell.slug}.request.json"
        Request.for_cell(cell, tokens, root, campaign="waits", run_id="1", time_limit=HANGS, provenance={}).write(path)
        paths.append(str(path))
    (root / "list.json").write_text(json.dumps(paths))
    run_ranks("program_host_waits", 1, root / "list.json")
    requests = [Request.read(Path(path)) for path in paths]
    keys = [(r.cell.execution.strategy, r.cell.execution.precision, r.cell.execution.compile) for r in requests]
    return {k: json.loads((root / f"{r.slug}.json").read_text()) for k, r in zip(keys, requests, strict=True)}


@pytest.mark.parametrize(("strategy", "precision"), EAGER)
def test_no_step_reads_the_device(results, strategy, precision):
    waits = results[strategy, precision, False]["waits"]
    if strategy in ("zero1", "zero2", "zero3"):
        # DeepSpeed's clipping reads the norm of each group of parameters, two here, in the update
        # (is_invalid_grad_norm).
        assert all(where.startswith("_local_scalar_dense deepspeed/runtime/utils.py") for where in waits)
        assert sum(waits.values()) <= 2
    else:
        assert waits == {}


@pytest.mark.parametrize(("strategy", "precision"), COMPILED)
def test_compiled_attention_is_causal_without_a_mask(results, strategy, precision):
    result = results[strategy, precision, True]
    assert result["waits_in_graphs"] == []
    assert not [reason for reason in result["graph_breaks"] if READS.search(reason)]
    if strategy in ("single", "ddp"):
        assert result["graphs"] == 2, "forward and backward: a branch on a value of the device would make more"
    assert result["attention"], "no attention operator was compiled"
    assert all(call == {"causal": True, "mask": False} for call in result["attention"])


def test_a_wait_would_be_counted(monkeypatch):
    """The census itself."""
    monkeypatch.syspath_prepend(PROGRAM.parent)
    from program_host_waits import Waits

    with Waits() as waits:
        torch.ones(3).sum().item()
    assert sum(waits.seen.values()) == 1


@pytest.mark.parametrize("reading", [lambda x: x * x.sum().item(), lambda x: x[x.nonzero()]])
def test_a_wait_of_a_compiled_program_leaves_its_graph(reading):
    """torch.compile says so, in the words that are looked for."""
    torch._dynamo.reset()
    counters.clear()
    torch.compile(reading, backend="eager")(torch.ones(3))
    assert any(READS.search(reason) for reason in counters["graph_break"])


def test_an_encoders_step_reads_nothing(monkeypatch, labelled):
    """Padding is a mask that is never looked into."""
    monkeypatch.syspath_prepend(PROGRAM.parent)
    from program_host_waits import Waits

    workload = {
        "task": "classification",
        "model": {"d_model": 32, "heads": 2, "layers": 1, "feed_forward": 64, "context": 64},
        "seq_len": 48,
        "tokenizer": "bpe-512",
    }
    data = {"title": "waits", "workload": workload, "work": {"global_batch": 4}, "execution": {"strategy": "single"}}
    chosen = expand_cells(Campaign.model_validate(data))[0]
    strategy = Single(chosen, build_model(chosen, 4), torch.device("cpu"))
    samples = torch.from_numpy(open_split(labelled, "train", chosen.workload).read(np.arange(32)))
    assert (samples == NO_TOKEN).any()
    with Waits() as waits:
        strategy.micro_step(samples, boundary=True)
        strategy.update(0)
    assert waits.seen == {}
