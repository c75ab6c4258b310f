"""The exact lines with which a cell is sent to a cluster and started there."""

import socket
from pathlib import Path

import pytest
from synthetic import campaign, cells

from scaleproof.driver.cluster.request import request_of_run, request_of_shared_job
from scaleproof.driver.cluster.site import Site
from scaleproof.driver.cluster.slurm import sbatch_options
from scaleproof.measure.launch import allocated
from scaleproof.measure.machine import allocation as slurm
from scaleproof.measure.machine.allocation import Allocation

ONE_GPU, FOUR_GPUS, TWO_NODES, CPU_ONLY = "1x1", "1x4", "2x4", "1x2 cpu"
SBATCH = {
    ONE_GPU: "--nodes=1 --ntasks=1 --cpus-per-task=4 --mem=8000 --time=17 --gres=gpu:1 --no-kill --exclusive",
    FOUR_GPUS: "--nodes=1 --ntasks=1 --cpus-per-task=16 --mem=32000 --time=17 --gres=gpu:4 --no-kill --exclusive",
    TWO_NODES: "--nodes=2 --ntasks=2 --cpus-per-task=16 --mem=32000 --time=17 --gres=gpu:4 --no-kill --exclusive",
    CPU_ONLY: "--nodes=1 --ntasks=1 --cpus-per-task=2 --mem=16000 --time=17 --no-kill --exclusive",
}
SRUN = {
    ONE_GPU: "--nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --nodelist=n1",
    FOUR_GPUS: "--nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --nodelist=n1",
    TWO_NODES: "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=16 --nodelist=n1,n2",
    CPU_ONLY: "--nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --nodelist=n1",
}


def cell(kind: str):
    geometry, *cpu = kind.split()
    execution = {"device": "cpu"} if cpu else {}
    return cells(work={"global_batch": 16}, execution=execution, vary={"geometry": [geometry]})[0]


@pytest.mark.parametrize("kind", SBATCH)
def test_sbatch_line(kind):
    line = sbatch_options(Site().resources(request_of_run(cell(kind), campaign().resources)))
    assert line == SBATCH[kind].split()


@pytest.mark.parametrize("kind", SRUN)
def test_srun_line(kind):
    line = allocated.srun_command(cell(kind), Path("r.json"), Allocation("5", ("n1", "n2", "n3"), 16), 20005)
    assert line[:2] == ["srun", "--kill-on-bad-exit=1"]
    assert line[2:7] == SRUN[kind].split()
    assert line[8:] == ["-m", "scaleproof.measure.launch.allocated", "r.json", "20005", "scaleproof.measure.trainer"]


def test_torchrun_line_of_a_node():
    line = allocated.torchrun_words(cell(TWO_NODES), Path("a/r.json"), "n1", 20005, "run", "scaleproof.measure.trainer")
    expected = (
        "--nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=n1:20005 --rdzv-id=run --max-restarts=0"
    )
    assert line[3:9] == expected.split()
    assert line[-3:] == ["-m", "scaleproof.measure.trainer", "a/r.json"]


def test_cores_and_memory_are_the_campaigns():
    asked = request_of_run(
        cell(TWO_NODES), campaign(resources={"cpus_per_device": 8, "memory_per_device": 60.5}).resources
    )
    assert (asked.cores, asked.memory_mb) == (32, 242_000)
    assert request_of_run(cell(ONE_GPU), campaign(resources={"exclusive": False}).resources).exclusive is False


def test_cells_together_ask_for_the_largest_and_the_time_of_all():
    asked = request_of_shared_job([cell(kind) for kind in (TWO_NODES, CPU_ONLY, ONE_GPU)], campaign().resources)
    assert (asked.nodes, asked.devices, asked.minutes) == (2, 4, 51)
    assert request_of_shared_job([cell(CPU_ONLY)], campaign().resources).devices == 0


def test_srun_assumes_nothing_from_the_job(monkeypatch, tmp_path):
    for name in ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SBATCH_X", "SRUN_X"):
        monkeypatch.setenv(name, "7")
    found = {
        n for n in allocated.rank_environment(cell(ONE_GPU), tmp_path) if n.startswith(("SLURM", "SBATCH", "SRUN"))
    }
    assert found == {"SLURM_JOB_ID"}


@pytest.mark.fault("the port of the rendezvous is taken", "the next free one")
def test_a_port_that_is_taken_is_passed_over():
    port = allocated.find_free_port("12003")
    assert port == 20_003
    with socket.socket() as taken:
        taken.bind(("", port))
        taken.listen()
        assert allocated.find_free_port("12003") == port + 1


@pytest.mark.parametrize(
    ("tres", "devices"),
    [("gres:gpu:2", 2), ("gres/gpu:h100:4", 4), ("gres/gpu=8,gres/nvme=1", 8), ("gres:nvme:1", 0), ("", 0)],
)
def test_the_allocation_as_slurm_describes_it(monkeypatch, tres, devices):
    """Versions of Slurm write what was asked of a node in several ways."""
    said = {"JobId": "5", "NodeList": "n[1-2]", "NumCPUs": "16", "TresPerNode": tres, "Partition": "gpu"}
    said["QOS"] = "(null)"
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setattr(slurm.shutil, "which", lambda name: name)
    monkeypatch.setattr(slurm, "describe_job", lambda job: said)
    monkeypatch.setattr(slurm, "run_command", lambda *command: "n1\nn2")
    found = slurm.current_allocation()
    recorded = {"job_id": "5", "nodelist": "n[1-2]", "partition": "gpu"}
    assert found == Allocation("5", ("n1", "n2"), 8, devices, recorded)


def test_outside_of_an_allocation(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert slurm.current_allocation() is None


@pytest.mark.parametrize(
    ("line", "kind", "reason"),
    [
        ("srun: error: Node failure on n2", "node_fail", "node n2 was lost"),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026 DUE TO NODE FAILURE, SEE ...", "node_fail", "lost"),
        ("slurmstepd: error: StepId=26.0 exceeded memory limit (17 > 6), being killed", "host_oom", "more memory"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=7.0", "host_oom", "more memory"),
        ("srun: error: n[1-2]: tasks 0-1: Out Of Memory", "host_oom", "on n[1-2]: it took more memory"),
        ("slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***", "timeout", "time limit"),
    ],
)
def test_what_slurm_says_is_believed(line, kind, reason):
    found = slurm.find_scheduler_failure(["[default0]:something", line])
    assert found[0] == kind
    assert reason in found[1]


def test_nothing_said_is_no_verdict():
    assert slurm.find_scheduler_failure(["[default0]:RuntimeError: connection closed by peer"]) is None
