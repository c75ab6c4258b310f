"""What the answer says is to be done next: a quiet machine, further repeats with their price, or neither."""

import re
from dataclasses import replace

import pytest
import yaml
from conclude.report.sentences.test_answer import UNEVEN, text_of

from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.number_format import duration_text, rounded_up_percent
from scaleproof.ground.records.scaling_report import AB_TITLE


def test_the_next_step_is_a_line_of_the_file_a_command_and_a_price(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.02}
    report = campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.059}, question=question)
    text = text_of(answer_campaign(report), "next")
    line = re.match(
        r"Next: to show differences of 2 % reliably instead of \d+ %, "
        r'set "repeats: (\{resolve: 2 %, at_least: 5, at_most: (\d+)\})" in config/campaigns/demo.yaml and run '
        r"snakemake --cores 2 --forcerun results/demo/runs.csv results/demo/findings.json -- results/demo/report.html "
        r"again: "
        r"at most (\d+) more repeats? of each of the 2 cells, (.+?) \(reliably: 7 to 9 times in 10\)$",
        text,
    )
    assert line, text
    until = RepeatUntil.model_validate(yaml.safe_load(line[1]))
    assert until.at_most == int(line[2]) == 5 + int(line[3])
    assert until.at_most in list(RepeatUntil(resolve=0.05, at_least=5, at_most=1000).looks())
    assert line[4] == duration_text(int(line[3]) * report.seconds_per_repeat, 2)


def test_a_difference_that_no_reasonable_number_of_repeats_settles_is_called_too_small(campaign):
    text = text_of(
        answer_campaign(campaign({("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]})),
        "next",
    )
    assert re.search(r". For 5 %: about [\d,]+ repeats per cell, \S+ (min|h), so hardly by repeats", text)
    assert re.search(r"Next: to show differences of (\d+) % reliably instead of (\d+) %, set ", text)
    assert "at_most: 24}" in text, "at most five times as many as were made"


@pytest.mark.parametrize(("further", "is_aim"), [(0.53, False), (0.4, True)])
def test_nobody_is_asked_for_repeats_that_show_half_of_the_rate(campaign, further, is_aim):
    report = campaign({("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]})
    resolve = report.ranking[0].resolve
    resolve.detectable, resolve.further.detectable = 1.5, further
    text = text_of(answer_campaign(report), "next")
    assert ("not worth their time: the 5 so far reliably show differences of more than 100 %" in text) != is_aim
    assert ("to show differences of 40 % reliably" in text) == is_aim


def test_a_difference_that_is_shown_already_is_no_aim_of_further_repeats(campaign):
    """What is open is smaller: "to show differences of 5 % instead of 5 %" would be no advice."""
    report = campaign({("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]})
    resolve = report.ranking[0].resolve
    resolve.effect, resolve.repeats = 1.1 * resolve.detectable, 7
    text = text_of(answer_campaign(report), "next")
    aim, now = (int(percent) for percent in re.findall(r"(\d+) %", text)[:2])
    assert aim < now
    assert f"resolve: {aim} %" in text
    assert "For " not in text


def test_where_the_work_of_steps_is_unknown_it_is_asked_for(campaign):
    """Repeats would make intervals of a ratio narrower that is never formed."""
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): UNEVEN})
    assert answer_campaign(report).verdict.startswith("ddp pays off")
    report.series[0].kind = None
    report.points[1].speedup = None
    answer = answer_campaign(report)
    assert ": their steps are of unequal, perhaps unstated, work (batch; of a command per_step)" in answer.verdict
    assert text_of(answer, "next").startswith("Next: say in config/campaigns/demo.yaml how much work a step is (")
    report.series[0].kind = "strong"
    assert answer_campaign(report).verdict.endswith("are not comparable"), "something else differs"


@pytest.mark.parametrize(
    ("disturbed", "command"),
    [
        (1, "scaleproof retry config/campaigns/demo.yaml --cell ddp-n1x2, then snakemake --cores 2 results/demo/"),
        (2, "scaleproof retry config/campaigns/demo.yaml --cell ddp-n1x2 --cell zero2-n1x2, then snakemake "),
    ],
)
def test_what_was_disturbed_is_measured_again_on_a_quiet_machine(campaign, disturbed, command):
    """More repeats of it would be repeats of the disturbance."""
    report = campaign({("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]})
    assert "quiet" not in text_of(answer_campaign(report), "next")
    report.ranking[0].recommendation.disturbed = ["ddp-n1x2", "zero2-n1x2"][:disturbed]
    assert text_of(answer_campaign(report), "next").startswith(f"Next: on a quiet machine, {command}")


def test_cells_that_others_kept_busy_are_measured_again_with_those_that_stand_out(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]})
    report.ranking[-1].recommendation.disturbed = ["zero2-n1x2"]
    next(point for point in report.points if point.cell == "ddp-n1x1").findings = ["machine-busy"]
    assert " --cell zero2-n1x2 --cell ddp-n1x1, then " in text_of(answer_campaign(report), "next")


def test_more_than_two_cells_that_were_busy_are_all(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]})
    for point in report.points:
        point.findings = ["machine-busy"]
    assert " --cell all, then " in text_of(answer_campaign(report), "next")


def test_where_all_cells_were_busy_a_quiet_machine_comes_before_repeats(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): (0.1, 0.103, 0.098, 0.097, 0.102)})
    for point in report.points:
        point.findings = ["machine-busy"]
        text = text_of(answer_campaign(report), "next")
    assert text.startswith(
        "Next: on a quiet machine, scaleproof retry config/campaigns/demo.yaml --cell ddp-n1x1 --cell"
    )
    report.points[0].findings = []
    assert "quiet" not in text_of(answer_campaign(report), "next"), "a cell that was undisturbed"


@pytest.mark.parametrize("repeats", [2, 3])
def test_before_too_few_repeats_are_measured_again_more_are_set(campaign, repeats):
    """On the quietest machine two repeats have no interval."""
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): UNEVEN}, repeats=repeats)
    few = repeats == 2
    for findings, start in (
        (["machine-busy"], 'Next: set "repeats: 3" in config/campaigns/demo.yaml; then on a quiet machine, scaleproof'),
        (["machine-busy", "window-short"], 'Next: raise work.steps, set "repeats: 3" in config/campaigns/demo.yaml ('),
    ):
        for point in report.points:
            point.findings = findings
        text = answer_campaign(report).bullets_of_page(report, has_failures=False)[-1].sentence
        assert text.startswith(start) == ('"repeats: 3"' in text) == few


def test_a_difference_that_no_number_of_repeats_shows_has_no_number(campaign):
    report = campaign({("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]})
    report.ranking[0].resolve.repeats = None
    assert ". For 5 %: not by repeats, these runs differ too much" in text_of(answer_campaign(report), "next")


def test_a_campaign_that_has_spent_its_looks_is_not_extended(campaign):
    times = {("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]}
    report = campaign(times, repeat_until=RepeatUntil(resolve=0.03, at_most=5))
    text = text_of(answer_campaign(report), "next")
    assert 'make a campaign in a new file, with "repeats: {resolve: ' in text
    assert ". For 3 %: " in text, "what the campaign asks for, not the margin of 5 %"
    report.repeats.why, report.repeats.goes_on = None, True
    unfinished = answer_campaign(report)
    assert not text_of(unfinished, "next"), "further repeats are on their way"


def test_after_ab_the_next_step_is_a_line_of_ab(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    report = campaign({("ddp", "1x2"): UNEVEN, ("zero2", "1x2"): UNEVEN[1:] + UNEVEN[:1]}, question=question)
    report.title = AB_TITLE

    def page_text():
        return answer_campaign(report).bullets_of_page(report, has_failures=False)[-1].text

    assert page_text().startswith("give the same scaleproof ab line with more --minutes, which adds rounds")
    for point in report.points:
        point.findings = ["machine-busy"]
    again = "on a quiet machine, give the same scaleproof ab line, with --name demo-2"
    assert page_text() == f"{again}; here, more --minutes add rounds"
    report.status, report.mismatches = "invalid_comparison", ["did-not-train"]
    assert page_text().startswith("scaleproof explain did-not-train; when that is mended, give the same scaleproof ab")
    report.status, report.mismatches, report.series = "ok", [], []
    assert page_text().startswith("add the option that the reason below names, or fix what made the runs fail; then")


def test_where_the_question_is_answered_there_is_no_next_step(campaign):
    answer = answer_campaign(campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08}))
    assert not text_of(answer, "next")


@pytest.mark.parametrize(
    ("part", "text"),
    [(0.05, "5 %"), (0.051, "6 %"), (0.0001, "0.1 %"), (0.0042, "0.5 %"), (0.57, "57 %"), (1.8, "more than 100 %")],
)
def test_a_difference_is_rounded_up_because_no_smaller_one_is_shown(part, text):
    assert rounded_up_percent(part) == text


def test_a_decided_question_on_disturbed_cells_is_asked_again_on_a_quiet_machine(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.0}
    report = campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.02, ("zero1", "1x2"): 0.03}, question=question)
    before = answer_campaign(report)
    assert before.decided
    for point in report.points:
        if point.cell != "zero1-n1x2":
            point.findings = ["machine-busy"]
    text = answer_campaign(report).bullets_of_page(report, has_failures=False)[-1].text
    assert text.startswith("on a quiet machine, scaleproof retry config/campaigns/demo.yaml --cell ")
    assert "zero1" not in text

    short = "raise work.steps in config/campaigns/demo.yaml (window-short), and run snakemake"
    for point in report.points:
        disturbed = point.findings
        point.findings = [*disturbed, "window-short"]
        step = answer_campaign(report).bullets_of_page(report, has_failures=False)[-1].text
        assert step.startswith(short) == bool(disturbed), "only of cells that are measured again"
        point.findings = disturbed
    report.points[0].findings = []
    assert "quiet" not in answer_campaign(report).bullets_of_page(report, has_failures=False)[-1].text


def test_of_an_open_question_one_busy_side_is_measured_again_and_no_third_cell(campaign):
    question = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.02}
    report = campaign({("ddp", "1x2"): 0.06, ("zero2", "1x2"): 0.059, ("zero1", "1x2"): 0.03}, question=question)
    for cell, step in (("zero1", "to show differences"), ("ddp", "on a quiet machine, scaleproof retry")):
        next(point for point in report.points if point.cell == f"{cell}-n1x2").findings = ["machine-busy"]
        assert text_of(answer_campaign(report), "next").startswith(f"Next: {step}")
    assert " --cell ddp-n1x2, then snakemake" in text_of(answer_campaign(report), "next")


def test_a_busy_cell_that_blurs_a_decided_answer_is_measured_again(campaign):
    report = campaign({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06, ("zero1", "1x2"): tuple(1.04 * s for s in UNEVEN)})
    answer = answer_campaign(report)
    assert answer.decided

    def next_text():
        return answer.bullets_of_page(report, has_failures=False)[-1].text

    assert next_text().startswith("more devices, a larger model")
    busy = next(point for point in report.points if point.cell == "zero1-n1x2")
    busy.findings = ["machine-busy"]
    assert report.ranking[-1].cells[1].fastest_over.spans()
    assert next_text().startswith("on a quiet machine, scaleproof retry config/campaigns/demo.yaml --cell zero1-n1x2,")
    busy.findings, report.points[0].findings = [], ["machine-busy"]
    assert next_text().startswith("more devices"), "a baseline that no open ratio is of"


def test_runs_that_failed_are_repeated_where_they_may_decide(campaign):
    single = campaign({("ddp", "1x2"): 0.06})
    for answer, failures, start in (
        (replace(answer_campaign(single), decided=False), True, "fix what made the runs fail, or use a machine that"),
        (replace(answer_campaign(single), decided=False), False, "more devices, a larger model"),
        (replace(answer_campaign(single), decided=True), True, "more devices, a larger model"),
    ):
        bullets = [bullet for bullet in answer.bullets_of_page(single, failures) if bullet.topic == "next"]
        assert [bullet.text.startswith(start) for bullet in bullets] == [True], (failures, bullets)
