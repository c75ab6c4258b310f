"""What happens beside a GPU, with torch.cuda, NVML and the process group played by stand-ins."""

import os
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim import AdamW

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.corpus.reader import SamplePlan, held_out_ids, open_split
from scaleproof.measure.machine import gpus
from scaleproof.measure.model.build import build_model
from scaleproof.measure.reference.samples import checksum
from scaleproof.measure.strategy.native import Single
from scaleproof.measure.trainer import measure, session, validation
from scaleproof.measure.trainer.__main__ import failure_class
from scaleproof.measure.trainer.census import compiled_graphs
from scaleproof.measure.trainer.fed_tokens import FedTokens
from scaleproof.measure.trainer.first_losses import score_unwrapped_model
from scaleproof.measure.trainer.monitor import POWER_INSTANT, GpuMonitor
from scaleproof.measure.trainer.probe import _largest_argument_bytes
from scaleproof.measure.trainer.session import NotApplicable, Session, WrongWorld, nvml_uuid


def cell(**execution):
    return expand_cells(Campaign.model_validate({"title": "x", "execution": execution}))[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CUDA error: out of memory", "oom"),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "oom"),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "oom"),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "oom"),
        ("Triton Error [CUDA]: out of memory", "oom"),
        ("NCCL error: unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'", "oom"),
        ("NCCL error: unhandled cuda error\nLast error:\nCuda failure 719 'unspecified launch failure'", "crash"),
        ("CUDA error: an illegal memory access was encountered", "crash"),
        ("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED", "crash"),
    ],
)
def test_memory_runs_out_in_many_words(text, kind):
    assert failure_class(RuntimeError(text)) == kind


def test_a_rank_that_cannot_run_the_cell_says_so():
    assert failure_class(NotApplicable("no kernels")) == "not_applicable"
    assert failure_class(torch.OutOfMemoryError("x")) == "oom"


@pytest.fixture
def rank(monkeypatch):
    """A session that has not joined a world: the choice of its device alone."""
    made = object.__new__(Session)
    made.rank, made.local_rank, made.local_world = 0, 0, 1
    return made


def test_a_device_that_only_the_launcher_sees_is_no_reason_to_train_on_the_cpu(rank, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(WrongWorld, match="launcher saw 2 CUDA devices, but torch cannot use any"):
        rank._bind_device(cell(device="auto"), gpus=2)
    assert rank._bind_device(cell(device="cpu"), gpus=2).type == "cpu"
    assert rank._bind_device(cell(device="auto"), gpus=0).type == "cpu"


def play_cuda(monkeypatch, name: str, capability: tuple[int, int], architectures: list[str]) -> None:
    properties = SimpleNamespace(name=name, uuid="11-22")
    stand_ins = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "set_device": lambda device: None,
        "get_device_properties": lambda device: properties,
        "get_device_capability": lambda: capability,
        "get_arch_list": lambda: architectures,
    }
    for attribute, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, attribute, stand_in)


def test_torch_without_kernels_for_a_device_is_not_applicable(rank, monkeypatch):
    play_cuda(monkeypatch, "Tesla V100-SXM2-16GB", (7, 0), ["sm_75", "sm_80", "sm_90", "compute_90"])
    with pytest.raises(NotApplicable, match=r"compute capability 7\.0.*whl/cu126"):
        rank._bind_device(cell(), gpus=1)


def test_a_rank_is_bound_to_the_cores_of_its_devices_node(rank, monkeypatch):
    play_cuda(monkeypatch, "NVIDIA A100 MIG 3g.20gb", (8, 0), ["sm_80"])
    asked, bound = [], []
    monkeypatch.setattr(session, "cores_near", lambda uuid: asked.append(uuid) or [2, 3])
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: bound.append(cores))
    assert rank._bind_device(cell(), gpus=1) == torch.device("cuda", 0)
    assert (asked, bound, rank.near_cores) == (["MIG-11-22"], [[2, 3]], [2, 3])


@pytest.mark.parametrize(
    ("name", "uuid"), [("NVIDIA A100-SXM4-80GB", "GPU-7"), ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "MIG-7")]
)
def test_a_part_of_a_device_has_a_name_of_its_own(name, uuid):
    """As NVML writes it; torch gives the number alone."""
    assert nvml_uuid(SimpleNamespace(name=name, uuid="7")) == uuid


def test_the_cores_of_a_node_are_read_from_nvmls_masks(monkeypatch):
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: uuid)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCpuAffinity", lambda handle, words: [0b1100, 0b1])
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 64, 65})
    assert gpus.cores_near("GPU-a") == [2, 64]

    def refused(handle, words):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCpuAffinity", refused)
    assert gpus.cores_near("GPU-a") == []


class Nvml:
    """Power as a mean over a second, and, where the driver knows it, as it is now."""

    class NVMLError(Exception):
        pass

    def __init__(self, instant: int = 0) -> None:
        self.instant = instant

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return uuid

    def nvmlDeviceGetPowerUsage(self, handle):
        return 100_000

    def nvmlDeviceGetFieldValues(self, handle, fields):
        assert fields == [POWER_INSTANT]
        return [SimpleNamespace(nvmlReturn=self.instant, value=SimpleNamespace(uiVal=700_000))]


@pytest.mark.parametrize(("answer", "watts"), [(0, 700), (3, 100)])
def test_power_is_that_of_the_moment_where_the_driver_knows_it(answer, watts):
    assert GpuMonitor(Nvml(answer), ["GPU-a"])._power_w("GPU-a") == watts


class Opened(Exception):
    """The window has begun: what comes after is not looked at."""


def test_the_window_opens_after_the_monitor_has_started_and_all_ranks_are_there(monkeypatch):
    """Each rank has NVML started and its monitor at work before the last barrier, and nothing lies behind that."""
    events: list[str] = []

    class Watching:
        def __init__(self, device, uuids):
            events.append("NVML starts")

        def __enter__(self):
            events.append("monitor samples")

        def __exit__(self, *failure):
            pass

    def steps(first: int, count: int):
        events.append(f"window of {count}")
        raise Opened

    optimizer = AdamW(nn.Linear(1, 1).parameters())
    strategy = SimpleNamespace(executed_updates=lambda: events.append("updates read"), optimizer=optimizer)
    doors = {"entrance": nn.Identity(), "inside": None}
    run = SimpleNamespace(strategy=strategy, batches=None, parameters=0, steps=steps, **doors)
    monkeypatch.setattr(measure, "set_up", lambda session, request, score_first: run)

    def fed(rows, length, device):
        events.append("kernels of the tokens loaded")
        return FedTokens(rows, length, torch.device("cpu"))

    monkeypatch.setattr(measure, "FedTokens", fed)
    monkeypatch.setattr(
        measure, "warm_up", lambda ready, count: events.append("warm-up") or measure.WarmUp([], None, None, 0)
    )
    monkeypatch.setattr(measure, "Monitor", Watching)
    monkeypatch.setattr(measure, "HostLoad", lambda cores: nullcontext())
    monkeypatch.setattr(measure.dist, "barrier", lambda: events.append("barrier"))
    monkeypatch.setattr(torch.accelerator, "reset_peak_memory_stats", lambda device: events.append("peaks reset"))
    monkeypatch.setattr(
        torch.accelerator, "reset_accumulated_memory_stats", lambda device: events.append("retries reset")
    )
    here = SimpleNamespace(rank=1, device=torch.device("cuda", 0), uuids=["GPU-a"], cores=[], shares=range(1, 2))
    chosen = cell()
    with pytest.raises(Opened):
        measure.measure_in(here, SimpleNamespace(cell=chosen), 0.0)
    assert events[0] == "warm-up"
    assert events.count("NVML starts") == 1
    assert events.index("NVML starts") < events.index("barrier"), "ranks that are late are waited for before the window"
    assert events[-3:] == ["monitor samples", "barrier", f"window of {chosen.work.steps}"]
    before = events[: events.index("monitor samples")]
    assert {"peaks reset", "retries reset", "updates read", "kernels of the tokens loaded"} <= set(before), (
        "what waits for the device is over"
    )


def test_what_the_probe_leaves_in_the_allocator_is_no_memory_of_the_window(monkeypatch):
    events = []
    monkeypatch.setattr(torch.accelerator, "empty_cache", lambda: events.append("emptied"))
    monkeypatch.setattr(measure, "Probe", lambda strategy, measure_state: nullcontext())
    monkeypatch.setattr(measure, "record_of_probed_step", lambda *arguments, **named: None)
    monkeypatch.setattr(measure, "must_keep_on_host", lambda ready: False)
    ready = SimpleNamespace(
        strategy=SimpleNamespace(device=torch.device("cuda", 0)),
        compiled=True,
        inside=None,
        steps=lambda first, count: events.append((first, count)),
    )
    measure.warm_up(ready, 5)
    assert events == [(0, 1), (1, 2), (3, 1), "emptied", (4, 1)]


def test_the_probe_looks_at_tokens_before_threads_share_them(monkeypatch):
    """Hooks of a model are those of DataParallel's replicas too, whose threads would add to the checksum at once."""
    looked = []
    monkeypatch.setattr(measure.TokenChecksum, "add", lambda self, rows: looked.append(len(rows)))
    monkeypatch.setattr(measure, "Probe", lambda strategy, measure_state: nullcontext())
    monkeypatch.setattr(measure, "record_of_probed_step", lambda *arguments, **named: None)
    model = nn.Identity()

    class Whole(nn.Module):
        def forward(self, rows):
            return [model(half) for half in rows.chunk(2)]

    whole, kind = Whole(), SimpleNamespace(execution=SimpleNamespace(strategy="dp"))
    strategy = SimpleNamespace(module=whole, cell=kind, device=torch.device("cuda", 0))
    steps = lambda first, count: whole(torch.zeros(4, 3))  # noqa: E731
    ready = measure.Ready(None, None, model, False, strategy, None, 0, steps, [])
    measure.make_probed_step(ready, 2)
    assert looked == [4]


GB = 10**9


@pytest.mark.parametrize(
    ("compiled", "device", "taken", "host", "ranks", "on_host"),
    [
        (True, "cuda", 36, 200, 1, True),
        (True, "cuda", 30, 200, 1, False),
        (True, "cuda", 36, 200, 4, False),
        (False, "cuda", 70, 200, 1, False),
        (True, "cpu", 36, 200, 1, False),
    ],
)
def test_the_probe_of_a_compiled_cell_is_kept_by_the_host_where_it_may_not_fit(
    monkeypatch, compiled, device, taken, host, ranks, on_host
):
    """An H100 of 80 GB. The program as written keeps about twice what the compiled one does; the host needs room."""
    properties = SimpleNamespace(total_memory=80 * GB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda device: taken * GB)
    monkeypatch.setattr(measure.psutil, "virtual_memory", lambda: SimpleNamespace(available=host * GB))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    ready = SimpleNamespace(compiled=compiled, strategy=SimpleNamespace(device=torch.device(device)))
    assert measure.must_keep_on_host(ready) == on_host


@pytest.mark.parametrize("loss", ["plain", "fused"])
def test_a_step_that_is_kept_by_the_host_is_the_same_step(monkeypatch, loss):
    """Operators, products, updates and weights; and what is kept leaves the device."""
    model = {"layers": 1, "width": 32, "heads": 2, "context": 32}
    data = {
        "title": "x",
        "workload": {"model": model, "tokenizer": "bpe-512", "seq_len": 32},
        "work": {"global_batch": 4},
        "execution": {"strategy": "single", "device": "cpu", "loss": loss, "precision": "bf16"},
    }
    chosen = expand_cells(Campaign.model_validate(data))[0]
    torch.manual_seed(3)
    tokens = torch.randint(512, (4, 33))
    moved = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: moved.append(self.nbytes) or cpu(self))
    steps, weights = [], []
    for on_host in (False, True):
        moved.clear()
        strategy = Single(chosen, build_model(chosen), torch.device("cpu"))

        def step(first: int, count: int, strategy: Single = strategy) -> None:
            strategy.micro_step(tokens, boundary=True)
            strategy.update(first)

        monkeypatch.setattr(measure, "must_keep_on_host", lambda ready, on_host=on_host: on_host)
        ready = SimpleNamespace(strategy=strategy, steps=step, compiled=True, model=strategy.module, inside=None)
        steps.append(measure.make_probed_step(ready, 0, measure_state=False)[2])
        weights.append(torch.cat([p.detach().flatten() for p in strategy.module.parameters()]))
        assert (sum(moved) > 4 * 32 * 32 * 20) == on_host, "activations of a block alone are more than that"
    assert [s.saved_on_host for s in steps] == [False, True]
    measured = {"saved_on_host", "busy_s", "idle_s"}
    assert steps[0].model_dump(exclude=measured) == steps[1].model_dump(exclude=measured)
    assert torch.equal(*weights)


def test_running_out_of_memory_in_the_probe_says_where(monkeypatch):
    def steps(first, count):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError, match="in the probed step of the warm-up; it runs as written"):
        measure._make_step_as_written(SimpleNamespace(steps=steps, compiled=True), 3)
    with pytest.raises(torch.OutOfMemoryError, match=r"in the probed step of the warm-up\. CUDA"):
        measure._make_step_as_written(SimpleNamespace(steps=steps, compiled=False), 3)


def test_a_model_that_does_not_fit_as_a_whole_has_no_first_losses(tokens, monkeypatch):
    """It may fit in shards: that nobody could look at it before ends nothing."""
    workload = {"model": {"layers": 1, "width": 32, "heads": 2, "context": 32}, "tokenizer": "bpe-512", "seq_len": 32}
    (chosen,) = expand_cells(Campaign.model_validate({"title": "x", "workload": workload}))
    file = open_split(tokens, "train", chosen.workload)
    model, device = build_model(chosen), torch.device("cpu")
    moves = []

    def too_large(to: torch.device) -> None:
        moves.append(to)
        if len(moves) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(model, "to", too_large)
    plan = SamplePlan(file.n_samples, chosen.batch.global_, 1)
    assert score_unwrapped_model(model, plan, file, device) == []
    assert len(moves) == 2, "back to where it was"


def test_running_out_of_memory_in_the_validation_keeps_the_window(tokens):
    chosen = expand_cells(Campaign.model_validate({"title": "x", "workload": {"tokenizer": "bpe-512", "seq_len": 32}}))[
        0
    ]

    class Small:
        def evaluate(self, batch):
            assert torch.compiler.is_compiling() is False
            raise torch.OutOfMemoryError("CUDA out of memory.")

    file = open_split(tokens, "val", chosen.workload)
    scored = validation.score_held_out(Small(), file, 8, chosen.batch, range(1), torch.device("cpu"), nn.Identity())
    assert scored.out_of_memory
    assert validation.summarise_validation([scored, scored], "language-modelling") is None


def test_a_validation_of_a_compiled_cell_makes_no_second_graph(tokens, monkeypatch):
    """In evaluation mode a compiled module would be compiled again, for minutes on a GPU, after the window."""
    compile_ = torch.compile
    # Dynamo's graphs are what is counted; the code that inductor would write for them is not needed.
    monkeypatch.setattr(torch, "compile", lambda module: compile_(module, backend="eager"))
    model = {"layers": 1, "width": 32, "heads": 2, "context": 32}
    data = {
        "title": "x",
        "workload": {"model": model, "tokenizer": "bpe-512", "seq_len": 32},
        "work": {"global_batch": 4},
        "execution": {"strategy": "single", "compile": True, "device": "cpu"},
    }
    chosen = expand_cells(Campaign.model_validate(data))[0]
    strategy = Single(chosen, build_model(chosen), torch.device("cpu"))
    file = open_split(tokens, "val", chosen.workload)
    before = compiled_graphs()
    strategy.micro_step(torch.randint(512, (4, 33)), boundary=True)
    with FedTokens(4, 33, torch.device("cpu")).record(strategy.module) as fed:
        strategy.micro_step(torch.randint(512, (4, 33)), boundary=True)
    assert len(fed.sums) == 1
    assert compiled_graphs() == before + 1, "nor do the tokens that are noted in the window"
    scored = validation.score_held_out(strategy, file, 8, chosen.batch, range(1), torch.device("cpu"), strategy.module)
    assert compiled_graphs() == before + 1
    assert not strategy.module.training
    assert scored.totals[1] == 8 * 32
    assert scored.checksum == checksum(file.read(held_out_ids(file.n_samples, 8)))


def test_a_coalesced_collective_counts_the_whole_of_its_larger_list():
    small, large = [torch.zeros(2), torch.zeros(3)], [torch.zeros(8), torch.zeros(12)]
    assert _largest_argument_bytes((large, small, "group")) == 80
    assert _largest_argument_bytes((torch.zeros(5), torch.zeros(10), 1)) == 40
