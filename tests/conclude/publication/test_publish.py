"""A published campaign verifies by itself, names no host where it must not, and has metadata for archives."""

import errno
import json
import os
import shutil
import socket
from collections import Counter
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import pytest
from command_line import scaleproof
from requests.adapters import HTTPAdapter
from requests_cache import CachedSession
from rocrate_validator.models import Severity, ValidationSettings
from rocrate_validator.services import validate
from urllib3 import HTTPResponse
from verify.test_verify import finished

from scaleproof.conclude.forecast.ledger import Forecasts, read_forecasts, write_forecasts
from scaleproof.conclude.publication import publish as publication
from scaleproof.conclude.publication.publish import Publication, publish
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, write_json
from scaleproof.verify.campaign import verify
from scaleproof.verify.manifest import demands_in, write_manifest

CAMPAIGN = """title: Does it scale?
work: {global_batch: 16, steps: 30, warmup_steps: 5}
vary: {geometry: [1x1, 1x2, 1x4, 1x8]}
"""
PROJECT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results within a project: its workflow and the campaign are published too."""
    project = tmp_path_factory.mktemp("project")
    shutil.copy(PROJECT / "Snakefile", project)
    shutil.copytree(PROJECT / "workflow/rules", project / "workflow/rules")
    shutil.copy(PROJECT / "workflow/Snakefile", project / "workflow")
    (project / "config/campaigns").mkdir(parents=True)
    (project / "config/campaigns/synthetic.yaml").write_text(CAMPAIGN)
    return finished(project / "results/synthetic")


def test_a_publication_verifies_and_can_be_cited(folder, tmp_path):
    out = publish(folder, tmp_path, Publication(("Jane Doe",), notes="loopback"), "0")
    metrics = json.loads((folder / "runs/ddp-n1x1/rep1/training_metrics.json").read_text())
    assert out.name == f"synthetic_cpu-cpu_{metrics['timestamp_utc'][:10]}"
    assert verify(out)[0] == []
    readme = (out / "README.md").read_text()
    assert "| Notes (interconnect, what is special) | loopback |" in readme
    verdict, *_ = json.loads((folder / "claims.json").read_text())["sentences"]
    found = json.loads((folder / "findings.json").read_text())["findings"]
    counts = Counter(finding["severity"] for finding in found)
    assert readme.startswith(f"# Does it scale?\n\n**{verdict['text']}.** Checks found: ")
    assert (f"{counts['suspect']} suspect finding" in readme) == (counts["suspect"] > 0)
    assert (" nothing." in readme) == (not found)
    assert 'name: "Jane Doe"' in (out / "CITATION.cff").read_text()
    assert json.loads((out / "environment.json").read_text())["env.torch_version"] == "1"
    assert not list(out.rglob("*.png"))
    assert (out / "workflow/Snakefile").is_file(), "Snakefile includes it"
    assert "node" in (out / "runs/ddp-n1x1/rep1/training_metrics.json").read_text()
    with pytest.raises(UserError, match="exists"):
        publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    with pytest.raises(UserError, match="is published already: cite it as it is"):
        publish(out, tmp_path, Publication(("Jane Doe",)), "0")


def test_two_calls_at_once_pack_folders_of_their_own(folder, tmp_path, monkeypatch):
    """The second call packs while the first does: each its own copy, and the one that is ready first stays."""

    def check_copy(part):
        out.mkdir()  # as of the other call
        assert os.listdir(tmp_path).count(part.name) == 1

    out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    shutil.rmtree(out)
    (tmp_path / f".{out.name}.1.part").mkdir()  # of the other call
    monkeypatch.setattr(publication, "_check_copy", check_copy)
    with pytest.raises(UserError, match="exists; for another of one day"):
        publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    assert sorted(os.listdir(tmp_path)) == [f".{out.name}.1.part", out.name]


@pytest.mark.parametrize("name", ["README.md", "report.html"])
def test_what_was_edited_after_publishing_is_answered_with_commands(folder, tmp_path, name):
    out = publish(folder, tmp_path / "published", Publication(("Jane Doe",)), "0")
    assert "git checkout" not in scaleproof("verify", out, cwd=tmp_path).stdout
    own = shutil.copytree(folder, tmp_path / "results" / folder.name)
    for results, is_published in ((out, True), (own, False)):
        if (file := results / name).exists():
            file.write_text(file.read_text() + " ")
            last = scaleproof("verify", results, cwd=tmp_path).stdout.splitlines()[-1]
            advice = ". A publication is not edited: put the files back as they were published, or publish"
            assert (advice in last) == is_published, last


@pytest.mark.parametrize(("pattern", "is_derived"), [("cells.csv", True), ("**/*.csv", False)])
def test_other_ends_of_lines_are_one_difference_and_runs_of_them_are_not_derived_again(
    folder, tmp_path, pattern, is_derived
):
    """Derived again, the findings would leave out these runs, and `analyse` would refuse them."""
    own = shutil.copytree(folder, tmp_path / "results" / folder.name)
    for path in own.glob(pattern):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    difference, verdict, *cures = scaleproof("verify", own, cwd=tmp_path).stdout.splitlines()
    assert verdict.startswith("FAIL  1 difference; ")
    assert [cure.partition(":")[0] for cure in cures] == ["What is derived is made again by"] * is_derived
    cure = "set core.autocrlf to false and clone again, or convert these files with dos2unix"
    assert difference.endswith(cure) != is_derived


def test_a_manifest_is_made_again_by_the_workflow_for_own_results_alone(folder, tmp_path):
    out = publish(folder, tmp_path / "published", Publication(("Jane Doe",)), "0")
    own = shutil.copytree(folder, tmp_path / "results" / folder.name)
    for results, more in ((out, ""), (own, f"; the report writes it: snakemake --cores 2 {own}/manifest.json")):
        (results / "manifest.json").unlink()
        assert f"manifest.json: is missing{more}" in map(str, verify(results)[0])


def test_what_a_killed_call_has_left_is_removed(folder, tmp_path):
    """Of a call that still runs, or of another machine, nothing is."""
    out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    shutil.rmtree(out)
    names = [f".{out.name}.{socket.gethostname()}-{process}.part" for process in (2**22 + 1, os.getppid())]
    for name in (*names, other := f".{out.name}.elsewhere-{2**22 + 1}.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.html").write_text("")
    publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    assert sorted(os.listdir(tmp_path)) == sorted([names[1], other, out.name])


def test_results_are_not_packed_into_themselves(folder):
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match="is in the results that are packed; give a folder outside"):
        publish(folder, folder / "packed", Publication(("Jane Doe",)), "0")
    assert sorted(folder.rglob("*")) == before


def test_an_anonymous_publication_names_no_host_and_still_verifies(folder, tmp_path):
    out = publish(folder, tmp_path, Publication(("Jane Doe",), anonymous=True), "0")
    assert verify(out)[0] == []
    for path in out.rglob("training_metrics.json"):
        assert json.loads(path.read_text())["host"]["hostname"] == "host1"
    assert "<td>host1</td>" in (out / "report.html").read_text()


def test_the_crate_has_an_action_for_every_run_and_every_file(folder, tmp_path):
    out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    graph = {e["@id"]: e for e in json.loads((out / "ro-crate-metadata.json").read_text())["@graph"]}
    actions = [e for e in graph.values() if e["@type"] == "CreateAction"]
    whole = graph["#campaign"]
    actions.remove(whole)
    assert len(actions) == 9, "the failed run made nothing"
    assert (whole["instrument"]["@id"], [file["@id"] for file in whole["object"]]) == ("Snakefile", ["campaign.yaml"])
    assert whole["startTime"] == min(action["startTime"] for action in actions)
    for action in actions:
        assert graph[action["instrument"]["@id"]]["@type"] == "SoftwareApplication"
        assert action["endTime"] > action["startTime"]
        assert {e["@id"].split("/")[-1] for e in action["result"]} == {"training_metrics.json", "steps.csv"}
    files = {i for i, e in graph.items() if "File" in e["@type"]}
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} - files == {"ro-crate-metadata.json"}


class Offline(HTTPAdapter):
    """The JSON-LD context 1.1 that a crate names: that of the package rocrate, with the addresses of then."""

    def send(self, request, **options):
        later = (files("rocrate") / "data/ro-crate.jsonld").read_text()
        text = later.replace("bioschemas.org/terms/", "bioschemas.org/").encode()
        headers = {"Content-Type": "application/ld+json"}
        return self.build_response(request, HTTPResponse(BytesIO(text), headers, 200, preload_content=False))


@pytest.fixture
def web_cache(tmp_path):
    """A cache of web pages for the validator, which would ask the network for this one."""
    path = tmp_path / "cache"
    with CachedSession(str(path), backend="sqlite") as session:
        session.mount("https://", Offline())
        session.get("https://w3id.org/ro/crate/1.1/context")
    return path


def test_the_crate_is_a_workflow_run_crate(folder, tmp_path, web_cache):
    """By the validator of the profile's authors, which must find what is taken away."""
    out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    crate = out / "ro-crate-metadata.json"

    def issues() -> list[str]:
        settings = ValidationSettings(
            rocrate_uri=str(out),
            profile_identifier="workflow-run-crate",
            requirement_severity=Severity.REQUIRED,
            offline=True,
            cache_path=web_cache,
        )
        return [issue.message for issue in validate(settings).get_issues()]

    assert issues() == []
    crate.write_text(crate.read_text().replace('"mainEntity"', '"about"'))
    assert any("mainEntity" in message for message in issues())


def test_forecasts_are_published_and_stay_sealed(tmp_path):
    results = finished(tmp_path / "synthetic")
    metrics = results / "runs/ddp-n1x1/rep1/training_metrics.json"
    made = Forecasts(
        campaign="synthetic",
        made_utc="2026-01-01T00:00:00Z",
        machine="cpu",
        calibrated_on={"ddp-n1x1/rep1": sha256_of(metrics)},
        entries=[],
    )
    path = write_forecasts(results / "forecasts", made)
    counts = {"n": 0, "inside": 0, "low": 0, "high": 1, "nominal": None}
    report = {"campaign": "synthetic", "machine": made.digest(), "coverage": counts | {"here": counts}}
    report |= {key: [] for key in ("forecasts", "what_if", "sweeps", "checks", "findings")}
    write_json(results / "forecast.json", report)
    write_manifest(results, "0", demands_in(results))
    out = publish(results, tmp_path / "published", Publication(("Jane Doe",), anonymous=True), "0")
    assert "workflow" not in (out / "ro-crate-metadata.json").read_text(), "these results are of no project"
    (copy,) = read_forecasts(out / "forecasts")
    assert copy.calibrated_on == {"ddp-n1x1/rep1": sha256_of(out / "runs/ddp-n1x1/rep1/training_metrics.json")}
    assert copy.sha256 == copy.digest() != made.digest()
    assert copy.sha256 in (out / "forecast.json").read_text()
    assert verify(out)[0] == []
    path.write_text(path.read_text().replace('"cpu"', '"gpu"'))
    assert any("forecasts/" in str(d) and "its content gives" in str(d) for d in verify(results, False)[0])


def test_what_does_not_verify_is_not_published(folder, tmp_path):
    path = folder / "cells.csv"
    before = path.read_text()
    path.write_text(before.replace("1", "2", 1))
    with pytest.raises(UserError, match="does not verify"):
        publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    path.write_text(before)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("steps: 30", "steps: 50"), "work.steps is 50; ddp-n1x1/rep1 was made with 30"),
        (("warmup_steps: 5", "warmup_steps: 5, seed: 7"), "work.seed is 7; ddp-n1x1/rep1 was made with 1"),
        ((", 1x8", ""), "the campaign has no cell ddp-n1x8, of which there are runs"),
        (("1x8]", "1x8, 1x16]"), "the campaign has the cell ddp-n1x16, of which there is no run"),
        (("vary:", "repeats: 5\nvary:"), "repeats is 5; there are 3 runs of a cell"),
    ],
)
def test_a_campaign_file_that_was_edited_after_its_runs_is_not_packed(folder, tmp_path, edit, said):
    path = folder.parents[1] / "config/campaigns/synthetic.yaml"
    path.write_text(CAMPAIGN.replace(*edit))
    try:
        with pytest.raises(UserError) as refused:
            publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    finally:
        path.write_text(CAMPAIGN)
    assert str(refused.value).startswith(f"{path} is not the campaign of these runs any more: {said}")
    assert list(tmp_path.iterdir()) == []


def test_without_the_campaign_file_a_project_publishes_nothing(folder, tmp_path, monkeypatch):
    path = folder.parents[1] / "config/campaigns/synthetic.yaml"
    path.unlink()
    try:
        missing = f"{path} is missing: it is packed with the results of its campaign. Put it back$"
        monkeypatch.setattr(publication, "verify_and_audit", pytest.fail)  # it takes long, and is not needed
        with pytest.raises(UserError, match=missing):
            publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    finally:
        path.write_text(CAMPAIGN)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_results_under_another_name_is_answered_with_its_campaign(folder, tmp_path):
    """There never was a campaign file of this name that could be put back."""
    copy = shutil.copytree(folder, folder.with_name("copy"))
    try:
        with pytest.raises(UserError) as refused:
            publish(copy, tmp_path, Publication(("Jane Doe",)), "0")
    finally:
        shutil.rmtree(copy)
    cure = f"These are runs of the campaign synthetic: publish {folder}, or rename {copy} to it"
    assert str(refused.value).endswith(f"is missing: it is packed with the results of its campaign. {cure}")


def test_another_title_changes_no_run(folder, tmp_path):
    path = folder.parents[1] / "config/campaigns/synthetic.yaml"
    path.write_text(CAMPAIGN.replace("Does it scale?", "Another title") + "margin: 0.1\n")
    try:
        out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    finally:
        path.write_text(CAMPAIGN)
    assert "Another title" in (out / "campaign.yaml").read_text()


def test_an_archive_with_another_campaign_file_does_not_verify(folder, tmp_path):
    out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    path = out / "campaign.yaml"
    path.write_text(CAMPAIGN.replace("steps: 30", "steps: 50"))
    assert "campaign.yaml: work.steps: is 50; ddp-n1x1/rep1 was made with 30" in map(str, verify(out, False)[0])
    assert {d.file for d in verify(out)[0]} == {"campaign.yaml"}, "the manifest has its hash too"


@pytest.mark.fault("the disk is full while results are packed", "its name; no part is left, no empty folder")
def test_a_full_disk_is_named_by_what_is_written_and_leaves_no_part(folder, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    for is_ours in (True, False):
        done = scaleproof("publish", folder, "--author", "Jane Doe", "--out", tmp_path / "out", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"scaleproof: {tmp_path}/out/")
        assert "the disk is full. Make room" in done.stderr
        assert list(tmp_path.glob("out/.*")) == []
        assert (tmp_path / "out").exists() != is_ours
        (tmp_path / "out").mkdir(exist_ok=True)
