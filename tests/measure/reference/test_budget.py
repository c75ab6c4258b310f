"""A replay that lacks time, memory or a device ends with the losses that it has, and says why there are no more."""

import math
import time
from types import SimpleNamespace

import pytest
import torch
from measure.reference.test_replay import cell

from scaleproof.measure.reference import network, training
from scaleproof.measure.reference.planned import PlannedSteps, expected_s
from scaleproof.measure.reference.replay import ReplayPace, replay, replay_fields
from scaleproof.measure.reference.schema import Reference
from scaleproof.measure.reference.training import bytes_of_row, free_bytes, is_out_of_memory, rows_that_fit

ALL = 7  # steps of the cell: the warm-up and the window


class Forward:
    """The forward pass of the replay's GPT-2, with something done before it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before) -> None:
        self.rows: list[int] = []
        original = network.Decoder.forward

        def forward(model, rows):
            if torch.is_grad_enabled():
                self.rows.append(len(rows))
                before(self)
            return original(model, rows)

        monkeypatch.setattr(network.Decoder, "forward", forward)


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")],
)
def test_fewer_rows_go_at_once_where_memory_runs_out(tokens, monkeypatch, error):
    def before(forward):
        if forward.rows[-1] > 2:
            raise error

    whole = replay(cell().config, tokens)
    forward = Forward(monkeypatch, before)
    reference = replay(cell().config, tokens)
    assert forward.rows[:6] == [8, 4, 2, 2, 2, 2]
    assert max(forward.rows[2:]) == 2, "what fits is found once"
    assert reference.losses == pytest.approx(whole.losses, rel=1e-6)
    assert reference.shortened is None


def test_memory_that_does_not_suffice_for_a_row_is_a_reason(tokens, monkeypatch):
    def before(forward):
        raise torch.OutOfMemoryError("CUDA out of memory")

    forward = Forward(monkeypatch, before)
    reference = replay(cell().config, tokens)
    assert forward.rows == [8, 4, 2, 1]
    assert (reference.losses, reference.repetitions, reference.validation_loss) == ([], [], None)
    assert reference.shortened == "memory does not suffice for one row"
    assert len(reference.first_losses) == 4, "what was known before stays"
    assert set(reference.step_checksums) == {*range(8)}


def test_a_row_that_cannot_fit_is_not_tried(tokens, monkeypatch):
    """A CPU's system would end the process instead of raising an error."""
    monkeypatch.setattr(training, "free_bytes", lambda device: 100_000)
    forward = Forward(monkeypatch, lambda forward: None)
    reference = replay(cell().config, tokens)
    assert forward.rows == []
    assert "GB are free" in reference.shortened
    assert reference.parameters


def test_what_a_row_takes_is_estimated_from_above():
    """Seen are 189 MB a row of a width of 256 and 50,257 entries, 123 and 204 MB with 4 and 16 heads."""
    shapes = {189e6: (2, 4, 256, 50257), 123e6: (4, 4, 512, 2048), 204e6: (4, 16, 512, 2048)}
    for seen, (layers, heads, seq_len, entries) in shapes.items():
        shape = {"layers": layers, "width": 256, "heads": heads, "context": 1024}
        estimate = bytes_of_row({"model_shape": shape, "seq_len": seq_len, "vocab_size": entries})
        assert seen < estimate < 2.2 * seen


def test_free_memory_is_that_of_the_control_group(tmp_path, monkeypatch):
    device = torch.device("cpu")
    machine = free_bytes(device)
    monkeypatch.setattr(training, "CGROUPS", tmp_path)
    monkeypatch.setattr(training, "CGROUP", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text("0::/job/step\n")
    (tmp_path / "job/step").mkdir(parents=True)
    for name, text in {"max": "max", "current": "5"}.items():
        (tmp_path / f"job/step/memory.{name}").write_text(f"{text}\n")
    texts = {"max": "3000000", "current": "2000000", "stat": "anon 1\nactive_file 1000\ninactive_file 500"}
    for name, text in texts.items():
        (tmp_path / f"job/memory.{name}").write_text(f"{text}\n")
    assert free_bytes(device) == 1_001_500 < machine
    workload = cell().config["workload"]
    assert rows_that_fit(workload, 10_000, device) == (1_001_500 - 240_000) // bytes_of_row(workload)
    assert rows_that_fit(workload, 10**9, device) == 0
    (tmp_path / "cgroup").write_text("1:name=systemd:/\n")
    assert free_bytes(device) > 1_001_500


def test_only_a_lack_of_memory_is_one():
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("CUDA error: no kernel image is available for execution on the device"))


@pytest.mark.parametrize(
    ("step_s", "made", "reason"),
    [
        (0.1, 30, None),
        (1.0, 10, None),  # as many as time allows beyond those that are always made
        (30.0, 3, None),  # those are made in any case ...
        (50.0, 2, "a step takes about 50 s"),  # ... within the limit
        (1500.0, 0, "a step takes about 1,500 s"),
    ],
)
def test_steps_are_made_as_time_allows(monkeypatch, step_s, made, reason):
    now = 0.0
    monkeypatch.setattr("scaleproof.measure.reference.replay.time", SimpleNamespace(monotonic=lambda: now))
    pace, steps = ReplayPace(3, 30, step_s, limit_s=120.0, began=0.0), 0
    while pace.goes_on(steps):
        now, steps = now + step_s, steps + 1
    assert steps == made
    assert (pace.shortened or "").startswith(reason or "")
    assert bool(pace.shortened) == bool(reason)


def test_a_replay_takes_no_longer_than_it_may(tokens):
    """No time for a single step: a reference without losses, which says so."""
    fields = replay_fields(PlannedSteps(cell().config, tokens), limit_s=1e-6)
    assert fields["losses"] == []
    assert "a step takes about" in fields["shortened"]


def test_a_step_that_has_no_end_is_left(tokens, monkeypatch):
    now = 0.0

    def before(forward):
        nonlocal now
        now += 1000.0 if len(forward.rows) == 3 else 0.0

    forward = Forward(monkeypatch, before)
    clock = SimpleNamespace(monotonic=lambda: now, perf_counter=time.perf_counter)
    monkeypatch.setattr("scaleproof.measure.reference.training.time", clock)
    monkeypatch.setattr("scaleproof.measure.reference.replay.time", clock)
    reference = replay(cell(work={"global_batch": 32}).config, tokens)
    assert forward.rows == [8, 8, 8], "the fourth part of the step is not begun"
    assert reference.losses == []
    assert reference.shortened == "its time was over within a step"


def test_a_loss_that_is_no_number_ends_the_replay(tokens):
    reference = replay(cell(work={"optimizer": {"learning_rate": 1000, "weight_decay": 1000}}).config, tokens)
    assert 0 < len(reference.losses) < ALL
    assert all(map(math.isfinite, reference.losses + reference.gradient_norms))
    assert reference.shortened.startswith(f"in step {len(reference.losses)} the loss is nan")
    assert Reference.model_validate_json(reference.model_dump_json()) == reference


def test_an_error_of_a_library_is_a_reason(tokens, monkeypatch, capsys):
    def before(forward):
        raise RuntimeError("CUDA error: no kernel image is available\nCompile with ...")

    Forward(monkeypatch, before)
    reference = replay(cell().config, tokens)
    assert reference.losses == []
    assert reference.shortened == "it ended with RuntimeError: CUDA error: no kernel image is available"
    assert "Traceback" in capsys.readouterr().err, "for the log"


def test_a_cell_for_cpus_leaves_the_gpu_alone(tokens, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert replay(cell(execution={"device": "cpu"}).config, tokens).device == "cpu"


def test_repetitions_are_the_same_steps_rounded_otherwise(tokens):
    for global_batch in (1, 8):  # a step of one row has no other order
        reference = replay(cell(work={"global_batch": global_batch}).config, tokens)
        assert len(reference.repetitions) == 2
        for repetition in reference.repetitions:
            assert repetition.losses == pytest.approx(reference.losses, rel=1e-6)
            assert repetition.gradient_norms == pytest.approx(reference.gradient_norms, rel=1e-5)
            assert repetition.gradient_norms != reference.gradient_norms
            assert repetition.validation_loss == pytest.approx(reference.validation_loss, rel=1e-6)


def test_what_is_expected_of_a_replay():
    assert expected_s(790_016, 1024, 29, 0.1) == pytest.approx(3 * 29 * 0.1)
    assert expected_s(124_000_000, 524_288, 120, 20.0) == 3 * 60, "three steps, three times"
    assert expected_s(124_000_000, 524_288, 120, 500.0) == 3 * 120, "no longer than it may"
    assert expected_s(124_000_000, 8192, 120, 0.5) == 3 * 10, "as many steps as time allows"
