"""The verdict on a campaign's formal question: exactly what was asked, and no more."""

import pytest

from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.verify.claim_sentences import wrong_word


def asked(answer):
    """The topics of the answer, and its sentence on the question."""
    return [b.topic for b in answer.bullets], " | ".join(b.sentence for b in answer.bullets if b.topic == "question")


@pytest.mark.parametrize(
    ("by", "time", "verdict"),
    [
        (0.02, 0.05, "Yes: zero2-n1x2 is faster than ddp-n1x2: 1.20x its tokens/s"),
        (0.3, 0.05, "No: zero2-n1x2 is not faster than ddp-n1x2 by 30 %: 1.20x"),
        (0.02, 0.12, "No: zero2-n1x2 is slower than ddp-n1x2, which has 2.00x its tokens/s"),
        (0.02, 0.059, "No clear answer yet: zero2-n1x2 against ddp-n1x2: 0.999x to 1.04x its tokens/s"),
    ],
)
def test_a_formal_question_gets_exactly_its_answer(campaign, by, time, verdict):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": by}
    answer = answer_campaign(campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): time}, question=question))
    assert answer.verdict.startswith(verdict)
    assert asked(answer)[0][0] == "question"


@pytest.mark.parametrize(
    ("time", "verdict", "decided"),
    [
        (0.061, "Yes: zero2-n1x2 is at most 5 % slower than ddp-n1x2: 0.98", True),
        (0.07, "No: zero2-n1x2 is more than 5 % slower than ddp-n1x2, which has 1.17x its tokens/s", True),
        (0.063, "No clear answer yet: zero2-n1x2 against ddp-n1x2: 0.93", False),
    ],
)
def test_whether_a_cell_is_not_slower_gets_exactly_its_answer(campaign, time, verdict, decided):
    question = {"is": "zero2-n1x2", "not_slower_than": "ddp-n1x2", "by": 0.05}
    answer = answer_campaign(campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): time}, question=question))
    assert answer.verdict.startswith(verdict)
    assert answer.decided is decided
    assert "; asked whether it is not more than 5 % slower (95 % CI" in asked(answer)[1]


@pytest.mark.parametrize(("high", "is_slower"), [(0.9, True), (1.02, False), (None, False)])
def test_only_a_ratio_below_1_is_called_slower(high, is_slower):
    claim = {"id": "question/b", "kind": "question", "word": "no", "subject": "b", "baseline": "a"}
    claims = [{**claim, "figure": (0.8, 0.7, high)}]
    assert (wrong_word("verdict", "No: b is slower than a, which has 1.25x its tokens/s", claims) == "") == is_slower
    for text in ("No: b is not faster than a", "With reservations: No: b is not faster than a"):  # of earlier versions
        assert not wrong_word("verdict", text, claims)


def test_a_question_about_incomparable_cells(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    times = {("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.05}
    answer = answer_campaign(campaign(times, question=question, change=lambda d: d["env"].update(torch_version="2")))
    assert answer.verdict == "No answer: zero2-n1x2 and ddp-n1x2 differ in torch_version"


def test_a_question_is_not_answered_by_two_repeats(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    answer = answer_campaign(campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.05}, repeats=2, question=question))
    assert answer.verdict == "No clear winner yet: 2 repeats per cell, 3 are needed"


def test_a_difference_that_does_not_matter_is_an_answer(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    times = {("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.06}
    answer = answer_campaign(campaign(times, question=question, repeat_until=RepeatUntil(resolve=0.05, at_most=5)))
    assert answer.verdict.startswith("No: zero2-n1x2 is as fast as ddp-n1x2 within 5 %: 1.00")
    assert answer.decided
