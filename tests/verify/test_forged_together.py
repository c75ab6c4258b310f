"""A derived file and its hash were edited together: it is named first, and nothing that was held against it is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import scaleproof

from scaleproof.verify.campaign import verify
from scaleproof.verify.manifest import demands_in, write_manifest

PUBLISHED = next((Path(__file__).parents[2] / "results/published").glob("demo_*"))


def a_turned_pair(content: dict[str, Any]) -> None:
    content["comparisons"][0]["estimate"] |= {"ratio": 1.1, "low": 1.02, "high": 1.2, "claim": "faster"}


def half_a_part(content: dict[str, Any]) -> None:
    part = next(part for part in content["cells"][0]["parts"] if part["ms"])
    part["ms"] /= 2


def half_an_exposed_transfer(content: dict[str, Any]) -> None:
    trace = content["traces"][0]
    trace["exposed_ms"] /= 2
    trace["overlapped_ms"] += trace["exposed_ms"]


def another_recommendation(content: dict[str, Any]) -> None:
    content["ranking"][-1]["recommendation"] = "zero1-n1x2"


def a_claimed_rate(content: dict[str, Any]) -> None:
    content["claims"][0]["figure"]["value"] *= 1.1


def no_figure(content: dict[str, Any]) -> None:
    content["claims"][0]["figure"] = 1


def another_severity(content: dict[str, Any]) -> None:
    content["findings"][0]["severity"] = "mild"


def another_version(content: dict[str, Any]) -> None:
    content["schema_version"] += "x"


@pytest.mark.parametrize(
    ("file", "edit", "words"),
    [
        ("comparison.json", a_turned_pair, "claim: is faster, the pairs give"),
        ("waterfall.json", half_a_part, "the raw files give"),
        ("traces.json", half_an_exposed_transfer, "the profile gives"),
        ("scaling_report.json", another_recommendation, "recommendation cannot be 'zero1-n1x2'; allowed: a mapping"),
        ("claims.json", a_claimed_rate, "the raw files give"),
        ("claims.json", no_figure, "not readable: claims.0.figure cannot be 1; allowed: a mapping"),
        ("claims.json", another_version, "not readable: schema_version cannot be '1"),
        ("findings.json", another_severity, "severity cannot be 'mild'; allowed: 'invalid', 'suspect' or 'note'"),
    ],
)
def test_the_edited_file_alone_is_named(
    tmp_path: Path, file: str, edit: Callable[[dict[str, Any]], None], words: str
) -> None:
    folder = shutil.copytree(PUBLISHED, tmp_path / "demo")
    content = json.loads((folder / file).read_text())
    edit(content)
    (folder / file).write_text(json.dumps(content, indent=2) + "\n")
    _expect_it_alone(folder, file, words)


def test_a_column_that_is_no_number_is_named_where_runs_have_none(tmp_path: Path) -> None:
    folder = shutil.copytree(PUBLISHED, tmp_path / "demo")
    table = pd.read_csv(folder / "runs.csv", dtype=str, keep_default_na=False)
    table.loc[3, "mfu"] = "x"
    table.to_csv(folder / "runs.csv", index=False)
    _expect_it_alone(folder, "runs.csv", "mfu: mfu is 'x', no number")


LAUNCHER = "runs/ddp-n1x2/rep1/launcher_metadata.json"


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("world_size", "world_size: is 8, training_metrics.json has 2"),
        ("rank0_host", "rank0_host: is 8, training_metrics.json has vm"),
        ("git_commit", "git_commit: is 8, training_metrics.json has 6cfebe66"),
        ("env", "OMP_NUM_THREADS: is 8, training_metrics.json has 2"),
    ],
)
def test_a_field_of_the_launcher_that_the_metrics_contradict_is_named(tmp_path: Path, field: str, words: str) -> None:
    folder = _with_field_of_launcher(tmp_path, field, {"OMP_NUM_THREADS": "8"} if field == "env" else 8)
    _expect_it_alone(folder, LAUNCHER, words)


@pytest.mark.parametrize(("field", "value"), [("checkpoint_path", "elsewhere"), ("nccl_env", {"NCCL_DEBUG": "INFO"})])
def test_a_field_of_the_launcher_that_stands_nowhere_else_is_left(tmp_path: Path, field: str, value: object) -> None:
    assert verify(_with_field_of_launcher(tmp_path, field, value), with_manifest=False)[0] == []


def _with_field_of_launcher(tmp_path: Path, field: str, value: object) -> Path:
    """Return a copy of the demo in which a run's launcher_metadata.json has another value of `field`."""
    folder = shutil.copytree(PUBLISHED, tmp_path / "demo")
    launcher = json.loads((folder / LAUNCHER).read_text())
    (folder / LAUNCHER).write_text(json.dumps(launcher | {field: value}))
    return folder


def _expect_it_alone(folder: Path, file: str, words: str) -> None:
    """Write the manifest anew, and expect that `verify` names `file` alone, with these words."""
    version = json.loads((folder / "manifest.json").read_text())["scaleproof"]
    write_manifest(folder, version, demands_in(folder))
    done = scaleproof("verify", folder.name, cwd=folder.parent)
    *lines, last = done.stdout.splitlines()
    named = [line for line in lines if not line.startswith("other code wrote the page")]
    assert done.returncode == 1
    assert last.startswith("FAIL")
    assert named
    assert all(line.startswith(f"{file}: ") for line in named)
    assert any(words in line for line in named)
