"""results/index.html lists what is there, whatever state it is in."""

import json
from dataclasses import replace

import pytest

from scaleproof.conclude.report.compare_page import write_index
from scaleproof.conclude.report.page import write_page
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.records.scaling_report import AnsweredQuestion


def test_campaigns_with_verdict_date_machine_and_findings(results, tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    results.page()
    results.findings_json()
    (root / "scale").symlink_to(results.folder)
    (root / "damaged").mkdir()
    (root / "damaged/report.html").write_text("<p class='other'>")
    (root / "corpora").mkdir()
    (root / "published/.scale_cpu_2026.host-1.part").mkdir(parents=True)  # of a call of `publish` that was killed
    (root / "published/.scale_cpu_2026.host-1.part/report.html").write_text("")
    first, second = write_index(root)
    assert (first.campaign, first.verdict, first.machine, first.step) == ("damaged", "unknown", "unknown", "")
    assert second.title == "Does it scale?"
    assert second.verdict.startswith("ddp")
    metrics = json.loads(next(iter(sorted(results.folder.glob("runs/*/rep*/training_metrics.json")))).read_text())
    assert second.date == metrics["timestamp_utc"][:16].replace("T", " ")
    assert second.machine == "CPU, 8 logical CPUs"
    text = (root / "index.html").read_text()
    assert 'href="scale/report.html"' in text
    assert text.count("<strong>Next:</strong>") == 1
    assert second.step.startswith("more devices, a larger model or another machine may answer otherwise")
    assert "<" not in second.step
    assert "corpora" not in text
    assert 'class="answer none"' not in text, "red is for no answer"


def test_page_list_and_audit_count_alike(results, tmp_path_factory):
    """Several findings of one code are several, wherever they are counted."""
    root = tmp_path_factory.mktemp("results")
    some = [("state-differs", "note")] * 3 + [("super-linear", "suspect")]
    findings = [
        Finding(code=c, severity=s, cells=["ddp-n1x1"], runs=[f"ddp-n1x1/rep{k}"], evidence=f"{k}", advice="")
        for k, (c, s) in enumerate(some, 1)
    ]
    results.findings = results.findings.model_copy(update={"findings": findings})
    page = results.page(names=[]).read_text()
    results.findings_json()
    (root / "scale").symlink_to(results.folder)
    write_index(root)
    index = (root / "index.html").read_text()
    for text, notes, suspect in (
        (page, "3 notes in 3 runs</", "1 suspect finding in 1 run</"),
        (index, "3 notes</", "1 suspect</"),
    ):
        assert notes in text
        assert suspect in text


def test_an_entry_says_what_a_and_b_are_and_whether_there_are_numbers(results, tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    (root / "scale").symlink_to(results.folder)
    results.page()
    results.findings_json()
    (entry,) = write_index(root)
    assert (entry.sides, entry.has_numbers) == ([], True)
    results.report.question = AnsweredQuestion.model_validate({"is": "ddp-n1x2", "better_than": "ddp-n1x1", "by": 0.0})
    inputs = results.inputs(names=[])
    commands = {"ddp-n1x1": "python a.py --fused <x>", "ddp-n1x2": "python b.py"}
    facts = replace(inputs.facts, commands=commands)
    write_page(replace(inputs, facts=facts), results.folder / "report.html")
    (entry,) = write_index(root)
    assert entry.sides == [("A", "python a.py --fused <x>"), ("B", "python b.py")]
    text = (root / "index.html").read_text()
    assert "A: <code>python a.py --fused &lt;x&gt;</code>" in text
    assert "Findings:\nnone." in text
    report = json.loads((results.folder / "scaling_report.json").read_text())
    (results.folder / "scaling_report.json").write_text(json.dumps(report | {"series": []}))
    (entry,) = write_index(root)
    assert not entry.has_numbers
    (results.folder / "report.html").write_text('<p class="verdict">No answer: no run has numbers</p>')
    write_index(root)
    assert 'class="answer none"' in (root / "index.html").read_text()
    assert "Findings:\nno run has numbers, so nothing was checked." in (root / "index.html").read_text()


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
