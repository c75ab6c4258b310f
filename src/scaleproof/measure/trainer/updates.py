"""What the optimizer does: its settings in each update of the window, and what a probed update makes of gradients."""

import resource
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.modules import module as every_module
from torch.optim import Optimizer

from scaleproof.ground.records.census import UpdatesInWindow
from scaleproof.measure.strategy import Strategy
from scaleproof.measure.strategy.base import Native, dtype_names, local_shard

Settings = tuple[float, float, float, float]  # weight decay, both betas, eps
PART = 1024  # elements of a first moment whose norm is taken: a kernel that costs nothing
GOLDEN_RATIO = (5**0.5 - 1) / 2  # its multiples, modulo 1, soon come near every place from 0 to 1
LEAST_WATCHED = 8  # elements of the tensor that a witness watches


class UpdateLog:
    """Records each call of the optimizer: learning rate and settings of the groups that have parameters.

    After the call it takes the norm of a part of AdamW's first moment, without waiting for it: it depends on the
    gradients that were exchanged, clipped and used. Which tensor, and which part of it, depends on the number of the
    step. `slowed_by`: names of modes that slow every operation and were on in some call.
    """

    def __init__(self, first_step: int = 0) -> None:
        """Begin with no call. `first_step`: the number of the step that makes the first call."""
        self._first_step = first_step
        self._turns: dict[int, int] = defaultdict(int)  # calls so far of each part of ZeRO, by its first moment's id
        self._moments: list[Tensor] = []  # the norm of a part of a first moment, after each call
        self._conditions: dict[str, set[str]] = defaultdict(set)  # threads, dtypes, ... -> all that occurred
        self._rates: list[float] = []  # the mean learning rate over the groups of each call
        self._decays: list[float] = []  # the sum of weight decays over the groups of each call
        self._settings: set[Settings] = set()
        self._calls_after_a_child = 0  # calls that came after the end of a child process since the call before them
        self._used_by_children: tuple[float, int] | None = None  # CPU seconds and page faults, at the last call
        self.slowed_by: set[str] = set()

    def _note_call(self, optimizer: Optimizer, arguments: tuple, keywords: dict[str, Any]) -> None:
        """Note a call's settings, slowing modes, ended children and conditions: torch's hook before a step."""
        groups = [group for group in optimizer.param_groups if group["params"]]
        self._rates.append(sum(group["lr"] for group in groups) / max(1, len(groups)))
        self._decays.append(sum(group["weight_decay"] for group in groups))
        self.slowed_by.update(slowing_modes())
        self._settings.update((group["weight_decay"], *group["betas"], group["eps"]) for group in groups)
        # The system adds a child's CPU time and page faults to these counters when the child has ended: a change since
        # the last call tells that a process ended, which may have done work of the window.
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_by_children = usage.ru_utime + usage.ru_stime, usage.ru_minflt
        if self._used_by_children not in (None, used_by_children):
            self._calls_after_a_child += 1
        self._used_by_children = used_by_children
        self._conditions["threads"].add(str(torch.get_num_threads()))
        self._conditions["float32_matmul"].add(torch.get_float32_matmul_precision())
        self._conditions["dispatch_modes"].add(str(active_modes()))

    @torch.no_grad()  # else the view of a shard would make an autograd node, and the step's nodes are counted
    def _note_moment(self, optimizer: Optimizer, arguments: tuple, keywords: dict[str, Any]) -> None:
        """Record the norm of a part of one tensor's first moment: torch's hook after an optimizer's step."""
        parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
        moments = [optimizer.state[tensor]["exp_avg"] for tensor in parameters if "exp_avg" in optimizer.state[tensor]]
        if not moments:  # a call that fp16's loss scale has skipped, before the first update
            return
        # ZeRO calls the optimizer once for each of its parts, with other tensors; without ZeRO there is one part.
        part_of_zero = id(moments[0])
        step = self._first_step + self._turns[part_of_zero]
        self._turns[part_of_zero] += 1
        moment = moments[step % len(moments)]
        self._conditions["moments"].add(dtype_names([moment.dtype]))
        local = local_shard(moment).flatten()
        start = int(step * GOLDEN_RATIO % 1 * max(0, len(local) - PART))  # another place in each step
        self._moments.append(torch.linalg.vector_norm(local[start : start + PART]))

    @contextmanager
    def record(self, optimizer: Optimizer) -> Iterator["UpdateLog"]:
        """Record every call of `optimizer` within the `with` block."""
        hooks = [
            optimizer.register_step_pre_hook(self._note_call),
            optimizer.register_step_post_hook(self._note_moment),
        ]
        try:
            yield self
        finally:
            for hook in hooks:
                hook.remove()

    @property
    def moments(self) -> list[float]:
        """The recorded norms of first moments, one for each call. Waits for the device."""
        return [float(moment) for moment in self._moments]

    def summary(self, first_step: int, steps: int) -> UpdatesInWindow | None:
        """Return the record of the window's updates, `steps` steps from step `first_step` on.

        ZeRO calls the optimizer several times in a step, once for each of its parts. Returns None where the calls are
        no multiple of the steps, since fp16 has skipped some: calls then cannot be assigned to steps. Rates are
        weighted with step + 1, so that the same rates in another order have another mean.
        """
        calls, rest = divmod(len(self._rates), steps)  # calls in each step
        if not calls or rest:
            return None
        weighted = sum((first_step + place // calls + 1) * rate for place, rate in enumerate(self._rates))
        decays_of_steps = [sum(self._decays[step * calls : (step + 1) * calls]) for step in range(steps)]
        return UpdatesInWindow(
            calls=len(self._rates),
            weighted_rate=weighted / len(self._rates),
            decays=len(set(decays_of_steps)),  # 1 where the sum of weight decays is the same in all steps
            settings=sorted(list(settings) for settings in self._settings),
            moments=self.moments,
            conditions={name: sorted(values) for name, values in self._conditions.items()},
            children=self._calls_after_a_child,
        )


def active_modes() -> int:
    """Return how many dispatch modes intercept the operations of this thread now."""
    return int(torch._C._len_torch_dispatch_stack())  # torch has no public word for it


def slowing_modes() -> list[str]:
    """Return the names of active modes that watch or slow every operation of this process; training needs none."""
    # Only private names of torch say whether its profiler is on, and whether every module has hooks.
    states = {
        "torch's profiler": torch.autograd._profiler_enabled(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "oneDNN switched off": torch.backends.mkldnn.is_available() and not torch.backends.mkldnn.enabled,
        "a Python tracer": sys.gettrace() is not None or sys.getprofile() is not None,
        "tracemalloc": tracemalloc.is_tracing(),
        "debugging of torch.distributed": dist.get_debug_level() != dist.DebugLevel.OFF,
        "hooks on every module": bool(every_module._global_forward_hooks or every_module._global_forward_pre_hooks),
    }
    return [name for name, is_on in states.items() if is_on]


class UpdateWitness:
    """Observes one update: gradients before it, AdamW's first moment before and after it.

    `gradient_norm`: 2-norm of this rank's gradients (FSDP: its shards) before clipping; of all gradients, where
    DeepSpeed's ZeRO reports it. `scaled_by`: for one small tensor, by which factor its gradient entered the first
    moment. Both are None under a loss scale, `scaled_by` also in ZeRO's partitions.
    """

    def __init__(self, strategy: Strategy) -> None:
        """Prepare to observe the update of `strategy`, which holds gradients and optimizer."""
        self.strategy = strategy
        self.gradient_norm: float | None = None
        self.scaled_by: float | None = None
        self._watched: Tensor | None = None

    @torch.no_grad()  # without it autograd would record the view of a shard
    def note_gradients(self) -> None:
        """Before an update, take the gradients' norm, and copy gradient and first moment of one tensor.

        It is the smallest tensor with LEAST_WATCHED elements or more: copies of it cost little.
        """
        if not self._holds_gradients():  # both figures stay None, but where ZeRO reports the norm
            return
        parameters = self.strategy.module.parameters()
        gradient_of = {parameter: local_shard(parameter.grad) for parameter in parameters if parameter.grad is not None}
        if not gradient_of:  # this rank has none
            return
        norms = [torch.linalg.vector_norm(gradient) for gradient in gradient_of.values()]
        self.gradient_norm = float(torch.stack(norms).double().square().sum().sqrt())

        large_enough = [parameter for parameter, shard in gradient_of.items() if shard.numel() >= LEAST_WATCHED]
        if large_enough:
            self._watched = min(large_enough, key=lambda parameter: gradient_of[parameter].numel())
            self._gradient = gradient_of[self._watched].clone()
            self._moment = self._first_moment()

    @torch.no_grad()
    def note_update(self) -> None:
        """After an update, set the norm that ZeRO reports, and the factor by which the gradient entered the moment.

        AdamW makes the new moment beta x moment + (1 - beta) x gradient: both moments tell which gradient it took.
        """
        engine = getattr(self.strategy, "engine", None)
        has_loss_scale = self.strategy.cell.execution.precision == "fp16"
        if engine is not None and engine.zero_optimization_stage() and not has_loss_scale:
            norm = engine.get_global_grad_norm()
            self.gradient_norm = None if norm is None else float(norm)

        if self._watched is None or not float(self._gradient.norm()):  # `note_gradients` saw none, or zeros
            return
        beta = self._beta_of_watched()
        entered_gradient = (self._first_moment().double() - beta * self._moment.double()) / (1 - beta)
        self.scaled_by = float(entered_gradient.norm() / self._gradient.double().norm())

    def _beta_of_watched(self) -> float:
        """Return AdamW's beta of the first moment in the watched tensor's group."""
        for group in self.strategy.optimizer.param_groups:
            if any(parameter is self._watched for parameter in group["params"]):
                return float(group["betas"][0])
        raise LookupError("the optimizer has no group with the watched tensor")

    def _holds_gradients(self) -> bool:
        """Return whether `parameter.grad` is the reduced, unscaled gradient just before the update.

        In fp16 it is scaled; ZeRO's engine keeps it in partitions in stages 1 to 3.
        """
        if self.strategy.cell.execution.precision == "fp16":
            return False
        if isinstance(self.strategy, Native):
            return True
        engine = getattr(self.strategy, "engine", None)
        return engine is not None and engine.zero_optimization_stage() == 0

    def _first_moment(self) -> Tensor:
        """Return a copy of AdamW's first moment of the watched tensor, zeros before the first update."""
        assert self._watched is not None
        state = self.strategy.optimizer.state.get(self._watched, {})
        moment = state.get("exp_avg")
        return torch.zeros_like(self._gradient) if moment is None else local_shard(moment).clone()
