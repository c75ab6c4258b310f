"""First contact with a GPU: its stages, how it tells what worked, and all of it on a CPU that stands in."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.launch.device_lock import devices_of, hold_devices


def statuses(out, stage):
    steps = json.loads((out / "summary.json").read_text())[stage]["steps"]
    return {step["name"]: step["status"] for step in steps}


def content(out, stage, name):
    with tarfile.open(out / f"{stage}.tgz") as archive:
        return archive.extractfile(name).read().decode()


def names_in(out, stage):
    with tarfile.open(out / f"{stage}.tgz") as archive:
        return archive.getnames()


def cells(gpu_cells, name, devices=1, low="bf16", deepspeed=True):
    return expand_cells(Campaign.model_validate(gpu_cells.campaign(name, devices, low, deepspeed)))


def test_runs_are_one_of_each_kind(gpu_cells):
    made = cells(gpu_cells, gpu_cells.RUNS)
    assert {c.execution.strategy for c in made} == {"single", "ddp", "zero1", "fsdp", "zero2", "zero3", "zero2-offload"}
    assert {c.execution.precision for c in made} == {"fp32", "bf16", "fp16"}
    assert {c.execution.compile for c in made} == {True, False}
    assert not [c for c in cells(gpu_cells, gpu_cells.RUNS, deepspeed=False) if c.execution.strategy.startswith("zero")]
    assert not [c for c in cells(gpu_cells, gpu_cells.RUNS, low="fp16") if c.execution.precision == "bf16"]


def test_all_devices_are_used_where_there_are_several(on_gpu, gpu_cells, tmp_path):
    made = cells(gpu_cells, gpu_cells.DEVICES, devices=8)
    assert [c.execution.strategy for c in made] == ["ddp", "fsdp", "zero2", "zero3", "dp"]
    assert {str(c.execution.geometry) for c in made} == {"1x8"}
    here = on_gpu.Machine(8, "bf16", True, False)
    reduce = on_gpu.steps_of("devices", here, tmp_path)[1]
    assert (reduce.name, reduce.command[-3:]) == ("all-reduce", ["8", "cuda", str(256 * 2**20)])
    here = on_gpu.Machine(1, "bf16", True, False)
    (only,) = on_gpu.run_stage("devices", here, tmp_path, 100, {})
    assert (only["status"], only["reason"]) == ("not here", "one device is visible")


def test_speed_begins_with_what_is_asked_for_most(gpu_cells):
    made = cells(gpu_cells, gpu_cells.SPEED)
    first = made[0]
    assert (first.batch.micro, first.workload.seq_len, first.execution.compile) == (32, 1024, True)
    long = [c.execution.compile for c in made if c.workload.seq_len == 1024]
    assert long == sorted(long, reverse=True), "compiled before eager"
    assert [c.workload.seq_len for c in made] == [1024] * len(long) + [128] * (len(made) - len(long))


def test_the_tokens_suffice_and_are_those_of_the_campaign(gpu_cells):
    for name in (gpu_cells.RUNS, gpu_cells.DEVICES, gpu_cells.SPEED):
        for cell in cells(gpu_cells, name, devices=8):
            steps = cell.work.steps + cell.work.warmup_steps
            assert cell.batch.global_ * cell.workload.seq_len * steps < gpu_cells.TOKENS[cell.workload.tokenizer]


def test_each_stage_ends_within_ten_minutes(on_gpu):
    assert max(on_gpu.STAGES.values()) + on_gpu.GRACE_S < 570


def run(on_gpu, tmp_path, code, limit=20.0, **fields):
    step = on_gpu.Step("step", [sys.executable, "-c", code], limit, **fields)
    return on_gpu.run_step(step, tmp_path / "log", limit, dict(os.environ))


def test_a_step_that_takes_too_long_is_ended_and_keeps_its_log(on_gpu, tmp_path):
    result = run(on_gpu, tmp_path, "import time; print('begun', flush=True); time.sleep(60)", 1.0)
    assert (result["status"], result["reason"], result["tail"]) == ("time limit", "begun", ["begun"])
    assert result["seconds"] < 10


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ('{"status": "ok"}', "done", "1,234 tokens/s"),
        (
            '{"status": "failed", "failure": {"class": "oom", "reason": "out of memory"}}',
            "failed",
            "oom: out of memory",
        ),
        ('{"status": "failed", "reason": "no trace"}', "failed", "no trace"),
        (
            '{"status": "not_applicable", "failure": {"class": "x", "reason": "no bf16"}}',
            "failed",
            "not_applicable: x: no bf16",
        ),
        ('{"status": ', "failed", "no result was published (JSONDecodeError)"),
        (None, "failed", "no result was published (FileNotFoundError)"),
    ],
)
def test_what_a_run_has_published_is_how_it_went(on_gpu, tmp_path, text, status, reason):
    """Its exit code is 0 in all these cases."""
    record = tmp_path / "training_metrics.json"
    if text is not None:
        record.write_text(text)
    result = run(on_gpu, tmp_path, "print('1,234 tokens/s')", record=record)
    assert result["status"] == status
    assert reason in result["reason"]


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("print('2 of 9 checks failed'); raise SystemExit(1)", "findings", "2 of 9 checks failed"),
        ("print('0 of 9 checks failed')", "done", "0 of 9 checks failed"),
        ("raise KeyError('pynvml')", "failed", "exit code 1: KeyError: 'pynvml'"),
        ("raise SystemExit(3)", "failed", "exit code 3: it said nothing"),
        ("import os; print('ok', flush=True); os.kill(os.getpid(), 9)", "failed", "exit code -9: ok"),
    ],
)
def test_findings_are_no_crash_and_a_crash_is_no_finding(on_gpu, tmp_path, code, status, reason):
    result = run(on_gpu, tmp_path, code, finds="checks failed")
    assert (result["status"], result["reason"]) == (status, reason)


def test_a_wait_for_another_run_is_called_so(on_gpu, gpu_cells, tmp_path, monkeypatch):
    """A run of another program holds the devices: no time limit was too short."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    here = on_gpu.Machine(2, "bf16", True, True)
    folder = tmp_path / "runs"
    folder.mkdir()
    tokens, train, *_ = on_gpu.steps_of("runs", here, folder)
    environment = os.environ | {"PYTHONPATH": str(on_gpu.ROOT / "src")}
    assert on_gpu.run_step(tokens, tmp_path / "log", 60, environment)["status"] == "done"
    cell = expand_cells(Campaign.model_validate(gpu_cells.stand_in(gpu_cells.RUNS)))[0]
    with hold_devices(devices_of(cell, []), "another campaign", tmp_path / "scaleproof-locks"):
        result = on_gpu.run_step(train, tmp_path / "log", 6.0, environment)
    assert result["status"] == "waiting"
    assert re.match(r"waiting for another campaign \(process \d+, in [^)]+\), which uses core-\d+", result["reason"])


@pytest.fixture(scope="module")
def stand_in(call, tmp_path_factory):
    """All stages in one call."""
    out = tmp_path_factory.mktemp("gpu-check") / "out"
    done = call(out)
    return out, done


def test_all_of_it_on_a_cpu(stand_in, on_gpu):
    out, done = stand_in
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary) == list(on_gpu.STAGES), done.stderr
    steps = [(stage, step["name"], step["status"]) for stage in summary for step in summary[stage]["steps"]]
    assert {status for _, _, status in steps} <= {"done", "findings"}, done.stdout
    findings = {name for _, name, status in steps if status == "findings"}
    assert findings <= {"doctor", "audit", "trainers"}
    assert done.returncode == (1 if findings else 0)
    assert f"{len(steps)} of {len(steps)} steps worked" in done.stdout
    assert sorted(path.name for path in out.iterdir()) == sorted(["summary.json", *(f"{s}.tgz" for s in on_gpu.STAGES)])


def test_what_a_stage_leaves(stand_in):
    out, _ = stand_in
    metrics = "results/gpu_check_runs/runs/ddp-n1x1-lossfused/rep1/training_metrics.json"
    assert json.loads(content(out, "runs", metrics))["status"] == "ok"
    assert "results/gpu_check_runs/traces/ddp-n1x1-lossfused/profile_summary.json" in names_in(out, "runs")
    assert not [name for name in names_in(out, "runs") if name.endswith(".bin")], "no random tokens"
    assert json.loads(content(out, "doctor", "results/doctor.json"))["checks"]
    assert "bus bandwidth" in content(out, "devices", "devices-01-all-reduce.log")
    assert "torch: " in content(out, "doctor", "doctor-00-facts.log")
    assert "attention as torch chooses: " in content(out, "kernels", "kernels-00-kernels.log")


def test_sound_runs_are_valid(stand_in):
    """Random tokens stand for the tokenizer of the campaign."""
    out, _ = stand_in
    for stage, log in (("runs", "runs-04-audit.log"), ("devices", "devices-03-audit.log")):
        text = content(out, stage, log)
        assert "found: " in text
        assert "invalid" not in text
        assert "figure-not-reproduced" not in text


def test_a_later_call_adds_to_the_summary(stand_in, call, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(stand_in[0], out)
    before = json.loads((out / "summary.json").read_text())
    assert call(out, "--stages", "kernels", "--budget", "1").returncode == 1
    assert statuses(out, "kernels") == {"kernels": "not reached"}
    goes_on = call(out)
    assert re.findall(r"^-- (\w+)", goes_on.stdout, re.MULTILINE) == ["kernels"], "what was not finished"
    assert goes_on.returncode == 0, goes_on.stdout
    after = json.loads((out / "summary.json").read_text())
    assert statuses(out, "kernels") == {"kernels": "done"}
    assert {k: v for k, v in after.items() if k != "kernels"} == {k: v for k, v in before.items() if k != "kernels"}
    nothing_left = call(out)
    assert "-- " not in nothing_left.stdout
    assert nothing_left.returncode == stand_in[1].returncode, "what the summary says"


@pytest.mark.parametrize("text", ["[", "[]", '{"runs": {}}', '{"runs": 1}'])
def test_a_damaged_summary_is_said_to_be(call, tmp_path, text):
    (tmp_path / "summary.json").write_text(text)
    done = call(tmp_path)
    assert (done.returncode, "summary.json is damaged" in done.stderr) == (2, True)


def test_runs_that_crashed_are_not_done(call, tmp_path):
    out = tmp_path / "out"
    done = call(out, "--stages", "runs", hidden=["scaleproof.measure.trainer.timed_loop"])
    assert done.returncode == 1
    assert statuses(out, "runs") == {
        "tokens": "done",
        "run ddp-n1x1-lossfused": "failed",
        "trace": "failed",
        "trace summary": "failed",
        "audit": statuses(out, "runs")["audit"],
    }
    assert re.search(r"failed +[0-9.]+ s  run ddp-n1x1-lossfused: crash: ModuleNotFoundError", done.stdout)
    assert "did not work: run ddp-n1x1-lossfused, trace, trace summary" in done.stdout


def test_a_trace_that_failed_is_not_done(call, tmp_path):
    out = tmp_path / "out"
    done = call(out, "--stages", "runs", hidden=["scaleproof.measure.trace.capture.annotate"])
    assert done.returncode == 1
    found = statuses(out, "runs")
    assert (found["run ddp-n1x1-lossfused"], found["trace"]) == ("done", "failed")


def test_a_package_that_is_missing_is_named_before_anything_begins(call, tmp_path):
    done = call(tmp_path / "out", hidden=["pydantic", "pynvml"])
    assert done.returncode == 2
    assert "has no pydantic, pynvml: carry wheels (benchmarks/gpu_wheels" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_deepspeed_its_strategies_are_not_here(on_gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(on_gpu, "steps_of", lambda *arguments: [])
    (only,) = on_gpu.run_stage("runs", on_gpu.Machine(1, "bf16", False, False), tmp_path, 100, {})
    assert (only["status"], only["reason"]) == ("not here", "deepspeed is not installed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stages", "runs,nonesuch"], 'there is no stage "nonesuch"; stages: doctor, runs'),
        (["--wheels", "nowhere"], "nowhere has no wheels; benchmarks/gpu_wheels nowhere makes them"),
    ],
)
def test_what_cannot_begin_is_said_in_one_message(call, tmp_path, words, message):
    done = call(tmp_path / "out", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_wheels_that_do_not_fit_are_said_to(call, tmp_path):
    (tmp_path / "pydantic-1-py2-none-any.whl").touch()
    done = call(tmp_path / "out", "--wheels", str(tmp_path))
    assert done.returncode == 2
    assert "do not fit" in done.stderr
    assert "pydantic-1-py2-none-any.whl" in done.stderr


def test_without_a_gpu_nothing_begins(repository, tmp_path):
    command = [sys.executable, "benchmarks/on_gpu.py", str(tmp_path / "out")]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no CUDA device is visible" in done.stderr


def test_nothing_is_begun_without_time(call, tmp_path):
    out = tmp_path / "out"
    done = call(out, "--stages", "kernels,runs", "--budget", "1")
    assert done.returncode == 1
    assert set(statuses(out, "kernels").values()) | set(statuses(out, "runs").values()) == {"not reached"}
    assert "0 of 6 steps worked" in done.stdout


def test_make_passes_stages_and_wheels_on(repository):
    # Not what a make around the tests says: it would enter and leave directories aloud.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    words = ["make", "-n", "gpu-check", "STAGES=runs,speed", "OUT=there", "WHEELS=w", "PYTHON=python3.12"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, env=environment)
    assert done.stdout.startswith("python3.12 benchmarks/on_gpu.py there --stages runs,speed --wheels w")
    done = subprocess.run(["make", "-n", "gpu-check"], cwd=repository, capture_output=True, text=True, env=environment)
    assert done.stdout.replace("\\", "").split()[1:] == ["benchmarks/on_gpu.py", "gpu-check"]


def test_the_documents_name_the_wheels(repository):
    script = (repository / "benchmarks/gpu_wheels").read_text()
    page = (repository / "docs/gpu.md").read_text()
    named = page[page.index("The wheels\n(") :].partition("(")[2].partition(")")[0]
    downloads = [line for line in script.splitlines() if line.lstrip().startswith('"$(pinned')]
    wheels = set(re.findall(r"[a-z][a-z0-9.-]+", " ".join(downloads).replace("pinned", "")))
    assert wheels | {"pydantic-core", "deepspeed"} == set(re.findall(r"[a-z][a-z0-9.-]+", named))


def test_the_documents_name_the_stages(repository, on_gpu):
    page = (repository / "docs/gpu.md").read_text()
    rows = re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)
    assert rows == list(on_gpu.STAGES)


def test_carried_wheels_come_before_what_the_machine_has(on_gpu, tmp_path):
    about = "carried-1.dist-info"
    with zipfile.ZipFile(tmp_path / "carried-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("carried.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: carried\nVersion: 1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", f"carried.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    (tmp_path / "site").mkdir()
    on_gpu.install(tmp_path, tmp_path / "site")
    assert (tmp_path / "site/carried.py").exists()
