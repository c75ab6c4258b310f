"""A metrics file that is damaged: a row, and a finding with its file; the other runs are tabled and audited."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import yaml
from command_line import scalebench
from synthetic import cells, write_run

from scalebench.campaign.loaded import LoadedCampaign
from scalebench.record.failed_runs import failed_runs_text
from scalebench.record.run import METRICS

DAMAGED = {
    "cut": lambda data: data[: len(data) // 2],
    "a list": lambda data: b"[1, 2]",
    "binary": lambda data: bytes(range(256)),
    "empty": lambda data: b"",
}


@pytest.fixture
def campaign(tmp_path, repository):
    """A campaign of two cells with two runs each, all made."""
    keys = {
        "title": "x",
        "repeats": 2,
        "work": {"global_batch": 16, "steps": 30, "warmup_steps": 5},
        "vary": {"geometry": ["1x1", "1x2"]},
    }
    (tmp_path / "config").mkdir()
    shutil.copy(repository / "config/corpora.yaml", tmp_path / "config")
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(keys))
    for cell, seconds in zip(cells(), (0.1, 0.06), strict=True):
        for repeat in (1, 2):
            write_run(tmp_path / "results/small/runs", cell, repeat, seconds)
    return tmp_path


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_metrics_stop_neither_table_nor_audit(campaign, how):
    path = campaign / "results/small/runs/ddp-n1x2/rep2" / METRICS
    path.write_bytes(DAMAGED[how](path.read_bytes()))
    for stage in ("collect", "findings"):
        done = scalebench("stage", stage, "small.yaml", cwd=campaign)
        assert done.returncode == 0, done.stderr
    with (campaign / "results/small/runs.csv").open() as file:
        rows = {(row["cell"], row["repeat"]): row for row in csv.DictReader(file)}
    assert len(rows) == 4
    damaged = rows["ddp-n1x2", "2"]
    assert (damaged["status"], damaged["failure"]) == ("failed", "unreadable")
    assert damaged["reason"].startswith(f"ddp-n1x2/rep2/{METRICS} is not a metrics file of schema 3")
    found = json.loads((campaign / "results/small/findings.json").read_text())
    assert "ledger_equals_plan" in found["checks"]
    assert [(f["code"], f["severity"], f["runs"]) for f in found["findings"] if f["severity"] != "note"] == [
        ("record-unusable", "invalid", ["ddp-n1x2/rep2"])
    ]


def test_they_are_counted_when_snakemake_ends(campaign, monkeypatch):
    (campaign / "results/small/runs/ddp-n1x2/rep2" / METRICS).write_bytes(b"{")
    monkeypatch.chdir(campaign)
    text = failed_runs_text(LoadedCampaign(Path("small.yaml")), Path("results"))
    assert text.startswith("1 of 4 runs of small failed")
    assert "ddp-n1x2/rep2: unreadable: " in text
