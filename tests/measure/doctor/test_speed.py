"""How fast this machine is: measured once, kept, and usual where it cannot be measured."""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from scaleproof.ground.errors import UserError
from scaleproof.measure.doctor import speed
from scaleproof.measure.doctor.speed import USUAL, Layer, MachineSpeed, this_machine
from scaleproof.measure.launch.device_lock import device_names, hold_devices

TINY = Layer("cpu", "fp32", 64, 32)


def test_a_speed_is_measured_once(tmp_path, monkeypatch, capsys):
    answers = iter([2.5, 1.5])
    monkeypatch.setattr(speed, "_measure_by", lambda line: next(answers))
    path = tmp_path / "cache" / "speed.json"
    assert [MachineSpeed(path).start_s(), MachineSpeed(path).start_s(), MachineSpeed(path).start_s("deepspeed")] == [
        2.5,
        2.5,
        4.0,
    ]
    assert json.loads(path.read_text()) == {"start": 2.5, "engine": 1.5}
    assert capsys.readouterr().err.count("measuring how fast this machine is, once") == 2


def test_long_samples_are_measured_by_shorter_ones(tmp_path, monkeypatch):
    """A step of a million tokens would outlast the probe, at each call."""
    measured: list[Layer] = []
    monkeypatch.setattr(speed, "_measure_by", lambda line: measured.append(Layer(**json.loads(line[-1]))) or 1e9)
    machine = MachineSpeed(tmp_path / "speed.json")
    assert [machine.flops(Layer("cpu", "fp32", 64, seq_len)) for seq_len in (32, 33, 44, 1_000_000, 100_000)] == [
        1e9
    ] * 5
    assert [layer.seq_len for layer in measured] == [32, 1024]


def test_where_nothing_can_be_kept_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(speed, "_measure_by", lambda line: pytest.fail("measured, and again by each command"))
    machine = MachineSpeed(Path("/dev/null/.cache/speed.json"))
    assert (machine.start_s(), machine.measured) == (USUAL["start"], False)


def test_where_nothing_can_be_measured_speeds_are_usual(tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "_measure_by", lambda line: None)
    broken = tmp_path / "speed.json"
    broken.write_text("{")
    for machine in (MachineSpeed(broken), MachineSpeed()):
        assert (machine.start_s(), machine.flops(TINY), machine.measured) == (USUAL["start"], USUAL["train"], False)
    monkeypatch.setenv(speed.VARIABLE, "")
    assert this_machine() == MachineSpeed()


def test_a_variable_that_names_no_folder_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv(speed.VARIABLE, str(folder))
        with pytest.raises(UserError, match=f"SCALEPROOF_CACHE is {folder}, which is no folder"):
            this_machine()
    monkeypatch.setenv(speed.VARIABLE, str(tmp_path / "new" / "folder"))
    assert this_machine().path.parent == tmp_path / "new" / "folder"
    monkeypatch.delenv(speed.VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))  # nobody's choice: usual speeds
    assert not this_machine().measured


def test_many_speeds_are_read_once(tmp_path, monkeypatch):
    (tmp_path / "speed.json").write_text('{"start": 2.5}')
    machine = MachineSpeed(tmp_path / "speed.json")
    reads = []
    monkeypatch.setattr(speed, "read_part", lambda path, kind: reads.append(path) or json.loads(path.read_text()))
    assert [machine.start_s() for _ in range(3)] == [2.5] * 3
    assert len(reads) == 1


def test_what_is_slow_to_measure_is_not_waited_for_again(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(speed, "_measure_by", tried.append)
    path = tmp_path / "speed.json"
    path.write_text('{"engine": 3.0}')
    machine, check = MachineSpeed(path), MachineSpeed(path, probes=False)
    assert (machine.start_s("deepspeed"), machine.flops(TINY), machine.measured) == (10.0, USUAL["train"], False)
    assert len(tried) == 1
    assert (check.start_s("deepspeed"), check.measured, len(tried)) == (10.0, False, 1)


def test_processor_time_is_measured_and_not_the_clock():
    def python(code: str) -> float | None:
        return speed._measure_by([sys.executable, "-S", "-c", code])

    asleep = python("import time; time.sleep(1)")
    assert asleep is not None
    assert asleep < 0.7
    assert (
        speed._measure_by([sys.executable, "-S", "-c", "print('noise'); print('speed 1.5e+10'); print('it.')"])
        == 1.5e10
    )
    assert speed._measure_by([sys.executable, "-S", "-c", "raise SystemExit(1)"]) is None


def test_a_layer_is_trained_at_a_rate_that_a_core_can_have(monkeypatch):
    monkeypatch.setattr(speed, "PROBE_S", 0.05)
    assert 1e8 < speed._measure_flops(TINY) < 1e12


def test_a_gpu_that_a_run_uses_is_left_alone(tmp_path, monkeypatch):
    """A run of another campaign is timed while somebody asks how long theirs would take."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    on_gpu = Layer("cuda", "fp32", 64, 32)
    monkeypatch.setattr(speed, "_measure_flops", lambda layer: 1e12)
    assert speed._measure_flops_undisturbed(on_gpu) == 1e12
    with hold_devices(device_names([]), "another campaign"), pytest.raises(SystemExit, match="a run uses the GPU"):
        speed._measure_flops_undisturbed(on_gpu)


def test_work_is_that_of_the_layer():
    """6 FLOPs for each weight and token are what torch counts of its products, attention apart."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    layer = torch.nn.TransformerEncoderLayer(64, 1, 256, dropout=0.0, batch_first=True)
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(4, 32, 64, requires_grad=True)).sum().backward()
    expected = (6 * 12 * 64**2 + 12 * 64 * 32) * 4 * 32
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.1)
