"""Memory: parts, anchors, verdicts, and the search for the largest micro-batch."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scalebench.forecast.collective import Unsupported
from scalebench.forecast.frontier import MOST_TRIALS, Trial, fastest, search
from scalebench.forecast.memory import Held, Peak, buffer_bytes, fit_memory, known_bytes, verdict

SMALL = {"parameters": 124_439_808, "block": 7_087_872, "root": 39_385_344, "vocabulary": 50257, "seq_len": 512}
STRATEGIES = ("single", "ddp", "fsdp", "zero0", "zero1", "zero2", "zero3", "zero1-offload")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_never_grows_with_devices_where_state_is_sharded(strategy, precision):
    held = Held(strategy, precision, **SMALL)
    sizes = [known_bytes(held, n, 4) for n in (2, 4, 8, 64)]
    assert sizes == sorted(sizes, reverse=True)
    assert buffer_bytes(held, 1) == 0


def test_peaks_counted_by_torch_under_fake_tensors_are_met():
    """GPT-2 small in fp32, 512 tokens, AdamW: MB of torch.distributed._tools.MemTracker."""
    held = Held("single", "fp32", **SMALL)
    peaks = {1: 2347.4, 2: 3201.1, 4: 4908.4, 8: 8323.2}
    model = fit_memory(held, [Peak(b, 1, 1e6 * peaks[b]) for b in (1, 2, 4)])
    assert model.at(8, 1) / 1e6 == pytest.approx(peaks[8], rel=0.001)
    sharded = fit_memory(Held("fsdp", "fp32", **SMALL), [Peak(4, 2, 4347.6e6), Peak(2, 2, 4347.6e6 - 2 * 853.7e6)])
    assert sharded.at(4, 4) / 1e6 == pytest.approx(3974.2, rel=0.05)
    assert sharded.at(4, 8) / 1e6 == pytest.approx(3787.5, rel=0.05)


def test_one_batch_says_nothing_of_another():
    with pytest.raises(Unsupported) as refused:
        fit_memory(Held("ddp", "fp32", **SMALL), [Peak(4, 2, 1e9), Peak(4, 4, 1e9)])
    assert refused.value.code == "memory-one-batch"
    two = fit_memory(Held("ddp", "fp32", **SMALL), [Peak(4, 2, 5e9), Peak(8, 2, 9e9)])
    for outside in (2, 33):
        with pytest.raises(Unsupported):
            two.at(outside, 2)


def test_a_verdict_leaves_room_for_doubt():
    assert [verdict(gb, 80) for gb in (70, 78, 83, 85)] == ["fits", "undecided", "undecided", "does not fit"]


def device(limit: float, base: float, slope: float, bend: float = 0.0):
    made: list[int] = []

    def run(size: int) -> Trial:
        made.append(size)
        used = base + slope * size + bend * size**2
        return Trial(size, used if used <= limit else None, size / (1 + 0.01 * size**2))

    return run, made


@given(st.floats(0, 50), st.floats(0.3, 20), st.floats(60, 400))
def test_a_straight_line_takes_four_trials_and_is_certified(base, slope, limit):
    assume(abs((limit - base) / slope - round((limit - base) / slope)) > 1e-6)  # not exactly full
    run, made = device(limit, base, slope)
    found = search(run, limit, list(range(1, 1025)))
    truth = max((b for b in range(1, 1025) if base + slope * b <= limit), default=None)
    assert found.largest == truth
    assert len(made) <= 4
    if truth:
        assert found.certificate == ("largest allowed" if truth == 1024 else "ran out of memory")


@given(st.floats(0, 40), st.floats(0.5, 8), st.floats(-0.01, 0.05), st.floats(60, 300))
def test_no_answer_is_unsafe_and_the_search_ends(base, slope, bend, limit):
    run, made = device(limit, base, slope, bend)
    found = search(run, limit, list(range(1, 65)))
    assert len(made) <= MOST_TRIALS
    if found.largest is not None:
        assert any(t.micro_batch == found.largest and t.fits for t in found.trials)
        assert all(t.micro_batch > found.largest for t in found.trials if not t.fits)
    if found.certificate == "ran out of memory" and found.largest:
        assert base + slope * (found.largest + 1) + bend * (found.largest + 1) ** 2 > limit


@given(st.floats(0, 50), st.floats(0.3, 20), st.floats(60, 400), st.integers(1, 2000))
def test_wherever_it_begins_no_answer_is_unsafe(base, slope, limit, start):
    run, made = device(limit, base, slope)
    found = search(run, limit, list(range(1, 1025)), start)
    assert len(made) <= MOST_TRIALS
    if found.largest is not None:
        assert base + slope * found.largest <= limit


def test_the_fastest_of_the_trials_need_not_be_the_largest():
    run, _ = device(100, 10, 1)
    sizes = list(range(1, 200))
    found = search(run, 100, sizes)
    assert (found.largest, found.fastest, found.near_full) == (90, None, True)
    assert fastest(run, found, sizes).fastest == 22


def test_only_micro_batches_that_divide_the_work_are_tried():
    run, made = device(100, 10, 5)
    found = search(run, 100, [1, 2, 4, 8, 16, 32])
    assert found.largest == 16
    assert set(made) <= {2, 4, 16, 32}
    assert found.certificate == "ran out of memory"
    run, made = device(100, 10, 1)
    assert search(run, 100, [1, 2, 4, 8]).certificate == "largest allowed"


def test_nothing_that_fits_is_said():
    run, made = device(5, 10, 1)
    found = search(run, 5, [1, 2, 4])
    assert (found.largest, made) == (None, [2, 1])
