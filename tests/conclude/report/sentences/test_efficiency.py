"""What the answer says of an efficiency, and which kind of interval it has."""

import re

import pytest
from conclude.report.sentences.test_answer import text_of

from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.verify.claim_sentences import check_sentence


def test_a_single_cell_beside_one_device_has_its_speed_up(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06}))
    assert not text_of(answer, "one-device")
    scaling = text_of(answer, "scaling")
    ratio = "Scaling: ddp on 2 devices is faster: 1.67x its rate on 1"
    assert f"{ratio}; scaling efficiency of ddp-n1x2: 83 % of ddp-n1x1 (82-85 %) (95 % CI 1." in scaling


def test_an_efficiency_with_another_kind_of_interval_is_left_to_the_table(campaign):
    """The best single device may be of another series: its ratio is not that of the efficiency."""
    times = {("ddp", "1x1"): 0.1, ("zero2", "1x1"): 0.09, ("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.08}
    report = campaign(times)
    assert {p.best_single for p in report.points if p.devices == 2} == {"zero2-n1x1"}
    text = text_of(answer_campaign(report), "one-device")
    assert text.endswith(" are faster (intervals as above)")
    assert "efficiency" not in text


@pytest.mark.parametrize(
    ("low", "words"), [(0.8, " (80-85 %) (95"), (0.05, " (interval too wide) (95"), (None, " (95 % CI ")]
)
def test_an_efficiency_names_its_baseline_and_has_an_interval_or_says_why_not(campaign, low, words):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06})
    (point,) = [point for point in report.points if point.cell == "ddp-n1x2"]
    point.scaling_efficiency.low = low
    point.scaling_efficiency.high = low and 0.85
    assert f"; scaling efficiency of ddp-n1x2: 83 % of ddp-n1x1{words}" in text_of(answer_campaign(report), "scaling")


def test_a_larger_size_outside_of_the_ranking_has_its_efficiency(campaign):
    times = {("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08, ("ddp", "1x4"): 0.04}
    report = campaign(times)
    report.points[0].findings = ["machine-busy"]
    report.points[2].findings = ["machine-busy"]  # named by the reservation, which states no figure
    (bullet,) = [bullet for bullet in answer_campaign(report).bullets if bullet.topic == "scaling"]
    assert re.match(r"Scaling: ddp on 4 devices has 63 % scaling efficiency over 1 \(95 % CI 61.4-", bullet.sentence)
    claims = [claim.model_dump(by_alias=True) for claim in bullet.claims]
    claims = [
        claim | {"figure": (claim["figure"]["value"], claim["figure"]["low"], claim["figure"]["high"])}
        for claim in claims
    ]
    extras = {"": [95.0], "scaling": [5.0, 4.0, 1.0]}
    sentence = {"topic": "scaling", "text": bullet.sentence}
    assert list(check_sentence(sentence, claims, [], extras)) == []
    wrong = {"topic": "scaling", "text": bullet.sentence.replace("has 63 %", "has 72 %")}
    assert [one.problem for one in check_sentence(wrong, claims, [], extras)] == ["72 is no figure of its claims"]


def test_an_efficiency_above_one_is_not_printed(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.04}))
    assert "scaling efficiency" not in answer.text
    assert "super-linear" in answer.bullets[0].text
