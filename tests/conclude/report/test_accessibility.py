"""axe-core finds nothing serious on any page: light, dark, on a phone."""

from importlib.resources import files

import pytest
from conclude.report.conftest import QUIET, Results
from conclude.report.test_compare_page import page_of
from conclude.report.test_compare_page import results as result_of
from playwright.sync_api import sync_playwright
from synthetic import cells, rewrite, write_failure, write_run

from scaleproof.conclude.report.compare_page import write_index

# Rules of axe for what one cannot read, reach or name; hints on style ("moderate", "minor") are not among them.
GRAVE = ("serious", "critical")
SCREENS = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A report with findings, a failed run and hidden columns; a comparison; the list of campaigns."""
    root = tmp_path_factory.mktemp("results")
    folder = root / "synthetic"
    members = cells(vary={"geometry": ["1x1", "1x2", "1x4", "1x8"]})
    runs = [write_run(folder / "runs", c, k, 0.1 / c.batch.n_devices) for c in members[:3] for k in (1, 2)]
    runs[-1] = rewrite(runs[-1], lambda d: d["window"].update(tokens_per_sec_global=1e9))
    results = Results(folder, [*runs, write_failure(folder / "runs", members[3])])
    report = results.page(names=["ranking", "speedup"])
    results.findings_json()
    write_index(root)
    compared = root / "compare.html"
    page_of(result_of(root / "a", 0.1, 1), result_of(root / "b", 0.12, 2), compared)
    return {"report": report, "compare": compared, "index": root / "index.html"}


@pytest.fixture(scope="module")
def violations(chromium):
    """A page's violations as axe-core states them, after every part of it is open."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)

        def run(path, width, scheme):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.goto(f"file://{path}")
            page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
            page.evaluate(axe)
            violated = page.evaluate("async () => (await axe.run()).violations")
            page.close()
            return [(v["id"], v["nodes"][0]["html"][:160]) for v in violated if v["impact"] in GRAVE]

        yield run
        browser.close()


@pytest.mark.parametrize(
    ("name", "screen"),
    [("report", "light"), ("report", "dark"), ("report", "phone"), ("compare", "phone"), ("index", "dark")],
)
def test_no_serious_violation(pages, violations, name, screen):
    assert violations(pages[name], *SCREENS[screen]) == []


def test_a_violation_is_seen(tmp_path, violations):
    page = tmp_path / "bad.html"
    page.write_text(
        '<html><title>x</title><body><main><img src=""><p style="color:#ccc">faint</p></main></body></html>'
    )
    assert {rule for rule, _ in violations(page, *SCREENS["light"])} >= {"image-alt", "html-has-lang", "color-contrast"}
