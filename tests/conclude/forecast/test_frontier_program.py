"""A trial of memory, with a GPU's allocator and the steps played by stand-ins."""

import json
import resource
from types import SimpleNamespace

import pytest
import torch

from scaleproof.conclude.forecast import frontier_program
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.trainer import measure, session

WARM, TIMED = 5, 2  # retries of the allocator in a warm-up step, and in a later one


@pytest.fixture
def trial(monkeypatch, tmp_path):
    """Make a trial of three steps with the cell's keys: what was done, and what the trial has written."""

    def made(**execution) -> tuple[list, dict]:
        done, retries = [], [0]

        def steps(first: int, count: int) -> SimpleNamespace:
            done.append((first, count))
            retries[0] += count * (TIMED if first >= 3 else WARM)
            return SimpleNamespace(wall=1.0)

        def probed(ready: object, step: int) -> tuple[None, None, None]:
            done.append(f"step {step} as written")
            retries[0] += WARM
            return None, None, None

        def joined(cell: object, timeout_s: float, hosts: object, gpus: int) -> SimpleNamespace:
            done.append(f"{gpus} devices")
            return SimpleNamespace(rank=0, device=torch.device("cuda", 0), gather=lambda own: [own])

        cell = expand_cells(Campaign.model_validate({"title": "x", "execution": {"device": "cuda"} | execution}))[0]
        ready = SimpleNamespace(
            compiled=cell.execution.compile, steps=steps, strategy=SimpleNamespace(device=torch.device("cuda", 0))
        )
        monkeypatch.setattr(measure, "set_up", lambda session, request: ready)
        monkeypatch.setattr(measure, "make_probed_step", probed)
        monkeypatch.setattr(session, "Session", joined)
        allocator = {
            "empty_cache": lambda: None,
            "memory_allocated": lambda device: 10,
            "max_memory_allocated": lambda device: 15,
            "max_memory_reserved": lambda device: 20,
            "memory_stats": lambda device: {"num_alloc_retries": retries[0]},
            "reset_accumulated_memory_stats": lambda device: retries.__setitem__(0, 0),
        }
        for name, stand_in in allocator.items():
            monkeypatch.setattr(torch.accelerator, name, stand_in)
        request = SimpleNamespace(cell=cell, time_limit=60, hosts=[], gpus=2, out=str(tmp_path))
        frontier_program._try_steps(request, 3)
        return done, json.loads((tmp_path / frontier_program.RESULT).read_text())

    return made


@pytest.mark.parametrize(
    ("words", "limit", "is_memory"),
    [
        ("Resource temporarily unavailable", resource.RLIM_INFINITY, True),
        ("Resource temporarily unavailable", 0, False),
        ("bad_alloc", 0, True),
        ("NaN in loss", 0, False),
    ],
)
def test_an_error_for_want_of_memory_is_one(monkeypatch, tmp_path, words, limit, is_memory):
    (tmp_path / frontier_program.SETTINGS).write_text(f'{{"limit_bytes": {limit}, "steps": 1}}')

    def failing(request: object, steps: int) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(frontier_program, "_try_steps", failing)
    with pytest.raises(MemoryError if is_memory else RuntimeError, match=words):
        frontier_program.try_cell(SimpleNamespace(out=str(tmp_path)))


def test_a_compiled_cell_must_fit_as_it_is_written_too(trial):
    """The run makes a step like that in its warm-up."""
    done, _ = trial(compile=True)
    assert done == ["2 devices", (0, 1), "step 1 as written", (2, 1), (3, 3)]


def test_any_other_cell_makes_its_steps_alone(trial):
    done, _ = trial()
    assert done == ["2 devices", (0, 2), (3, 3)]


@pytest.mark.parametrize("compiled", [False, True])
def test_retries_are_those_of_the_timed_steps(trial, compiled):
    _, result = trial(compile=compiled)
    assert result == {"base": 10, "nbytes": 20, "retries": 3 * TIMED, "seconds": pytest.approx(1 / 3)}
