"""Nothing that somebody put into a chart or a text runs in a page, or asks anything of anywhere; ours still works."""

import re
from pathlib import Path

import pytest
from auditor.test_audit_page import put
from conclude.report.test_compare_page import page_of
from conclude.report.test_compare_page import results as result_of

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.audit_page import audit_page
from scaleproof.conclude.report.compare_page import write_index
from scaleproof.conclude.report.inline_svg import inline_svg
from scaleproof.conclude.report.page import write_page
from scaleproof.ground.errors import UserError

OUTSIDE = "https://example.invalid/x"
# What a chart may hold that is no drawing; `ran()` leaves a mark in the page.
HOSTILE = {
    "script": "<script>ran()</script>",
    "script of another name": '<s:script xmlns:s="http://www.w3.org/2000/svg">ran()</s:script>',
    "script of HTML": '<h:script xmlns:h="http://www.w3.org/1999/xhtml">ran()</h:script>',
    "script elsewhere": f'<script href="{OUTSIDE}.js"/>',
    "CDATA": "<text><![CDATA[<img src=x onerror=ran()>]]></text>",
    "text": "<title>&lt;/title&gt;&lt;img src=x onerror=ran()&gt;</title>",
    "style that ends": "<style>&lt;/style&gt;&lt;img src=x onerror=ran()&gt;</style>",
    "event": '<rect width="400" height="400" onmouseover="ran()" onclick="ran()" onfocus="ran()" tabindex="0"/>',
    "loaded": '<image href="x" onerror="ran()" onload="ran()"/>',
    "begun": '<animate onbegin="ran()" attributeName="x" begin="0s" dur="1s"/>',
    "foreign": '<foreignObject width="9" height="9"><body xmlns="http://www.w3.org/1999/xhtml" onload="ran()">'
    '<iframe srcdoc="&lt;script&gt;parent.ran()&lt;/script&gt;"/><img src="x" onerror="ran()"/></body></foreignObject>',
    "link": '<a href="javascript:ran()"><rect width="400" height="400"/></a>',
    "link made": '<a><set attributeName="href" to="javascript:ran()"/><rect width="400" height="400"/></a>',
    "other file": f'<use href="{OUTSIDE}.svg#x"/><use xmlns:l="http://www.w3.org/1999/xlink" l:href="data:image/svg"/>',
    "picture": f'<image href="{OUTSIDE}.png" width="9" height="9"/>',
    "style": f'<style>@import "{OUTSIDE}.css"; body {{ background: url({OUTSIDE}.png) }}</style>',
    "style of one": f'<path d="M0 0h9v9z" style="fill: u\\72l({OUTSIDE}.svg#x); clip-path: url({OUTSIDE}.svg#x)"/>',
    "attribute": f'<path d="M0 0h9v9z" fill="url({OUTSIDE}.svg#x)" filter="url({OUTSIDE}.svg#x)"/>',
}
RAN = "window.ran = () => { window.mark = 1 }; window.mark = 0"


@pytest.fixture
def visit(browser):
    """Open a page: gives it, and all that it asked for or complained about."""
    opened = []

    def run(path):
        page = browser.new_page()
        opened.append(page)
        seen = []
        page.add_init_script(RAN)
        page.on("requestfinished", lambda r: None if r.url.startswith(("file:", "data:")) else seen.append(r.url))
        # Chromium announces a request, too, that the page's own policy forbids it to make.
        page.on("requestfailed", lambda r: None if r.failure == "csp" else seen.append(f"{r.url} {r.failure}"))
        page.on("console", lambda message: seen.append(message.text) if message.type == "error" else None)
        page.on("dialog", lambda dialog: (seen.append(dialog.message), dialog.dismiss()))
        page.goto(f"file://{path}")
        return page, seen

    yield run
    for page in opened:
        page.close()


@pytest.mark.parametrize("name", ["ranking", "efficiency"])
def test_a_damaged_chart_is_refused_on_the_page_or_not(results, name):
    inputs, folder = results.inputs(), results.folder
    write_page(inputs, folder / "report.html")
    (folder / "claims.json").unlink()
    (folder / f"charts/{name}.svg").write_text("")
    with pytest.raises(UserError, match=rf"{name}\.svg is damaged \(no SVG, or cut off"):
        write_page(inputs, folder / "report.html")
    assert not (folder / "claims.json").exists(), "nothing is written"


def test_a_chart_is_a_drawing_whatever_stands_in_its_file(results, visit):
    inputs = results.inputs()
    chart = results.folder / "charts/ranking.svg"
    head, rest = chart.read_text().split("</defs>", 1)
    body = rest.removesuffix("</svg>\n")
    chart.write_text(head.replace("<svg ", '<svg onload="ran()" ') + f"</defs>{''.join(HOSTILE.values())}{body}</svg>")
    write_page(inputs, results.folder / "report.html")
    page, seen = visit(results.folder / "report.html")
    drawing = page.locator("#chart-ranking svg")
    for x, y in ((5, 5), (60, 60), (150, 100)):
        drawing.click(position={"x": x, "y": y})
    assert page.evaluate("window.mark") == 0
    assert seen == []
    kinds = "[...document.querySelectorAll('#chart-ranking svg *')].map(e => e.localName)"
    assert not set(page.evaluate(kinds)) & {"script", "style", "a", "animate", "set", "foreignObject", "iframe", "img"}
    assert page.locator("#chart-ranking .tip title").count() > 3, "the drawing itself is there"


@pytest.mark.fault("a script, an event or an address in a chart", "left out of the page; nothing runs or loads")
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_drawing_is_left_out(tmp_path, name):
    path = tmp_path / "chart.svg"
    before, after = '<path d="M0 0"/>', '<rect width="7" height="7"/>'
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">{before}{HOSTILE[name]}{after}</svg>')
    text = inline_svg(path, "x", "A chart")
    assert not re.search(r"<script|javascript|<[^>]* on\w+=|example\.invalid|<img|srcdoc|data:image/svg", text), text
    assert text.startswith('<svg viewBox="0 0 9 9" role="img" aria-label="A chart"><path d="M0 0"></path>')
    assert text.endswith('<rect width="7" height="7"></rect></svg>')


def test_a_chart_of_ours_loses_nothing(repository):
    for path in (repository / "results/published").glob("demo_*/charts/*.svg"):
        text, before = inline_svg(path, "x", "A"), path.read_text()
        for part in ("<path", "<use", "<text", "<title", "<rect", "<clipPath", "<pattern", 'class="tip"', "clip-path="):
            assert text.count(part) == before.count(part), f"{path.name}: {part}"
        assert set(re.findall(r'(?:href="|url\()#([\w-]+)', text)) <= set(re.findall(r' id="([\w-]+)"', text))


@pytest.mark.parametrize("text", ["", "none", "<svg", '<svg xmlns="http://www.w3.org/2000/svg"><g>', "<svg>&e;</svg>"])
def test_a_damaged_chart_is_named(tmp_path, text):
    path = tmp_path / "results/demo/charts/speedup.svg"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(UserError, match=r"speedup\.svg is damaged \(no SVG, or cut off"):
        inline_svg(path, "x", "A")
    path.unlink()
    with pytest.raises(UserError, match=r"speedup\.svg: no such file; build it with: snakemake"):
        inline_svg(path, "x", "A")


@pytest.fixture
def pages(results, tmp_path_factory) -> dict[str, Path]:
    """One of each kind of page that we write."""
    root = tmp_path_factory.mktemp("all")
    audited = audit_page(audit_paths([put(root / "run")]))
    (root / "audit.html").write_text(audited)
    page_of(result_of(root / "a", 0.1, 1), result_of(root / "b", 0.12, 2), root / "compare.html")
    (root / "synthetic").symlink_to(results.folder)
    report = results.page()
    write_index(root)
    names = {"audit": "audit.html", "compare": "compare.html", "index": "index.html"}
    return {name: root / file for name, file in names.items()} | {"report": report}


def test_every_page_forbids_what_it_does_not_need(pages, visit):
    """What got past every escape would not run either."""
    planted = (
        "<script>ran()</script><img src=x onerror=ran()><p onmouseover=ran() onclick=ran()>here</p>"
        f'<a id="planted" href="javascript:ran()">there</a><script src="{OUTSIDE}.js"></script>'
        f'<iframe src="{OUTSIDE}"></iframe>'
    )
    for name, path in pages.items():
        text = path.read_text()
        assert text.count("Content-Security-Policy") == 1, name
        assert text.index("Content-Security-Policy") < min(text.index("<title"), text.index("<style")), name
        path.write_text(text.replace("</body>", f"{planted}</body>"))
        page, seen = visit(path)
        page.click("text=here")
        page.click("#planted")
        assert page.evaluate("window.mark") == 0, name
        assert not [line for line in seen if line.startswith(OUTSIDE)], name
        assert "Content Security Policy" in " ".join(seen), name


def test_every_template_of_a_page_has_the_policy(repository):
    templates = list((repository / "src/scaleproof").glob("**/templates/*.html.j2"))
    assert templates
    for path in templates:
        text = path.read_text()
        assert ("<!DOCTYPE" in text) == ('{% include "head.html.j2" %}' in text), path.name


def test_our_own_script_runs_under_the_policy(pages, visit):
    page, seen = visit(pages["report"])
    first = page.locator("#table-cells tbody th").first
    before = first.inner_text()
    page.click("#table-cells th:has-text('tokens/s (95') button")
    assert first.inner_text() != before, "sorted"
    page.click("#table-cells a.figure >> nth=0")
    assert page.locator("#why").is_visible()
    page.click("#why button")
    assert not page.locator("#why").is_visible(), "a form that closes its dialog"
    page, seen_there = visit(pages["audit"])
    head = page.locator("table.data th >> nth=0")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    page, seen_here = visit(pages["compare"])
    rates = "[...document.querySelectorAll('#cells tbody tr')].map(row => row.cells[4].textContent.trim())"
    before = page.evaluate(rates)
    page.click("#cells th:has-text('A (tokens/s)') button")
    page.click("#cells th:has-text('A (tokens/s)') button")
    numbers = [float(text.replace(",", "")) for text in page.evaluate(rates)]
    assert (sorted(before), numbers) == (sorted(page.evaluate(rates)), sorted(numbers)), "the lowest first"
    assert (seen, seen_there, seen_here) == ([], [], [])


def test_the_look_follows_the_reader_under_the_policy(results, browser):
    page = browser.new_page(color_scheme="dark")
    page.goto(f"file://{results.page()}")
    look = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('svg')).filter]"
    assert page.evaluate(look) == ["rgb(15, 20, 25)", "invert(1) hue-rotate(180deg)"]
    strokes = "[...document.querySelectorAll('figure svg [style*=stroke]')].map(e => getComputedStyle(e).stroke)"
    assert len(set(page.evaluate(strokes))) > 3, "colours of charts are styles of their elements"
    page.close()


def test_a_folder_is_no_command(results, tmp_path_factory, visit):
    root = tmp_path_factory.mktemp("links")
    (root / "javascript:ran()").symlink_to(results.folder)
    results.page(names=[])
    assert [entry.link for entry in write_index(root)] == ["javascript%3Aran%28%29/report.html"]
    page, _ = visit(root / "index.html")
    page.click("h2 a")
    assert page.inner_text("h1") == "Does it scale?"


def test_a_page_that_cannot_be_read_is_one_entry_of_the_index(tmp_path):
    (tmp_path / "demo/report.html").mkdir(parents=True)
    (entry,) = write_index(tmp_path)
    assert (entry.verdict, "report.html" in entry.unread) == ("unknown", True)
