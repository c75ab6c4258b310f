"""What a campaign asks is kept in the manifest of its results, and their report must answer that."""

import hashlib
import json

import pytest
from verify.test_verify import PUBLISHED, finished

from scaleproof.conclude.publication.made_again import compare_with_rewritten
from scaleproof.ground.records.run import MANIFEST
from scaleproof.verify.campaign import verify
from scaleproof.verify.campaign_file import check_demands
from scaleproof.verify.contents import REPORT
from scaleproof.verify.manifest import SEAL, Demands, check_manifest, demands_in, write_manifest

QUESTION = {"is": "zero2-n1x2", "better_than": "ddp-n1x2", "by": 0.02}
RULE = {"resolve": 0.03, "at_least": 3, "at_most": 12, "minutes": None, "device_hours": None, "chance": 0.05}
DEMANDS = Demands(title="?", target_loss="derive", margin=0.05, question=None, repeats=None, charts=[])


@pytest.mark.parametrize(
    ("answered", "demands", "named"),
    [
        ({}, {}, []),
        ({}, {"margin": 0.1}, ["ranking on 2 devices, margin: is 0.05, the manifest has 0.1"]),
        ({}, {"title": "!"}, ["title: is ?, the manifest has !"]),
        ({"snakemake": None}, {}, ["snakemake: is missing: the options by which the campaign goes on"]),
        ({}, {"question": QUESTION}, ["question: is missing, and was asked"]),
        ({"question": QUESTION | {"status": "yes"}}, {"question": QUESTION}, []),
        (
            {"question": QUESTION | {"by": 0.0}},
            {"question": QUESTION},
            ["question, by: is 0, the manifest has 0.02"],
        ),
        ({"repeats": RULE}, {}, ["repeats: is one that nobody asked"]),
        ({"repeats": RULE | {"at_most": 6}}, {"repeats": RULE}, ["repeats, at_most: is 6, the manifest has 12"]),
    ],
)
def test_a_report_answers_what_was_asked(tmp_path, answered, demands, named):
    report = json.loads((PUBLISHED / REPORT).read_text()) | {"title": "?"} | answered
    assert list(check_demands(tmp_path, report)) == [], "of results without a manifest nobody knows"
    write_manifest(tmp_path, "0", Demands(**dict(DEMANDS) | demands))
    assert [str(difference).removeprefix(f"{REPORT}: ") for difference in check_demands(tmp_path, report)] == named


@pytest.mark.parametrize(
    ("schema", "demands", "accepted"),
    [
        ("5.3", DEMANDS.model_dump(), True),
        ("5.3", None, False),
        ("5.2", None, True),
        ("5.2", DEMANDS.model_dump() | {"margin": "wide"}, False),
    ],
)
def test_demands_cannot_be_taken_out_of_a_manifest(tmp_path, schema, demands, accepted):
    (tmp_path / REPORT).write_text(json.dumps({"schema_version": schema}))
    write_manifest(tmp_path, "0", None)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    del manifest[SEAL]
    manifest |= {"demands": demands} if demands else {}
    seal = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | {SEAL: seal}))
    named = [str(difference) for difference in check_manifest(tmp_path)]
    assert named == [f"{MANIFEST}: demands: do not say what the campaign asks"] * (not accepted)


def test_files_that_are_no_list_of_files_are_named(tmp_path):
    (tmp_path / MANIFEST).write_text(json.dumps({"schema_version": "1.1", "files": "all"}))
    (named,) = map(str, check_manifest(tmp_path))
    assert named == f'{MANIFEST}: files: cannot be "all"; allowed: a mapping of the name of each file to its sha256'


def test_another_title_chart_or_target_loss_is_named(tmp_path):
    folder = finished(tmp_path)
    demands = demands_in(folder)
    assert verify(folder)[0] == compare_with_rewritten(folder).differences == []
    write_manifest(folder, "0", demands.model_copy(update={"charts": demands.charts[1:]}))
    assert compare_with_rewritten(folder).differences, "the page has a chart that nobody has asked for"
    write_manifest(folder, "0", demands.model_copy(update={"title": "Another", "target_loss": 3.5}))
    assert any("target_loss: is" in str(difference) for difference in verify(folder)[0])
    files = {difference.file for difference in compare_with_rewritten(folder).differences}
    assert "report.html" in files
    assert not any(file.startswith("tables/") for file in files), "of the report's title, which is named itself"


def test_an_absolute_path_in_a_manifest_ends(tmp_path):
    """It is the missing file of a renamed folder whose every part is the same."""
    (tmp_path / REPORT).write_text(json.dumps({"schema_version": "5.2"}))
    metrics = tmp_path / "runs/c/rep1/training_metrics.json"
    metrics.parent.mkdir(parents=True)
    metrics.write_text("{}")
    write_manifest(tmp_path, "0", None)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    sha256 = manifest["files"].pop("runs/c/rep1/training_metrics.json")
    del manifest[SEAL]
    manifest["files"]["/runs/c/rep1/training_metrics.json"] = sha256
    seal = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    (tmp_path / MANIFEST).write_text(json.dumps(manifest | {SEAL: seal}))
    assert check_manifest(tmp_path)
