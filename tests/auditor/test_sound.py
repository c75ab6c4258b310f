"""A false accusation is as bad as a miss: sound results of any format give nothing above `note`."""

import random
import re
from pathlib import Path

import pytest
from external_files import WRITERS
from synthetic import cells, write_run

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.metrics import SCHEMA_VERSION


def accusations(*paths: Path) -> list[str]:
    return [f"{f.code} {f.runs}: {f.evidence}" for f in audit_paths(list(paths)).findings if f.severity != "note"]


@pytest.mark.parametrize("writer", WRITERS, ids=lambda w: w.__name__)
def test_sound_results_are_not_accused(tmp_path, writer):
    for seed in range(25):
        writer(tmp_path / str(seed), random.Random(seed))
        assert accusations(tmp_path / str(seed)) == [], f"seed {seed}"


def test_sound_results_of_all_formats_in_one_folder_are_not_accused(tmp_path):
    for seed, writer in enumerate(WRITERS):
        writer(tmp_path / str(seed), random.Random(seed))
    result = audit_paths([tmp_path])
    assert [f for f in result.findings if f.severity != "note"] == []
    assert len(result.formats) == len(WRITERS)


def test_each_format_is_told_by_its_contents(tmp_path):
    """The same files under other names are read the same."""
    plain, renamed = tmp_path / "plain", tmp_path / "renamed"
    for writer in WRITERS:
        writer(plain / re.sub(r"\W", "", writer.__name__), random.Random(1))
    for i, path in enumerate(sorted(p for p in plain.rglob("*") if p.is_file())):
        (renamed / str(i)).mkdir(parents=True)
        (renamed / str(i) / f"x{i}.dat").write_bytes(path.read_bytes())
    assert audit_paths([plain]).formats == audit_paths([renamed]).formats


def test_our_own_campaign_is_audited_by_its_own_checks(tmp_path):
    one, two = cells()
    runs = tmp_path / "results/x/runs"
    for cell, seconds in ((one, 0.1), (two, 0.06)):
        for repeat in (1, 2, 3):
            write_run(runs, cell, repeat, seconds)
    result = audit_paths([tmp_path / "results"])
    assert (result.findings, len(result.runs)) == ([], 6)
    assert "ledger_equals_plan" in result.checks
    with pytest.raises(UserError, match="no benchmark result"):
        audit_paths([runs / two.slug / "rep3/steps.csv"])
    steps = runs / two.slug / "rep3/steps.csv"
    steps.write_text(steps.read_text().replace("window", "warmup", 1))
    (finding,) = audit_paths([tmp_path / "results"]).findings
    assert (finding.code, finding.severity, finding.runs) == ("record-unusable", "invalid", [f"{two.slug}/rep3"])
    assert "sha256" in finding.evidence


@pytest.mark.parametrize(("folder", "path"), [("..", "rep1"), (".", ".")])
def test_a_run_is_audited_from_its_own_folder(tmp_path, monkeypatch, folder, path):
    run = write_run(tmp_path, cells()[0], 1)
    monkeypatch.chdir(run.folder / folder)
    assert audit_paths([Path(path)]).runs == [run.name]


@pytest.mark.parametrize("name", ["training_metrics.json", "steps.csv"])
@pytest.mark.parametrize("content", ["{", None])
def test_a_sealed_run_whose_files_are_damaged_or_gone_is_invalid(tmp_path, name, content):
    """Its launcher has sealed the metrics; of the runs beside it nothing is said."""
    _, damaged = (write_run(tmp_path, cells()[0], k) for k in (1, 2))
    (damaged.folder / "launcher_metadata.json").write_text('{"metrics_sha256": "0"}')
    if content is None:
        (damaged.folder / name).unlink()
    else:
        (damaged.folder / name).write_text(content)
    findings = [f for f in audit_paths([tmp_path]).findings if f.severity == "invalid"]
    assert [(f.code, f.runs) for f in findings] == [("record-unusable", [damaged.name])]
    assert name in findings[0].evidence


def test_metrics_of_ours_without_their_series_are_read_as_anybodys(tmp_path):
    one, two = cells()
    for cell, seconds in ((one, 0.1), (two, 0.06)):
        for repeat in (1, 2):
            run = write_run(tmp_path, cell, repeat, seconds)
            (run.folder / "steps.csv").unlink()
    result = audit_paths([tmp_path])
    assert (result.formats, accusations(tmp_path)) == ({f"metrics JSON {SCHEMA_VERSION}": 4}, [])
    path = run.folder / "training_metrics.json"
    path.write_text(path.read_text().replace('"tokens_per_sec_global": ', '"tokens_per_sec_global": 9'))
    assert [f.code for f in audit_paths([tmp_path]).findings if f.severity != "note" and "time" in f.code] == [
        "rate-times-time"
    ]


def test_a_run_that_was_lost_is_told(tmp_path):
    """Its series is still there, or a file with its name that is none."""
    first, second = (write_run(tmp_path, cells()[0], k) for k in (1, 2))
    (first.folder / "training_metrics.json").unlink()
    (second.folder / "training_metrics.json").write_text("{}")
    codes = [f.code for f in audit_paths([tmp_path]).findings]
    assert codes.count("file-unreadable") == 2


def test_one_damage_of_many_records_is_told_in_one_text(tmp_path):
    runs = [write_run(tmp_path, cells()[0], k) for k in (1, 2, 3)]
    for run in runs[:2]:
        (run.folder / "launcher_metadata.json").write_text('{"metrics_sha256": "0"}')
        (run.folder / "training_metrics.json").write_text("")
    unusable = [finding for finding in audit_paths([tmp_path]).findings if finding.code == "record-unusable"]
    assert [finding.runs for finding in unusable] == [[run.name] for run in runs[:2]]
    assert {finding.evidence for finding in unusable} == {
        "training_metrics.json is not a metrics file of schema 3: it is empty"
    }
    (runs[2].folder / "steps.csv").write_text("phase\n")
    evidence = [finding.evidence for finding in audit_paths([tmp_path]).findings if finding.runs == [runs[2].name]]
    assert evidence[0].startswith("steps.csv is not the file that training_metrics.json beside it describes")
