"""More faults: work beside the steps, always or in the window alone, and what hangs on the model."""

import gc
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from faults.planted import FSDP, ONE, TWO, ZERO2, fault, model, replaced
from faults.planted_window import watch_the_window, window

BESIDE, OPERATIONS = "step-unexplained", "operations-differ"
ZERO = {"strategy": "zero", "name": "Zero"}


def beside(action: Callable[[], None], always: bool = True, strategy: str = "base", name: str = "Native") -> Any:
    """`action` in each update, or in those of the window alone."""

    def make(original: Any) -> Any:
        def update(self: Any, step: int) -> None:
            original(self, step)
            if always or window["open"]:
                action()

        return update

    patch = replaced(f"strategy.{strategy}", f"{name}.update", make)

    def both() -> None:
        watch_the_window()
        patch()

    return both


def busy() -> None:
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass


def log_to_disk() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b'{"loss": 1.0}\n' * 300)
        file.flush()
        os.fsync(file.fileno())


def collect() -> None:
    gc.collect()


fault("garbage is collected in each step (N10)", ZERO2, BESIDE, fast=True, large=True)(
    beside(collect, strategy="zero", name="Zero")
)
fault("10 ms of a busy loop in the window (N13)", ONE, BESIDE, large=True)(beside(busy, always=False))
fault("10 ms of a busy loop in each step (N13b)", ONE, BESIDE, fast=True, large=True)(beside(busy))
fault("a log with fsync in each step (N11)", TWO, BESIDE, large=True)(beside(log_to_disk))


def start_a_process() -> None:
    subprocess.run(["true"], check=True)


for label, keys, where in (("fsdp", FSDP, {}), ("zero2", ZERO2, ZERO)):
    fault(f"10 ms of a busy loop in each step, {label}", keys, BESIDE, fast=True, large=True)(beside(busy, **where))
    fault(f"10 ms of a busy loop in the window, {label}", keys, BESIDE, fast=label == "zero2", large=True)(
        beside(busy, always=False, **where)
    )
    fault(f"a process is started in each step, {label}", keys, BESIDE, fast=label == "fsdp", large=True)(
        beside(start_a_process, **where)
    )


def hooks_on_modules(network: Any) -> None:
    for module in network.modules():
        module.register_forward_hook(lambda module, inputs, output: None)


def hooks_on_parameters(network: Any) -> None:
    for parameter in network.parameters():
        parameter.register_hook(lambda gradient: None)


def histograms(original: Any) -> Any:
    def update(self: Any, step: int) -> None:
        import torch

        for parameter in self.module.parameters():
            if parameter.grad is not None:
                torch.histc(getattr(parameter.grad, "_local_tensor", parameter.grad), 64)
        original(self, step)

    return update


def slow_reader(original: Any) -> Any:
    def read(self: Any, step: int, micro: int) -> Any:
        busy()
        return original(self, step, micro)

    return read


for label, keys in (("one", ONE), ("fsdp", FSDP), ("zero2", ZERO2)):
    fault(f"hooks on all modules, {label}", keys, OPERATIONS, fast=label == "fsdp")(model(hooks_on_modules))
    if keys is not FSDP:  # which replaces the parameters, so that their hooks are never called
        fault(f"hooks on all parameters, {label}", keys, OPERATIONS, fast=label == "zero2")(model(hooks_on_parameters))
    fault(f"histograms of all gradients in each step, {label}", keys, BESIDE, fast=label == "fsdp", large=True)(
        replaced("strategy.zero", "Zero.update", histograms)
        if keys is ZERO2
        else replaced("strategy.base", "Native.update", histograms)
    )
    fault(f"a reader computes for 10 ms, {label}", keys, BESIDE, large=True)(
        replaced("trainer.batches", "Batches._read_micro_batch", slow_reader)
    )
