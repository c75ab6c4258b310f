"""report.html in a real browser: whole, self-contained, good on a phone and on paper."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from result_models import comparison, paired

from scaleproof.conclude.analysis.run_tables import cells_table
from scaleproof.conclude.report.page import page_text
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.html import link_cells, mark_bounds
from scaleproof.ground.records.scaling_report import AB_TITLE


def test_question_answer_table_charts(results, show):
    page = show(results.page())
    assert page.inner_text("h1") == "Does it scale?"
    assert page.inner_text(".verdict") == answer_campaign(results.report, []).verdict
    assert page.locator("table").first.locator("tbody tr").count() == 4
    drawings = page.locator("figure svg[role=img]")
    assert drawings.count() == 9, "all that have something to show: no energy or load of a CPU, no waterfall"
    assert all(drawings.nth(i).get_attribute("aria-label") for i in range(9))
    assert (
        page.evaluate("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size")
        == page.locator("[id]").count()
    ), "no id twice, charts included"
    tips = page.locator("#chart-ranking .tip title")
    assert any("ddp-n1x4: " in text and "tokens/s (95 % CI " in text for text in tips.all_text_contents())


def test_figures_lead_to_their_files(results, show):
    page = show(results.page())
    figure = page.locator("#table-cells a.figure[data-id='cells/ddp-n1x2/speedup']")
    assert re.fullmatch(r"1\.\d{6} \([\d.]+-[\d.]+\), n=3", figure.get_attribute("title"))
    assert page.locator(figure.get_attribute("href").replace(".", "\\.")).count() == 1, "without scripts: a link"
    figure.click()
    text = page.inner_text("#why")
    assert "same series at its smallest number of devices" in text
    assert text.count("training_metrics.json (sha256 ") == 3
    assert "undefined" not in text
    assert "scaleproof why results/synthetic cells/ddp-n1x2/speedup" in text


def test_tables_can_be_sorted_and_widened(results, show):
    page = show(results.page())
    names = page.locator("#table-cells tbody th")
    page.click("#table-cells th:has-text('tokens/s (95') button")
    assert names.all_inner_texts() == ["ddp-n1x4", "ddp-n1x2", "ddp-n1x1", "ddp-n1x8"], "failed ones last"
    page.click("#table-cells th:has-text('tokens/s (95') button")
    assert names.all_inner_texts() == ["ddp-n1x1", "ddp-n1x2", "ddp-n1x4", "ddp-n1x8"]
    visible = "[...document.querySelectorAll('#table-cells thead th')].filter(e => e.offsetWidth).length"
    assert 6 <= page.evaluate(visible) <= 7
    page.check("#cells .switch input")
    assert page.evaluate(visible) > 10


def test_a_chart_can_be_enlarged(results, show):
    page = show(results.page())
    before = page.locator("#chart-ranking svg").bounding_box()["width"]
    page.click("#chart-ranking .enlarge")
    assert page.locator("#chart-ranking svg").bounding_box()["width"] > 1.5 * before
    page.click("#chart-ranking .close")
    assert page.locator("#chart-ranking svg").bounding_box()["width"] == before


@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_nothing_sticks_out_at_any_width(results, show, width):
    page = show(results.page(), width, 844)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Wide tables scroll in their own box; everything else fits its line.
    outside = page.evaluate(
        "w => [...document.querySelectorAll('body *')].filter(e => !e.closest('.wide, pre, svg, dialog') && "
        "e.getBoundingClientRect().right > w + 1).map(e => e.outerHTML.slice(0, 80))",
        width,
    )
    assert outside == []


def test_print_fits_the_paper(results, show, tmp_path):
    page = show(results.page())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 less its margins, in CSS pixels
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    pdf = page.pdf(format="A4", path=tmp_path / "report.pdf")
    pages = len(re.findall(rb"/Type\s*/Page[^s]", pdf))
    assert 2 <= pages <= 7


def test_a_failed_cell_is_a_row_and_says_why(results, show):
    page = show(results.page())
    assert "oom: CUDA out of memory" in page.inner_text("table >> nth=0")
    text = page.inner_text("body")
    assert "No numbers: ddp-n1x8/rep1 (oom). Once the cause is mended: scaleproof retry" in text
    assert "Runs without numbers" in text
    assert "ddp-n1x8/rep1: oom on rank 1. CUDA out of memory" in text
    assert "The end of results/synthetic/runs/ddp-n1x8/rep1/train.log:\nlast line of the log" in re.sub(
        r"\n+", "\n", text
    )


def test_a_failed_run_of_ab_is_not_repeated_by_the_file_that_nobody_wrote(results):
    retry = "Once the cause is mended: <code>scaleproof retry"
    inputs = results.inputs()
    assert retry in page_text(inputs)
    assert retry not in page_text(replace(inputs, report=inputs.report.model_copy(update={"title": AB_TITLE})))


def test_repeats_that_failed_alike_stand_together(results, tmp_path):
    from synthetic import cells, write_failure

    (cell,) = cells(vary={"geometry": ["1x8"]})
    failed = [write_failure(tmp_path / "more", cell, k, "oom", "CUDA out of memory") for k in (2, 3)]
    html = type(results)(results.folder, [*results.runs, *failed]).page(names=[]).read_text()
    assert "<strong>ddp-n1x8/rep1, rep2, rep3</strong>:" in html


def test_findings_mark_the_number_and_take_the_answer_away(broken, show):
    page = show(broken.page())
    assert page.inner_text(".verdict").startswith("No answer: the numbers failed their own checks")
    link = page.locator("table >> nth=0").locator("a", has_text="rate-times-time")
    assert link.count() == 1
    target = link.get_attribute("href")
    assert "tokens/s x" in page.inner_text(target)
    assert page.locator(f"{target} .invalid").inner_text() == "invalid"


def test_a_finding_of_a_curve_marks_the_cell_in_the_main_table(impossible, show):
    page = show(impossible.page())
    assert "super-linear" in page.inner_text("table >> nth=0")
    assert page.locator("table >> nth=0").locator("a", has_text="super-linear").count() == 1


IN_A_PAIR = Finding(
    code="run-stands-out",
    severity="suspect",
    cells=["fused"],
    runs=["fused/pair1/a"],
    evidence="97% as fast",
    advice="",
    concerns="comparison",
)


def test_findings_of_pairs_are_told_where_the_pairs_are(results, show):
    results.findings = results.findings.model_copy(update={"findings": [IN_A_PAIR]})
    entry = comparison(paired(), findings=[IN_A_PAIR.code])
    page = show(results.page([entry]))
    text = page.text_content("body")
    assert "fused/pair1/a: 97 % as fast" in " ".join(text.replace("\u00a0", " ").split())
    assert IN_A_PAIR.code in page.inner_text("#pairs table >> nth=0")
    assert "1.040, 1.060" in text, "each pair is there"
    assert "1.000, 1.010" in text


def test_lost_raw_files_are_said(results):
    assert "missing</span>" not in results.page(names=[]).read_text()
    (results.folder / "runs/ddp-n1x2/rep1/steps.csv").unlink()
    text = results.page(names=[]).read_text()
    assert "1 raw file missing</span>: ddp-n1x2/rep1/steps.csv." in text


def test_no_findings_are_said_too(results, show):
    assert "None of them found anything." in show(results.page()).inner_text("body")


def test_every_run_has_a_link_and_a_hash(results, show):
    page = show(results.page())
    links = page.locator("a", has_text="training_metrics.json")
    assert links.count() == len(results.runs) == 10
    for i in range(10):
        target = links.nth(i).get_attribute("href")
        assert (results.folder / target).is_file(), target
    table = page.text_content("#sources table")
    assert all(f"{run.metrics.cell}/rep{run.metrics.repeat}" in table for run in results.runs)


def test_machine_and_versions(results, show):
    text = show(results.page()).text_content("body")
    for part in ("8 logical CPUs", "16.0 GiB", "torch", "Commit", "Measuring code"):
        assert part in text


def test_where_nothing_was_measured_nothing_was_checked(nothing, show):
    text = show(nothing.page()).inner_text("body")
    assert "No answer: no run has numbers" in text
    assert "nothing was checked" in text
    assert "None of them found anything" not in text


@pytest.mark.parametrize("fixture", ["single", "nothing"])
def test_thin_results_have_a_page_too(fixture, request, show):
    page = show(request.getfixturevalue(fixture).page())
    assert page.inner_text(".verdict")


def test_markup_is_balanced_and_text_is_escaped(results, tmp_path):
    from synthetic import cells, write_failure

    runs = [*results.runs, write_failure(tmp_path / "x", cells()[0], 9, "crash", "<script>alert('&')</script>")]
    html = type(results)(results.folder, runs).page().read_text()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html

    class Balance(HTMLParser):
        stack: list = []  # noqa: RUF012

        def handle_starttag(self, tag, attributes):
            if tag not in ("meta", "img", "link", "br", "input"):
                self.stack.append(tag)

        def handle_endtag(self, tag):
            assert self.stack.pop() == tag

    checker = Balance()
    checker.feed(html)
    assert checker.stack == []


def test_the_answer_links_to_the_rows_of_its_cells():
    text = link_cells("ddp-n1x2 beats ddp-n1x2-ga4 & <b>", {"ddp-n1x2", "single-n1x1"})
    assert text == '<a href="#row-ddp-n1x2">ddp-n1x2</a> beats ddp-n1x2-ga4 &amp; &lt;b&gt;'
    assert link_cells("at 1.42x (1.12-1.79)", ()) == 'at 1.42x <span class="whole">(1.12-1.79)</span>'
    assert link_cells("a < b", ()) == "a &lt; b"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("1.42 (1.12-1.79)", '1.42 <span class="bounds">(1.12-1.79)</span>'),
        ("0.01 (-0.02 to 0.04)", '0.01 <span class="bounds">(-0.02 to 0.04)</span>'),
        ("1 (baseline)", "1 (baseline)"),
        ("1.42 (n=2: too wide)", "1.42 (n=2: too wide)"),
        ("oom: a < b (1.5-2 GB)", "oom: a &lt; b (1.5-2 GB)"),
    ],
)
def test_an_interval_alone_is_marked_as_one(text, html):
    assert mark_bounds(text) == html


def test_links_within_the_page_have_targets(results):
    results.page()
    page = (results.folder / "report.html").read_text()
    targets = set(re.findall(r'href="#(row-[^"]+)"', page))
    assert targets
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


def test_a_suspect_cell_has_a_mark_and_a_footnote(impossible, show):
    page = show(impossible.page())
    assert page.locator("#row-ddp-n1x2 sup", has_text="†").count() == 1
    assert page.locator("#row-ddp-n1x1 sup").count() == 0
    assert page.inner_text("#footnotes").startswith("† super-linear (suspect) in")


def test_a_suspect_run_of_no_row_is_named_below_the_table(results, show):
    results.findings = results.findings.model_copy(update={"findings": [IN_A_PAIR]})
    page = show(results.page())
    assert page.locator("#table-cells sup").count() == 0
    text = page.inner_text("#footnotes")
    assert text.startswith("In none of these rows: run-stands-out (suspect) in fused/pair1/a: 97\u00a0% as fast")


def test_the_first_thing_about_trust_is_a_verdict(results, show):
    page = show(results.page(names=[]))
    assert page.inner_text(".trust").startswith("Can I trust it? yes: ")
    text = page.text_content(".trust-more")
    assert re.search(r"3 repeats show differences of [\d.]+\s%", text), text
    results.findings = results.findings.model_copy(update={"findings": [IN_A_PAIR]})
    page = show(results.page(names=[]))
    assert page.inner_text(".trust").endswith("nothing worse than a note in the 9 runs compared.")
    assert page.inner_text(".trust-more summary").startswith("Details: 1 suspect finding in 1 run; ")
    text = page.text_content(".trust-more")
    assert "1 suspect run (run-stands-out) is in the A/B pairs" in text
    assert text.count("run-stands-out") == 1, "which is the link"


def test_what_is_said_of_all_repeats_stands_once(results, show):
    notes = [
        Finding(
            code="state-differs",
            severity="note",
            cells=[cell],
            runs=[f"{cell}/rep{k}"],
            evidence=f"{mb} MB are kept",
            advice="Plan by the measured figure.",
        )
        for cell, mb in (("ddp-n1x1", 12), ("ddp-n1x2", 9))
        for k in (1, 2, 3)
    ]
    results.findings = results.findings.model_copy(update={"findings": notes})
    page = show(results.page(names=[]))
    page.evaluate("document.querySelectorAll('#findings details').forEach((fold) => { fold.open = true; })")
    assert page.inner_text("#state-differs h3") == "note state-differs in ddp-n1x1, ddp-n1x2 (6 runs)"
    items = page.locator("#state-differs li").all_inner_texts()
    assert items == ["ddp-n1x1/rep1, rep2, rep3: 12 MB are kept", "ddp-n1x2/rep1, rep2, rep3: 9 MB are kept"]


def test_a_note_is_none_the_worse_for_what_another_run_or_cell_has(results, show):
    busy = [
        Finding(code="machine-busy", severity=severity, cells=["ddp-n1x1"], runs=[run], evidence="9 %", advice="")
        for severity, run in (("suspect", "ddp-n1x1/rep1"), ("note", "ddp-n1x1/rep2"), ("note", "ddp-n1x1/rep1"))
    ]
    busy.append(busy[1].model_copy(update={"cells": ["ddp-n1x2"], "runs": ["ddp-n1x2/rep1"]}))
    results.findings = Findings(campaign="synthetic", checks=[], findings=busy)
    cells_table(results.runs, results.findings).to_csv(results.folder / "cells.csv", index=False)
    page = show(results.page(names=[]))
    cells = [page.locator(f"#table-cells tr:has(#row-ddp-n1x{devices}) .chip") for devices in (1, 2)]
    assert [chip.text_content() for chip in cells] == ["machine-busy", "machine-busy (note)"], "of cells as well"
    rows = page.locator("tr[data-file]")
    chips = [rows.nth(k).locator(".chip") for k in range(2)]
    assert [(chip.get_attribute("class"), chip.text_content()) for chip in chips] == [
        ("chip suspect", "machine-busy"),
        ("chip note", "machine-busy (note)"),
    ]


def test_the_fastest_of_a_size_is_first_and_the_order_is_said(results, show):
    page = show(results.page(names=[]))
    assert page.locator("#table-cells tbody th").all_inner_texts() == ["ddp-n1x1", "ddp-n1x2", "ddp-n1x4", "ddp-n1x8"]
    assert "By number of devices, the fastest first." in page.text_content("#cells")


def test_terms_and_every_column_are_explained_on_the_page(results, show):
    page = show(results.page(names=[]))
    text = page.text_content("#definitions")
    assert "n1x1 (nodes x devices per node)" in text
    assert "nats" in text
    assert "ga4" not in text, "no cell is called so"
    explained = [text.replace("\u00a0", " ") for text in page.locator("#definitions th").all_text_contents()]
    titled = page.locator("#table-cells th[title], #table-strong th[title]")
    labels = {titled.nth(i).text_content().replace("\u00a0", " ") for i in range(titled.count())}
    assert len(labels) > 8
    assert labels <= set(explained)


def test_the_speedup_of_the_whole_job_stands_beside_that_of_the_window(results, show):
    page = show(results.page(names=[]))
    assert "The whole job of ddp-n1x4, with start-up, warm-up and validation, runs at 1.33x (" in page.inner_text(
        ".answer"
    )
    text = " ".join(page.text_content("#cells dl").split())
    point = results.report.series[0].runs["1x4"]
    job, window = (f"{ratio.value:.2f}" for ratio in (point.speedup_by_job_wall_time, point.speedup))
    assert re.search(rf"validation the speed-up is {job} \([^)]+\) for ddp-n1x4, instead of {window} \(", text)
    assert "“vs fastest 1-device” is relative to ddp-n1x1:" in text


def test_two_sizes_make_no_curve(impossible):
    html = impossible.page(names=["ranking", "speedup", "efficiency"]).read_text()
    assert 'id="chart-ranking"' in html
    assert 'id="chart-speedup"' not in html
    assert 'id="chart-efficiency"' not in html


def test_no_line_ends_within_an_interval(results, show):
    page = show(results.page(names=[]), 390)
    heights = page.evaluate("[...document.querySelectorAll('td .bounds')].map(e => [e.offsetHeight, e.textContent])")
    assert len(heights) > 5
    assert all(height < 30 for height, _ in heights), heights


def test_the_trust_line_is_on_the_first_screen_of_a_phone(results, show):
    box = show(results.page(names=[]), 390, 844).locator(".trust").bounding_box()
    assert box["y"] + box["height"] < 844


def test_a_table_says_that_it_goes_on_only_where_it_does(results, show):
    path = results.page(names=[])
    assert show(path, 390).locator(".scrolls:visible").count() > 0
    assert show(path, 1400).locator("#cells .scrolls:visible").count() == 0


def test_text_of_charts_can_be_read_on_a_phone(results, show):
    page = show(results.page(), 390)
    sizes = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map("
        "drawing => drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width)"
    )
    assert min(sizes) > 0.9, "nine points are drawn, at least eight pixels are shown"


def test_commands_and_files_of_the_answer_are_in_code_font():
    line, file = "repeats: {resolve: 5 %}", "config/campaigns/demo.yaml"
    command = "snakemake --cores 2 results/demo/report.html"
    text = link_cells(f'Next: set "{line}" in {file} and run {command} again; ddp-n1x2', {"ddp-n1x2"})
    assert f"set <code>{line}</code> in <code>{file}</code> and run <code>{command}</code> again" in text
    assert '<a href="#row-ddp-n1x2">ddp-n1x2</a>' in text
    assert (
        link_cells("At 81 % scaling efficiency (results differ)", ())
        == "At 81\u00a0% scaling efficiency (results differ)"
    )
    assert link_cells("scaleproof retry config/campaigns/<b>.yaml --cell ddp-n1x2, then", ()) == (
        "<code>scaleproof retry config/campaigns/&lt;b&gt;.yaml --cell ddp-n1x2</code>, then"
    )
    assert link_cells("Raise `repeats`; retry: scaleproof retry FILE, a `", ()) == (
        "Raise <code>repeats</code>; retry: <code>scaleproof retry FILE</code>, a `"
    )
