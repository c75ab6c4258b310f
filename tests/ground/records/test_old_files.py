"""Result files of earlier versions stay readable: a run as schema 3.1 wrote it, and what 3.0 had of it."""

import json
import shutil
from pathlib import Path

import pytest

from scaleproof.ground.records.metrics import parse_metrics
from scaleproof.ground.records.run import METRICS, MeasuredRun, read_run

STORED = Path(__file__).parent / "schema_3.1/ddp-n1x2"


def test_a_run_of_schema_3_1_is_read():
    run = read_run(STORED)
    assert isinstance(run, MeasuredRun)
    assert run.n_devices == 2
    window = run.metrics.window
    assert window.tokens / window.wall_time_s == pytest.approx(window.tokens_per_s)
    assert len(run.window["step"]) == window.step_time_n
    assert run.metrics.validation is not None


def test_it_is_written_with_the_names_that_it_had():
    stored = json.loads((STORED / METRICS).read_text())
    stored["validation"] |= {"tokens_checksum": None, "rank_losses": None}  # since 3.2
    stored["startup"] |= {"launcher_epoch_s": None, "program_epoch_s": None}
    stored["model"]["inventory"] = None  # since 3.3
    stored["env"]["scaleproof_version"] = stored["env"].pop("scalebench_version")  # the name that it had
    written = json.loads(parse_metrics(json.dumps(stored)).model_dump_json(by_alias=True))
    assert {key: written[key] for key in stored} == stored
    assert written["census"] is None


def test_a_run_of_schema_3_0_has_no_validation(tmp_path):
    folder = shutil.copytree(STORED, tmp_path / "run")
    data = json.loads((folder / METRICS).read_text())
    del data["validation"]
    (folder / METRICS).write_text(json.dumps(data | {"schema_version": "3.0"}))
    run = read_run(folder)
    assert isinstance(run, MeasuredRun)
    assert run.metrics.validation is None
