"""A publication that is signed with a real SSH key; findings that a stage dropped."""

import argparse
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from verify.test_verify import finished

from scaleproof.cli.verify import verify as verify_command
from scaleproof.conclude.publication import gate
from scaleproof.conclude.publication.gate import findings_left_out, verify_and_audit, why_rules_differ
from scaleproof.conclude.publication.made_again import compare_with_rewritten
from scaleproof.conclude.publication.publish import Publication, publish
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Finding
from scaleproof.verify.campaign import verify
from scaleproof.verify.manifest import demands_in, write_manifest
from scaleproof.verify.raw import Difference
from scaleproof.verify.signature import SIGNATURE, signer_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("results") / "synthetic")


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ssh") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def test_a_signed_publication_verifies_and_names_its_key(folder: Path, key: Path, tmp_path: Path) -> None:
    out = publish(folder, tmp_path, Publication(("Jane Doe",), key=key), "0")
    signer, differences = signer_of(out)
    listed = subprocess.run(["ssh-keygen", "-l", "-f", key], capture_output=True, text=True, check=True).stdout
    assert differences == []
    assert signer in listed
    assert f"by the SSH key {signer}" in (out / "report.html").read_text()
    assert verify(out)[0] == []
    manifest = json.loads((out / "manifest.json").read_text())
    write_manifest(out, "forged", demands_in(out))
    assert json.loads((out / "manifest.json").read_text()) != manifest
    assert any(str(d).startswith(f"{SIGNATURE}: is no signature") for d in verify(out)[0])


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "CITATION.cff"])
def test_what_describes_a_publication_is_signed_as_well(folder: Path, tmp_path: Path, name: str) -> None:
    out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    (out / name).write_text((out / name).read_text().replace("Jane Doe", "John Roe") + "\n")
    assert [str(difference).partition(":")[0] for difference in verify(out)[0]] == [name]


def test_the_words_of_a_signed_page_are_those_of_its_signature(folder: Path, key: Path, tmp_path: Path) -> None:
    out = publish(folder, tmp_path, Publication(("Jane Doe",), key=key), "0")
    assert "by the SSH key" not in " ".join(map(str, compare_with_rewritten(out).differences))
    page = out / "report.html"
    page.write_text(page.read_text().replace(signer_of(out)[0], "SHA256:anotherkey"))
    assert "by the SSH key SHA256:anotherkey" in " ".join(map(str, compare_with_rewritten(out).differences))


def test_without_a_key_the_page_says_unsigned(folder: Path, tmp_path: Path) -> None:
    out = publish(folder, tmp_path, Publication(("Jane Doe",)), "0")
    assert '<dd id="signature">unsigned</dd>' in (out / "report.html").read_text()
    assert signer_of(out) == ("", [])


def test_what_is_no_key_signs_nothing(folder: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "key"
    wrong.write_text("no key")
    with pytest.raises(UserError, match=r"is no SSH key: .*[^.]; make one"):
        publish(folder, tmp_path / "out", Publication(("Jane Doe",), key=wrong), "0")
    assert not list((tmp_path / "out").glob("*"))


def test_what_was_edited_on_a_page_is_named_beside_its_hash(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "synthetic"
    shutil.copytree(folder, copy)
    page = copy / "report.html"
    page.write_text(page.read_text().replace("</title>", ", surely</title>", 1))
    of_hash, *of_text = verify_and_audit(copy)[0]
    assert (of_hash.file, of_hash.where) == ("report.html", "sha256")
    assert "surely" in " ".join(map(str, of_text))
    (copy / "cells.csv").write_text("")
    assert not any("surely" in str(difference) for difference in verify_and_audit(copy)[0]), "its files are damaged"


def test_a_finding_that_a_stage_dropped_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checks find something in the runs that findings.json does not have; by other rules it does not count."""
    copy = tmp_path / "synthetic"
    shutil.copytree(folder, copy)
    assert findings_left_out(copy) == []
    stated = gate.read_findings(copy / "findings.json")
    serious = Finding(
        code="clock-differs", severity="invalid", cells=["ddp-n1x2"], runs=["ddp-n1x2/rep1"], evidence="e", advice=""
    )
    more = stated.model_copy(update={"findings": [*stated.findings, serious]})
    monkeypatch.setattr(gate, "campaign_findings", lambda name, runs: more)
    differences, _, _ = verify_and_audit(copy)
    assert [str(d) for d in differences] == ["findings.json: clock-differs: is left out: ddp-n1x2/rep1: e"]
    repeats = Difference("cells.csv", "ddp-n1x2", "findings.json has no clock-differs for it")
    damaged = Difference("runs/ddp-n1x2/rep1/steps.csv", "", "not readable")
    with monkeypatch.context() as patch:  # findings are looked for where a file repeats them, not in damaged runs
        patch.setattr(gate, "verify", lambda path: ([repeats], 1, 1))
        assert verify_and_audit(copy)[0] == [repeats, *differences]
        patch.setattr(gate, "verify", lambda path: ([repeats, damaged], 1, 1))
        assert verify_and_audit(copy)[0] == [repeats, damaged]
    text = (copy / "findings.json").read_text()
    (copy / "findings.json").write_text(f"{text} ")
    of_hash, of_finding = verify_and_audit(copy)[0]
    assert (of_hash.where, of_finding) == ("sha256", *differences)
    monkeypatch.setattr(gate, "campaign_findings", lambda name, runs: stated)
    assert verify_and_audit(copy)[0] == [of_hash], "nothing was taken out"
    monkeypatch.setattr(gate, "campaign_findings", lambda name, runs: more)
    (copy / "findings.json").write_text(text)
    assert why_rules_differ(copy) == ""
    of_other_rules = stated.model_copy(update={"rules_version": "2-00000000"})
    monkeypatch.setattr(gate, "read_findings", lambda path: of_other_rules)
    assert verify_and_audit(copy)[0] == []
    reason = why_rules_differ(copy)
    assert reason.startswith("findings.json is of rules 2-00000000, this version has 2-")
    verify_command(argparse.Namespace(results=copy))
    dropped = "findings.json: clock-differs: is left out: ddp-n1x2/rep1: e"
    assert capsys.readouterr().out.startswith(f"not counted, because {reason}: {dropped}\nPASS")


def test_two_findings_of_one_code_about_the_same_run_are_both_found_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log that loses its loss, the checks on steps and those on logs say `did-not-train`, each in its words."""
    copy = tmp_path / "synthetic"
    shutil.copytree(folder, copy)
    stated = gate.read_findings(copy / "findings.json")
    of_run = {"code": "did-not-train", "severity": "invalid", "cells": ["ddp-n1x2"], "runs": ["ddp-n1x2/rep1"]}
    two = [Finding(**of_run, evidence=words, advice="") for words in ("the last 17 lines", "from step 13, in 17 lines")]
    both = stated.model_copy(update={"findings": [*stated.findings, *two]})
    monkeypatch.setattr(gate, "campaign_findings", lambda name, runs: both)
    for written, problems in ((two, 0), (two[::-1], 0), (two[:1], 1), ([], 2)):
        in_file = stated.model_copy(update={"findings": [*stated.findings, *written]})
        monkeypatch.setattr(gate, "read_findings", lambda path, in_file=in_file: in_file)
        assert len(findings_left_out(copy)) == problems
