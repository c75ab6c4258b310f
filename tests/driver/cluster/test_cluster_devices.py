"""`cluster check` asks for a GPU where trainings do, and sees whether torch can use it."""

import json
import sys

import pytest

from scaleproof.driver.cluster import check as cluster_check
from scaleproof.driver.cluster import compute_node, trial
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
    check = trial._judge_node(node(**fields), {"n1"}, tmp_path, needs_gpu=True)[-1]
    assert check.ok == ok
    assert text in cluster_check.verdict_text(check)


def test_a_node_that_reaches_no_other_one_says_so():
    reached, alone = trial._judge_network([node(), node(host="n2", interface=None)])
    assert (reached.ok, reached.evidence) == (True, "n1: reaches another node by eth0")
    assert (alone.ok, alone.evidence) == (False, "n2: reaches no other node by name")


def test_without_devices_nothing_is_said_of_them(tmp_path):
    assert len(trial._judge_node(node(devices=[]), {"n1"}, tmp_path, needs_gpu=False)) == 3


RESOURCES = {"nodes": 2, "devices_per_node": 1, "gres": "gpu:h100:1", "slurm_extra": "--no-kill --exclusive"}


@pytest.mark.parametrize(("asked", "ok"), [(1, True), (2, False)])
def test_every_node_that_was_asked_must_answer(monkeypatch, tmp_path, asked, ok):
    """One of two that fails is no sound cluster of one node."""

    def run(folder, profile):
        (folder / "answers").write_text(json.dumps(node(python=HERE)))
        (folder / "token.n1").touch()
        return "  message: Slurm says of job 7: FAILED on n2, NonZeroExitCode. For further error details see the log"

    monkeypatch.setattr(trial, "_run_trial_workflow", run)
    checks = trial.try_nodes(tmp_path, RESOURCES | {"nodes": asked}, tmp_path)
    assert all(check.ok for check in checks) == ok
    if ok:
        assert list(tmp_path.iterdir()) == [], "nothing is left"
    else:
        assert checks[-1].evidence == "1 of 2 nodes answered: Slurm says of job 7: FAILED on n2, NonZeroExitCode"
        (folder,) = tmp_path.iterdir()
        assert f"{folder.name}/results/job-logs/" in checks[-1].advice


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (
            "Slurm refuses it: ask hpc@site; no. For further error details see the log",
            "Slurm refuses it: ask hpc@site; no",
        ),
        ("x\nSlurm does not start job 7: PartitionTimeLimit\n", "Slurm does not start job 7: PartitionTimeLimit"),
        (f"a job\n{trial.LATE}", trial.LATE),
        ("", "snakemake failed"),
    ],
)
def test_why_no_node_has_answered(printed, why):
    assert trial._reason_for_silence(printed) == why


def test_the_job_asks_for_what_trainings_ask_for(monkeypatch, tmp_path):
    """By a rule of their name: set-resources of the profile say the same of it."""
    monkeypatch.setattr(trial, "_run_trial_workflow", lambda folder, profile: (folder / "Snakefile").read_text())
    monkeypatch.setattr(trial, "_reason_for_silence", lambda printed: printed)
    text = trial.try_nodes(tmp_path, RESOURCES, tmp_path)[-1].evidence
    assert "rule train:" in text
    assert str(RESOURCES) in text
    assert "srun --nodes=2 --ntasks=2" in text


def test_a_greeting_in_braces_is_no_answer_of_a_node(tmp_path):
    (tmp_path / "answers").write_text(
        '{welcome to the cluster}\n{"host": "n1", "python": "3.11"}\n{"motd": "be kind"}\n'
    )
    assert trial._read_answers(tmp_path / "answers") == [{"host": "n1", "python": "3.11"}]
    assert trial._read_answers(tmp_path / "none") == []


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
