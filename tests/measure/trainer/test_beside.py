"""What runs beside training is named; what torch, a model's own package and the trainer do is not."""

import functools
import json
import sys
import time
import types

import pytest
import torch
from torch import nn

from scaleproof.measure.trainer.beside import LEAST_S, foreign_hooks, time_other_functions


def busy() -> None:
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass


def noted(*arguments) -> None:
    """A hook."""


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))


def trained(model: nn.Module) -> None:
    model(torch.ones(2, 4)).sum().backward()


def test_a_function_of_no_library_is_named():
    model = network()
    times = time_other_functions(model, lambda: (trained(model), busy()))
    assert times["test_beside.py:busy"] >= 0.01
    assert set(times) <= {"test_beside.py:busy", "test_beside.py:trained"}  # which calls torch itself


def test_what_a_library_is_called_for_counts():
    def dump() -> None:
        json.dumps(list(range(100_000)))

    times = time_other_functions(network(), dump)
    (name,) = times
    assert name.endswith("dump")
    assert times[name] > LEAST_S


def test_what_happens_once_does_not_count():
    calls = []

    def step() -> None:
        calls.append(1)
        if len(calls) == 1:
            busy()

    assert "test_beside.py:busy" not in time_other_functions(network(), step)
    assert len(calls) == 2


def test_a_models_own_package_is_training():
    model = network()
    assert time_other_functions(model, busy)
    model.add_module("own", type("Own", (nn.Module,), {"__module__": __name__})())
    assert time_other_functions(model, busy) == {}


@pytest.mark.parametrize("hook", [noted, functools.partial(noted, 1)])
def test_hooks_are_named_by_their_function(hook):
    model = network()
    assert foreign_hooks(model) == []
    model[0].register_forward_hook(hook)
    next(model.parameters()).register_hook(hook)
    assert foreign_hooks(model) == [f"{__name__}.noted"]


@pytest.mark.parametrize("package", ["torch.distributed.fsdp", "deepspeed.runtime", "own_model.hooks"])
def test_hooks_of_libraries_that_train_and_of_the_model_are_not_named(package, monkeypatch):
    model = network()
    model.add_module("own", type("Own", (nn.Module,), {"__module__": "own_model.network"})())
    monkeypatch.setitem(sys.modules, "own_model", types.ModuleType("own_model"))
    hook = types.FunctionType(noted.__code__, {"__name__": package})
    model[0].register_full_backward_hook(hook)
    assert foreign_hooks(model) == []
