"""Cells on a GPU that is not there: one process for each world size makes their steps."""

import json
import os
import shutil
from pathlib import Path

import fake_cuda
import pytest

SHARING = ["fsdp", "zero0", "zero1", "zero2", "zero3"]  # DDP's reducer is C++ that reads its tensors' memory
PRECISIONS = ["fp32", "bf16", "fp16"]
BOTH_DEVICES = [{"strategy": "dp", "geometry": "1x2", "precision": precision} for precision in PRECISIONS]
WORLDS = {1: ["single", "dp", *SHARING], 2: SHARING}
PROGRAM = Path(__file__).parent / "program_steps.py"


def campaign(world: int) -> dict:
    ranks = [name for name in WORLDS[world] if name != "dp"]  # its one process drives all devices
    return {
        "title": "steps",
        "workload": {
            "model": {"layers": 2, "width": 64, "heads": 2, "context": 64},
            "seq_len": 64,
            "tokenizer": "bpe-512",
        },
        "work": {"micro_batch": 4, "accumulation": 2, "global_batch": "derive"},
        "execution": {"geometry": f"1x{world}", "device": "cuda"},
        "vary": {"strategy": ranks, "precision": PRECISIONS},
        "cells": BOTH_DEVICES if "dp" in WORLDS[world] else [],
    }


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the device."""
    if not shutil.which("g++"):
        if os.environ.get("CI"):
            pytest.fail("CI must have g++")
        pytest.skip("g++ is not installed: it builds the device that is not there")
    return fake_cuda.build(tmp_path_factory.mktemp("device"))


@pytest.fixture(scope="session")
def steps(device: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, dict]]:
    """World size -> strategy and precision -> what the second step was, as program_steps.py writes it."""
    folder = tmp_path_factory.mktemp("steps")
    found = {}
    for world in WORLDS:
        asked, answered = folder / f"campaign{world}.json", folder / f"results{world}.json"
        asked.write_text(json.dumps(campaign(world)))
        fake_cuda.run(PROGRAM, device, str(asked), str(answered))
        found[world] = json.loads(answered.read_text())
    return found
