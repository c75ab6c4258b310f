"""Real runs: real processes, gloo, torchrun. Each takes seconds, so those of several tests are shared."""

import os
from pathlib import Path

import pytest
from patience import HANGS

from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.records.run import Run, read_run
from scaleproof.measure.launch.run import run_cell
from scaleproof.measure.trainer.request import PlannedRun

FAULTS = Path(__file__).parent / "faults"


def tiny_cell(**keys) -> Cell:
    """The one cell of a campaign that trains in well under a second."""
    data = {
        "title": "tiny",
        "workload": {
            "model": {"layers": 1, "width": 32, "heads": 2, "context": 64},
            "seq_len": 32,
            "tokenizer": "bpe-512",
        },
        "work": {"global_batch": 8, "steps": 24, "warmup_steps": 4},
    }
    # Ranks forked from a process that has libraries loaded: some seconds less for each run. launch/test_forked.py
    # shows that they are the ranks that torchrun starts.
    data["execution"] = {"start": "forked"}
    for name, section in keys.items():
        data[name] = data.get(name, {}) | section
    return expand_cells(Campaign.model_validate(data))[0]


@pytest.fixture(scope="session")
def make_cell():
    return tiny_cell


@pytest.fixture(scope="session")
def run_tiny(tokens: Path, tmp_path_factory: pytest.TempPathFactory):
    """Make a run of a tiny cell, optionally with a faulty program, and read it back."""

    def run(program: str = "scaleproof.measure.trainer", limit: float = HANGS, tokens: Path = tokens, **keys) -> Run:
        out = tmp_path_factory.mktemp("run") / "rep1"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(FAULTS), prepend=os.pathsep)
            run_cell(PlannedRun(tiny_cell(**keys), "tiny", tokens, limit), out, program)
        return read_run(out)

    return run


@pytest.fixture(scope="session")
def one(run_tiny) -> Run:
    return run_tiny()


@pytest.fixture(scope="session")
def two(run_tiny) -> Run:
    return run_tiny(execution={"geometry": "1x2"})


@pytest.fixture(scope="session")
def two_accumulating(run_tiny) -> Run:
    return run_tiny(execution={"geometry": "1x2"}, work={"micro_batch": 2})
