"""The first line of the answer where nothing is ranked, and what is to be done then."""

from result_models import comparison, paired

from scaleproof.conclude.report.sentences.answer import answer_campaign


def test_cells_that_nothing_ranks_are_asked_for(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("fsdp", "1x2"): 0.06})
    answer = answer_campaign(report)
    assert answer.verdict == (
        "No answer yet: nothing ranks the 2 cells, as they differ in work, or in strategy and devices at once"
    )
    (next_step,) = (bullet.sentence for bullet in answer.bullets if bullet.topic == "next")
    assert 'set "question: {is: fsdp-n1x2, better_than: ddp-n1x1}" in config/campaigns/demo.yaml' in next_step
    for point in report.points:
        point.findings = ["machine-busy"]
    assert next_step in answer_campaign(report).text, "on a quiet machine nothing would be compared either"
    report.series[0].protocol["model"] = "gpt2-small"
    assert "question" not in answer_campaign(report).text, "no question on models of other parameters is valid"


def test_pairs_answer_where_no_cells_are_ranked(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("fsdp", "1x2"): 0.06})
    pairs = comparison(paired(n=8, claim="faster"))
    assert answer_campaign(report, [pairs]).verdict == "y is faster than x: 1.05x its tokens/s"
