"""What report.html says at first sight: trust, next step, few screens, charts that can be read, the rest folded."""

from dataclasses import replace

import pytest

from scaleproof.conclude.report.page import _bullet_html, page_text
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.conclude.report.sentences.bullet import Bullet
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.records.scaling_report import AnsweredQuestion


def test_a_decided_answer_says_what_to_do_next(results, show):
    assert answer_campaign(results.report, []).decided
    decided = show(results.page(names=[])).inner_text(".answer")
    assert "Next: more devices, a larger model or another machine may answer otherwise: vary them in" in decided


def test_on_a_phone_the_next_step_is_on_the_first_screen_and_a_dagger_stands_for_codes(results, show):
    path = results.page(names=[])
    page = show(path, 390, 844)
    step = page.locator(".answer .next").bounding_box()
    assert step["y"] + step["height"] < 844
    assert page.locator("#table-cells .codes:visible").count() == 0
    assert show(path, 1280).locator("#table-cells .codes:visible").count() > 0


def test_an_answer_without_numbers_says_what_to_do_next(nothing, show):
    failed = show(nothing.page(names=[])).inner_text(".answer")
    assert "that can run them; then scaleproof retry config/campaigns/synthetic.yaml" in failed


def test_a_page_of_a_question_on_commands_says_what_a_and_b_are(results):
    question = {"is": "ddp-n1x2", "better_than": "ddp-n1x1", "by": 0.0}
    results.report.question = AnsweredQuestion.model_validate(question)
    inputs = results.inputs(names=[])
    assert "<dt>A</dt>" not in page_text(inputs)
    commands = {"ddp-n1x1": "python train.py --fused", "ddp-n1x2": "python train.py"}
    page = page_text(replace(inputs, facts=replace(inputs.facts, commands=commands)))
    for side, (cell, command) in zip("AB", commands.items(), strict=True):
        assert f"<dt>{side}</dt><dd>{cell}: <code>{command}</code></dd>" in page


@pytest.mark.parametrize(
    ("bytes_per_token", "remark"),
    [
        (
            {"ddp-n1x1": 1.0, "ddp-n1x2": 2.5},
            "A token is 2.50 bytes of text in ddp-n1x2 and 1.00 in ddp-n1x1: "
            "the first reads 3.75x the bytes of text/s of the second",
        ),
        ({"ddp-n1x1": 2.5, "ddp-n1x2": 2.5}, ""),
        ({"ddp-n1x2": 2.5}, ""),  # a run of an older version
    ],
)
def test_tokens_of_other_text_are_compared_in_bytes(results, bytes_per_token, remark):
    question = {
        "is": "ddp-n1x2",
        "better_than": "ddp-n1x1",
        "by": 0.0,
        "ratio": {"value": 1.5, "low": None, "high": None, "n": 3},
    }
    results.report.question = AnsweredQuestion.model_validate(question)
    inputs = results.inputs(names=[])
    inputs = replace(inputs, facts=replace(inputs.facts, bytes_per_token=bytes_per_token))
    assert [text for _, text in inputs.remarks] == ([remark] if remark else [])
    page = page_text(inputs)
    assert ("bytes of text/s" in page) == bool(remark)


def test_commands_of_a_report_below_a_prefix_name_it(results, show):
    results.report.results = "bench/results"
    page = show(results.page(names=[]))
    assert "snakemake --cores 2 bench/results/synthetic/report.html" in page.inner_text("header")
    assert "scaleproof verify bench/results/synthetic" in page.text_content("#sources")
    assert page.get_attribute("body", "data-folder") == "bench/results/synthetic"


def test_a_page_opens_short_and_a_link_opens_what_is_folded(results, show):
    page = show(results.page(names=[]), 1280, 800)
    assert page.evaluate("document.documentElement.scrollHeight") < 5 * 800
    folded = page.locator("#definitions")
    assert not folded.is_visible()
    page.click("nav a[href='#definitions']")
    assert folded.is_visible()


def test_a_long_table_can_be_filtered(results, show):
    page = show(results.page(names=[]))
    page.click("nav a[href='#sources']")
    assert page.locator(".filter").count() == 1, "a table of four rows needs none"
    page.fill(".filter", "n1x4/rep2")
    assert page.locator("#sources tbody tr:visible").count() == 1
    page.fill(".filter", "")
    assert page.locator("#sources tbody tr:visible").count() == 10


def test_smallest_text_of_charts_is_twelve_pixels(results, show):
    page = show(results.page(), 1280)
    sizes = page.evaluate(
        "[...document.querySelectorAll('#charts > .charts svg')].map("
        "drawing => 9 * drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width)"
    )
    assert sizes
    assert min(sizes) >= 11.9, "nine points are the smallest"


def test_repeated_findings_are_one_line_below_the_table(results, show):
    busy = [
        Finding(
            code="machine-busy", severity="suspect", cells=[cell], runs=[f"{cell}/rep{k}"], evidence=f"{k} %", advice=""
        )
        for cell in ("ddp-n1x1", "ddp-n1x2")
        for k in (1, 2, 3)
    ]
    results.findings = results.findings.model_copy(update={"findings": busy})
    notes = show(results.page(names=[])).locator("#footnotes li")
    assert notes.count() == 1
    assert "(suspect) in ddp-n1x1, ddp-n1x2 (6 runs): 1 %; 2 more" in " ".join(
        notes.inner_text().replace("\u00a0", " ").split()
    )


def test_findings_of_all_rows_stand_once_above_them(impossible, show):
    cells = ["ddp-n1x1", "ddp-n1x2"]
    busy = Finding(code="machine-busy", severity="suspect", cells=cells, runs=[], evidence="80 %", advice="")
    findings = [*impossible.findings.findings, busy]
    impossible.findings = impossible.findings.model_copy(update={"findings": findings})
    page = show(impossible.page(names=[]))
    assert page.inner_text(".shared").split() == ["In", "all", "rows:", "machine-busy"]
    rows = page.locator("#table-cells td.codes").all_inner_texts()
    assert [row.strip() for row in rows] == ["no others", "super-linear"]


def test_a_cell_is_linked_beside_a_statement_unless_it_is_named_there():
    """The name of another cell may contain its own."""
    slugs = {"ddp-n1x2", "ddp-n1x2-ga4"}
    longer = _bullet_html(Bullet("slower", "Slower", "ddp-n1x2-ga4 is slower", cells=("ddp-n1x2",)), slugs)
    assert longer.endswith('(see <a href="#row-ddp-n1x2">ddp-n1x2</a>)')
    named = _bullet_html(Bullet("slower", "Slower", "ddp-n1x2-ga4 is slower", cells=("ddp-n1x2-ga4",)), slugs)
    assert "see" not in named


def test_the_codes_of_reservations_are_seen_once_and_their_cells_on_a_click(impossible, show):
    page = show(impossible.page(), 390, 844)
    seen = page.inner_text(".answer")
    assert seen.count("super-linear") == 1
    assert "With reservations: " not in seen
    page.click(".trust-more summary")
    assert "With reservations: super-linear in ddp-n1x2" in page.inner_text(".answer")


def test_without_reservations_none_are_folded(results, show):
    assert "With reservations" not in show(results.page()).text_content(".answer")
