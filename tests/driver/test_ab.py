"""Two commands as a campaign, and the verdict on what it measured."""

import json

import pytest
import yaml

from scaleproof.cli.ab import split
from scaleproof.conclude.report.sentences.ab import EXIT_CODES, ab_verdict
from scaleproof.driver.ab import AbRequest, write_campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import AnsweredQuestion, ScalingReport

REQUEST = AbRequest(["python", "a.py", "--name", "two words"], ["python", "b.py"], steps=(5, 20), figures="whole")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_commands_are_split_at_their_separators():
    options, programs = split(["ab", "--json", "--", "a", "-x", "--", "b"])
    assert options == ["ab", "--json"]
    assert split(programs) == (["a", "-x"], ["b"])


def test_the_campaign_runs_both_commands_as_they_were_given():
    request = AbRequest(["python", "a.py", "--name", "two words"], ["python", "b.py", "--steps", "{steps}"])
    loaded = LoadedCampaign(write_campaign(request, None, None))
    assert [cell.words for cell in loaded.cells] == [[*request.a], ["python", "b.py", "--steps", "50"]]
    assert loaded.question == {"is": "b-n1x1", "better_than": "a-n1x1", "by": 0.0}


def test_one_request_is_one_campaign_and_another_needs_another_name():
    request = AbRequest(["a"], ["b"])
    assert write_campaign(request, "mine", None) == write_campaign(request, "mine", None)
    with pytest.raises(UserError, match="with another comparison"):
        write_campaign(AbRequest(["a"], ["c"]), "mine", None)


def test_a_series_gives_each_comparison_its_part(tmp_path):
    parts = []
    for name in ("b", "c", "d"):
        path = write_campaign(AbRequest(["a"], [name]), None, "tuning")
        parts.append(yaml.safe_load(path.read_text())["repeats"]["chance"])
    assert parts == sorted(parts, reverse=True)
    assert sum(parts) < 0.05
    again = write_campaign(AbRequest(["a"], ["b"]), None, "tuning")  # asked again, it spends nothing more
    assert yaml.safe_load(again.read_text())["repeats"]["chance"] == parts[0]
    assert len(json.loads((tmp_path / "results/series/tuning.json").read_text())) == 3


def verdict(status: str, ratio: tuple[float, float, float] | None = (1.08, 1.05, 1.11), **report):
    estimated = Estimated(value=ratio[0], low=ratio[1], high=ratio[2], n=6) if ratio else None
    question = AnsweredQuestion.model_validate(
        {"is": "b-n1x1", "better_than": "a-n1x1", "by": 0.0, "status": status, "ratio": estimated}
    )
    mismatches = report.pop("mismatches", [])
    made = ScalingReport(
        campaign="ab",
        title="x",
        confidence=0.95,
        evidence="printed",
        series=[],
        ranking=[],
        status="invalid_comparison" if mismatches else "ok",
        mismatches=mismatches,
        question=question,
    )
    evidence = [
        Finding(code=code, severity="invalid", cells=["b-n1x1"], runs=[], evidence="the loss is 3.1", advice="")
        for code in mismatches
    ]
    findings = Findings(campaign="ab", checks=[], findings=evidence)
    return ab_verdict(made, findings, report.get("failures", {}), 0.02)


@pytest.mark.parametrize(
    ("made", "word", "sentence"),
    [
        (verdict("yes"), "faster", "B is 1.08x faster (tokens/s, 95 % CI 1.050-1.110, n=6, evidence: printed)"),
        (verdict("no", (0.9, 0.8, 0.95)), "slower", "B is slower: 0.900x the rate of A"),
        (verdict("near", (1.0, 0.99, 1.01)), "same", "B is as fast as A, within 2 %"),
        (verdict("undecided", (1.0, 0.9, 1.1)), "undecided", "cannot tell yet: B runs at 1.00x"),
        (verdict("yes", mismatches=["did-not-train"]), "did-not-train", "did not train: b-n1x1: the loss is 3.1"),
        (verdict("yes", mismatches=["clock-differs"]), "not-comparable", "not comparable: clock-differs"),
        (verdict("unmeasured", None, failures={"a-n1x1": "crash: no"}), "failed", "no numbers: a-n1x1: crash: no"),
    ],
)
def test_the_verdict_in_a_line(made, word, sentence):
    assert (made.word, made.sentence[: len(sentence)]) == (word, sentence)
    assert made.word in EXIT_CODES
