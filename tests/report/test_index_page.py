"""results/index.html lists what is there, whatever state it is in."""

import json

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


def test_no_campaign_is_said(tmp_path):
    assert write_index(tmp_path) == []
    assert "No campaign has a report yet" in (tmp_path / "index.html").read_text()
