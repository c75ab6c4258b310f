"""Sweeps and trials of memory have the devices that were seen, and to themselves, as runs do."""

from types import SimpleNamespace

import pytest
import torch
from synthetic import cells

from scaleproof.conclude.forecast import frontier, sweep, sweep_program
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.trainer.session import WrongWorld


class Taken(Exception):
    pass


def meanwhile(*arguments, **options) -> None:
    """A run that would begin now: it waits."""

    def pause(seconds: float) -> None:
        raise Taken

    with hold_devices(devices_of(cells()[1], []), "a run", pause=pause):
        pass


def test_a_run_waits_for_a_sweep(tmp_path, repository, monkeypatch, capsys):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sweep, "cuda_devices", list)
    monkeypatch.setattr(sweep, "run_launch", meanwhile)
    path = tmp_path / "two.yaml"
    path.write_text("title: t\nvary: {geometry: [1x1, 1x2]}\n")
    loaded = LoadedCampaign(path)
    ((group, cell),) = sweep.groups_of(loaded).items()
    with pytest.raises(Taken):
        sweep.measure_sweep(loaded, group, cell, tmp_path / "sweep", launches=1)
    assert "waiting for the sweep of two 1x2 (process" in capsys.readouterr().err


def test_a_run_waits_for_a_frontier(tmp_path, tokens, monkeypatch, capsys):
    monkeypatch.setattr(frontier, "cuda_devices", list)
    monkeypatch.setattr(frontier, "_trial_figures", meanwhile)
    (cell,) = cells(workload={"tokenizer": "bpe-512", "seq_len": 32}, execution={"device": "cpu"}, vary={})
    with pytest.raises(Taken):
        frontier.find_frontier(cell, "demo", tokens, tmp_path, 1e9, 60, compare_speed=False)
    assert f"waiting for the frontier of demo {cell.slug} (process" in capsys.readouterr().err


def test_a_rank_of_a_sweep_knows_the_devices_that_the_launcher_saw(tmp_path, monkeypatch):
    """With a torch that cannot use them it ends, where it would otherwise sweep gloo on the CPU."""
    (tmp_path / sweep_program.SETTINGS).write_text("{}")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    request = SimpleNamespace(cell=cells()[1], time_limit=60, hosts=[], gpus=2, out=str(tmp_path))
    with pytest.raises(WrongWorld, match="launcher saw 2 CUDA devices"):
        sweep_program.time_collectives(request)
