"""How a call of gpu-check ends that is stopped, cannot write or has to wait, and what it leaves on the devices."""

import json
import os
import subprocess
import sys

import psutil
import pytest
from patience import wait_until

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.launch.device_lock import devices_of, hold_devices


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="no folder in which nobody can write")
def test_a_folder_that_cannot_be_written_is_said_to_before_anything_is_measured(call):
    done = call("/sys", "--stages", "kernels", "--budget", "1")
    assert done.returncode == 2, done.stdout
    assert "gpu-check: [Errno" in done.stderr
    assert "Traceback" not in done.stderr
    assert "-- kernels" not in done.stdout


def test_a_call_that_is_terminated_takes_its_step_along(repository, tmp_path):
    """Nobody else would end it: it would keep the devices of those who call again."""
    command = [sys.executable, "benchmarks/on_gpu.py", str(tmp_path / "out"), "--stand-in", "--stages", "runs"]
    call = subprocess.Popen(
        command, cwd=repository, env=os.environ | {"TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: begun_below(call.pid, "train"), call)
        step = begun_below(call.pid, "train")
        call.terminate()
        _, errors = call.communicate(timeout=60)
    finally:
        call.kill()
    assert call.returncode == 143
    assert "another call goes on" in errors
    assert "Traceback" not in errors
    assert gone(step.pid)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("gpu-check")] == []
    steps = json.loads((tmp_path / "out/summary.json").read_text())["runs"]["steps"]
    assert [step["name"] for step in steps] == ["tokens"]


def test_what_a_step_leaves_behind_is_ended(on_gpu, tmp_path):
    """A launcher that was killed, whose ranks keep the device."""
    code = "import subprocess as s, sys; print(s.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    step = on_gpu.Step("step", [sys.executable, "-c", code], 20.0)
    result = on_gpu.run_step(step, tmp_path / "log", 20.0, dict(os.environ))
    assert result["status"] == "done"
    left = int(result["tail"][-1])
    wait_until(lambda: gone(left))


def begun_below(pid, word):
    """The process with `word` among its arguments that this one has started; None where there is none yet."""
    alive = (each for each in psutil.Process(pid).children() if each.status() != psutil.STATUS_ZOMBIE)
    return next((each for each in alive if word in each.cmdline()), None)


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_stages_that_were_cut_off_are_left(on_gpu, capsys, tmp_path):
    finished = {"finished": True, "steps": [{"name": "x", "status": "done"}]}
    on_gpu.conclude({"doctor": finished, "runs": finished | {"finished": False}}, ["doctor"], tmp_path)
    assert "stages that are left: runs, devices" in capsys.readouterr().out


@pytest.mark.parametrize("stage", ["kernels", "others"])
def test_what_is_no_run_waits_for_the_devices_too(on_gpu, gpu_cells, tmp_path, monkeypatch, stage):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    here = on_gpu.Machine(1, "fp32", True, True)
    (step,) = on_gpu.steps_of(stage, here, tmp_path)
    environment = os.environ | {"PYTHONPATH": str(on_gpu.ROOT / "src")}
    cell = expand_cells(Campaign.model_validate(gpu_cells.stand_in(gpu_cells.RUNS)))[0]
    with hold_devices(devices_of(cell, []), "another campaign", tmp_path / "scaleproof-locks"):
        result = on_gpu.run_step(step, tmp_path / "log", 12.0, environment)
    assert (result["status"], result["reason"][:29]) == ("waiting", "waiting for another campaign ")
