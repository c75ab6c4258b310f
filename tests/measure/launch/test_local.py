"""How ranks are started on one machine: their line, their threads, their environment."""

import pytest

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.launch import local


def cell(**execution):
    return expand_cells(Campaign.model_validate({"title": "x", "execution": execution}))[0]


@pytest.mark.parametrize(
    ("execution", "devices", "threads"),
    [
        ({"strategy": "zero2-offload", "geometry": "1x4"}, 4, 4),
        ({"strategy": "zero2-offload", "geometry": "1x1"}, 4, 16),
        ({"strategy": "zero2-offload", "geometry": "1x1"}, 0, 1),
        ({"strategy": "zero2-offload", "device": "cpu"}, 4, 1),
        ({"strategy": "zero2", "geometry": "1x4"}, 4, 1),
    ],
)
def test_an_offloaded_optimizer_gets_its_share_of_the_cores(tmp_path, execution, devices, threads):
    chosen = cell(**execution)
    assert local.threads_per_rank(chosen, 16, devices) == threads
    assert local.rank_environment(chosen, tmp_path, 16, devices)["OMP_NUM_THREADS"] == str(threads)


@pytest.mark.parametrize(
    ("execution", "cores", "gpus", "processes"),
    [
        ({"geometry": "1x8", "strategy": "ddp"}, 104, 8, "13"),
        ({"geometry": "1x1"}, 104, 8, "32"),
        ({"geometry": "1x8", "strategy": "dp"}, 16, 8, "16"),
        ({"geometry": "1x8", "strategy": "ddp"}, 4, 8, "1"),
        ({"geometry": "1x2", "strategy": "ddp"}, 4, 0, None),
        ({"geometry": "1x2", "strategy": "ddp", "device": "cpu"}, 4, 8, None),
    ],
)
def test_ranks_share_the_cores_that_compile(tmp_path, monkeypatch, execution, cores, gpus, processes):
    """Each of eight would otherwise start 32 processes; a rank on a CPU is bound to its cores."""
    monkeypatch.delenv(local.COMPILERS, raising=False)
    assert (
        local.rank_environment(cell(**execution), tmp_path, cores, gpus).get("TORCHINDUCTOR_COMPILE_THREADS")
        == processes
    )


def test_a_users_number_of_compiling_processes_stays(tmp_path, monkeypatch):
    monkeypatch.setenv(local.COMPILERS, "5")
    assert local.rank_environment(cell(), tmp_path, 16, 1)[local.COMPILERS] == "5"


def test_ranks_of_one_machine_meet_without_its_name(tmp_path):
    """torchrun --standalone would otherwise use the host's full name, which isolated nodes cannot resolve."""
    assert "--local-addr=127.0.0.1" in local.torchrun_command(cell(), tmp_path / "request.json")
