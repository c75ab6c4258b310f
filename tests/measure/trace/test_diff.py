"""Two traces compared: equal denominators, and no difference where one of them is unknown."""

import pytest
from synthetic_traces import REDUCE, stats_text, trace, without_rows, write_sqlite

from scaleproof.ground.errors import UserError
from scaleproof.ground.records.profile_schema import Profile
from scaleproof.measure.trace.breakdown import StepBreakdown
from scaleproof.measure.trace.diff import diff_rows, diff_table, summarise_diff
from scaleproof.measure.trace.summarise import summarise_files


def profile(made) -> Profile:
    return Profile(generated_at_utc="now", run_dir="here", **StepBreakdown(made).profile_fields())


def test_runs_of_different_lengths_and_ranks_are_compared_per_step_and_rank():
    rows = diff_rows(profile(trace(ranks=2, steps=4)), profile(trace(ranks=3, steps=9)))
    assert {
        r["name"]: r["difference"] for r in rows if r["difference"] is not None and abs(r["difference"]) > 1e-9
    } == {}
    assert "Moved: nothing of note" in summarise_diff(rows)


def test_what_moved_is_named():
    without_optimizer = without_rows(trace(), lambda w: ~w["name"].astype(str).str.contains("Adam"))
    rows = diff_rows(profile(trace()), profile(without_optimizer))
    by_name = {r["name"]: r for r in rows}
    assert by_name["computing"]["difference"] == pytest.approx(-0.02)
    assert by_name["class optimizer"]["difference"] == pytest.approx(-0.02)
    assert "idle +0.02 ms" in summarise_diff(rows)
    assert "optimizer -0.02 ms" in summarise_diff(rows)


def test_unknown_has_no_difference():
    rows = diff_rows(profile(trace()), profile(trace(reduce="mysteryKernel")))
    exposed = next(r for r in rows if r["name"] == "exposed communication")
    assert (exposed["a"], exposed["b"], exposed["difference"]) == (pytest.approx(0.04), None, None)
    calls = next(r for r in rows if r["name"] == "calls of all_reduce")
    assert calls["b"] is None
    assert "unknown" in diff_table(rows)


def test_texts_need_their_steps(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text(stats_text({"cuda_gpu_kern_sum": [(REDUCE, 65_896, 520), ("some_gemm", 9_074, 900)]}))
    with pytest.raises(
        UserError, match="A has no steps, and totals of runs of different lengths cannot be compared; say how many"
    ):
        diff_rows(summarise_files([text]), summarise_files([write_sqlite(tmp_path / "b.sqlite", trace())]))
    known = summarise_files([text], ranks=4, steps=40)
    assert {r["name"]: r["b"] for r in diff_rows(known, known)}["calls of all_reduce"] == 3.25


def test_a_profile_counts_once(tmp_path):
    copies = [tmp_path / name for name in ("a.json", "copy.json")]
    for copy in copies:
        copy.write_text('{"traceEvents": []}')
    with pytest.raises(UserError, match="are the same profile"):
        summarise_files(copies)
    with pytest.raises(UserError) as alone:
        summarise_files(copies[:1])
    assert "the same profile" not in str(alone.value)
