"""What a step is on CUDA: dispatch, dtypes, products, traffic, memory and host waits, against formulas; with values."""

import re
from functools import cache

import pytest

from scaleproof.ground.campaign.model_shapes import ModelShape
from scaleproof.ground.facts.counts import count, inventory_of_shape
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.traffic import fits, moved_bytes, step_traffic

ZERO = ["zero0", "zero1", "zero2", "zero3"]
SHARING = ["ddp", "fsdp", *ZERO]
LOW = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
PRECISIONS = list(LOW)
LOSSES, KEEPING = {"loss": ["plain", "fused", "chunked"]}, {"activation_checkpointing": [False, True]}
# World and a name -> what varies there.
PLANS = {
    (1, "single"): {"strategy": ["single"], "precision": PRECISIONS} | LOSSES | KEEPING,
    **{(1, name): {"strategy": [name], "precision": PRECISIONS} | KEEPING for name in SHARING},
    **{(2, name): {"strategy": [name], "precision": PRECISIONS, "loss": ["plain", "fused"]} for name in SHARING},
    (2, "fsdp without resharding"): {"strategy": ["fsdp"], "precision": ["bf16"], "fsdp_reshard": [False]},
    (8, "all"): {"strategy": SHARING, "precision": ["bf16"]},
    (1, "dp"): {"strategy": ["dp"], "precision": PRECISIONS},
    (1, "zero2-offload"): {"strategy": ["zero2-offload"], "precision": ["bf16"]},
}
# The host waits in DeepSpeed: it reads the gradients' norm, and in fp16 whether they have overflowed; it copies numbers
# to the device that are not in pinned memory; stage 3 waits for its streams in every backward pass.
OF_DEEPSPEED = re.compile(r"deepspeed/(runtime/(utils|zero/\w+|engine)|accelerator/cuda_accelerator|comm/\w+)\.py:\d+")
STATE_SLACK = 16_384  # bytes of counts, norms, alignment, the loss
# Of gradients, each of as many elements as parameters; stage 3 also has blocks gathered: 2.5 in fp32 on two devices.
BUFFERS = {"zero0": 1, "zero1": 1, "zero2": 2, "zero3": 3}


@pytest.fixture(scope="session")
def steps(machine):
    """Steps of all cells of a plan, made once: what each of the ranks has seen, by slug."""

    @cache
    def made(world: int, name: str) -> list[dict]:
        return machine.run("steps", world, vary=PLANS[world, name], geometry=f"1x{2 if name == 'dp' else world}")

    return made


@pytest.fixture(params=PLANS, ids=lambda plan: f"{plan[1]}-{plan[0]}", scope="session")
def ranks(request, steps):
    return steps(*request.param)


@pytest.fixture
def cells(ranks):
    """What rank 0 has seen of each cell."""
    return list(ranks[0].values())


def strategy_of(cell: dict) -> str:
    return cell["cell"]["execution"]["strategy"]


def precision_of(cell: dict) -> str:
    return cell["cell"]["execution"]["precision"]


def devices_of(cell: dict) -> int:
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
        kernel = "efficient" if LOW[precision_of(cell)] == "float32" else "flash"
        names = set(cell["probed"]["attention"])
        assert names <= {f"_scaled_dot_product_{kernel}_attention", f"_scaled_dot_product_{kernel}_attention_backward"}
        assert f"_scaled_dot_product_{kernel}_attention_backward" in names
        if strategy_of(cell) != "zero2-offload":  # whose update is the CPU's
            assert set(cell["probed"]["updates"]) == {"_fused_adamw_"}


def test_products_are_those_of_the_formula(cells):
    """The forward pass once, the backward pass twice; computed again where the cell says so."""
    for cell in cells:
        if strategy_of(cell) == "dp":
            continue
        execution, work = cell["cell"]["execution"], cell["cell"]["work"]
        shape = ModelShape(**cell["cell"]["workload"]["model_shape"])
        counts = count(shape, 512, 64)
        blocks = 12 * shape.layers * shape.width**2
        # torch stops before the last product of a block, a third of it, whose result nobody needs.
        again = blocks * 2 // 3 * execution["activation_checkpointing"]
        again += (counts.matmul_parameters - blocks) * (execution["loss"] == "chunked")
        tokens = work["micro_batch"] * work["accumulation"] * 64
        assert cell["probed"]["linear_flops"] == (6 * counts.matmul_parameters + 2 * again) * tokens, execution


def test_bytes_between_devices_are_those_of_the_formula(cells):
    for cell in cells:
        if devices_of(cell) == 1 or strategy_of(cell) == "dp":
            continue
        shape = ModelShape(**cell["cell"]["workload"]["model_shape"])
        blocks = sum(inventory_of_shape(shape, 512).blocks)
        reshards = cell["cell"]["execution"].get("fsdp_reshard", True)  # left out where it has its default
        expected = step_traffic(strategy_of(cell), precision_of(cell), 2, cell["parameters"], blocks, reshards=reshards)
        moved = moved_bytes(cell["probed"]["collectives"])
        assert {kind for kind in moved if not fits(moved[kind], expected[kind])} == set(), (expected, moved)


def test_memory_of_the_state_is_that_of_the_formula(cells):
    """As allocated just before an update; DeepSpeed has let go of gradients by then, or keeps buffers of them."""
    for cell in cells:
        strategy = strategy_of(cell)
        if strategy == "zero2-offload":
            continue  # which keeps gradients on the host as they come
        devices = 1 if strategy == "dp" else devices_of(cell)
        expected = state_bytes(strategy, precision_of(cell), cell["parameters"], devices)
        most = expected + 4 * BUFFERS.get(strategy, 0) * cell["parameters"] + STATE_SLACK
        gradients = BUFFERS.get(strategy, 0) and (2 if LOW[precision_of(cell)] != "float32" else 4) * cell["parameters"]
        least = (expected - gradients) * 0.98 - STATE_SLACK
        assert least <= cell["state_bytes"] <= most * 1.02, cell["cell"]["execution"]


def test_losses_of_all_ranks_are_those_of_one_device(ranks, steps):
    """The mean over the ranks: every strategy learns the same from the same samples of a step."""
    for slug, cell in ranks[0].items():
        if devices_of(cell) > 1:
            continue  # another global batch
        alone = next(iter(steps(1, "single")[0].values()))
        assert cell["losses"] == pytest.approx(alone["losses"], rel=1e-4), slug


def test_dataparallel_leaves_the_model_as_it_is(steps):
    alone, replicated = (next(iter(steps(1, name)[0].values()))["names"] for name in ("single", "dp"))
    assert replicated == [f"module.{name}" for name in alone]
