"""Whether the figures can be trusted: by the runs that the answer is made from, not by how many findings there are."""

import pytest
from result_models import comparison, estimated, paired, point, question, ranked, ranking, resolution, scaling, series

from scaleproof.conclude.report.sentences.trust import trust_in
from scaleproof.ground.findings.finding import Finding, Findings

CELLS = ("ddp-n1x2", "zero2-n1x2")
SERIES = [series(runs={"2": point(cell, 2)}) for cell in CELLS]
RANKED = scaling(
    ranking=[ranking(*map(ranked, CELLS), resolve=resolution(3, 0.444))],
    series=SERIES,
)
PAIRS_ALONE = scaling()


def finding(severity, concerns="runs", run="ddp-n1x2/rep1", code="run-stands-out"):
    return Finding(
        code=code,
        severity=severity,
        cells=[run.partition("/")[0]],
        runs=[run],
        evidence="",
        advice="",
        concerns=concerns,
    )


def trust(*found, report=RANKED, lost=0):
    result = trust_in(Findings(campaign="c", checks=["a", "b"], findings=list(found)), report, lost)
    return f"{result.word}{result.text} {result.elsewhere}".rstrip()


def test_sound_runs_without_an_answer_are_no_yes():
    unanswered = RANKED.model_copy(update={"question": question(ratio=None)})
    assert trust(report=unanswered).startswith("there is no answer: 2 checks found nothing worse than a note in")
    assert trust(report=RANKED.model_copy(update={"question": question(ratio=estimated(1.1))})).startswith("yes: ")


def test_no_finding_above_a_note_is_a_yes():
    expected = "yes: 2 checks found nothing worse than a note in the 6 runs compared."
    assert trust() == expected
    assert trust(finding("note")) == expected


def test_nothing_is_called_compared_where_nothing_was():
    one = scaling(series=[series(runs={"2": point(CELLS[0], 2)})])
    one.points[0].repeats = [1]
    assert trust(finding("suspect"), report=one) == "with reservations: run-stands-out in 1 of 1 run."
    two = scaling(series=[series(runs={"2": point(CELLS[0], 2)})])
    two.points[0].repeats = [1, 2]
    assert trust(finding("suspect"), report=two).endswith("in 1 of the 2 runs measured.")


def test_suspect_pairs_do_not_touch_a_ranking():
    text = trust(*(finding("suspect", "comparison", f"fused/pair{k}/a") for k in (1, 3)))
    assert text.startswith("yes: 2 checks found nothing worse than a note in the 6 runs compared. ")
    assert text.endswith("2 suspect runs (run-stands-out) are in the A/B pairs alone, which the answer does not use.")


def test_suspect_pairs_do_touch_an_answer_that_is_made_from_them():
    text = trust(finding("suspect", "comparison", "fused/pair1/a"), report=PAIRS_ALONE)
    assert text == "with reservations: run-stands-out in 1 of the runs of the A/B pairs."


def test_a_suspect_run_among_those_compared_is_a_reservation():
    text = trust(finding("suspect"), finding("suspect", code="machine-busy"), finding("suspect", "trace"))
    assert text.startswith("with reservations: run-stands-out, machine-busy in 1 of the 6 runs compared. ")
    assert "1 suspect run (run-stands-out) is in the traces alone" in text


@pytest.mark.parametrize("concerns", ["runs", "scaling"])
def test_a_failed_check_is_a_no(concerns):
    text = trust(finding("invalid", concerns, code="losses-differ"), finding("suspect"))
    assert text == "no: checks failed (losses-differ) in 1 of the 6 runs compared."


def test_what_names_no_run_that_was_compared_is_said_of_its_cell():
    text = trust(finding("suspect", run="ddp-n1x2/rep4", code="attempt-failed"))
    assert text == "with reservations: attempt-failed in ddp-n1x2, among the 6 runs compared."


def test_an_invalid_pair_is_no_verdict_on_the_ranking():
    assert trust(finding("invalid", "comparison", "fused/pair1/a")).startswith("yes")


def test_what_cannot_be_recomputed_is_not_fully_trusted():
    assert trust(lost=2).startswith("not fully: 2 raw files missing")


def test_where_nothing_was_checked_there_is_no_verdict():
    assert trust_in(Findings(campaign="c", checks=[], findings=[]), RANKED) is None


def precision(report, comparisons=()):
    result = trust_in(Findings(campaign="c", checks=["a"], findings=[]), report, comparisons=comparisons)
    return result.precision


def test_sound_runs_may_be_too_few():
    assert precision(RANKED) == (
        "3 repeats show differences of 45 % (7 to 9 times in 10); smaller ones are often missed. "
        "A difference that is called faster or slower stands even so: its interval excludes 1x."
    )


def test_a_question_is_judged_by_its_own_comparison():
    asked = RANKED.model_copy(update={"question": question(resolve=resolution(5, 0.021))})
    assert precision(asked).startswith("5 repeats show differences of 3 %")


def test_two_repeats_have_no_precision():
    of_two = [series(runs={"2": point(cell, 2, n=2)}) for cell in CELLS]
    few = scaling(ranking=[ranking(*map(ranked, CELLS))], series=of_two)
    assert precision(few) == "No difference shows yet, 3 repeats per cell are needed (n=2)."


def test_pairs_have_the_precision_of_their_own_estimate():
    estimate = paired(n=4, detectable_low=0.18, detectable_high=0.92)
    expected = "4 pairs detect an effect of 18 % to 92 %, depending on the true noise, 4 times in 5."
    assert precision(PAIRS_ALONE, [comparison(None), comparison(estimate)]) == expected
    assert precision(PAIRS_ALONE) == ""
