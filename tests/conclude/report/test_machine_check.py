"""The doctor's report on a campaign's page: only of the same host, and only from before the campaign."""

from dataclasses import replace
from datetime import datetime

import pytest
from synthetic import rewrite

from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.page_facts import PageInputs, collect_run_facts, machine_check
from scaleproof.conclude.report.read_results import read_inputs
from scaleproof.measure.doctor.doctor import JudgedLook, Report


def entry(name: str, status: str, advice: str = "") -> JudgedLook:
    return JudgedLook(
        name=name, area="cpu", status=status, evidence=f"<{name}> seen", advice=advice, seconds=0, values={}
    )


def report(host: str = "node", date: str = "2025-01-01T03:10:00Z", failing: bool = True) -> Report:
    checks = [entry("cores", "PASS"), entry("clock", "PASS"), entry("energy", "not here")]
    if failing:
        checks.insert(1, entry("steadiness", "FAIL", "something else runs here"))
    return Report(timestamp_utc=datetime.fromisoformat(date), host=host, device="cpu", checks=checks)


@pytest.mark.parametrize(
    ("doctor", "shown"),
    [
        (report(), True),
        (report(host="another"), False),
        (report(date="2099-01-01T00:00:00Z"), False),
        (None, False),
    ],
)
def test_it_is_of_this_host_and_older_than_the_runs(results, doctor, shown):
    assert (machine_check(doctor, results.runs) is not None) == shown


def test_one_run_of_another_host_takes_it_away(results):
    """What was examined says nothing of the other machine."""

    def elsewhere(data):
        data["host"]["hostname"] = "another"
        for rank in data["ranks"]:
            rank["host"] = "another"

    assert machine_check(report(), [*results.runs[1:], rewrite(results.runs[0], elsewhere)]) is None
    assert machine_check(report(), []) is None


@pytest.fixture
def page(results):
    """The page without charts, with a report of the doctor."""
    runs_table, cells, scaling = read_inputs(results.folder)
    inputs = PageInputs(
        collect_run_facts(results.runs), runs_table, cells, scaling, results.findings, results.folder, []
    )

    def make(doctor: Report | None) -> str:
        write_page(replace(inputs, facts=collect_run_facts(results.runs, doctor)), results.folder / "report.html")
        return (results.folder / "report.html").read_text()

    return make


def test_failures_are_open_and_the_rest_is_folded(page):
    text = page(report())
    heading = "Machine check (<code>scaleproof doctor</code>, 2025-01-01 03:10 UTC): 2 PASS, 1 FAIL, 1 not here"
    assert heading in text
    section = text[text.index(heading) :]
    opened, _, folded = section[: section.index("</section>")].partition("<details>")
    assert "FAIL</span> steadiness" in opened
    assert "&lt;steadiness&gt; seen" in opened, "evidence is text, not markup"
    assert "something else runs here" in opened
    assert all(f"{name}</th>" in folded and f"{name}</th>" not in opened for name in ("cores", "clock", "energy"))


def test_without_failures_all_of_it_is_folded(page):
    text = page(report(failing=False))
    assert "2 PASS, 1 not here" in text
    assert "<summary>All checks</summary>" in text


def test_the_machine_check_names_no_host(page):
    shown = page(report())
    without = page(None)
    assert "machine-check" in shown
    assert "machine-check" not in without
    assert shown.count("node") == without.count("node")
