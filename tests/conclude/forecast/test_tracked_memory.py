"""Two ways to the memory of a rank that share nothing: our formulas, and torch's trackers on fake tensors."""

import json

import pytest
from synthetic import cells

from scaleproof.conclude.forecast.memory import (
    Peak,
    buffer_bytes,
    fit_memory,
    memory_inputs,
    sharded_bytes,
    tracked_memory,
)
from scaleproof.ground.campaign.config import shape_of
from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.memory import state_bytes

MODEL = {"layers": 2, "width": 128, "heads": 2, "context": 128}
SETTINGS = {
    **{f"single-{b}": ("single", 1, b, 1, "fp32") for b in (2, 4, 8)},
    "ddp-8": ("ddp", 2, 8, 1, "fp32"),
    **{f"fsdp-{b}": ("fsdp", 2, b, 1, "fp32") for b in (4, 8)},
    "fsdp-8-of-4": ("fsdp", 4, 8, 1, "fp32"),
    "fsdp-8-twice": ("fsdp", 2, 8, 2, "fp32"),
    "zero1-bf16": ("zero1", 2, 2, 1, "bf16"),
    "zero2-offload": ("zero2-offload", 2, 2, 1, "fp32"),
    "fp16": ("single", 1, 2, 1, "fp16"),
}


def cell_of(strategy: str, n: int, micro: int, accumulation: int, precision: str, model=MODEL, tokenizer="bpe-512"):
    (cell,) = cells(
        workload={"model": model, "seq_len": 128, "tokenizer": tokenizer},
        work={"global_batch": "derive", "micro_batch": micro, "accumulation": accumulation},
        execution={"strategy": strategy, "geometry": f"1x{n}", "precision": precision},
        vary={},
    )
    return cell


@pytest.fixture(scope="module")
def counted():
    """Setting -> cell and bytes; all of them in one process."""
    made = {name: cell_of(*setting) for name, setting in SETTINGS.items()}
    for strategy in ("ddp", "zero1", "zero2", "zero3"):
        made[f"published-{strategy}-n1x2"] = cell_of(strategy, 2, 4, 1, "fp32", "gpt2-tiny", "bpe-2048")
    answers = tracked_memory(list(made.values()))
    return {name: (made[name], answer) for name, answer in zip(made, answers, strict=True)}


@pytest.mark.parametrize("name", ["single-2", "ddp-8", "fsdp-4", "fsdp-8-of-4", "fsdp-8-twice"])
def test_what_is_there_before_the_update_is_the_state(counted, name):
    cell, answer = counted[name]
    held = memory_inputs(cell)
    state = state_bytes(held.strategy, held.precision, held.parameters, cell.batch.n_devices)
    assert answer.state == pytest.approx(state, rel=0.05)


@pytest.mark.parametrize("run", ["ddp-n1x2", "zero1-n1x2", "zero2-n1x2", "zero3-n1x2"])
def test_the_state_of_published_runs_is_counted_within_one_percent(counted, run, repository):
    """What real ranks held; by the ZeRO paper alone, stage 2 is 17 % below it and stage 3 50 %."""
    cell, answer = counted[f"published-{run}"]
    path = sorted(repository.glob(f"results/published/demo_*/runs/{run}/rep1/training_metrics.json"))[-1]
    metrics = json.loads(path.read_text())
    assert metrics["config"]["workload"]["model_shape"] == shape_of(cell.workload.model).model_dump(mode="json")
    assert answer.state == pytest.approx(metrics["memory"]["state_bytes"], rel=0.01)


@pytest.mark.parametrize(("devices", "measured"), [(1, 20.00), (2, 12.34), (4, 8.10)])
def test_stages_1_and_2_of_real_ranks_hold_what_is_shared_out(devices, measured):
    """Bytes a parameter before the update, on gloo ranks of DeepSpeed 0.19.8 in fp32; both stages hold the same."""
    a_parameter = {"Parameter": 4, "Gradient": 4, "Optstate": 8, "Total": 16}
    for stage in (1, 2):
        assert sharded_bytes(a_parameter, stage, devices, reduced=True) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize(("devices", "measured"), [(1, 24.00), (2, 18.00), (4, 13.00)])
def test_stage_3_of_real_ranks_holds_its_part_a_bucket_and_small_parameters(devices, measured):
    """The same ranks; all of their parameters are small, and their bucket holds the whole model."""
    a_parameter = {"Parameter": 4, "Gradient": 4, "Optstate": 8, "Total": 16}
    gathered = 4 if devices > 1 else 0
    assert sharded_bytes(a_parameter, 3, devices, reduced=True) + 4 + gathered == pytest.approx(measured, rel=0.01)


def test_zero_shares_out_what_one_device_holds():
    counted = {"Parameter": 400, "Gradient": 400, "Optstate": 800, "Total": 2600}  # 1000 of activations
    assert sharded_bytes(counted, 1, 4, reduced=False) == 1000 + 400 + 100 + 400 + 200
    assert sharded_bytes(counted, 1, 4, reduced=True) == 1000 + 400 + 100 + 100 + 200
    assert sharded_bytes(counted, 2, 4, reduced=False) == 1000 + 400 + 100 + 100 + 200
    assert sharded_bytes(counted, 3, 4, reduced=False) == 1000 + 100 + 100 + 100 + 200


def fitted(counted, *names: str):
    points = [counted[name] for name in names]
    peaks = [Peak(cell.batch.micro, cell.batch.n_devices, answer.peak) for cell, answer in points]
    return fit_memory(memory_inputs(points[0][0]), peaks)


def test_the_formula_and_the_trackers_agree_within_five_percent(counted):
    alone = fitted(counted, "single-2", "single-4")
    assert alone.predict(8, 1) == pytest.approx(counted["single-8"][1].peak, rel=0.05)
    sharded = fitted(counted, "fsdp-4", "fsdp-8")
    assert sharded.predict(8, 4) == pytest.approx(counted["fsdp-8-of-4"][1].peak, rel=0.05)
    assert counted["fsdp-8-of-4"][1].peak < counted["fsdp-8"][1].peak < counted["single-8"][1].peak


def test_gradients_stay_whole_under_fsdp_until_the_boundary(counted):
    """The formula's largest buffer: 4 bytes a parameter where micro-batches are accumulated, none without."""
    (once, alone), (twice, accumulated) = counted["fsdp-8"], counted["fsdp-8-twice"]
    more = buffer_bytes(memory_inputs(twice), 2) - buffer_bytes(memory_inputs(once), 2)
    assert more == 4 * memory_inputs(once).parameters
    assert accumulated.peak - alone.peak == pytest.approx(more, rel=0.05)


def test_ddp_holds_nothing_beside_one_device(counted):
    """Its gradients are views of its buckets (gradient_as_bucket_view): a line through one device holds for two."""
    alone = fit_memory(memory_inputs(counted["ddp-8"][0]), [Peak(b, 1, counted[f"single-{b}"][1].peak) for b in (2, 4)])
    assert alone.predict(8, 2) == pytest.approx(counted["ddp-8"][1].peak, rel=0.05)


@pytest.mark.parametrize(
    ("name", "why"), [("zero1-bf16", "other activations"), ("zero2-offload", "host's memory"), ("fp16", "scaler")]
)
def test_what_cannot_be_counted_says_why(counted, name, why):
    answer = counted[name][1]
    assert answer.peak is None
    assert why in answer.reason


def test_trackers_that_take_too_long_are_one_message(monkeypatch):
    monkeypatch.setattr("scaleproof.conclude.forecast.memory.TIME_LIMIT_S", 0.01)
    with pytest.raises(UserError, match=r"took more than 0.01 s for 1 cell; count fewer cells at once"):
        tracked_memory([cell_of(*SETTINGS["single-2"])])


def test_a_log_says_how_many_cells_are_counted_and_nothing_else(capfd):
    fp16_cells = [cell_of(*SETTINGS["fp16"])] * 2
    tracked_memory(fp16_cells)
    assert capfd.readouterr() == (
        "",
        "counting the memory of 2 cells\nmemory counted: 1 of 2 cells\nmemory counted: 2 of 2 cells\n",
    )
