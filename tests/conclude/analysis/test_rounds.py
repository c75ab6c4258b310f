"""Cells pair their repeats only where they were measured in turns; one that is added later leaves the others alone."""

import pytest
from synthetic import cells, rewrite, write_run

from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.ground.findings.finding import Findings
from scaleproof.verify.answer import check_answer
from scaleproof.verify.raw import read_runs
from scaleproof.verify.raw_cells import answer_of

NO_FINDINGS = Findings(campaign="synthetic", checks=[], findings=[])
TIMES = {"ddp": 0.1, "zero1": 0.104, "zero2": 0.13}


def report_of(runs):
    return scaling_report("synthetic", "Which is fastest?", runs, NO_FINDINGS)


@pytest.fixture
def measured(tmp_path):
    """Two cells in turns, and the runs of a third, which has the same seeds."""
    members = cells(vary={"geometry": ["1x2"], "strategy": list(TIMES)})
    runs = [
        write_run(tmp_path / "runs", cell, k, TIMES[cell.execution.strategy], seed=i)
        for i, cell in enumerate(members)
        for k in (1, 2, 3)
    ]
    return runs[:6], runs[6:]


def later(run):
    return rewrite(run, lambda data: data.update(timestamp_utc=f"2026-02-0{data['repeat']}T00:10:00Z"))


def test_a_cell_that_is_added_later_changes_nothing_about_the_others(measured):
    old, added = measured
    before, after = report_of(old), report_of([*old, *map(later, added)])
    (ranking,) = after.ranking
    assert ranking.cells[:2] == before.ranking[0].cells
    assert (ranking.method, ranking.claims) == ("tukey-blocks", 1)
    assert ranking.cells[2].incomparable == ["repeats"]
    assert ranking.cells[2].relative_to_fastest is None

    together = report_of([*old, *added]).ranking[0]
    assert (together.method, together.claims) == ("tukey-blocks", 3)
    assert not together.cells[2].incomparable


def test_the_speed_up_of_a_size_that_is_added_later_is_not_paired(tmp_path):
    small, large = cells(vary={"geometry": ["1x1", "1x2"]})
    runs = [write_run(tmp_path / "runs", cell, k, 0.1) for cell in (small, large) for k in (1, 2, 3)]
    in_turns = report_of(runs).series_of_sizes[0].points[1].speedup
    apart = report_of([*runs[:3], *map(later, runs[3:])]).series_of_sizes[0].points[1].speedup
    assert apart.value == in_turns.value
    assert (apart.low, apart.high) != (in_turns.low, in_turns.high)


def test_verify_finds_the_same_rounds(measured, tmp_path):
    old, added = measured
    runs = [*old, *map(later, added)]
    report = report_of(runs).model_dump(mode="json", by_alias=True)
    raw, _ = read_runs(tmp_path)
    assert list(check_answer(answer_of(report, raw, {}), raw, [])) == []

    report["ranking"][0]["cells"][1]["incomparable"] = ["repeats"]
    faults = [str(fault) for fault in check_answer(answer_of(report, raw, {}), raw, [])]
    assert any("is left out for its repeats, of which it has 3" in fault for fault in faults)


def test_the_page_says_which_cell_was_measured_apart(measured):
    old, added = measured
    runs = [*old, *map(later, added)]
    (note,) = [finding for finding in audit("synthetic", runs).findings if finding.code == "measured-apart"]
    assert note.severity == "note"
    assert "zero2-n1x2 was measured" in note.evidence
    assert "after the others" in note.evidence
    assert not [one for one in audit("synthetic", [*old, *measured[1][:0]]).findings if one.code == "measured-apart"]

    report = report_of(runs)
    text = "\n".join(bullet.text for bullet in answer_campaign(report).bullets)
    assert "zero2-n1x2, measured apart from the others" in text
    assert "--cell all" in text
