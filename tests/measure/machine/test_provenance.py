"""Provenance: enough to repeat a run, and nothing that is nobody's business."""

import json
from pathlib import Path

from scaleproof.measure.machine.provenance import provenance_fields, variables_to_record


def test_provenance_is_complete(repository, monkeypatch):
    monkeypatch.chdir(repository)
    found = provenance_fields(f"scaleproof train {repository}/config/x.yaml")
    assert found["command_line"] == "scaleproof train ./config/x.yaml"
    assert len(found["code_sha256"]) == 64
    assert found["env"]["torch_version"].startswith("2.")
    assert found["hardware"]["cpu_count"] >= found["hardware"]["cpu_allowed"] >= 1
    assert str(Path.home()) not in json.dumps(found)


def test_only_listed_variables_are_repeated(monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("MY_PASSWORD", "secret")
    monkeypatch.setenv("NCCL_TOPO_FILE", f"{Path.home()}/topo.xml")
    found = variables_to_record()
    assert found["NCCL_DEBUG"] == "INFO"
    assert found["OMP_NUM_THREADS"] == "3"
    assert "secret" not in found.values()
    assert found["NCCL_TOPO_FILE"] == "~/topo.xml"


def test_slurm_is_recognised(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert provenance_fields("x")["scheduler"] == {"type": "slurm", "job_id": "42", "nodelist": "n[1-2]"}
