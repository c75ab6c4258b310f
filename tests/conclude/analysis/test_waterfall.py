"""The loss of scaling: parts that went in come out, and together they are the step."""

import pandas as pd
import pytest
from result_models import point, scaling, series
from synthetic import cells, write_run

from scaleproof.conclude.analysis.run_tables import cells_table
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.analysis.waterfall import step_shares, waterfall_report
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.ground.records.configuration import CONFIGURATION
from scaleproof.ground.records.profile_schema import TracedStep


def step(wall, compute, exposed, wait, hidden=0.0, exposed_wait=None):
    fields = {
        "wall_ms": wall,
        "compute_ms": compute,
        "communication_ms": exposed + hidden,
        "exposed_ms": exposed,
        "overlapped_ms": hidden,
        "wait_ms": wait,
        "exposed_wait_ms": wait if exposed_wait is None else exposed_wait,
        "idle_ms": wall - compute - exposed,
    }
    return TracedStep(step=0, rank=0, gaps=None, ranges_ms={}, **fields)


def report(tmp_path, times, traced, codes="", **keys):
    """Steps of `times` (geometry, global batch) -> ms, without spread. All cells have the findings `codes`."""
    found = cells(**keys)
    runs = [
        write_run(tmp_path, c, k, times[str(c.execution.geometry), c.batch.global_] / 1e3, spread=0)
        for c in found
        for k in (1, 2)
    ]
    findings = audit("synthetic", runs)
    scaled = scaling_report("synthetic", "Does it scale?", runs, findings)
    table = cells_table(runs, findings).assign(findings=codes)
    return waterfall_report("synthetic", table, scaled, traced).cells


def ms(entry):
    return {part.name: part.ms for part in entry.parts}


def total(entry):
    return entry.ideal_ms + sum(part.ms or 0 for part in entry.parts) + entry.unexplained_ms


def test_known_parts_are_recovered_and_sum_to_the_step(tmp_path):
    """100 ms on one device, 70 on two: 5 for the smaller batch, 8 exposed, 4 waiting, gaps, and the rest."""
    traced = {
        "ddp-n1x1-gb16": [step(110, 99, 0, 0)],  # a tenth idle, and slower under the profiler: shares count
        "ddp-n1x2-gb16": [step(140, 100, 24, 8, hidden=26), step(140, 100, 24, 8, hidden=26)],
    }
    times = {("1x1", 16): 100, ("1x2", 16): 70, ("1x1", 8): 55, ("1x2", 8): 40}
    keys = {"vary": {"geometry": ["1x1", "1x2"], "global_batch": [16, 8]}}
    entry = next(e for e in report(tmp_path, times, traced, **keys) if e.cell == "ddp-n1x2-gb16")
    assert entry.measured_ms == pytest.approx(70)
    assert entry.ideal_ms == pytest.approx(50)
    found = ms(entry)
    order = ["smaller local batch", "exposed transfer", "waiting for the slowest rank", "waiting for data", "host gaps"]
    assert list(found) == order, "chart, table and sentences follow it"
    assert found["smaller local batch"] == pytest.approx(5)
    assert found["exposed transfer"] == pytest.approx(70 * 16 / 140)
    assert found["waiting for the slowest rank"] == pytest.approx(70 * 8 / 140)
    assert found["waiting for data"] == pytest.approx(70 / 500 - 50 / 500)
    assert found["host gaps"] == pytest.approx((70 * 16 / 140 - 70 / 500) - (50 * 0.1 - 50 / 500))
    assert total(entry) == pytest.approx(entry.measured_ms)
    assert entry.compute_to_communication == pytest.approx(200 / (100 - 16)), "waiting is not communication"


def test_what_was_not_measured_is_unknown_and_stays_in_the_unexplained(tmp_path):
    times = {("1x1", 16): 100, ("1x2", 16): 70}
    (entry,) = report(tmp_path, times, {})
    found = ms(entry)
    assert [name for name, value in found.items() if value is None] == [
        "smaller local batch",
        "exposed transfer",
        "waiting for the slowest rank",
        "host gaps",
    ]
    assert entry.unexplained_ms == pytest.approx(20 - found["waiting for data"])
    assert total(entry) == pytest.approx(70)


def test_weak_scaling_has_no_smaller_batch(tmp_path):
    times = {("1x1", 8): 50, ("1x2", 16): 60}
    keys = {"work": {"global_batch": "derive", "micro_batch": 8, "steps": 30, "warmup_steps": 5}}
    (entry,) = report(tmp_path, times, {}, **keys)
    assert entry.kind == "weak"
    assert entry.ideal_ms == pytest.approx(50)
    assert "smaller local batch" not in ms(entry)


def test_a_trace_that_does_not_carry_it_is_no_zero():
    assert step_shares([]) is None
    assert step_shares([step(100, 60, 30, 0).model_copy(update={"wait_ms": None})]) is None


@pytest.mark.parametrize(("codes", "expected"), [("window-short", 5), ("provenance-differs window-short", None)])
def test_a_step_of_another_environment_says_nothing_of_the_batch(tmp_path, codes, expected):
    """Where code or hardware changed between runs, the step of one device may be shorter for that reason."""
    times = {("1x1", 16): 100, ("1x2", 16): 70, ("1x1", 8): 55, ("1x2", 8): 40}
    keys = {"vary": {"geometry": ["1x1", "1x2"], "global_batch": [16, 8]}}
    entry = next(e for e in report(tmp_path, times, {}, codes, **keys) if e.cell == "ddp-n1x2-gb16")
    assert ms(entry)["smaller local batch"] == (expected and pytest.approx(expected))
    sources = {part.name: part.source for part in entry.parts}
    needed = "needs ddp-n1x1-gb8 in the same environment"
    assert sources["smaller local batch"] == ("ddp-n1x1-gb8" if expected else needed)


def test_waiting_behind_computation_costs_nothing(tmp_path):
    """Of 30 ms of waiting 20 are hidden: 10 of the 24 exposed ones are waiting, 14 transfer."""
    hidden = step(140, 100, 24, 30, hidden=26, exposed_wait=10)
    assert step_shares([hidden]).exposed_wait == pytest.approx(10 / 140)
    assert step_shares([hidden]).exposed_share_of_transfer == pytest.approx(14 / 20)
    times = {("1x1", 16): 100, ("1x2", 16): 70}
    (entry,) = report(tmp_path, times, {"ddp-n1x2": [hidden]})
    assert ms(entry)["exposed transfer"] == pytest.approx(7)
    assert ms(entry)["waiting for the slowest rank"] == pytest.approx(5)
    assert entry.n == 2


def test_an_older_summary_does_not_tell_exposed_waiting_apart(tmp_path):
    older = step(140, 100, 24, 8, hidden=26).model_copy(update={"exposed_wait_ms": None})
    times = {("1x1", 16): 100, ("1x2", 16): 70}
    (entry,) = report(tmp_path, times, {"ddp-n1x2": [older]})
    assert ms(entry)["exposed communication"] == pytest.approx(12)
    assert ms(entry)["waiting for the slowest rank"] is None
    assert total(entry) == pytest.approx(70)


def test_a_step_of_documents_is_as_long_as_its_samples_take():
    """Classification counts the real tokens of padded documents: 60 of 256 in a step of 100 ms."""
    same = dict.fromkeys(CONFIGURATION, 1) | {
        "strategy": "ddp",
        "global_batch": 16,
        "seq_len": 256,
        "data_wait_share": 0.0,
        "n": 3,
    }
    rows = [
        same | {"cell": cell, "devices": n, "samples_per_s": 16 * n / 0.1, "tokens_per_s": 60 * 16 * n / 0.1}
        for cell, n in (("one", 1), ("two", 2))
    ]
    points = {cell: point(cell) for cell in ("one", "two")}
    make_forecast_report = scaling(series=[series(baseline="one", runs=points)])
    (entry,) = waterfall_report("c", pd.DataFrame(rows), make_forecast_report, {}).cells
    assert entry.measured_ms == pytest.approx(50)
    assert entry.ideal_ms == pytest.approx(50)


def test_computing_is_compared_with_transfer_not_with_waiting():
    assert step_shares([step(140, 100, 24, 8, hidden=26)]).compute_to_communication == pytest.approx(100 / (50 - 8))
    assert step_shares([step(140, 100, 40, 40)]).compute_to_communication is None, "all of it is waiting"
