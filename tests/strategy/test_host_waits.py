"""No host wait in a step, and causal attention without a mask in what is compiled: one rank, every strategy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalebench.campaign.cells import expand
from scalebench.campaign.config import Campaign
from scalebench.trainer.request import Request

MODEL = {"layers": 1, "width": 32, "heads": 2, "context": 32}
EAGER = [("single", "fp32"), ("ddp", "fp32"), ("fsdp", "bf16"), ("zero1", "bf16"), ("zero2", "bf16"), ("zero3", "bf16")]
COMPILED = [("single", "fp32"), ("ddp", "bf16"), ("fsdp", "bf16"), ("zero2", "bf16"), ("zero3", "bf16")]
PROGRAM = Path(__file__).parent / "program_host_waits.py"


@pytest.fixture(scope="module")
def results(tokens: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    data = {
        "title": "waits",
        "workload": {"model": MODEL, "seq_len": 16, "tokenizer": "bpe-512"},
        "work": {"global_batch": 4, "micro_batch": 2},
        "execution": {"device": "cpu", "loss": "fused"},
        "cells": [
            {"strategy": strategy, "precision": precision, "compile": chosen is COMPILED}
            for chosen in (EAGER, COMPILED)
            for strategy, precision in chosen
        ],
        "vary": {"strategy": ["zero0"]},
    }
    root = tmp_path_factory.mktemp("waits")
    paths = []
    for cell in expand(Campaign.model_validate(data)):
        path = root / f"{cell.slug}.request.json"
        Request.of(cell, tokens, root, campaign="waits", run_id="1", time_limit=120, provenance={}).write(path)
        paths.append(str(path))
    (root / "list.json").write_text(json.dumps(paths))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    done = subprocess.run(
        [*launcher, str(PROGRAM), str(root / "list.json"), str(root)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    slugs = [Request.read(Path(path)).slug for path in paths]
    return {slug: json.loads((root / f"{slug}.json").read_text()) for slug in slugs}


def of(results: dict[str, dict], strategy: str, precision: str, compiled: bool) -> dict:
    names = [n for n in results if n.split("-")[:2] == [strategy, precision]]
    (name,) = [n for n in names if n.endswith("-compile") == compiled]
    return results[name]


@pytest.mark.parametrize(("strategy", "precision"), EAGER)
def test_no_step_reads_the_device(results, strategy, precision):
    waits = of(results, strategy, precision, False)["waits"]
    if strategy in ("zero1", "zero2", "zero3"):
        # DeepSpeed's clipping reads the norm of each group of parameters, two here, in the update
        # (is_invalid_grad_norm).
        assert all(where.startswith("_local_scalar_dense deepspeed/runtime/utils.py") for where in waits)
        assert sum(waits.values()) <= 2
    else:
        assert waits == {}


@pytest.mark.parametrize(("strategy", "precision"), COMPILED)
def test_compiled_attention_is_causal_without_a_mask(results, strategy, precision):
    result = of(results, strategy, precision, True)
    assert result["waits_in_graphs"] == []
    assert result["attention"], "no attention operator was compiled"
    assert all(call == {"causal": True, "mask": False} for call in result["attention"])


def test_a_wait_would_be_counted(monkeypatch):
    """The census itself."""
    monkeypatch.syspath_prepend(PROGRAM.parent)
    import torch
    from program_host_waits import Waits

    with Waits() as waits:
        torch.ones(3).sum().item()
    assert sum(waits.seen.values()) == 1
