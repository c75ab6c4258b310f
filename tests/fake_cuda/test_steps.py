"""What a step is on CUDA: dispatch, dtypes, products, traffic, memory and host waits, against formulas; with values."""

import re
from functools import cache
from itertools import product
from math import prod
from typing import Any

import pytest

from scaleproof.ground.campaign.model_shapes import ModelShape
from scaleproof.ground.facts.counts import count_gpt2, inventory_of_shape
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.traffic import fits_formula, moved_bytes, step_traffic

ZERO = ("zero0", "zero1", "zero2", "zero3")
SHARING = ("ddp", "fsdp", "hsdp", *ZERO)
OFFLOADING = ("zero1-offload", "zero2-offload", "zero3-offload")
LOW = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
LOSSES = ("plain", "fused", "chunked")
EVERY = [
    {"precision": precision, "loss": loss, "activation_checkpointing": again}
    for precision, loss, again in product(LOW, LOSSES, (False, True))
]
# Every two values of these keys together.
PAIRS = [
    {"precision": precision, "loss": loss, "activation_checkpointing": (i + j) % 2 == 1}
    for i, precision in enumerate(LOW)
    for j, loss in enumerate(LOSSES)
]
FEW = PAIRS[8:10]  # bf16 and fp16; with checkpointing, and without
# Geometry and strategy -> what varies there. Where it is EVERY, all of it is for `pytest -m long`.
PLANS = {
    ("1x1", "single"): EVERY,
    **{("1x1", name): PAIRS for name in SHARING if name != "hsdp"},
    **{("2x1" if name == "hsdp" else "1x2", name): PAIRS for name in (*SHARING, "dp")},
    **{("1x2", name): PAIRS[::3] for name in OFFLOADING},
    **{("2x4" if name == "hsdp" else "1x8", name): FEW for name in SHARING},
    ("1x1", "kernels by name"): [
        {"strategy": "single", "precision": "bf16", "attention": "flash"},
        {"strategy": "single", "precision": "fp16", "attention": "cudnn"},
    ],
    ("1x2", "fewer bytes"): [
        {"strategy": "fsdp", "precision": "bf16", "fsdp_reshard": False},
        {"strategy": "fsdp", "precision": "bf16", "reduce_dtype": "bf16"},
        {"strategy": "ddp", "precision": "bf16", "reduce_dtype": "bf16"},
    ],
    ("2x2", "fewer bytes"): [{"strategy": "hsdp", "precision": "bf16", "reduce_dtype": "bf16"}],
}
WHOLE = {(geometry, f"{name}, whole"): EVERY for (geometry, name), plan in PLANS.items() if plan in (PAIRS, FEW)}


def choices_of(geometry: str, name: str) -> list[dict[str, Any]]:
    """The cells of a plan: keys of `execution`."""
    return [{"strategy": name.removesuffix(", whole")} | choice for choice in (PLANS | WHOLE)[geometry, name]]


# The host waits in DeepSpeed: it reads the gradients' norm, and in fp16 whether they have overflowed; it copies numbers
# to the device that are not in pinned memory; stage 3 waits for its streams in every backward pass.
OF_DEEPSPEED = re.compile(r"deepspeed/(runtime/(utils|zero/\w+|engine)|accelerator/cuda_accelerator|comm/\w+)\.py:\d+")
STATE_SLACK = 16_384  # bytes of counts, norms, alignment, the loss
# Of gradients, each of as many elements as parameters; stage 3 also has blocks gathered: 2.5 in fp32 on two devices.
BUFFERS = {"zero0": 1, "zero1": 1, "zero2": 2, "zero3": 3}


@pytest.fixture(scope="session")
def steps(machine):
    """Steps of all cells of a plan, made once: what each of the ranks has seen of each."""

    @cache
    def made(geometry: str, name: str) -> list[list[dict]]:
        nodes, devices = map(int, geometry.split("x"))
        world = 1 if name.startswith("dp") else nodes * devices
        return machine.run("steps", world, choices=choices_of(geometry, name), geometry=geometry)

    return made


@pytest.fixture(
    params=[*PLANS, *(pytest.param(plan, marks=pytest.mark.long) for plan in WHOLE)], ids="-".join, scope="session"
)
def ranks(request, steps):
    return steps(*request.param)


@pytest.fixture
def cells(ranks):
    """What rank 0 has seen of each cell."""
    return ranks[0]


def strategy_of(cell: dict) -> str:
    return cell["cell"]["execution"]["strategy"]


def precision_of(cell: dict) -> str:
    return cell["cell"]["execution"]["precision"]


def devices_of(cell: dict) -> int:
    """Devices of all nodes together."""
    return prod(map(int, cell["cell"]["execution"]["geometry"].split("x")))


def sharing_devices_of(cell: dict) -> int:
    """Devices of one node."""
    return int(cell["cell"]["execution"]["geometry"].split("x")[1])


def test_the_host_waits_for_nothing_but_what_deepspeed_waits_for(cells):
    for cell in cells:
        known = OF_DEEPSPEED if strategy_of(cell).startswith("zero") else re.compile("(?!)")
        assert [place for place in cell["waits"] if not known.fullmatch(place)] == [], cell["cell"]["execution"]


def test_layers_compute_in_the_precision_of_the_cell(cells):
    """Under `dp` too, whose replicas run in threads: autocast's dtype is local to a thread."""
    for cell in cells:
        assert cell["made"] == [LOW[precision_of(cell)]]
        products = cell["dtypes"]["products"].split("+")
        assert LOW[precision_of(cell)] in products or strategy_of(cell) == "dp"  # whose threads the probe does not see


def test_attention_runs_in_a_fused_kernel_and_so_does_the_update(cells):
    for cell in cells:
        chosen = cell["cell"]["execution"]["attention"]
        preferred = "efficient" if LOW[precision_of(cell)] == "float32" else "cudnn"  # as torch does on a Hopper
        kernel = preferred if chosen == "sdpa" else chosen
        names = set(cell["probed"]["attention"])
        assert names <= {f"_scaled_dot_product_{kernel}_attention", f"_scaled_dot_product_{kernel}_attention_backward"}
        assert f"_scaled_dot_product_{kernel}_attention_backward" in names
        if strategy_of(cell) not in OFFLOADING:  # whose update is the CPU's
            assert set(cell["probed"]["updates"]) == {"_fused_adamw_"}


def test_products_are_those_of_the_formula(cells):
    """The forward pass once, the backward pass twice; computed again where the cell says so."""
    for cell in cells:
        if strategy_of(cell) == "dp":
            continue
        execution, work = cell["cell"]["execution"], cell["cell"]["work"]
        shape = ModelShape(**cell["cell"]["workload"]["model_shape"])
        counts = count_gpt2(shape, 512, cell["cell"]["workload"]["seq_len"])
        blocks = 12 * shape.layers * shape.width**2
        # torch stops before the last product of a block, a third of it, whose result nobody needs.
        again = blocks * 2 // 3 * execution["activation_checkpointing"]
        again += (counts.matmul_parameters - blocks) * (execution["loss"] == "chunked")
        tokens = work["micro_batch"] * work["accumulation"] * cell["cell"]["workload"]["seq_len"]
        assert cell["probed"]["linear_flops"] == (6 * counts.matmul_parameters + 2 * again) * tokens, execution


def test_bytes_between_devices_are_those_of_the_formula(cells):
    for cell in cells:
        if devices_of(cell) == 1 or strategy_of(cell) == "dp":
            continue
        shape = ModelShape(**cell["cell"]["workload"]["model_shape"])
        blocks = sum(inventory_of_shape(shape, 512).blocks)
        execution = cell["cell"]["execution"]  # without keys that have their default
        nodes, devices = map(int, execution["geometry"].split("x"))
        reshards, reduced = execution.get("fsdp_reshard", True), execution.get("reduce_dtype", "fp32")
        sizes = {"nodes": nodes, "devices_per_node": devices, "reshards": reshards, "reduce_dtype": reduced}
        expected = step_traffic(strategy_of(cell), precision_of(cell), 2, cell["parameters"], blocks, **sizes)
        moved = moved_bytes(cell["probed"]["collectives"])
        assert {kind for kind in moved if not fits_formula(moved[kind], expected[kind])} == set(), (
            expected,
            moved,
        )


def test_memory_of_the_state_is_that_of_the_formula(cells):
    """As allocated just before an update; DeepSpeed has let go of gradients by then, or keeps buffers of them."""
    for cell in cells:
        strategy = strategy_of(cell)
        if strategy in OFFLOADING:
            continue  # which keep gradients on the host as they come
        devices = {"dp": 1, "hsdp": sharing_devices_of(cell)}.get(strategy, devices_of(cell))
        expected = state_bytes(strategy, precision_of(cell), cell["parameters"], devices)
        # What was sent in bf16 goes when its work is collected, which may be later.
        sent = 2 * cell["parameters"] if cell["cell"]["execution"].get("reduce_dtype") == "bf16" else 0
        most = expected + 4 * BUFFERS.get(strategy, 0) * cell["parameters"] + sent + STATE_SLACK
        gradients = BUFFERS.get(strategy, 0) and (2 if LOW[precision_of(cell)] != "float32" else 4) * cell["parameters"]
        least = (expected - gradients) * 0.98 - STATE_SLACK
        # DeepSpeed lets no engine of the cells before go; the model of another strategy may go while this cell runs.
        held = cell["state_bytes"], cell["state_bytes"] - cell["left_bytes"]
        assert any(least <= state <= most * 1.02 for state in held), cell["cell"]["execution"]


def test_losses_of_all_ranks_are_those_of_one_device(ranks, steps):
    """The mean over the ranks: every strategy learns the same from the same samples of a step."""
    for cell in ranks[0]:
        if devices_of(cell) > 1:
            continue  # another global batch
        alone = steps("1x1", "single")[0][0]
        assert cell["losses"] == pytest.approx(alone["losses"], rel=1e-4), cell["cell"]["execution"]


def test_dataparallel_leaves_the_model_as_it_is(steps):
    alone, replicated = (steps(*plan)[0][0]["names"] for plan in (("1x1", "single"), ("1x2", "dp")))
    assert replicated == [f"module.{name}" for name in alone]
