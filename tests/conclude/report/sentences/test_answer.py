"""The answer claims what the intervals support and no more, and says so in its first line."""

import math
import re

import pytest
from result_models import comparison, paired, scaling

from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.conclude.report.sentences.ratios import ab_sentence
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.number_format import estimate
from scaleproof.verify.claim_sentences import wrong_word

UNEVEN = (0.06, 0.064, 0.056, 0.062, 0.058)  # seconds, repeat by repeat


def topics(answer):
    return [bullet.topic for bullet in answer.bullets]


def text_of(answer, topic):
    return " | ".join(b.sentence for b in answer.bullets if b.topic == topic)


def test_a_cell_that_is_fastest_and_beats_one_device_pays_off(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08}))
    assert answer.verdict == "ddp-n1x2 pays off: 1.67x as fast as one device"
    assert answer.decided
    assert topics(answer) == ["fastest", "one-device", "recommended"]
    assert text_of(answer, "fastest").startswith("Fastest: ddp-n1x2 on 2 devices, ")
    assert "; 1.33x as fast as zero1-n1x2 (1.31-1.36), the next" in text_of(answer, "fastest")
    assert "n=5" in text_of(answer, "fastest")
    one_device = text_of(answer, "one-device")
    assert "Against one device: ddp-n1x2 at 1.67x (1.6" in one_device
    assert "; scaling efficiency of ddp-n1x2: 83 % (82-85 %) (intervals" in one_device
    assert text_of(answer, "recommended") == "Recommended: ddp-n1x2, the fastest on 2 devices"
    assert not text_of(answer, "slower"), "the second is named already"
    assert answer.bullets[0].cells == ("ddp-n1x2", "zero1-n1x2")


def test_an_answer_from_disturbed_runs_alone_says_so_in_its_first_words(campaign):
    """One quiet side is enough for the usual words: the reservation beside them names the disturbed one."""
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08})
    for point in report.points:
        point.findings = ["machine-busy"]
    answer = answer_campaign(report)
    assert answer.verdict == "ddp-n1x2 pays off: 1.67x as fast as one device (reservations: machine-busy)"
    assert text_of(answer, "one-device").startswith("Against one device, with reservations: ddp-n1x2 at 1.67x")
    for sentence, claims in (("verdict", answer.claims), ("one-device", answer.bullets[-1].claims)):
        text = answer.verdict if sentence == "verdict" else text_of(answer, sentence)
        assert not wrong_word(sentence, text, [claim.model_dump() for claim in claims])

    next(point for point in report.points if point.devices == 1).findings = []
    answer = answer_campaign(report)
    assert answer.verdict == "ddp-n1x2 pays off: 1.67x as fast as one device"
    assert text_of(answer, "one-device").startswith("Against one device: ddp-n1x2 at 1.67x")


def test_the_simpler_cell_is_recommended_where_it_is_shown_to_lose_little(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.0605, ("zero2", "1x2"): 0.06}))
    assert answer.verdict.startswith("ddp-n1x2 pays off")
    assert "Recommended: ddp-n1x2, the simplest shown to be within 5 % of the fastest: at most " in answer.text


def test_noise_is_not_rewarded_with_a_recommendation(campaign):
    noisy = (0.055, 0.085, 0.07, 0.05, 0.09)
    report = campaign({("ddp", "1x2"): noisy, ("zero2", "1x2"): 0.06})
    answer = answer_campaign(report)
    assert not answer.decided
    assert answer.verdict == "No clear winner yet: zero2-n1x2 measured highest; ddp-n1x2 may be as fast"
    text = text_of(answer, "recommended")
    stated = re.match(
        r"Recommended: zero2-n1x2 for now, the highest rate and the simplest candidate; not confirmed: it may be up to "
        r"(\d+) % slower than ddp-n1x2, and the campaign accepts 5 %",
        text,
    )
    assert stated, text
    assert int(stated[1]) == math.ceil(100 * report.ranking[-1].advice.worst), "one-sided, as the words behind it say"
    assert text.endswith("(simplest first: ddp, zero2; one-sided 95 % bounds on the loss against the best, n=5)")


def test_a_margin_that_no_interval_reaches_still_has_a_nearest_rival(campaign):
    """Of a report whose margin was raised after its candidate was chosen."""
    noisy = (0.055, 0.085, 0.07, 0.05, 0.09)
    report = campaign({("ddp", "1x2"): noisy, ("zero2", "1x2"): 0.06})
    report.ranking[-1].advice.margin = 9.0
    assert " % slower than ddp-n1x2, and " in text_of(answer_campaign(report), "recommended")


def test_a_candidate_that_did_not_measure_highest_is_not_recommended_for_now(campaign):
    times = {("ddp", "1x2"): tuple(1.02 * t for t in UNEVEN), ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]}
    text = text_of(answer_campaign(campaign(times)), "recommended")
    assert text.startswith("Recommended: none yet; ddp-n1x2, the simplest candidate, may be up to ")
    assert " % slower than another cell, and the campaign accepts 5 % (" in text


def test_a_simpler_cell_that_was_disturbed_is_said_to_be_no_candidate(campaign):
    times = {("ddp", "1x2"): UNEVEN, ("zero1", "1x2"): UNEVEN[1:] + UNEVEN[:1], ("zero2", "1x2"): UNEVEN}
    report = campaign(times)
    advice = report.ranking[-1].advice
    advice.candidate, advice.disturbed = "zero1-n1x2", ["ddp-n1x2", "zero2-n1x2"]
    reason = "; simpler, but no candidates: ddp-n1x2 (runs disturbed) (simplest first: ddp, zero1, zero2; "
    assert reason in text_of(answer_campaign(report), "recommended")
    advice.disturbed = ["zero2-n1x2"]
    assert "ddp-n1x2 (too slow) (simplest first: " in text_of(answer_campaign(report), "recommended")
    advice.candidate, advice.disturbed = "ddp-n1x2", ["zero1-n1x2", "zero2-n1x2"]
    assert "simpler, but" not in text_of(answer_campaign(report), "recommended")


def test_cells_that_are_shown_to_be_slower_are_named_apart(campaign):
    times = {("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.0602, ("zero2", "1x2"): 0.08, ("zero3", "1x2"): 0.12}
    answer = answer_campaign(campaign(times))
    assert re.search(r"; too close to call: 1.00x as fast as zero1-n1x2 \(0.9", text_of(answer, "fastest"))
    text = text_of(answer, "slower")
    # Each ratio has an interval of its own.
    assert re.search(
        r"Clearly faster: ddp-n1x2 is 1.3\dx as fast as zero2-n1x2 \(1.\d\d-1.\d\d\) and "
        r"(1.9\d|2.0\d|2)x as fast as zero3-n1x2",
        text,
    )
    assert text_of(answer, "fastest").endswith("(95 % CIs, n=5, corrected for 6 comparisons)")
    assert text.endswith("(intervals as above)")


def test_every_cell_that_is_not_told_apart_has_its_number(campaign):
    noisy = (0.055, 0.085, 0.07, 0.05, 0.09)
    answer = answer_campaign(campaign({("ddp", "1x2"): 0.06, ("zero1", "1x2"): noisy, ("zero2", "1x2"): noisy[::-1]}))
    assert re.search(
        r"too close to call: 1.\d+x as fast as zero[12]-n1x2 \([\d.]+-[\d.]+\) and "
        r"1.\d+x as fast as zero[12]-n1x2 \([\d.]+-",
        text_of(answer, "fastest"),
    )
    assert re.search(
        r"ddp-n1x2 for now, .*: it may be up to \d+ % slower than zero[12]-n1x2 or zero[12]-n1x2, and the campaign",
        text_of(answer, "recommended"),
    )


def test_intervals_that_say_nothing_are_not_printed_and_that_is_said(campaign):
    wild = (0.02, 0.2, 0.06)
    times = {("ddp", "1x2"): 0.06, ("zero1", "1x2"): wild, ("zero2", "1x2"): wild[::-1]}
    text = text_of(answer_campaign(campaign(times, repeats=3)), "fastest")
    each = r"[\d.]+x as fast as zero[12]-n1x2 \(interval too wide\)"
    assert re.search(rf"{each} and {each} \(95 % CIs, n=3", text), text


def test_each_ratio_of_the_answer_stands_in_the_row_of_its_cell(campaign):
    noisy = (0.055, 0.085, 0.07, 0.05, 0.09)
    times = {("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): noisy, ("zero3", "1x2"): 0.12}
    report = campaign(times)
    printed = set()
    for point in report.points:
        printed |= {estimate(ratio) for ratio in (point.speedup, point.speedup_vs_best_single) if ratio}
    for entry in report.ranking[-1].cells:
        printed |= {estimate(entry.relative_to_fastest.inverse)} if entry.relative_to_fastest else set()
    row_numbers = set(re.findall(r"[\d.]+", " ".join(printed).replace("\u00a0", " ")))
    bullets = [b for b in answer_campaign(report).bullets if b.topic in ("fastest", "slower", "one-device", "scaling")]
    assert len(bullets) >= 3
    for bullet in bullets:
        ratios = re.findall(r"(?<![-\w])([\d.]+)x|\(([\d.]+)-([\d.]+)\)|CI ([\d.]+)-([\d.]+)", bullet.sentence)
        assert {value for found in ratios for value in found if value} <= row_numbers


def test_every_cell_is_held_against_one_device(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08, ("zero3", "1x2"): 0.12})
    points = {point.cell: point for point in report.points}
    text = text_of(answer_campaign(report), "one-device")
    faster = r"ddp-n1x2 at 1.67x \(1.\S+\) and zero1-n1x2 at 1.25x \(1.\S+\) are faster"
    assert re.search(rf"{faster}; zero3-n1x2 at 0.83\dx \(\S+\) is slower", text)
    assert not text_of(answer_campaign(report), "scaling"), "the speed-up of ddp stands there"
    ratio = points["ddp-n1x2"].speedup_vs_best_single
    ratio.low, ratio.high = 0.9, 3.1
    text = text_of(answer_campaign(report), "one-device")
    assert text.startswith("Against one device: zero1-n1x2 at 1.25x")
    assert " is faster; ddp-n1x2 at 1.67x (0.900-3.10) is undecided; zero3-n1x2" in text


def test_a_cell_that_is_as_fast_as_all_others_is_not_called_at_most_zero_slower(campaign):
    slower = (1.0, 1.004, 1.011, 1.017, 1.023)  # shown by a one-sided interval, and not by one of both sides
    report = campaign({("ddp", "1x2"): (0.06,) * 5, ("zero2", "1x2"): tuple(0.06 * part for part in slower)})
    answer = answer_campaign(report)
    assert text_of(answer, "recommended").startswith("Recommended: ddp-n1x2, the simplest shown to be no slower than")
    assert answer.verdict == "ddp-n1x2: no slower than any other on 2 devices (one-sided bound)", (
        "the others are of two"
    )
    claims = [claim.model_dump(by_alias=True) for claim in answer.claims]
    for words, is_true in ((answer.verdict, True), ("ddp-n1x2: the fastest on 2 devices", False)):
        assert (wrong_word("verdict", words, claims) == "") == is_true


def test_a_cell_that_is_shown_to_be_the_fastest_needs_no_kind_of_bound(campaign):
    answer = answer_campaign(campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.08}))
    assert answer.verdict == "ddp-n1x2: the fastest on 2 devices"


def test_too_few_repeats_are_said_so(campaign):
    answer = answer_campaign(campaign({("ddp", "1x2"): (0.06, 0.09), ("zero2", "1x2"): (0.06, 0.061)}, repeats=2))
    assert answer.verdict == "No clear winner yet: 2 repeats per cell, 3 are needed"
    assert 'Next: set "repeats: 3" in config/campaigns/demo.yaml and run snakemake --cores 2' in text_of(answer, "next")
    assert "n=2: too few for an interval" in text_of(answer, "fastest")
    assert "Recommended: none; 3 repeats per cell are needed" in text_of(answer, "recommended")


def test_two_repeats_of_a_series_claim_nothing(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): (0.1, 0.1001), ("ddp", "1x2"): (0.06, 0.0601)}, repeats=2))
    assert answer.verdict == "No clear answer yet: 2 repeats per cell, 3 are needed"
    assert "nothing is claimed" in text_of(answer, "scaling")


def test_what_pairing_cancels_withholds_no_recommendation(campaign):
    """The machine slows down by 10 % over the repeats, under all cells alike."""
    drift = (1.0, 1.02, 1.05, 1.08, 1.1)
    times = {("ddp", "1x2"): tuple(0.06 * t for t in drift), ("zero1", "1x2"): tuple(0.066 * t for t in drift)}
    answer = answer_campaign(campaign({**times, ("zero2", "1x2"): tuple(0.07 * t for t in drift)}))
    assert "drift-over-repeats" in answer.text
    assert text_of(answer, "recommended") == "Recommended: ddp-n1x2, the fastest on 2 devices"
    assert "remove" not in answer.text


def test_a_run_that_stands_out_withholds_the_recommendation_of_its_cell(campaign):
    times = {("ddp", "1x2"): (0.06, 0.06, 0.12, 0.061, 0.06), ("zero1", "1x2"): (0.06, 0.061, 0.06, 0.12, 0.06)}
    answer = answer_campaign(campaign(times))
    assert answer.verdict == "No clear winner yet: the runs were disturbed"
    assert {"--cell ddp-n1x2", "--cell zero1-n1x2"} <= set(
        re.findall(r"--cell \S+", text_of(answer, "next").replace(",", ""))
    )


def test_one_run_claims_nothing(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08}, repeats=1))
    assert not answer.decided
    text = text_of(answer, "fastest")
    assert text.startswith("Fastest: unknown; ddp-n1x2 has the highest rate on 2 devices")
    assert text.endswith("(n=1: no interval)")


@pytest.mark.parametrize(
    ("two", "verdict"),
    [
        (0.06, "ddp pays off: 1.67x on 2 devices"),
        (0.2, "ddp is slower on 2 devices: 0.500x"),
        ((0.1, 0.103, 0.098, 0.097, 0.102), "No clear answer yet: ddp on 2 devices against 1: 0.9"),
        ((0.002, 0.2, 0.01, 0.5, 0.04), "No clear answer yet: ddp on 2 devices against 1: the interval is too wide"),
    ],
)
def test_of_one_series_the_speed_up_is_the_answer(campaign, two, verdict):
    assert answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): two})).verdict.startswith(verdict)


def test_a_command_is_the_subject_of_a_sentence(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06})
    report.series[0].name = "command"
    answer = answer_campaign(report)
    assert answer.verdict.startswith("the command pays off: 1.67x")
    assert text_of(answer, "scaling").startswith("Scaling: the command on 2 devices is faster: ")


def test_more_devices_that_lose_are_no_success(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.2, ("zero1", "1x2"): 0.3}))
    assert answer.verdict == "One device is faster than 2 devices"


def test_findings_come_first(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): (0.06, 0.06, 0.12, 0.061, 0.06)})
    answer = answer_campaign(report)
    assert topics(answer)[0] == "reservation"
    assert "run-stands-out in ddp-n1x2" in answer.bullets[0].text
    assert "median run of ddp-n1x2 34,133, mean 28,3" in answer.bullets[0].text
    assert answer.bullets[0].sentence.endswith("(scaleproof explain run-stands-out)")


def test_an_incomparable_cell_is_named_with_fields_and_command(campaign):
    times = {("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08, ("zero2", "1x2"): 0.07}
    answer = answer_campaign(campaign(times, change=lambda d: d["env"].update(torch_version="2")))
    text = text_of(answer, "incomparable")
    assert text.startswith("Not compared: zero2-n1x2, as torch_version differs from ddp-n1x2")
    assert text.endswith("scaleproof retry config/campaigns/demo.yaml --cell all"), "which of the two is here now?"
    assert "zero2" not in text_of(answer, "fastest")


def test_why_repeats_ended_is_the_last_bullet(campaign):
    until = RepeatUntil(resolve=0.03, at_most=5)
    times = {("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.08}
    answer = answer_campaign(campaign(times, repeats=4, repeat_until=until))
    assert topics(answer)[-1] == "repeats", "there is no next step: it is decided"
    assert answer.bullets[-1].sentence == (
        "Repeats: stopped after 4 per cell, decided; intervals account for looks after 3 and 4"
    )


def test_a_budget_that_did_not_suffice_is_said(campaign):
    until = RepeatUntil(resolve=0.03, at_most=5)
    noisy = (0.055, 0.085, 0.07, 0.05, 0.09)
    answer = answer_campaign(campaign({("ddp", "1x2"): noisy, ("zero2", "1x2"): 0.06}, repeat_until=until))
    assert "Repeats: 5 per cell, still undecided at 3 % (repeats.at_most)" in text_of(answer, "repeats")
    assert not answer.decided


def test_invalid_numbers_answer_nothing(campaign):
    times = {("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06}
    answer = answer_campaign(campaign(times, change=lambda d: d["window"].update(tokens_per_sec_global=1e9)))
    assert answer.verdict.startswith("No answer: the numbers failed their own checks")
    assert "rate-times-time" in answer.verdict
    assert topics(answer) == ["reservation"]


def test_nothing_measured_and_nothing_to_compare(campaign):
    assert answer_campaign(scaling()).verdict == "No answer: no run has numbers"
    alone = campaign({("ddp", "1x1"): 0.1})
    assert answer_campaign(alone).verdict.startswith("No answer yet: one cell alone")
    answer = answer_campaign(alone, [ab("faster")])
    assert answer.verdict == "y is faster than x: 1.05x its tokens/s"
    assert topics(answer) == ["comparison"]
    alone.points[0].findings = ["machine-busy"]
    assert "next" not in topics(answer_campaign(alone)), "a quiet machine gives it nothing to be compared with"


def ab(claim=None, status="ok", why=None, **changes):
    known = {"n": 8, "detectable_high": 0.06, "pairs_low": 10, "pairs_high": 44, "null_ratios": [1.0] * 4}
    return comparison(paired(**known | {"claim": claim} | changes), status=status, why=why)


def test_a_comparison_claims_what_its_pairs_support():
    text = ab_sentence(ab("faster"))
    assert text == (
        "fused: y is faster than x: 1.05x its tokens/s (95 % CI 1.03-1.07, n=8 pairs). "
        "Noise, by 4 A/A pairs: the mean of 8 pairs without an effect may be off by up to 1.0 %."
    )
    assert "tends to be overstated" in ab_sentence(ab("faster", overstated=True))
    text = ab_sentence(ab(low=0.99, high=1.11))
    assert "y cannot be told apart from x: 1.05x its" in text
    assert "8 pairs detect an effect of 2.0 % to 6.0 %, depending on the true noise, 4 times in 5; an effect" in text
    assert "an effect of 2 % needs up to 44 pairs." in text
    assert "within the noise: nothing is claimed" in ab_sentence(ab())
    assert "With 6 pairs, the report can say how many would show an effect of 2 %." in ab_sentence(ab(low=0.99, n=4))
    assert "more than 1,000 pairs" in ab_sentence(ab(low=0.99, pairs_low=None, pairs_high=None))


def test_a_comparison_that_failed_answers_nothing():
    text = ab_sentence(ab(status="incomparable", why="os: a | b"))
    assert text == "fused: no answer, incomparable (os: a | b)."


def test_findings_of_the_same_cells_are_named_together(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08})
    points = {point.cell: point for point in report.points}
    for point in points.values():
        point.findings = ["machine-busy", "cores-shared"]
    points["ddp-n1x2"].findings.append("window-short")
    text = answer_campaign(report).bullets[0].sentence
    assert text.startswith("With reservations: machine-busy and cores-shared in all 3 cells; window-short in ddp-n1x2")


def test_a_verdict_against_one_device_names_the_cell_that_is_fastest_there(campaign):
    noisy = (0.055, 0.085, 0.07, 0.05, 0.09)
    times = {("ddp", "1x1"): 0.1, ("fsdp", "1x1"): 0.07, ("ddp", "1x2"): noisy, ("fsdp", "1x2"): noisy[::-1]}
    verdict = answer_campaign(campaign(times)).verdict
    assert verdict == "No clear winner yet: 2 devices are not shown to beat one (fsdp-n1x1)"
