"""Two ways to the memory of a rank that share nothing: our formulas, and torch's trackers on fake tensors."""

import pytest
from synthetic import cells

from scalebench.forecast.memory import Peak, buffer_bytes, fit_memory
from scalebench.forecast.settings import held_of
from scalebench.forecast.tracked_memory import tracked_memory
from scalebench.model.memory import state_bytes

MODEL = {"layers": 2, "width": 128, "heads": 2, "context": 128}
SETTINGS = {
    **{f"single-{b}": ("single", 1, b, 1, "fp32") for b in (2, 4, 8)},
    "ddp-8": ("ddp", 2, 8, 1, "fp32"),
    **{f"fsdp-{b}": ("fsdp", 2, b, 1, "fp32") for b in (4, 8)},
    "fsdp-8-of-4": ("fsdp", 4, 8, 1, "fp32"),
    "fsdp-8-twice": ("fsdp", 2, 8, 2, "fp32"),
    "zero1": ("zero1", 2, 2, 1, "fp32"),
    "fp16": ("single", 1, 2, 1, "fp16"),
}


def cell_of(strategy: str, n: int, micro: int, accumulation: int, precision: str):
    (cell,) = cells(
        workload={"model": MODEL, "seq_len": 128, "tokenizer": "bpe-512"},
        work={"global_batch": "derive", "micro_batch": micro, "accumulation": accumulation},
        execution={"strategy": strategy, "geometry": f"1x{n}", "precision": precision},
        vary={},
    )
    return cell


@pytest.fixture(scope="module")
def counted():
    """Setting -> cell and bytes; all of them in one process."""
    made = {name: cell_of(*setting) for name, setting in SETTINGS.items()}
    answers = tracked_memory(list(made.values()))
    return {name: (made[name], answer) for name, answer in zip(made, answers, strict=True)}


@pytest.mark.parametrize("name", ["single-2", "ddp-8", "fsdp-4", "fsdp-8-of-4", "fsdp-8-twice"])
def test_what_stays_between_steps_is_the_state_without_gradients(counted, name):
    cell, answer = counted[name]
    held, devices = held_of(cell), cell.batch.n_devices
    gradients = 4 * held.parameters / (devices if held.strategy == "fsdp" else 1)
    state = state_bytes(held.strategy, held.precision, held.parameters, devices)
    assert answer.rest == pytest.approx(state - gradients, rel=0.05)


def fitted(counted, *names: str):
    points = [counted[name] for name in names]
    peaks = [Peak(cell.batch.micro, cell.batch.n_devices, answer.peak) for cell, answer in points]
    return fit_memory(held_of(points[0][0]), peaks)


def test_the_formula_and_the_trackers_agree_within_five_percent(counted):
    alone = fitted(counted, "single-2", "single-4")
    assert alone.at(8, 1) == pytest.approx(counted["single-8"][1].peak, rel=0.05)
    sharded = fitted(counted, "fsdp-4", "fsdp-8")
    assert sharded.at(8, 4) == pytest.approx(counted["fsdp-8-of-4"][1].peak, rel=0.05)
    assert counted["fsdp-8-of-4"][1].peak < counted["fsdp-8"][1].peak < counted["single-8"][1].peak


def test_gradients_stay_whole_under_fsdp_until_the_boundary(counted):
    """The formula's largest buffer: 4 bytes a parameter where micro-batches are accumulated, none without."""
    (once, alone), (twice, accumulated) = counted["fsdp-8"], counted["fsdp-8-twice"]
    more = buffer_bytes(held_of(twice), 2) - buffer_bytes(held_of(once), 2)
    assert more == 4 * held_of(once).parameters
    assert accumulated.peak - alone.peak == pytest.approx(more, rel=0.05)


def test_ddp_holds_nothing_beside_one_device(counted):
    """Its gradients are views of its buckets (gradient_as_bucket_view): a line through one device holds for two."""
    alone = fit_memory(held_of(counted["ddp-8"][0]), [Peak(b, 1, counted[f"single-{b}"][1].peak) for b in (2, 4)])
    assert alone.at(8, 2) == pytest.approx(counted["ddp-8"][1].peak, rel=0.05)


@pytest.mark.parametrize(("name", "why"), [("zero1", "DeepSpeed's step"), ("fp16", "scaler")])
def test_what_cannot_be_counted_says_why(counted, name, why):
    answer = counted[name][1]
    assert answer.peak is None
    assert why in answer.reason
