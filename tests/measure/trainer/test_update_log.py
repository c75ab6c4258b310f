"""What the optimizer was called with in the window."""

import torch
from torch import nn
from torch.optim import AdamW

from scaleproof.measure.trainer.updates import UpdateLog


def log_of(rates: list[float], calls_a_step: int = 1, decay_at: int | None = None) -> UpdateLog:
    optimizer = AdamW([{"params": nn.Linear(2, 2).parameters()}, {"params": []}], lr=1.0, weight_decay=0.1)
    with UpdateLog().record(optimizer) as log:
        for step, rate in enumerate(rates):
            for group in optimizer.param_groups:
                group |= {"lr": rate, "weight_decay": 0.3 if step == decay_at else 0.1}
            for _ in range(calls_a_step):
                optimizer.step()
    optimizer.step()  # nobody looks any more
    return log


def test_rates_are_weighted_with_their_step():
    summary = log_of([1.0, 3.0], calls_a_step=2).summary(first_step=4, steps=2)
    assert summary is not None
    assert (summary.calls, summary.weighted_rate) == (4, (5 * 1.0 + 6 * 3.0) / 2)
    assert summary.settings == [[0.1, 0.9, 0.999, 1e-8]], "groups without parameters do not count"
    swapped = log_of([3.0, 1.0]).summary(4, 2)
    assert swapped is not None
    assert swapped.weighted_rate != summary.weighted_rate


def test_settings_of_one_step_are_noted():
    summary = log_of([1.0, 1.0, 1.0], decay_at=1).summary(0, 3)
    assert summary is not None
    assert [settings[0] for settings in summary.settings] == [0.1, 0.3]
    assert summary.decays == 2


def test_updates_that_were_skipped_leave_no_log():
    assert log_of([1.0, 1.0]).summary(0, 3) is None
    assert log_of([]).summary(0, 3) is None


def test_what_slows_the_window_is_noted():
    assert log_of([1.0]).slowed_by == set()
    with torch.autograd.set_detect_anomaly(True), torch.profiler.profile():
        assert log_of([1.0]).slowed_by == {"anomaly detection", "torch's profiler"}


def moments_of(first: int, count: int, rates: list[float]) -> list[float]:
    """Moments of steps `first` to `first + count` of a training whose tensors have gradients of their own size."""
    tensors = [nn.Parameter(torch.ones(2000)) for _ in rates]
    optimizer = AdamW(tensors)
    for tensor, rate in zip(tensors, rates, strict=True):
        tensor.grad = torch.full_like(tensor, rate)
    for _ in range(first):
        optimizer.step()
    with UpdateLog(first).record(optimizer) as log:
        for _ in range(count):
            optimizer.step()
    return log.moments


def test_tensors_take_turns_by_the_number_of_the_step():
    whole = moments_of(0, 9, [1.0, 10.0, 100.0])
    assert [round(moment / whole[0]) > 5 for moment in whole[:3]] == [False, True, True]
    assert moments_of(4, 5, [1.0, 10.0, 100.0]) == whole[4:]
