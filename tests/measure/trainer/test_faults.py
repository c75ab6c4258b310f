"""Trainers broken on purpose: the checks speak, and failed runs are rows with a class and a reason."""

import shutil
import time
from pathlib import Path

import pytest

from scaleproof.conclude.checks.all_checks import ALSO, audit
from scaleproof.measure.launch import supervise


def codes(*runs):
    return {f.code: f for f in audit("tiny", list(runs)).findings if f.severity == "invalid"}


def named(found):
    """Codes of findings, and those that one of them explains."""
    return set(found) | {code for f in found.values() for code in f.evidence.partition(ALSO)[2].split(", ") if code}


def test_a_missing_sampler_is_found(run_tiny, one):
    broken = run_tiny("fault_sampler", execution={"geometry": "1x2"})
    found = codes(one, broken)
    assert {"ledger-differs-from-plan", "losses-differ"} <= set(found)
    assert "96 of 192 samples were consumed more often" in found["ledger-differs-from-plan"].evidence


def test_a_timer_that_restarts_too_rarely_is_found(run_tiny):
    found = codes(run_tiny("fault_timer"))
    assert "steps-do-not-fill-window" in found


def test_gradients_that_are_never_exchanged_are_found(run_tiny, one):
    found = codes(one, run_tiny("fault_no_sync", execution={"geometry": "1x2"}))
    assert {"losses-differ", "traffic-differs"} <= named(found)


TWO = {"execution": {"geometry": "1x2"}, "work": {"micro_batch": 2}}


def test_gradients_that_are_exchanged_too_often_are_found(run_tiny, two_accumulating):
    found = codes(two_accumulating, run_tiny("fault_reduce_each", **TWO))
    assert set(found) == {"traffic-differs"}, "the losses are right: only the traffic tells"
    assert "2 micro-batches" in found["traffic-differs"].evidence


def test_an_ignored_accumulation_is_found(run_tiny, two_accumulating):
    found = codes(two_accumulating, run_tiny("fault_ignored_accumulation", **TWO))
    assert {"updates-differ-from-steps", "losses-differ", "traffic-differs"} <= named(found)


def test_low_precision_that_is_silently_fp32_is_found(run_tiny):
    found = codes(run_tiny("fault_silent_fp32", execution={"precision": "bf16"}))
    assert set(found) == {"precision-differs"}
    assert "products ran in float32" in found["precision-differs"].evidence


class ClockFrom:
    """The launcher's clock, which stands still until a file is there: a slow machine comes as far as a fast one.

    Then it runs twice as fast: the other ranks' collectives, whose limit is the launcher's, must not fail before it.
    """

    sleep = staticmethod(time.sleep)

    def __init__(self, file: Path) -> None:
        self.file, self.began = file, time.monotonic()

    def monotonic(self) -> float:
        now = time.monotonic()
        if not self.file.exists():
            self.began = now
        return 2 * (now - self.began)


@pytest.mark.fault("a rank hangs", "a row `hang`, with the rank and what it was doing")
def test_a_rank_that_hangs_is_named_with_what_it_was_doing(run_tiny, monkeypatch, tmp_path):
    stuck = tmp_path / "stuck"
    monkeypatch.setenv("STUCK", str(stuck))
    monkeypatch.setattr(supervise, "time", ClockFrom(stuck))
    run = run_tiny("fault_hang", limit=20, execution={"geometry": "1x2"})
    failure = run.metrics.failure
    assert (failure.failure_class, failure.rank) == ("hang", 1)
    assert any("stuck_for_ever" in line for line in failure.log_tail)


@pytest.mark.fault("fewer ranks come up than asked for", "a row `wrong_world`; nothing is timed")
def test_ranks_that_see_another_world_are_not_timed(run_tiny):
    run = run_tiny("fault_world", execution={"geometry": "1x2"})
    assert run.metrics.failure.failure_class == "wrong_world"
    assert "2 ranks were asked for, but 1 came up" in run.metrics.failure.reason
    assert run.metrics.window is None


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("exception", "crash", "ValueError: the fault of rank 1"),
        ("memory", "host_oom", "DefaultCPUAllocator: can't allocate memory"),
        ("terminated", "crash", "rank 1 was ended by SIGTERM"),
        ("killed", "crash", "rank 1 was ended by SIGKILL"),
    ],
)
@pytest.mark.fault(
    "a rank raises, runs out of memory, or is killed (SIGTERM, SIGKILL)",
    "a row with class, rank and reason; the others are ended",
)
def test_a_rank_that_fails(run_tiny, monkeypatch, fault, kind, reason):
    monkeypatch.setenv("FAULT", fault)
    run = run_tiny("fault_crash", execution={"geometry": "1x2"})
    assert run.metrics.status == "failed"
    assert run.metrics.failure.failure_class == kind, "waiting for the other rank, which never ends, is a timeout"
    assert reason in run.metrics.failure.reason
    assert run.metrics.window is None
    assert run.metrics.training_config.seq_len == 32
    assert not (run.folder / "RUN_COMPLETE.txt").exists()
    assert len(run.steps) == 0


@pytest.mark.fault("all ranks hang", "stopped at `resources.time_limit`: a row `timeout`")
def test_a_run_that_hangs_is_stopped_at_its_limit(run_tiny, monkeypatch):
    monkeypatch.setenv("FAULT", "hang")
    run = run_tiny("fault_crash", limit=8, execution={"geometry": "1x2"})
    assert run.metrics.failure.failure_class == "timeout"
    assert "time limit" in run.metrics.failure.reason


@pytest.mark.fault("a loss that is not a number", "a row `nan`, with the step")
def test_a_loss_that_is_not_a_number(run_tiny):
    run = run_tiny("fault_nan")
    assert run.metrics.failure.failure_class == "nan"
    assert "step 0" in run.metrics.failure.reason
    assert any("NotFinite" in line for line in run.metrics.failure.log_tail)


def test_gradients_that_zero_skips_as_they_are_not_finite(run_tiny):
    run = run_tiny("fault_infinite", execution={"strategy": "zero1"})
    assert run.metrics.failure.failure_class == "nan"
    assert run.metrics.failure.reason.startswith("NotFinite: the gradients of step ")


@pytest.mark.fault("a rank is stopped (SIGSTOP) inside the window", "the finding `step-stalled`")
def test_a_rank_that_is_stopped_in_the_window_is_named(run_tiny):
    """SIGSTOP, as of a debugger or a suspended job: the numbers are wrong, and no longer pass."""
    run = run_tiny("fault_stopped")
    assert run.metrics.window.wall_time_s > 1
    assert "step-stalled" in {f.code for f in audit("tiny", [run]).findings}


@pytest.mark.fault("the token files are deleted during a run", "the run is right; the next snakemake makes them again")
def test_tokens_that_are_deleted_in_a_run_change_nothing_in_it(run_tiny, one, tokens, tmp_path):
    """The file stays open; the next Snakemake makes it again."""
    copy = tmp_path / "tokens"
    shutil.copytree(tokens, copy)
    run = run_tiny("fault_tokens_deleted", tokens=copy)
    assert not (copy / "train.bin").exists()
    assert run.ok
    assert run.steps["loss"].tolist() == one.steps["loss"].tolist()


def test_what_one_machine_cannot_do_is_not_tried(run_tiny, monkeypatch):
    monkeypatch.setattr(
        "scaleproof.measure.launch.attempt.run_supervised", lambda *arguments: pytest.fail("ranks were started")
    )
    run = run_tiny(execution={"geometry": "2x1"})
    assert run.metrics.status == "not_applicable"
    assert "need a cluster" in run.metrics.failure.reason


def test_cuda_is_asked_for_where_there_is_none(run_tiny):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    run = run_tiny(execution={"device": "cuda", "start": "fresh"})
    assert run.metrics.status == "not_applicable"
    assert "0 are visible" in run.metrics.failure.reason
