"""The first ten minutes on a GPU: its stages, their limits, and the whole of it on a CPU that stands in."""

import json
import re
import subprocess
import sys

import pytest

from scalebench.campaign.cells import expand
from scalebench.campaign.config import Campaign


@pytest.fixture
def on_gpu(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    import on_gpu

    return on_gpu


def test_the_stages_of_a_gpu_settle_what_no_gpu_has_shown(on_gpu, tmp_path):
    cells = expand(Campaign.model_validate(on_gpu.campaign(stand_in=False)))
    assert {c.execution.strategy for c in cells} == {"single", "ddp", "zero1", "fsdp", "zero3", "zero2-offload"}
    assert {c.execution.precision for c in cells} == {"bf16", "fp16"}
    listed = on_gpu.stages(tmp_path, [c.slug for c in cells], stand_in=False)
    names = [stage.name for stage in listed]
    assert names[:2] == ["tokens", "doctor"]
    first_long = next(i for i, name in enumerate(names) if "sl1024" in name)
    assert names.index("trace") < first_long, "what may be wrong comes before what may be slow"
    assert len([n for n in names if n.startswith("run ")]) == len(cells)
    tokens = 20_000_000
    assert all(c.batch.global_ * c.workload.seq_len * (c.work.steps + c.work.warmup_steps) < tokens for c in cells)


def test_a_stage_that_takes_too_long_is_ended_and_keeps_its_log(on_gpu, tmp_path):
    code = "import time; print('begun', flush=True); time.sleep(60)"
    stage = on_gpu.Stage("slow", [sys.executable, "-c", code], 1, "nothing")
    result = on_gpu.run_stage(stage, tmp_path / "log", 1.0, {})
    assert result["status"] == "time limit"
    assert result["seconds"] < 10
    assert result["tail"] == ["begun"]
    failing = on_gpu.Stage("bad", [sys.executable, "-c", "raise SystemExit(3)"], 10, "nothing")
    assert on_gpu.run_stage(failing, tmp_path / "log", 10.0, {})["status"] == "exit code 3"


def test_wheels_go_into_a_folder_of_their_own(on_gpu, tmp_path):
    (tmp_path / "a-1-py3-none-any.whl").touch()
    command = on_gpu.install(tmp_path, tmp_path / "site").command
    assert command[-1] == str(tmp_path / "a-1-py3-none-any.whl")
    assert {"--no-index", "--no-deps", "--target"} <= set(command)


def test_the_documents_name_the_wheels(repository):
    script = (repository / "benchmarks/gpu_wheels").read_text()
    page = (repository / "docs/gpu.md").read_text()
    named = page[page.index("The wheels\n(") :].partition("(")[2].partition(")")[0]
    downloads = [line for line in script.splitlines() if line.lstrip().startswith('"$(pinned')]
    wheels = set(re.findall(r"[a-z][a-z0-9.-]+", " ".join(downloads).replace("pinned", "")))
    assert wheels | {"pydantic-core", "deepspeed"} == set(re.findall(r"[a-z][a-z0-9.-]+", named))


def test_all_of_it_on_a_cpu(repository, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "benchmarks/on_gpu.py", str(out), "--stand-in"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((out / "stages.json").read_text())
    assert [r["name"] for r in results] == [
        "tokens",
        "doctor",
        "run ddp-n1x1",
        "trace",
        "trace summary",
        "audit",
    ]
    assert all((out / r["log"]).exists() for r in results)
    assert json.loads((out / "results/doctor.json").read_text())["checks"]
    run = out / "results/gpu_check/runs/ddp-n1x1/rep1"
    assert json.loads((run / "training_metrics.json").read_text())["status"] == "ok"
    assert (out / "results/gpu_check/traces/ddp-n1x1/profile_summary.json").exists()


def test_nothing_is_begun_without_time(repository, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "benchmarks/on_gpu.py", str(out), "--stand-in", "--budget", "1"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 1
    assert {r["status"] for r in json.loads((out / "stages.json").read_text())} == {"not reached"}
