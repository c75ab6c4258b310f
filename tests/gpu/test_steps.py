"""What a step is on CUDA, by CUDA's own dispatch and autocast: a real model and real strategies, no values."""

import re

import fake_cuda
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
SHARING = ["fsdp", "zero0", "zero1", "zero2", "zero3"]
CELLS = [(1, "single"), (1, "dp"), *((world, strategy) for world in (1, 2) for strategy in SHARING)]
# In an update DeepSpeed reads the gradients' norm, and in fp16 whether they have overflowed; stage 3 waits for its
# streams in every backward pass, and once a step for the whole device.
READS = r"read deepspeed/runtime/(utils|zero/stage_1_and_2|zero/stage3)\.py:\d+"
STREAMS = r"synchronize deepspeed/(runtime/zero/(stage3|partition_parameters)|accelerator/cuda_accelerator)\.py:\d+"
KNOWN = {"zero1": READS, "zero2": READS, "zero3": f"{READS}|{STREAMS}"}


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize(("world", "strategy"), CELLS)
def test_the_host_waits_for_nothing_but_what_is_known_of_deepspeed(steps, world, strategy, precision):
    waits = steps[world][f"{strategy} {precision}"]["waits"]
    known = KNOWN.get(strategy)
    assert [wait for wait in waits if not known or not re.fullmatch(known, wait)] == []


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize(("world", "strategy"), CELLS)
def test_layers_compute_in_the_precision_of_the_cell(steps, world, strategy, precision):
    """Under `dp` too, whose replicas run in threads: autocast's dtype is local to a thread."""
    assert steps[world][f"{strategy} {precision}"]["made"] == [DTYPES[precision]]


def test_dataparallel_leaves_the_model_as_it_is(steps):
    alone, replicated = (steps[1][f"{strategy} bf16"]["parameters"] for strategy in ("single", "dp"))
    assert replicated == [f"module.{name}" for name in alone]


@pytest.mark.parametrize(
    ("waiting", "noted"),
    [
        (lambda tensor: tensor.sum().item(), "read"),
        (lambda tensor: tensor.cpu(), "copy to the host"),
        (lambda tensor: torch.zeros(3).copy_(tensor), "copy to the host"),
        (lambda tensor: fake_cuda.Stream().synchronize(), "synchronize"),
        (lambda tensor: tensor.to(torch.bfloat16) + torch.zeros(3, device="cuda"), None),
        (lambda tensor: torch.ones(3).sum(), None),
    ],
)
def test_a_wait_would_be_counted(waiting, noted):
    with FakeTensorMode(), fake_cuda.Waits() as waits:
        waiting(torch.ones(3, device="cuda"))
    assert [wait.rpartition(" ")[0] for wait in waits.seen] == ([noted] if noted else [])
