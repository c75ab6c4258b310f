"""`cluster check` asks for a GPU where trainings do, and sees whether torch can use it."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scaleproof.driver.cluster import check as cluster_check
from scaleproof.driver.cluster import compute_node
from scaleproof.driver.cluster.site import Site
from scaleproof.measure.machine.gpus import Gpu

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
L4 = Gpu("NVIDIA L4", "GPU-1", 24, (8, 9), "580.1")


def node(**fields):
    return {
        "host": "n1",
        "reads": True,
        "python": "3.11",
        "torch": "2.13.0",
        "error": "",
        "interface": "eth0",
        "devices": ["NVIDIA L4"],
        "device_problem": None,
    } | fields


@pytest.mark.parametrize(
    ("fields", "ok", "text"),
    [
        ({}, True, "n1: torch uses NVIDIA L4"),
        ({"devices": []}, False, "no GPU is visible, although one was asked for"),
        ({"devices": [], "device_problem": "GPU 3 does not answer"}, False, "GPU 3 does not answer"),
        ({"device_problem": "Tesla V100 has compute capability 7.0"}, False, "Tesla V100 has compute capability 7.0"),
    ],
)
def test_the_device_of_a_node(tmp_path, fields, ok, text):
    check = cluster_check._node_checks(node(**fields), {"n1"}, tmp_path, devices=True)[-1]
    assert check.ok == ok
    assert text in cluster_check.line(check)


def test_without_devices_nothing_is_said_of_them(tmp_path):
    assert len(cluster_check._node_checks(node(devices=[]), {"n1"}, tmp_path, devices=False)) == 3


@pytest.mark.parametrize(("asked", "ok"), [(1, True), (2, False)])
def test_every_node_that_was_asked_must_answer(monkeypatch, tmp_path, asked, ok):
    """One of two that fails is no sound cluster of one node."""

    def run(command, **options):
        token = Path(command[-1])
        token.with_name(f"{token.name}.n1").touch()
        return SimpleNamespace(stdout=json.dumps(node(python=HERE)), stderr="srun: error: n2: task 1: Exited with 1")

    monkeypatch.setattr(cluster_check.subprocess, "run", run)
    checks = cluster_check._nodes("gpu", "", asked, tmp_path, [])
    assert all(check.ok for check in checks) == ok
    assert ok or "1 of 2 nodes answered: n2: task 1: Exited with 1" in cluster_check.line(checks[-1])


@pytest.mark.parametrize("gpu", [["--gres=gpu:h100:1"], ["--gpus-per-node=1"], []])
def test_a_gpu_is_asked_for_as_trainings_do(monkeypatch, tmp_path, gpu):
    commands = []

    def run(command, **options):
        commands.append(command)
        return SimpleNamespace(stdout="", stderr="nothing")

    monkeypatch.setattr(cluster_check.subprocess, "run", run)
    cluster_check._nodes("gpu", "", 2, tmp_path, gpu)
    assert [word for word in commands[0] if word.startswith(("--gres", "--gpus"))] == gpu


@pytest.mark.parametrize(
    ("site", "gres", "options"),
    [
        (Site(), "", ["--gres=gpu:1"]),
        (Site(), "gpu:h100:4", ["--gres=gpu:h100:1"]),
        (Site(gpu_type="a100"), "", ["--gres=gpu:a100:1"]),
        (Site(gpu_option="gpus-per-node", gpu_type="a100"), "", ["--gpus-per-node=a100:1"]),
    ],
)
def test_the_type_that_the_profile_names_is_asked_for(site, gres, options):
    assert cluster_check.gpu_options(site, gres) == options


@pytest.mark.parametrize(
    ("available", "architectures", "cuda", "problem"),
    [
        (True, ["sm_80", "sm_90"], "13.0", None),
        (True, ["sm_90"], "13.0", "no kernels"),
        (False, ["sm_80"], "13.0", "is_available() is false"),
    ],
)
def test_what_torch_says_of_a_device(monkeypatch, available, architectures, cuda, problem):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: architectures)
    monkeypatch.setattr(compute_node, "torch_cuda_version", lambda: cuda)
    reason = compute_node.device_problem([L4])
    assert (reason is None) if problem is None else problem in reason
    assert compute_node.device_problem([]) is None
