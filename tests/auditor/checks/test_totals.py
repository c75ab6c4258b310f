"""Totals of published tables and their parts."""

from pathlib import Path

import pytest

from scaleproof.auditor.audit import audit_paths

HEAD = "| GPUs | Steps | Step time (s) | Total time (s) |\n|---|---|---|---|\n"


@pytest.mark.parametrize(("devices", "total", "named"), [(2, 3.401, False), (1, 3.401, True), (2, 2.801, True)])
def test_the_slowest_ranks_steps_add_up_to_more_than_the_window(tmp_path: Path, devices, total, named):
    """12 steps x 0.2921 s = 3.505 s: of two ranks now one and now the other is slowest."""
    (tmp_path / "README.md").write_text(f"{HEAD}| {devices} | 12 | 0.2921 | {total} |\n")
    found = {finding.code for finding in audit_paths([tmp_path]).findings}
    assert ("totals-disagree" in found) == named


@pytest.mark.parametrize(("mean", "accused"), [("200", False), ("250", True)])
def test_a_mean_gives_its_unit_to_repeats_without_one(tmp_path: Path, mean: str, accused: bool) -> None:
    """The first repeat is discarded."""
    lines = ["| a | 310 | 251 | 249 | 250 |", f"| b | 280 | 199 | 201 | {mean} |", "| c | 300 | 220 | 222 | 221 |"]
    head = "| config | run1 | run2 | run3 | avg (ms) |\n|---|---|---|---|---|\n"
    (tmp_path / "README.md").write_text(head + "\n".join(lines) + "\n")
    findings = [finding for finding in audit_paths([tmp_path]).findings if finding.severity != "note"]
    assert len(findings) == accused
