"""Real ranks for every strategy: one world per size, which measures all cells of that size in turn."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from patience import HANGS

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.records.run import Run, read_run
from scaleproof.measure.launch.local import DEEPSPEED, FORKED, LIBRARIES, PREFIX
from scaleproof.measure.trainer.request import Request

SHARING = ["ddp", "fsdp", "zero0", "zero1", "zero2", "zero3"]
OFFLOADING = ["zero1-offload", "zero2-offload", "zero3-offload"]
# World size -> what is measured there. Four ranks take long on two cores: what two of them show is not repeated.
MATRIX = {
    1: {"strategy": ["single", *SHARING], "precision": ["fp32"], "accumulation": [1]},
    2: {"strategy": SHARING + OFFLOADING, "precision": ["fp32", "bf16"], "accumulation": [1, 2]},
    4: {"strategy": SHARING, "precision": ["fp32"], "accumulation": [2]},
}

# Beside them, between two ranks: ways to do the same in another order, or with less memory.
SAME_RESULTS = [
    {"strategy": "fsdp", "fsdp_prefetch": 2},
    {"strategy": "zero2", "overlap_comm": True},
    {"strategy": "ddp", "loss": "fused"},
    {"strategy": "zero3", "loss": "chunked"},
    {"strategy": "zero3", "loss": "fused", "precision": "bf16"},
    {"strategy": "fsdp", "loss": "fused", "precision": "bf16"},
    {"strategy": "fsdp", "reduce_dtype": "bf16", "precision": "bf16"},
    {"strategy": "ddp", "attention": "flash"},
]


def cells(world: int):
    return expand_cells(
        Campaign.model_validate(
            {
                "title": "matrix",
                "workload": {
                    "model": {"layers": 2, "width": 64, "heads": 2, "context": 64},
                    "seq_len": 32,
                    "tokenizer": "bpe-512",
                },
                "work": {"global_batch": 8, "steps": 5, "warmup_steps": 4},
                "execution": {"geometry": f"1x{world}", "device": "cpu"},
                "vary": MATRIX[world],
                "cells": SAME_RESULTS if world == 2 else [],
                "exclude": [{"strategy": s, "precision": "bf16"} for s in OFFLOADING] if world == 2 else [],
            }
        )
    )


class RunRanks(Protocol):
    def __call__(self, program: str, ranks: int, requests: Path) -> None: ...


@pytest.fixture(scope="session")
def run_ranks() -> RunRanks:
    """Run a program of this folder, a module, in ranks that are forked from a process with all libraries loaded.

    tests/measure/launch/test_forked.py shows that they are the ranks that torchrun starts.
    """
    folder = Path(__file__).parent
    libraries = json.dumps([LIBRARIES, DEEPSPEED])
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}

    def run(program: str, ranks: int, requests: Path) -> None:
        words = [sys.executable, "-m", FORKED, str(requests), program, str(ranks), libraries, PREFIX]
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout[-5000:]

    return run


@pytest.fixture(scope="session")
def measure_all(tokens: Path, tmp_path_factory: pytest.TempPathFactory, run_ranks: RunRanks):
    """Measure some cells in one world of `ranks`; returns their runs by slug."""

    def run(ranks: int, wanted: list, program: str = "program_matrix", folder: Path = tokens) -> dict[str, Run]:
        root = tmp_path_factory.mktemp(f"world{ranks}")
        paths = []
        for cell in wanted:
            out = root / cell.slug
            out.mkdir()
            run_id = f"20260101T000000Z-{ranks:04x}{len(paths):04x}"
            provenance = PROVENANCE | {"timestamp_utc": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
            request = Request.for_cell(
                cell, folder, out, campaign="matrix", run_id=run_id, time_limit=HANGS, provenance=provenance
            )
            request.write(out / "request.json")
            paths.append(str(out / "request.json"))
        (root / "list.json").write_text(json.dumps(paths))
        run_ranks(program, ranks, root / "list.json")
        return {cell.slug: read_run(root / cell.slug) for cell in wanted}

    return run


CLASSIFYING = {
    "title": "classes",
    "workload": {
        "task": "classification",
        "model": {"d_model": 32, "heads": 2, "layers": 2, "feed_forward": 64, "context": 64},
        "seq_len": 48,
        "tokenizer": "bpe-512",
    },
    "work": {
        "global_batch": 16,
        "steps": 30,
        "warmup_steps": 4,
        "validation_samples": 50,
        "optimizer": {"learning_rate": 1e-3},
    },
    "execution": {"device": "cpu", "geometry": "1x2"},
}


@pytest.fixture(scope="session")
def classifying(measure_all, labelled) -> dict[str, Run]:
    """One run of a classifier with each strategy that a CPU has: between two processes, and `single`."""
    two = expand_cells(
        Campaign.model_validate(
            CLASSIFYING
            | {"vary": {"strategy": [*SHARING, "zero2-offload"], "precision": ["fp32", "bf16"], "accumulation": [2]}}
        )
    )
    one = expand_cells(Campaign.model_validate(CLASSIFYING | {"vary": {"strategy": ["single"], "geometry": ["1x1"]}}))
    return measure_all(2, two, folder=labelled) | measure_all(1, one, folder=labelled)


PROVENANCE = {
    "git_commit": "unknown",
    "git_dirty": None,
    "code_sha256": "c" * 64,
    "command_line": "pytest",
    "env": {},
    "host": {"hostname": "node", "os": "Linux", "cpu_busy_before": 0.0},
    "hardware": {"cpu_model": "CPU", "cpu_count": 2, "cpu_allowed": 2, "memory_bytes": 2**34},
    "scheduler": None,
}


@pytest.fixture(scope="session")
def worlds(measure_all) -> dict[int, dict[str, Run]]:
    return {world: measure_all(world, cells(world)) for world in MATRIX}
