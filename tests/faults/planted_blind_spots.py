"""More faults: those that went unnamed when they were first tried, one or two of a kind."""

import os
import time
from collections.abc import Callable
from typing import Any

from faults.planted import BF16, ONE, TWO, ZERO2, fault, in_update, model, optimizer, rate, replaced
from faults.planted_settings import configured

BF16_FSDP = {"execution": {"precision": "bf16", "geometry": "1x2", "strategy": "fsdp"}}
BF16_TWO = {"execution": {"precision": "bf16", "geometry": "1x2"}}
LONG_ONE = {"work": {"steps": 320}}
SMALL_BUCKETS = {"execution": {"geometry": "1x2", "bucket_elements": 2000}}
ZERO2_SMALL_BUCKETS = {"execution": {"geometry": "1x2", "strategy": "zero2", "bucket_elements": 5000}}
ZERO2_OVERLAP = {"execution": {"geometry": "1x2", "strategy": "zero2", "overlap_comm": True}}
FSDP_PREFETCH = {"execution": {"geometry": "1x2", "strategy": "fsdp", "fsdp_prefetch": 2}}
OTHER_SETTINGS, DRIFTED = "settings-differ", "replicas-differ"


def probed() -> bool:
    """Whether a dispatch mode watches this step: faults that hide from the census happen only when none does."""
    import torch

    return torch._C._len_torch_dispatch_stack() > 0


def wrapped_otherwise(change: Callable[..., dict[str, Any]]) -> Callable[[], None]:
    """DistributedDataParallel with other options; `change(model)` returns them."""

    def make(original: Any) -> Any:
        return lambda network, **options: original(network, **(options | change(network)))

    return replaced("strategy.native", "DistributedDataParallel", make)


def own_group(network: Any) -> dict[str, Any]:
    import torch.distributed as dist

    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    return {"process_group": groups[dist.get_rank()]}


def one_bias_ignored(network: Any) -> dict[str, Any]:
    from torch.nn.parallel import DistributedDataParallel

    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(network, ["network.transformer.ln_f.bias"])
    return {}


def zero(**settings: Any) -> Callable[[], None]:
    return configured(lambda config: config["zero_optimization"].update(settings))


fault("buckets of ddp ignored", SMALL_BUCKETS, OTHER_SETTINGS)(wrapped_otherwise(lambda n: {"bucket_cap_mb": None}))
fault("ddp looks for unused parameters", TWO, OTHER_SETTINGS, fast=True)(
    wrapped_otherwise(lambda n: {"find_unused_parameters": True})
)
fault("ddp copies gradients into its buckets", TWO, OTHER_SETTINGS)(
    wrapped_otherwise(lambda n: {"gradient_as_bucket_view": False})
)
fault("zero2 prints the times of its steps", ZERO2, OTHER_SETTINGS, fast=True)(
    configured(lambda config: config.update(wall_clock_breakdown=True))
)
fault("buckets of zero2 ignored", ZERO2_SMALL_BUCKETS, OTHER_SETTINGS)(
    zero(reduce_bucket_size=500_000_000, allgather_bucket_size=500_000_000)
)
fault("overlap_comm ignored", ZERO2_OVERLAP, OTHER_SETTINGS)(zero(overlap_comm=False))
fault("zero2 offloads its optimizer", ZERO2, OTHER_SETTINGS)(zero(offload_optimizer={"device": "cpu"}))
fault("fsdp_prefetch ignored", FSDP_PREFETCH, OTHER_SETTINGS)(
    replaced("strategy.native", "FSDP._set_prefetch", lambda original: lambda self, depth: original(self, 1))
)


def in_bf16(network: Any) -> None:
    import torch

    network.to(torch.bfloat16)


fault("no fp32 masters of bf16 weights", BF16_FSDP, "precision-differs")(model(in_bf16))


def half_on_rank_1(value: float, step: int) -> float:
    return value / 2 if os.environ["RANK"] == "1" and 8 <= step < 12 else value


fault("half the rate on rank 1 for four steps, bf16", BF16_TWO, DRIFTED, fast=True)(rate(half_on_rank_1))
fault("each rank reduces by itself, bf16", BF16_TWO, DRIFTED)(wrapped_otherwise(own_group))
fault("one bias is not reduced, bf16", BF16_TWO, DRIFTED)(wrapped_otherwise(one_bias_ignored))


def last_step_left_out(original: Any) -> Any:
    def stop(self: Any) -> Any:
        steps, wall = original(self)
        last = steps[-1] if len(steps) > 1 else 0.0
        steps[-1] -= last
        return steps, wall - last

    return stop


fault("the last step is not timed", ONE, "step-too-short")(
    replaced("trainer.timed_loop", "StepTimer.stop", last_step_left_out)
)


def counted(change: Callable[[Any, int], None]) -> Callable[[], None]:
    """`change(strategy, n)` before each micro-step, n counted from 0."""

    def make(original: Any) -> Any:
        def micro_step(self: Any, tokens: Any, boundary: bool) -> Any:
            number = vars(self).setdefault("micro_steps_made", 0)
            self.micro_steps_made = number + 1
            change(self, number)
            return original(self, tokens, boundary)

        return micro_step

    return replaced("strategy.base", "Native.micro_step", make)


def recompute_in_window(strategy: Any, number: int) -> None:
    network = next(module for module in strategy.module.modules() if hasattr(module, "network")).network
    if number == 4:
        network.gradient_checkpointing_enable({"use_reentrant": False})
    if number == 28:
        network.gradient_checkpointing_disable()


def forward_alone(original: Any) -> Any:
    def micro_step(self: Any, tokens: Any, boundary: bool) -> Any:
        import torch

        number = vars(self).setdefault("micro_steps_made", 0)
        self.micro_steps_made = number + 1
        if number < 60 or probed():
            return original(self, tokens, boundary)
        for parameter in self.module.parameters():
            parameter.grad = torch.zeros_like(parameter)
        with torch.no_grad():
            return self.module(tokens).mean()

    return micro_step


fault("recomputation in the window alone", ONE, "operations-differ", fast=True)(counted(recompute_in_window))
fault("no backward from step 60 on", LONG_ONE, "operations-differ")(
    replaced("strategy.base", "Native.micro_step", forward_alone)
)
fault("amsgrad", BF16, OTHER_SETTINGS)(optimizer(lambda group: group.update(amsgrad=True)))


def dropout_everywhere(network: Any) -> None:
    for module in network.modules():
        if type(module).__name__ == "Dropout":
            module.p = 0.1


fault("dropout in bf16", BF16, "losses-differ-from-reference")(model(dropout_everywhere))


def sleep_in_window(strategy: Any, step: int) -> None:
    time.sleep(0 if probed() else 0.02)


fault("a sleep in the window alone", {"work": {"steps": 60}}, "process-idle")(in_update(sleep_in_window))
