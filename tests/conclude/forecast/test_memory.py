"""Memory: parts, anchors, verdicts, and the search for the largest micro-batch."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from published_series import NOTHING_KNOWN, memory_errors, published
from simulated_memory import random_device

from scaleproof.conclude.forecast.frontier import MOST_TRIALS, Trial, add_fastest, search_largest
from scaleproof.conclude.forecast.law import Unsupported
from scaleproof.conclude.forecast.memory import (
    MemoryInputs,
    Peak,
    buffer_bytes,
    fit_memory,
    known_bytes,
    memory_verdict,
)
from scaleproof.conclude.forecast.text import frontier_text

SMALL = {"parameters": 124_439_808, "block": 7_087_872, "root": 39_385_344, "vocabulary": 50257, "seq_len": 512}
STRATEGIES = ("single", "ddp", "fsdp", "zero0", "zero1", "zero2", "zero3", "zero1-offload")


@pytest.mark.parametrize(
    "held",
    [MemoryInputs("hsdp", "bf16", **SMALL), MemoryInputs("fsdp", "bf16", **SMALL, reshards=False)],
    ids=["hsdp", "kept"],
)
def test_memory_that_no_formula_knows_is_refused(held):
    with pytest.raises(Unsupported, match="not known to the formulas"):
        fit_memory(held, [Peak(4, 2, 4e9)])
    fit_memory(MemoryInputs("ddp", "bf16", **SMALL, reshards=False), [Peak(4, 2, 4e9)])  # which obeys no such key


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_never_grows_with_devices_where_state_is_sharded(strategy, precision):
    held = MemoryInputs(strategy, precision, **SMALL)
    sizes = [known_bytes(held, n, 4) for n in (2, 4, 8, 64)]
    assert sizes == sorted(sizes, reverse=True)
    assert buffer_bytes(held, 1) == 0


def test_peaks_counted_by_torch_under_fake_tensors_are_met():
    """GPT-2 small in fp32, 512 tokens, AdamW: MB of torch.distributed._tools.MemTracker."""
    held = MemoryInputs("single", "fp32", **SMALL)
    peaks = {1: 2347.4, 2: 3201.1, 4: 4908.4, 8: 8323.2}
    model = fit_memory(held, [Peak(b, 1, 1e6 * peaks[b]) for b in (1, 2, 4)])
    assert model.predict(8, 1) / 1e6 == pytest.approx(peaks[8], rel=0.001)
    sharded = fit_memory(
        MemoryInputs("fsdp", "fp32", **SMALL), [Peak(4, 2, 4347.6e6), Peak(2, 2, 4347.6e6 - 2 * 853.7e6)]
    )
    assert sharded.predict(4, 4) / 1e6 == pytest.approx(3974.2, rel=0.05)
    assert sharded.predict(4, 8) / 1e6 == pytest.approx(3787.5, rel=0.05)


def test_one_batch_says_nothing_of_another():
    one = fit_memory(MemoryInputs("ddp", "fp32", **SMALL), [Peak(4, 2, 1e9), Peak(4, 4, 1e9)])
    with pytest.raises(Unsupported) as refused:
        one.predict(8, 2)
    assert refused.value.code == "memory-one-batch"
    two = fit_memory(MemoryInputs("ddp", "fp32", **SMALL), [Peak(4, 2, 5e9), Peak(8, 2, 9e9)])
    for outside in (2, 33):
        with pytest.raises(Unsupported):
            two.predict(outside, 2)


@pytest.mark.parametrize("of_8", ["FSDP", "FSDP + torch.compile", "FSDP + torch.compile + Float8"])
def test_one_anchor_is_enough_for_other_numbers_of_devices(of_8):
    """Llama 3.1 8B on 8 and on 128 H100, as published."""
    data = published("memory_torchtitan")
    held = MemoryInputs("fsdp", "bf16", **data["held"])
    gib = data["gib"][of_8]
    model = fit_memory(held, [Peak(data["micro_batch"], 8, gib["8"] * 2**30)])
    assert abs(model.predict(data["micro_batch"], 128) / 2**30 / gib["128"] - 1) < 0.025


def test_far_from_what_was_measured_less_is_said_to_fit():
    assert memory_verdict(0.94, 1.0) == "fits"
    assert memory_verdict(0.94, 1.0, far=True) == "undecided"
    assert memory_verdict(0.92, 1.0, far=True) == "fits"


@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_memory_of_larger_batches_from_two_smaller_ones(stage):
    errors = memory_errors(stage)
    assert errors
    assert max(map(abs, errors)) <= 0.02


def test_what_ran_out_of_memory_is_never_said_to_fit():
    for stage in ("zero2", "zero3"):
        gigabytes = published("memory_opentau")[stage]
        known = {int(b): gb * 1e9 for b, gb in gigabytes.items() if gb}
        sizes = sorted(known)
        model = fit_memory(NOTHING_KNOWN, [Peak(b, 1, known[b]) for b in sizes[1:3]])
        failed = next(int(b) for b, gb in gigabytes.items() if gb is None)
        if failed <= 4 * sizes[2]:
            assert memory_verdict(model.predict(failed, 1), 85e9) != "fits"


def test_a_line_through_micro_batch_one_would_be_worse():
    peaks = {int(b): gb * 1e9 for b, gb in published("memory_opentau")["zero3"].items() if gb}
    slope = (peaks[32] - peaks[1]) / 31
    assert (peaks[32] + 96 * slope) / peaks[128] - 1 > 0.03


def test_a_verdict_leaves_room_for_doubt():
    assert [memory_verdict(gb, 80) for gb in (70, 78, 83, 85)] == ["fits", "undecided", "undecided", "does not fit"]


def device(limit: float, base: float, slope: float, bend: float = 0.0):
    made: list[int] = []

    def run(size: int) -> Trial:
        made.append(size)
        used = base + slope * size + bend * size**2
        return Trial(size, used if used <= limit else None, size / (1 + 0.01 * size**2), base=base)

    return run, made


@given(st.floats(0, 50), st.floats(0.3, 20), st.floats(60, 400))
def test_a_straight_line_takes_four_trials_and_is_certified(base, slope, limit):
    assume(abs((limit - base) / slope - round((limit - base) / slope)) > 1e-6)  # not exactly full
    run, made = device(limit, base, slope)
    found = search_largest(run, limit, list(range(1, 1025)), start=int((limit - base) / slope / 4))
    truth = max((b for b in range(1, 1025) if base + slope * b <= limit), default=None)
    assert found.largest == truth
    assert len(made) <= 4
    if truth:
        assert found.certificate == ("largest allowed" if truth == 1024 else "ran out of memory")


@pytest.mark.parametrize(
    ("noise", "bend", "exact", "certified"), [(0.0, 0.0, 0.95, 0.87), (0.0, 0.02, 0.95, 0.87), (0.003, 0.02, 0.8, 0.8)]
)
def test_on_random_devices_no_answer_is_unsafe_and_four_trials_are_enough(noise, bend, exact, certified):
    """Memory in pieces, peaks that differ between runs, a bend, formulas that are wrong by factors."""
    random = np.random.default_rng(1)
    seen = []
    for _ in range(600):
        device = random_device(random, bend)
        found, best = device.search(random, noise), device.largest()
        assert len(found.trials) <= 4
        if found.largest is None:
            assert best is None or noise, "a device on which something fits has an answer"
            continue
        assert device.used(found.largest) <= device.limit * (1 + 4 * noise), "unsafe"
        assert all(t.micro_batch > found.largest for t in found.trials if not t.fits)
        seen.append((found.largest == best, found.certificate in ("ran out of memory", "largest allowed")))
    shares = np.mean(seen, axis=0)
    assert shares[0] >= exact
    assert shares[1] >= certified


def test_what_failed_is_named_where_its_neighbour_was_not_tried():
    def run(size: int) -> Trial:
        return Trial(size, 10.0 * size if size < 40 else None)

    found = search_largest(run, 10000.0, list(range(1, 1001)), start=30)
    assert (found.largest, found.certificate) == (30, "a larger one ran out of memory")
    assert found.failed == min(t.micro_batch for t in found.trials if not t.fits)
    assert f"{found.failed} ran out of memory, those between were not tried" in frontier_text("c", found)


@given(st.floats(0, 40), st.floats(0.5, 8), st.floats(-0.01, 0.05), st.floats(60, 300))
def test_no_answer_is_unsafe_and_the_search_ends(base, slope, bend, limit):
    run, made = device(limit, base, slope, bend)
    found = search_largest(run, limit, list(range(1, 65)))
    assert len(made) <= MOST_TRIALS
    if found.largest is not None:
        assert any(t.micro_batch == found.largest and t.fits for t in found.trials)
        assert all(t.micro_batch > found.largest for t in found.trials if not t.fits)
    if found.certificate == "ran out of memory" and found.largest:
        assert base + slope * (found.largest + 1) + bend * (found.largest + 1) ** 2 > limit


@given(st.floats(0, 50), st.floats(0.3, 20), st.floats(60, 400), st.integers(1, 2000))
def test_wherever_it_begins_no_answer_is_unsafe(base, slope, limit, start):
    run, made = device(limit, base, slope)
    found = search_largest(run, limit, list(range(1, 1025)), start)
    assert len(made) <= MOST_TRIALS
    if found.largest is not None:
        assert base + slope * found.largest <= limit


def test_the_fastest_of_the_trials_need_not_be_the_largest():
    run, _ = device(100, 10, 1)
    sizes = list(range(1, 200))
    found = search_largest(run, 100, sizes)
    assert (found.largest, found.fastest, found.near_full) == (90, None, True)
    assert add_fastest(run, found, sizes).fastest == 22


def test_only_micro_batches_that_divide_the_work_are_tried():
    run, made = device(100, 10, 5)
    found = search_largest(run, 100, [1, 2, 4, 8, 16, 32])
    assert found.largest == 16
    assert set(made) <= {2, 8, 16, 32}
    assert found.certificate == "ran out of memory"
    run, made = device(100, 10, 1)
    assert search_largest(run, 100, [1, 2, 4, 8]).certificate == "largest allowed"


def test_nothing_that_fits_is_said():
    run, made = device(5, 10, 1)
    found = search_largest(run, 5, [1, 2, 4])
    assert (found.largest, made) == (None, [2, 1])
