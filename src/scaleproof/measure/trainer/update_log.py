"""With which settings the optimizer makes each update of the window, and what else is on at that time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import Optimizer

from scaleproof.ground.records.census import UpdatesInWindow

Settings = tuple[float, float, float, float]  # weight decay, both betas, eps


class UpdateLog:
    """Notes learning rate and settings of the groups that hold parameters, whenever the optimizer is called."""

    def __init__(self) -> None:
        self._rates: list[float] = []  # of each call, the mean over its groups
        self._decays: list[float] = []  # of each call, the sum over its groups
        self._settings: set[Settings] = set()
        self.slowed_by: set[str] = set()

    def _note(self, optimizer: Optimizer, arguments: tuple, keywords: dict[str, Any]) -> None:
        """Note one call of the optimizer, before it is made: torch's hook of a step."""
        groups = [group for group in optimizer.param_groups if group["params"]]
        self._rates.append(sum(group["lr"] for group in groups) / max(1, len(groups)))
        self._decays.append(sum(group["weight_decay"] for group in groups))
        self.slowed_by.update(slowing())
        self._settings.update((group["weight_decay"], *group["betas"], group["eps"]) for group in groups)

    @contextmanager
    def of(self, optimizer: Optimizer) -> Iterator["UpdateLog"]:
        """Note the calls of `optimizer` within the `with` block."""
        hook = optimizer.register_step_pre_hook(self._note)
        try:
            yield self
        finally:
            hook.remove()

    def summary(self, first_step: int, steps: int) -> UpdatesInWindow | None:
        """The updates of the `steps` steps of the window, the first of them step `first_step`.

        None where calls cannot be told apart by step (fp16 has skipped some). ZeRO calls the optimizer once for each
        of its parts.
        """
        calls, rest = divmod(len(self._rates), steps)
        if not calls or rest:
            return None
        weighted = sum((first_step + place // calls + 1) * rate for place, rate in enumerate(self._rates))
        return UpdatesInWindow(
            calls=len(self._rates),
            weighted_rate=weighted / len(self._rates),
            decays=len({sum(self._decays[step * calls : (step + 1) * calls]) for step in range(steps)}),
            settings=sorted(list(settings) for settings in self._settings),
        )


def slowing() -> list[str]:
    """Names of what is on in this process now and watches or slows every operation, though no training needs it."""
    states = {
        "torch's profiler": torch.autograd._profiler_enabled(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "oneDNN switched off": torch.backends.mkldnn.is_available() and not torch.backends.mkldnn.enabled,
        "a Python tracer": sys.gettrace() is not None or sys.getprofile() is not None,
    }
    return [name for name, is_on in states.items() if is_on]
