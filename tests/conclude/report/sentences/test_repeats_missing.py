"""Cells that lack repeats are left out of a comparison, and named."""

from scaleproof.conclude.report.sentences.answer import answer_campaign


def text_of(answer, topic):
    return " | ".join(bullet.sentence for bullet in answer.bullets if bullet.topic == topic)


def test_a_failed_run_does_not_cost_the_comparison_of_all_other_cells(campaign):
    """Nor may intervals of single ratios, of which there are many, then tell cells from one device."""
    lost = (0.05, 0.0501)  # two repeats of three, and the highest rate
    times = {("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08, ("zero2", "1x2"): lost}
    report = campaign(times, repeats=3)
    answer = answer_campaign(report)
    assert "Not compared: zero2-n1x2, with 2 repeats, 3 are needed. Run it again: scaleproof retry" in answer.text
    assert text_of(answer, "fastest").startswith("Fastest: ddp-n1x2")
    assert "zero2" not in text_of(answer, "one-device")
    assert [entry.cell for entry in report.ranking[-1].comparable] == ["ddp-n1x2", "zero1-n1x2"]
    assert report.ranking[-1].claims == 3


def test_where_no_two_cells_have_three_repeats_nothing_is_compared(campaign):
    short = (0.06, 0.0601)
    times = {("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): short, ("zero2", "1x2"): short}
    answer = answer_campaign(campaign(times, repeats=3))
    assert answer.verdict.startswith("No clear winner yet: 2 repeats per cell, 3 are needed")
    assert not text_of(answer, "incomparable")


def test_repeats_that_are_set_already_are_no_advice(campaign):
    """Where a run of three has failed, the page says how to run it again; three repeats are not asked for anew."""
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    times = {("ddp", "1x2"): 0.06, ("zero2", "1x2"): (0.05, 0.0501)}
    assert text_of(answer_campaign(campaign(times, repeats=3, question=question)), "next") == ""


def test_repeats_that_are_missing_are_advice(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    report = campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.05}, repeats=2, question=question)
    assert text_of(answer_campaign(report), "next").startswith('Next: set "repeats: 3" in config/campaigns/demo.yaml')


def test_the_cell_without_numbers_is_named(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    report = campaign({("ddp", "1x2"): 0.06}, question=question)
    assert answer_campaign(report).verdict == "No answer yet: no numbers of zero2-n1x2"


def test_one_device_without_three_repeats_is_not_beaten(campaign):
    times = {("ddp", "1x1"): (0.1, 0.1001), ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08}
    report = campaign(times, repeats=3)
    assert report.ranking[-1].claims == 1, "the two cells are compared without it"
    assert not text_of(answer_campaign(report), "one-device")
