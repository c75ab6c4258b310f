"""Runs on CUDA as the launcher makes and publishes them: sound ones are not accused of anything."""

import os
import sys
from pathlib import Path

import pytest
from patience import HANGS, OF_A_BUSY_MACHINE

import fake_cuda
from fake_cuda.nvml import Nvml
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.records.run import read_run
from scaleproof.measure.launch.run import run_cell
from scaleproof.measure.machine import gpus
from scaleproof.measure.trainer.request import PlannedRun

# Other tests run beside this one.
OF_ITS_NEIGHBOURS = OF_A_BUSY_MACHINE | {"data-wait", "ranks-uneven"}


@pytest.fixture
def launched(device: Path, tokens: Path, tmp_path: Path, monkeypatch):
    """Make a run on two devices that are not there, by the real launcher."""
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(2))
    monkeypatch.setattr(gpus, "torch_cuda_version", lambda: "13.0")
    monkeypatch.setenv(fake_cuda.LIBRARY, str(device))
    monkeypatch.setenv("DS_ACCELERATOR", "cuda")
    monkeypatch.setenv("PYTHONPATH", str(Path(fake_cuda.__file__).parents[1]), prepend=os.pathsep)

    def run(**execution):
        data = {
            "title": "fake",
            "workload": {
                "model": {"layers": 2, "width": 64, "heads": 2, "context": 64},
                "seq_len": 64,
                "tokenizer": "bpe-512",
            },
            "work": {"global_batch": 8, "steps": 60, "warmup_steps": 12},
            "execution": {"device": "cuda"} | execution,
        }
        (cell,) = expand_cells(Campaign.model_validate(data))
        out = tmp_path / cell.slug / "rep1"
        run_cell(PlannedRun(cell, "fake", tokens, HANGS), out, "fake_cuda.trainer")
        return read_run(out)

    return run


@pytest.mark.parametrize(("strategy", "precision"), [("ddp", "bf16"), ("fsdp", "fp16")])
def test_a_sound_run_is_not_accused(launched, strategy, precision):
    run = launched(strategy=strategy, geometry="1x2", precision=precision)
    assert run.metrics.status == "ok", run.metrics.failure
    assert run.metrics.window.clock == "cuda_events"
    findings = [finding for finding in audit("fake", [run]).findings if finding.severity != "note"]
    assert [f"{each.code}: {each.evidence}" for each in findings if each.code not in OF_ITS_NEIGHBOURS] == []
