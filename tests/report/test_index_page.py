"""results/index.html lists what is there, whatever state it is in."""

import json
import re

import pytest
from synthetic import cells

from scalebench.audit.finding import Finding
from scalebench.report.index_page import write_index


def test_campaigns_with_verdict_date_machine_and_findings(results, tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    results.page()
    results.findings_json()
    (root / "scale").symlink_to(results.folder)
    (root / "damaged").mkdir()
    (root / "damaged/report.html").write_text("<p class='other'>")
    (root / "corpora").mkdir()
    first, second = write_index(root)
    assert (first.campaign, first.verdict, first.machine) == ("damaged", "unknown", "unknown")
    assert second.title == "Does it scale?"
    assert second.verdict.startswith("ddp")
    metrics = json.loads(next(iter(sorted(results.folder.glob("runs/*/rep*/training_metrics.json")))).read_text())
    assert second.date == metrics["timestamp_utc"][:16].replace("T", " ")
    assert second.machine == "CPU, 8 logical CPUs"
    text = (root / "index.html").read_text()
    assert 'href="scale/report.html"' in text
    assert "corpora" not in text


def test_findings_are_counted_as_on_the_report(results, tmp_path_factory):
    """One code in two cells is one finding on both pages."""
    root = tmp_path_factory.mktemp("results")
    (root / "scale").symlink_to(results.folder)
    finding = Finding(code="machine-busy", severity="suspect", cells=[], runs=[], evidence="", advice="")
    here = [finding.model_copy(update={"cells": [cell.slug]}) for cell in cells()]
    results.findings = results.findings.model_copy(update={"findings": here})
    results.findings_json()
    page = results.page().read_text()
    (entry,) = write_index(root)
    assert entry.findings == {"suspect": 1}
    assert re.search('class="suspect" href="#findings">1 suspect</a>', page)


def test_no_campaign_is_said(tmp_path):
    assert write_index(tmp_path) == []
    assert "No campaign has a report yet" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("findings.json", '{"findings": [3]}'),
        ("findings.json", '{"findings": null}'),
        ("findings.json", '{"findings": [{"severity": [], "code": {}}]}'),
        ("scaling_report.json", '{"title": 7}'),
        ("runs/a/rep1/training_metrics.json", '{"ranks": 3}'),
        ("runs/a/rep1/training_metrics.json", '{"ranks": [], "hardware": null}'),
    ],
)
def test_a_damaged_campaign_is_listed_as_far_as_it_is_known(tmp_path, file, content):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "report.html").write_bytes(b"\xff<p class='other'>")
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(content)
    (entry,) = write_index(tmp_path)
    assert (entry.campaign, entry.verdict, entry.machine) == ("mine", "unknown", "unknown")
