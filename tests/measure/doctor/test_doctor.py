"""The doctor: each check passes where all is well, fails where it is not, and says `not here` without its device."""

import importlib
import json
import sys
import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scaleproof.cli import doctor
from scaleproof.ground.campaign.batch import Batch
from scaleproof.ground.verdict import Verdict, judged
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
from scaleproof.measure.doctor import doctor_cpu, doctor_gpu, doctor_links, doctor_steps
from scaleproof.measure.doctor.doctor import DOCTOR, Look, examine, read_report, verdict_line
from scaleproof.measure.doctor.doctor_ranks import count_differing, count_host_waits
from scaleproof.measure.doctor.random_tokens import write_random_tokens
from scaleproof.measure.machine.gpus import Gpu
from scaleproof.measure.trainer.batches import Batches

H100 = Gpu("NVIDIA H100 80GB HBM3", "GPU-h", 80 * 2**30, (9, 0))


def test_what_may_bind_threads_is_in_the_advice():
    slow = doctor_cpu.judge_openmp(1.0, {"OMP_PROC_BIND": "close", "OMP_NUM_THREADS": "1", "HOME": "/"})
    assert slow.advice.endswith("; OMP_NUM_THREADS=1, OMP_PROC_BIND=close may bind or limit them")
    assert "may bind" not in doctor_cpu.judge_openmp(1.0, {"HOME": "/"}).advice


def sample(power=300.0, clock=1755.0):
    return {"power_w_mean": power, "sm_clock_mhz_mean": clock, "utilization_mean": 0.9, "throttled": {}}


@pytest.mark.parametrize(
    ("verdict", "status", "evidence"),
    [
        (doctor_cpu.judge_cores(8, None), "PASS", "8 cores"),
        (doctor_cpu.judge_cores(8, None, 2), "PASS", "8 logical CPUs, 2 hardware threads per core"),
        (doctor_cpu.judge_cores(8, 2.0), "FAIL", "grants the time of 2"),
        (doctor_cpu.judge_steal(0.0, 2100.0), "PASS", "2100 MHz"),
        (doctor_cpu.judge_steal(0.2, None), "FAIL", "20.0% of the CPU time"),
        (doctor_cpu.judge_steadiness([1.0, 1.01, 0.99] * 10), "PASS", "vary by 0"),
        (doctor_cpu.judge_steadiness([1.0, 2.0] * 10), "FAIL", "vary by 3"),
        (doctor_cpu.judge_disk(80.0, 300.0), "PASS", "300 MB/s"),
        (doctor_cpu.judge_disk(1.0, 300.0), "FAIL", "1 GB free"),
        (doctor_cpu.judge_disk(80.0, 3.0), "FAIL", "3 MB/s"),
        (doctor_cpu.judge_openmp(1.9, {"OMP_NUM_THREADS": "4, 2", "MKL_NUM_THREADS": ""}), "PASS", "1.90 times"),
        (doctor_cpu.judge_openmp(1.0, {}), "FAIL", "1.00 times"),
        (doctor_cpu.judge_openmp(1.9, {"OMP_NUM_THREADS": "all"}), "FAIL", "OMP_NUM_THREADS=all is no number"),
        (doctor_cpu.judge_openmp(1.9, {"MKL_NUM_THREADS": "0"}), "FAIL", "MKL_NUM_THREADS=0 is no number"),
        (doctor_gpu.judge_uuids(["GPU-a", "GPU-b"], []), "PASS", "agree on 2"),
        (doctor_gpu.judge_uuids(["GPU-a"], ["GPU-a"]), "FAIL", "does not know GPU-a"),
        (doctor_gpu.judge_uuids(["GPU-a"], [], ["exclusive process"]), "PASS", "compute mode exclusive process"),
        (doctor_gpu.judge_uuids(["GPU-a", "GPU-b"], [], ["default", "prohibited"]), "FAIL", "prohibited"),
        (doctor_links.judge_pairs({(0, 1): 390.0}, {(0, 1): "NV18"}), "PASS", "390.0 to 390.0 GB/s between 1 pairs"),
        (doctor_links.judge_pairs({(0, 1): 390.0, (0, 2): 18.0}, {(0, 1): "NV18", (0, 2): "NV18"}), "FAIL", "0 and 2"),
        (doctor_links.judge_pairs({(0, 1): 18.0}, {(0, 1): "PHB"}), "PASS", "joined by PHB"),
        (doctor_links.judge_pairs({(0, 1): 18.0}, {}), "PASS", "joined by unknown"),
        (doctor_links.judge_pairs({(0, 1): 0.9}, {(0, 1): "SYS"}), "FAIL", "0.9 GB/s between devices 0 and 1 (SYS)"),
        (doctor_steps.judge_all_reduce(2**28 * 1.75 / 380e9, 8, ["NV18"] * 28), "PASS", "380.0 GB/s of bus bandwidth"),
        (doctor_steps.judge_all_reduce(2**28 * 1.75 / 12e9, 8, ["NV18"] * 28), "FAIL", "225 or more"),
        (doctor_steps.judge_all_reduce(2**28 * 1.75 / 12e9, 8, ["NV18", "SYS"]), "PASS", "over NV18, SYS"),
        (doctor_steps.judge_all_reduce(2**28 / 1e9, 2, []), "FAIL", "1.0 GB/s"),
        (doctor_gpu.judge_readable(sample()), "PASS", "power 300"),
        (doctor_gpu.judge_readable(sample(power=None)), "FAIL", "not readable: power"),
        (doctor_gpu.judge_energy(1000.0, 960.0), "PASS", "4.0% apart"),
        (doctor_gpu.judge_energy(1000.0, 700.0), "FAIL", "30.0% apart"),
        (doctor_gpu.judge_energy(None, 700.0), "not here", "no energy counter"),
        (doctor_gpu.judge_event_clock(0.300, 0.301), "PASS", "0.33% apart"),
        (doctor_gpu.judge_event_clock(0.200, 0.300), "FAIL", "33.33% apart"),
        (doctor_gpu.judge_attention(("pytorch_flash::flash_fwd", 50.0), ("fmha_cutlass", 150.0)), "PASS", "150 us"),
        (doctor_gpu.judge_attention(("softmax_warp_forward", 900.0), ("softmax", 900.0)), "FAIL", "softmax_warp"),
        (doctor_gpu.judge_matmul("NVIDIA H200", "bf16", 700e12, 989e12), "PASS", "71% of the published"),
        (doctor_gpu.judge_matmul("NVIDIA H200", "bf16", 406e12, 989e12), "PASS", "41% of the published"),
        (doctor_gpu.judge_matmul("NVIDIA H200", "bf16", 386e12, 989e12), "FAIL", "39% of the published"),
        (doctor_gpu.judge_matmul("NVIDIA H200", "bf16", 1100e12, 989e12), "FAIL", "111% of the published"),
        (doctor_gpu.judge_matmul("NVIDIA GeForce RTX 4090", "bf16", 173e12, 165e12), "PASS", "105% of the published"),
        (doctor_gpu.judge_matmul("Nonesuch", "bf16", 100e12, None), "PASS", "no published peak"),
        (doctor_links.judge_copies(50.0, 3000.0), "PASS", "50.0 GB/s"),
        (doctor_links.judge_copies(1.5, 3000.0), "FAIL", "1.5 GB/s"),
        (doctor_gpu.judge_read_ahead(0, 400), "PASS", "0 of 400"),
        (doctor_gpu.judge_read_ahead(3, 400), "FAIL", "3 of 400"),
    ],
)
def test_verdicts(verdict, status, evidence):
    assert verdict.status == status
    assert evidence in verdict.evidence
    assert bool(verdict.advice) == (status == "FAIL"), "what to do stands beside every failure"


def test_a_quota_is_read_from_the_control_group(tmp_path):
    path = tmp_path / "cpu.max"
    path.write_text("150000 100000\n")
    assert doctor_cpu.cpu_quota(path) == 1.5
    path.write_text("max 100000\n")
    assert doctor_cpu.cpu_quota(path) is None
    assert doctor_cpu.cpu_quota(tmp_path / "none") is None


def test_without_a_gpu_its_checks_are_not_here():
    report = examine(doctor_gpu.checks_of_gpus([]), "cpu", lambda entry: None)
    assert len(report.checks) == 11
    assert {entry.status for entry in report.checks} == {"not here"}


def test_the_documents_name_every_check(repository, tmp_path):
    page = (repository / "docs/gpu.md").read_text()
    page = page[page.index("| check | passes where |") : page.index("## The first ten minutes")]
    names = [check.name for check in [*doctor_cpu.checks_of_cpu(tmp_path), *doctor_gpu.checks_of_gpus([])]]
    rows = [row.split("|")[1] for row in page.splitlines()[2:] if row.startswith("|")]
    listed = {name.strip().lower() for row in rows for name in row.split(":")[0].split(",")}
    assert {name.lower() for name in names} <= listed
    assert listed - {name.lower() for name in names} == {"steps"}


def test_a_check_that_raises_has_failed_and_the_others_go_on(tmp_path):
    def broken() -> Verdict:
        raise RuntimeError("no such device")

    heard = []
    checks = [Look("one", "cpu", broken), Look("two", "cpu", lambda: judged(True, "well", ""))]
    checks.append(Look("parts", "cpu", lambda: iter([("a", judged(False, "bad", "do this"))])))
    report = examine(checks, "cpu", heard.append, tmp_path / DOCTOR)
    assert [(e.name, e.status) for e in report.checks] == [("one", "FAIL"), ("two", "PASS"), ("parts: a", "FAIL")]
    assert "no such device" in report.checks[0].evidence
    assert heard == report.checks
    assert "do this" in verdict_line(report.checks[2])
    assert read_report(tmp_path / DOCTOR) == report
    assert json.loads((tmp_path / DOCTOR).read_text())["schema_version"] == "1.0"
    assert read_report(tmp_path / "none.json") is None


def test_checks_of_the_cpu_run_here(tmp_path):
    assert doctor_cpu.check_clock().status == "PASS"
    assert doctor_cpu.check_disk(tmp_path).values["write_mb_s"] > 0
    assert not list(tmp_path.iterdir())
    assert 0 <= doctor_cpu.check_steal(0.05).values["steal_share"] <= 1


@pytest.fixture
def ddp():
    return next(c for c in doctor_steps.cells_of_strategies(2, on_gpu=False) if c.execution.strategy == "ddp")


def found(**changes):
    parameters = 100_000
    return {
        "parameters": parameters,
        "collectives": {"allreduce": {"calls": 2, "bytes": 4 * parameters, "dtypes": ["float32"]}},
        "dtypes": {"products": "float32"},
        "waits": {},
        "steps_s": 1.0,
        "wall_s": 1.001,
        "errors": [None, None],
    } | changes


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({}, None),
        ({"collectives": {"allreduce": {"bytes": 8 * 100_000}}}, "800,000 bytes are reduced, the formula says 400,000"),
        ({"dtypes": {"products": "bfloat16"}}, "ran in bfloat16, not fp32"),
        ({"steps_s": 0.5}, "steps add up to 0.5000 s"),
        ({"steps_s": 0.468, "wall_s": 0.48}, None),  # a rank waited for its core
        ({"steps_s": 0.4, "wall_s": 0.48}, "steps add up to 0.4000 s"),
        ({"waits": {"scaleproof/strategy/base.py:90": 3}}, "the host waits at scaleproof/strategy/base.py:90 (3x)"),
        ({"errors": [None, "RuntimeError: NCCL"]}, "RuntimeError: NCCL"),
    ],
)
def test_steps_that_are_not_what_they_should_be(ddp, changes, evidence):
    verdict = doctor_steps.judge_step(ddp, found(**changes))
    assert verdict.status == ("PASS" if evidence is None else "FAIL")
    assert evidence is None or evidence in verdict.evidence


def test_deepspeeds_own_waits_are_deepspeeds():
    zero2 = next(c for c in doctor_steps.cells_of_strategies(1, on_gpu=False) if c.execution.strategy == "zero2")
    assert doctor_steps.judge_step(zero2, found(waits={"deepspeed/runtime/utils.py:233": 2})).status == "PASS"
    assert doctor_steps.judge_step(zero2, found(waits={"scaleproof/strategy/zero.py:40": 2})).status == "FAIL"


def test_ranks_that_never_wrote_are_a_failure(monkeypatch):
    monkeypatch.setattr(doctor_steps, "look_on_ranks", lambda *arguments: ({}, ["NCCL error: unhandled system error"]))
    ((name, verdict),) = doctor_steps.judge_strategies(2, 2)
    assert (name, verdict.status) == ("ranks", "FAIL")
    assert "NCCL error" in verdict.evidence


def test_the_host_waits_where_a_value_is_read():
    with count_host_waits(torch.device("cpu")) as waits:
        torch.ones(3).sum()
    assert not waits
    with count_host_waits(torch.device("cpu")) as waits:
        torch.ones(3).sum().item()
    assert sum(waits.values()) == 1
    assert next(iter(waits)).startswith("test_doctor.py:")


@pytest.mark.parametrize(
    "folder", ["site", "lib/python3/dist-packages", "venv/lib/site-packages", "src/deepspeed-0.19"]
)
def test_a_wait_is_named_by_its_package_wherever_that_is_installed(folder, monkeypatch, tmp_path):
    """Through a line of torch, as waits for streams are; the nearest line of somebody else's program is named."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: None)
    package = tmp_path / folder / "deepspeed" / "runtime"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "utils.py").write_text("def reduce(stream):\n    stream()\n")
    monkeypatch.syspath_prepend(tmp_path / folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepspeed"]:
        monkeypatch.delitem(sys.modules, name)
    utils = importlib.import_module("deepspeed.runtime.utils")
    torchs = {"__name__": "torch.cuda.streams", "warnings": warnings}
    exec("def wait(): warnings.warn('called a synchronizing CUDA operation', stacklevel=1)", torchs)
    with count_host_waits(torch.device("cuda")) as waits:
        utils.reduce(torchs["wait"])
        warnings.warn("does not yet detect all synchronizing operations", stacklevel=1)
    assert waits == {"deepspeed/runtime/utils.py:2": 1}
    for name in [name for name in sys.modules if name.partition(".")[0] == "deepspeed"]:
        del sys.modules[name]


def test_read_ahead_is_compared_with_the_plan(tmp_path):
    file = TokenFile(write_random_tokens(tmp_path, 512, 20_000, 1_000), "train", 32)
    batch = Batch(4, 2, 1, 8)
    plan, device = SamplePlan(file.n_samples, 8, 1), torch.device("cpu")

    def batches(faulty: bool) -> Batches:
        made = Batches(file, plan, batch, range(1), device)
        made.read_ahead()
        if faulty:
            read = made._read_micro_batch
            made._read_micro_batch = lambda step, micro: (lambda ids, tokens: (ids, tokens + (step == 3)))(
                *read(step, micro)
            )
        return made

    assert count_differing(batches(False), lambda: None, 20) == 0
    assert count_differing(batches(True), lambda: None, 20) == 2


def test_random_tokens_are_a_corpus(tmp_path):
    file = TokenFile(write_random_tokens(tmp_path, 512, 2_000, 100), "train", 16)
    assert file.n_samples == 124
    assert file.read(np.arange(3)).max() < 512


def test_strategies_that_ranks_did_not_reach_are_failures(monkeypatch):
    monkeypatch.setattr(doctor_steps, "LIMIT_S", 1.0)
    verdicts = dict(doctor_steps.judge_strategies(2, 0))
    assert {verdict.status for verdict in verdicts.values()} == {"FAIL"}
    assert "their time was over" in list(verdicts.values())[-1].evidence


def test_the_ranks_are_done_before_the_doctor_itself_uses_a_device(monkeypatch, tmp_path):
    """In compute mode "exclusive process" a device has room for one of them."""
    events = []
    look = Look("look", "gpu", lambda: events.append("look") or judged(True, "", ""))
    monkeypatch.setattr("scaleproof.measure.machine.gpus.cuda_devices", lambda: [H100, H100])
    monkeypatch.setattr(doctor_gpu, "checks_of_gpus", lambda *arguments: [look])
    monkeypatch.setattr(doctor_cpu, "checks_of_cpu", lambda folder: [])
    steps = lambda ranks, gpus: events.append(f"{ranks} ranks") or iter([("ranks", judged(True, "", ""))])  # noqa: E731
    monkeypatch.setattr(doctor_steps, "judge_strategies", steps)
    doctor.doctor(SimpleNamespace(results=tmp_path, out=None, no_ranks=False))
    assert events == ["2 ranks", "look"]


@pytest.mark.parametrize("gpus", [[H100], []])
def test_the_doctor_waits_for_runs_and_they_for_it(gpus, monkeypatch, tmp_path):
    held = []

    @contextmanager
    def lock(names, owner):
        held.append((names, owner))
        yield
        held.clear()

    look = Look("look", "gpu", lambda: judged(bool(held), "", "", held=list(held)))
    monkeypatch.setattr("scaleproof.measure.launch.device_lock.hold_devices", lock)
    monkeypatch.setattr("scaleproof.measure.machine.gpus.cuda_devices", lambda: gpus)
    monkeypatch.setattr(doctor_gpu, "checks_of_gpus", lambda *arguments: [look])
    monkeypatch.setattr(doctor_cpu, "checks_of_cpu", lambda folder: [])
    doctor.doctor(SimpleNamespace(results=tmp_path, out=None, no_ranks=True))
    ((names, owner),) = read_report(tmp_path / DOCTOR).checks[0].values["held"]
    assert names == [gpu.uuid for gpu in gpus] or (not gpus and names[0].startswith("core-"))
    assert owner == "the doctor"


def test_every_device_is_looked_at(monkeypatch):
    chosen = []

    @contextmanager
    def device(index):
        chosen.append(index)
        yield

    monkeypatch.setattr(torch.cuda, "device", device)
    for name in ("check_readable", "check_energy", "check_matmul", "check_copies"):
        monkeypatch.setattr(doctor_gpu, name, lambda: judged(chosen[-1] != 2, "a rate", "look at that device"))
    entries = [entry for entry in examine(doctor_gpu.checks_of_gpus([H100] * 4), "x", lambda e: None).checks if chosen]
    of_devices = {entry.name: entry.status for entry in entries if ": device" in entry.name}
    names = ("clocks and power", "energy", "matmul rate", "copy bandwidth")
    assert of_devices == {f"{n}: device {i}": "FAIL" if i == 2 else "PASS" for n in names for i in range(4)}
    assert len(doctor_gpu.checks_of_gpus([H100])) == 11


def test_a_lost_device_is_why_there_are_none():
    report = examine(
        doctor_gpu.checks_of_gpus([], "GPU 3 of this machine does not answer (GPU is lost)"), "cpu", lambda e: None
    )
    assert [entry.status for entry in report.checks] == ["FAIL"] + ["not here"] * 10
    assert {entry.evidence.partition(" (")[0] for entry in report.checks} == {
        "none, because GPU 3 of this machine does not answer"
    }


def test_ranks_have_come_and_gone_before_the_doctor_uses_a_device(tmp_path, monkeypatch):
    """In an exclusive compute mode a device belongs to one process, and the doctor keeps what it has begun to use."""
    listed = []
    monkeypatch.setattr("scaleproof.measure.machine.gpus.cuda_devices", lambda: [H100])
    monkeypatch.setattr(
        "scaleproof.measure.doctor.doctor.examine",
        lambda looks, *_: listed.extend(looks) or SimpleNamespace(failed=[], checks=[]),
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    doctor.doctor(SimpleNamespace(results=tmp_path, out=None, no_ranks=False))
    names = [look.name for look in listed]
    on_devices = [look.name for look in doctor_gpu.checks_of_gpus([H100])]
    assert names.index("steps") < min(map(names.index, on_devices))
