"""The sides of benchmarks/trainers.py are the same work: the hand-written model is GPT-2, and every side runs."""

import importlib.util
import os
import time

import pytest
import torch

from scaleproof.ground.campaign.config import shape_of
from scaleproof.ground.facts.counts import count_gpt2


@pytest.fixture
def trainers(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    import trainers

    return trainers


def test_the_model_written_by_hand_is_a_gpt2(trainers):
    from plain_gpt import PlainGPT

    cell = trainers.cell_of(2, 1, 32)
    shape = shape_of(cell.workload.model)
    model = PlainGPT(shape, cell.vocab_size)
    assert sum(p.numel() for p in model.parameters()) == count_gpt2(shape, cell.vocab_size, 32).parameters
    loss = model(torch.randint(0, 2048, (2, 33)))
    assert loss.item() == pytest.approx(torch.log(torch.tensor(2048.0)).item(), rel=0.05), "as good as chance"


def test_every_side_runs_and_ours_is_compared(trainers, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(trainers, "STEPS", 1)
    cell = trainers.cell_of(2, 1, 32)
    folder = trainers.write_tokens(tmp_path, cell)
    ratio = trainers.compare(cell, folder, 2, time.monotonic() + 60)
    text = capsys.readouterr().out
    assert ratio > 0
    assert all(f"{side}: " in text for side in ("scaleproof", "plain GPT", "minimal loop", "Trainer"))


def test_a_trainer_of_one_device_joins_no_process_group(trainers, monkeypatch):
    """accelerate wraps the model in DDP where it sees these variables; loop.py, which is imported, sets them to run."""
    import loop

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    importlib.reload(loop)
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR"} & set(os.environ)


def test_without_accelerate_one_line_says_so(trainers, tmp_path, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "accelerate" else find(name, *a))
    for side in ("measured_side", "by_hand"):
        monkeypatch.setattr(trainers, side, lambda *arguments: lambda: 1.0)
    assert trainers.compare(trainers.cell_of(2, 1, 32), tmp_path, 2, time.monotonic() + 60) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "accelerate" in line]
    assert lines == ["Trainer: left out, accelerate is not installed (pip install '.[bench]')"]


def test_no_side_is_begun_without_time(trainers, tmp_path, capsys):
    cell = trainers.cell_of(2, 1, 32)
    assert trainers.compare(cell, trainers.write_tokens(tmp_path, cell), 2, time.monotonic() - 1) is None
    assert "left out, the time is over" in capsys.readouterr().out


def test_nothing_compared_is_no_success(trainers, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["trainers.py", "--budget", "-1"])
    monkeypatch.setattr(trainers, "compare", lambda *arguments: None)
    assert trainers.main() == 1
    assert "nothing was compared" in capsys.readouterr().out


def test_the_shape_that_is_compared_most_comes_first(trainers, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    code = importlib.util.find_spec("trainers").loader.get_code("trainers")
    scope = {"__name__": "on_a_gpu", "__file__": trainers.__file__}
    exec(code, scope)
    assert scope["SHAPES"][0] == (32, 16, 1024)
