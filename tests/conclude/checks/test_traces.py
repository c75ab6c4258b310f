"""Checks of traces: each finds its fault, and nothing in a sound one."""

import pytest
from synthetic import cells, write_run
from synthetic_traces import trace

from scaleproof.conclude.analysis.traces import traces_report
from scaleproof.conclude.checks.traces import of_trace, traced_cells
from scaleproof.ground.records.profile_schema import Profile
from scaleproof.measure.trace.breakdown import StepBreakdown


def profile(made=None, world=None, **fields) -> Profile:
    cell = cells()[1]
    made = made or trace()
    known = {
        "cell": cell.slug,
        "fingerprint": cell.fingerprint,
        "strategy": "ddp",
        "expected_calls": {"allreduce": 2},
        "step_time_ms": [0.2] * 4,
    }
    return Profile(
        generated_at_utc="now", run_dir="here", **known | StepBreakdown(made, world).profile_fields() | fields
    )


@pytest.fixture
def runs(tmp_path):
    """Three timed runs of the traced cell, of 0.2 ms a step as the trace, and one of another cell."""
    one, two = cells()
    return [*(write_run(tmp_path, two, k, 0.0002) for k in (1, 2, 3)), write_run(tmp_path, one, 1, 0.1)]


def codes(*given, runs=()) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in of_trace.findings(traced_cells(given, list(runs)))]


def test_a_sound_trace_has_no_findings(runs):
    assert codes(profile(), runs=runs) == []


def test_each_fault_is_found_by_its_name():
    assert codes(profile(trace(reduce="mystery"))) == [("trace-not-understood", "suspect")]
    assert codes(profile(trace(dropped=5))) == [("trace-incomplete", "suspect")]
    assert codes(profile(world=3)) == [("trace-incomplete", "note")]
    assert codes(profile(expected_calls={"allreduce": 3})) == [("trace-collectives-differ", "suspect")]
    assert codes(profile(expected_calls={"allreduce": 1}, strategy="fsdp")) == [], "and the norm of the gradients"
    assert codes(profile(expected_calls={"allreduce": 1})) == [("trace-collectives-differ", "suspect")]
    assert codes(profile(step_time_ms=[0.2] * 5)) == [("trace-steps-differ", "suspect")]
    assert codes(profile(step_time_ms=[0.3] * 4)) == [("trace-steps-differ", "suspect")]
    assert codes(profile(status="failed", reason="timeout")) == [("trace-missing", "note")]


@pytest.mark.parametrize(("times", "severity"), [(1.05, None), (1.3, "note"), (2.0, "suspect")])
def test_a_heavy_profiler_is_told(tmp_path, times, severity):
    run = write_run(tmp_path, cells()[1], 1, 0.0002 / times, spread=0)
    assert codes(profile(), runs=[run]) == ([("profiler-slows", severity)] if severity else [])


def test_overhead_stands_beside_the_times_with_an_interval_over_runs(runs):
    assert traces_report("synthetic", {}, runs).traces == []
    from pathlib import Path

    path = Path("results/x/traces/c/profile_summary.json")
    slowed = traces_report("synthetic", {path: profile(step_time_ms=[0.4] * 4)}, runs).traces[0].overhead
    assert slowed.n == 3
    assert slowed.value == pytest.approx(2, rel=0.05)
    assert slowed.low < slowed.value < slowed.high
    entry = traces_report("synthetic", {path: profile()}, runs[:1]).traces[0]
    assert (entry.overhead.n, entry.overhead.low) == (1, None)
    assert entry.exposed_ms == pytest.approx(0.04)
    assert entry.file == "traces/c/profile_summary.json"
    unknown = traces_report("synthetic", {path: profile(trace(reduce="mystery"))}, []).traces[0]
    assert (unknown.exposed_ms, unknown.overhead) == (None, None)
    assert unknown.phases_ms["backward"] == pytest.approx(0.1)


def test_devices_of_a_trace_are_not_its_ranks():
    """One process of nn.DataParallel drives two devices."""
    from pathlib import Path

    path = Path("results/x/traces/c/profile_summary.json")
    entry = traces_report("synthetic", {path: profile(world_size=1, n_devices=2, strategy="dp")}, []).traces[0]
    assert entry.n_devices == 2


def test_one_device_launches_no_collective():
    """NCCL: a collective of one rank in place is no kernel, which the probe cannot know."""
    alone = profile(trace(ranks=1), expected_calls={"allreduce": 4}, world_size=1)
    assert alone.device == "gpu"
    assert ("trace-collectives-differ", "suspect") not in codes(alone)
    assert ("trace-collectives-differ", "suspect") in codes(profile(expected_calls={"allreduce": 4}))


@pytest.mark.parametrize(("precision", "findings"), [("fp16", []), ("bf16", [("trace-collectives-differ", "suspect")])])
def test_fsdp_with_a_loss_scale_reduces_once_more(precision, findings):
    made = trace(ranks=2)
    calls = round(sum(c.calls for c in profile(made).collectives.values()))
    given = profile(made, expected_calls={"allgather": calls - 2}, strategy="fsdp", precision=precision)
    assert codes(given) == findings


def test_devices_that_share_a_process_are_not_pulled_apart():
    """nn.DataParallel: one rank, two devices."""
    breakdown = StepBreakdown(trace(ranks=1), 1, n_devices=2)
    assert "drives several devices" in breakdown.unknown["communication"]
    assert all(step.exposed_ms is None and step.idle_ms is None for step in breakdown.per_step())
    assert "communication" not in StepBreakdown(trace(ranks=2), 2, n_devices=2).unknown
