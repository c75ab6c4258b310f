"""What strategies do beside a GPU, and clipping within the update: one process, with engines played by stand-ins."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.errors import UserError
from scaleproof.measure.model.build import build_model
from scaleproof.measure.strategy import native, zero
from scaleproof.measure.strategy.base import Precision, make_optimizer
from scaleproof.measure.strategy.native import Single

MODEL = {"layers": 2, "width": 32, "heads": 2, "context": 32}


def cell(work: dict | None = None, **execution):
    data = {
        "title": "x",
        "workload": {"model": MODEL, "seq_len": 16, "tokenizer": "bpe-300"},
        "work": {"global_batch": 4} | (work or {}),
        "execution": {"strategy": "single"} | execution,
    }
    return expand_cells(Campaign.model_validate(data))[0]


@pytest.mark.parametrize("max_norm", [1e-3, 1e3])
def test_clipping_within_the_update_is_clipping(max_norm):
    """Against torch's own clipping, over four steps; where nothing is clipped the weights are the same to the bit."""
    chosen = cell({"optimizer": {"max_grad_norm": max_norm}})
    strategy = Single(chosen, build_model(chosen), torch.device("cpu"))
    plain = build_model(chosen)
    optimizer = make_optimizer(plain, chosen)
    torch.manual_seed(1)
    for step in range(4):
        tokens = torch.randint(300, (4, 17))
        strategy.micro_step(tokens, boundary=True)
        strategy.update(step)
        plain(tokens).backward()
        clip_grad_norm_(plain.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
    weights = zip(strategy.module.parameters(), plain.parameters(), strict=True)
    assert "grad_scale" in vars(strategy.optimizer), "the update clips"
    if max_norm > 1:
        assert all(torch.equal(a, b) for a, b in weights)
    else:
        for a, b in weights:
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("execution", [{"fused_optimizer": False}])
def test_an_optimizer_that_cannot_clip_is_not_asked_to(execution):
    chosen = cell({"optimizer": {"max_grad_norm": 1e-3}}, **execution)
    strategy = Single(chosen, build_model(chosen), torch.device("cpu"))
    strategy.micro_step(torch.randint(300, (4, 17)), boundary=True)
    strategy.update(0)
    assert "grad_scale" not in vars(strategy.optimizer)


def test_gradients_of_a_cuda_graph_are_added_to_tensors_that_stay():
    """What the graph itself has made is overwritten when it runs again, with the next micro-batch."""
    chosen = cell({"global_batch": 8, "micro_batch": 4}, compile="reduce-overhead")
    strategy = Single(chosen, build_model(chosen), torch.device("cpu"))
    places = [parameter.grad.data_ptr() for parameter in strategy.module.parameters()]
    plain = Single(cell({"global_batch": 8, "micro_batch": 4}), build_model(chosen), torch.device("cpu"))
    torch.manual_seed(1)
    for step in range(3):
        for boundary in (False, True):
            tokens = torch.randint(300, (4, 17))
            losses = [each.micro_step(tokens, boundary) for each in (strategy, plain)]
            torch.testing.assert_close(*losses, rtol=1e-5, atol=0)
        for each in (strategy, plain):
            each.update(step)
    assert [parameter.grad.data_ptr() for parameter in strategy.module.parameters()] == places
    assert not any(parameter.grad.any() for parameter in strategy.module.parameters())


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "zero2"])
def test_cuda_graphs_are_refused_where_tensors_move(strategy):
    with pytest.raises(UserError, match="reduce-overhead is for strategy single"):
        cell(strategy=strategy, compile="reduce-overhead")


def test_fsdp_shards_on_the_cells_device_whatever_the_machine_has(monkeypatch):
    """Without a mesh torch takes the accelerator of the machine, and moves a CPU cell's parameters to it.

    It moves parts as they are sharded: the whole of a model need not fit on a device.
    """
    meshes = []

    def sharded(module: nn.Module, mesh=None, **_: object) -> nn.Module:
        meshes.append(mesh)
        return module

    monkeypatch.setattr(native, "fully_shard", sharded)
    monkeypatch.setattr(nn.Module, "to", None)
    monkeypatch.setattr(native, "init_device_mesh", lambda device, shape: (device, shape))
    chosen = cell(strategy="fsdp")
    monkeypatch.setattr(native.dist, "get_world_size", lambda: chosen.sharing_devices)
    native.FSDP(chosen, build_model(chosen), torch.device("cpu"))
    assert meshes == [("cpu", (chosen.sharing_devices,))] * 3, "each block and the whole"


@pytest.mark.parametrize(
    ("strategy", "precision", "scale"),
    [("zero0", "fp16", 2.0**12), ("zero0", "bf16", None), ("zero1", "fp16", None)],
)
def test_every_strategy_starts_from_the_same_loss_scale(monkeypatch, strategy, precision, scale):
    """DeepSpeed's stage 0 makes a GradScaler of its own; stages 1 to 3 take theirs from the configuration."""
    engine = SimpleNamespace(torch_autocast_z0_gradscaler=None)
    configs = []

    def initialize(config, **_):
        configs.append(config)
        return engine, None, None, None

    monkeypatch.setattr(zero, "_import_deepspeed", lambda device: SimpleNamespace(initialize=initialize))
    chosen = cell(strategy=strategy, precision=precision)
    zero.Zero(chosen, build_model(chosen), torch.device("cpu"))
    scaler = engine.torch_autocast_z0_gradscaler
    assert (scaler and scaler.get_scale()) == scale
    if strategy == "zero1":
        assert configs[0]["fp16"]["initial_scale_power"] == 12


@pytest.mark.parametrize(
    ("strategy", "overlap", "expected"),
    [("zero2", "auto", None), ("zero2", True, True), ("zero3", False, False), ("zero0", True, None)],
)
def test_overlap_is_handed_to_the_stages_that_have_it(strategy, overlap, expected):
    config = zero.make_config(cell(strategy=strategy, overlap_comm=overlap), 1000)
    assert config["zero_optimization"].get("overlap_comm") == expected


@pytest.mark.parametrize(
    ("strategy", "elements", "parameters", "bucket"),
    [
        ("zero1", "auto", 1001, 1002),  # DeepSpeed refuses odd sizes in these stages
        ("zero2", "auto", 1001, 1002),
        ("zero2", 10**12, 1000, 1000),  # and makes buffers of that size
        ("zero3", 10**12, 1001, 1001),
        ("zero3", 1, 1000, 1),
        ("zero2", 500, 1000, 500),
    ],
)
def test_buckets_are_no_larger_than_the_model(strategy, elements, parameters, bucket):
    zero_config = zero.make_config(cell(strategy=strategy, bucket_elements=elements), parameters)["zero_optimization"]
    assert zero_config["reduce_bucket_size"] == zero_config["allgather_bucket_size"] == bucket


def test_bf16_needs_no_look_for_overflows():
    assert zero.make_config(cell(strategy="zero2", precision="bf16"), 1000)["bf16"]["check_grad_overflow"] is False


def test_encoders_have_one_loss():
    from scaleproof.ground.errors import UserError

    data = {
        "title": "x",
        "workload": {"task": "classification", "model": "encoder-small"},
        "execution": {"loss": "fused"},
    }
    with pytest.raises(UserError, match="encoders have plain only"):
        expand_cells(Campaign.model_validate(data))


@pytest.mark.parametrize("nvtx", [None, SimpleNamespace()])
def test_deepspeeds_ranges_need_no_domain_of_the_nvtx_package(monkeypatch, nvtx):
    """On CUDA, beside an nvtx of before 0.2.15 and without one: DeepSpeed's own classes, and torch's ranges played."""
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    from deepspeed.accelerator import cuda_accelerator, real_accelerator
    from deepspeed.utils.nvtx import instrument_w_nvtx

    ranges = []
    monkeypatch.setattr(real_accelerator, "ds_accelerator", cuda_accelerator.CUDA_Accelerator())
    monkeypatch.setattr(cuda_accelerator, "nvtx", nvtx)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", ranges.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: ranges.append("/"))
    zero._import_deepspeed(torch.device("cuda"))

    @instrument_w_nvtx
    def allreduce_gradients() -> int:
        return 1

    assert allreduce_gradients() == 1
    assert [name.rpartition(".")[2] for name in ranges] == ["allreduce_gradients", "/"]


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", None)])
def test_replicas_compute_in_the_precision_that_was_asked_for(monkeypatch, precision, dtype):
    """torch's replicas run in threads, where autocast's dtype is the default again: fp16 on CUDA."""
    for owner, answers in (
        (torch.cuda, {"is_available": True, "is_bf16_supported": True}),
        (torch.accelerator, {"is_available": True, "current_accelerator": torch.device("cuda")}),
        (torch.accelerator, {"current_stream": nullcontext(), "device_index": nullcontext()}),
    ):
        for name, answer in answers.items():
            monkeypatch.setattr(owner, name, lambda *place, answer=answer, **options: answer)
    replicas = object.__new__(native.Replicas)
    nn.Module.__init__(replicas)
    replicas.device_ids, replicas.autocast = [0, 1], Precision(precision, torch.device("cuda")).autocast

    def computed(tokens: torch.Tensor) -> torch.dtype | None:
        return torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None

    with replicas.autocast():
        seen = replicas.parallel_apply([computed] * 2, [(torch.zeros(1),)] * 2, [{}] * 2)
    assert seen == [dtype] * 2
