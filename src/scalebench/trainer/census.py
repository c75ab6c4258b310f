"""What this rank really does and is set to: read back from the objects that run, not from the configuration."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from scalebench.record.census import Census, OptimizerGroup, ProbedStep
from scalebench.strategy import Strategy
from scalebench.trainer.probe import Probe

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
MODULUS = 2**64


class TokenChecksum:
    """Sum over all rows that enter a model of a hash of their tokens; the rule is in scalebench.reference.samples."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, rows: Tensor) -> None:
        for row in rows.detach().cpu().numpy().astype("<i8"):
            self.total += int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "little")

    def __str__(self) -> str:
        return f"{self.total % MODULUS:016x}"

    @contextmanager
    def of(self, model: nn.Module) -> Iterator[None]:
        """Count what enters `model` meanwhile."""
        hook = model.register_forward_pre_hook(lambda module, arguments: self.add(arguments[0]))
        try:
            yield
        finally:
            hook.remove()


def add_checksums(checksums: list[str]) -> str:
    """The checksum of all ranks' tokens together."""
    return f"{sum(int(c, 16) for c in checksums) % MODULUS:016x}"


def probed_step(
    step: int, probe: Probe, strategy: Strategy, checksum: TokenChecksum | None, saved_on_host: bool = False
) -> ProbedStep:
    """What `probe` has counted of step `step`."""
    dtypes = probe.dtypes()
    return ProbedStep(
        step=step,
        linear_flops=probe.flops["linear"],
        batched_flops=probe.flops["batched"],
        attention=dict(probe.attention),
        updates=dict(probe.updates),
        collectives=probe.collectives(),
        products=dtypes["products"],
        gradients=dtypes["gradients"],
        reduced=dtypes["reduced"],
        tokens_checksum=str(checksum) if checksum else None,
        groups=optimizer_groups(strategy),
        saved_on_host=saved_on_host,
        busy_s=probe.clock.busy_s if probe.clock else None,
        idle_s=probe.clock.idle_s if probe.clock else None,
    )


def take_census(strategy: Strategy, before: ProbedStep, after: ProbedStep | None, modes_in_window: int) -> Census:
    """The census of this rank, once the window is over."""
    parameters = {id(p): p for p in strategy.module.parameters()}.values()
    return Census(
        before=before,
        after=after,
        parameters=sum(_size(p) for p in parameters),
        trainable=sum(_size(p) for p in parameters if p.requires_grad),
        engine=engine_settings(strategy),
        threads=torch.get_num_threads(),
        cores=sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
        compiled_graphs=compiled_graphs(),
        modes_in_window=modes_in_window,
        env={name: os.environ.get(name) for name in VARIABLES},
    )


def optimizer_groups(strategy: Strategy) -> list[OptimizerGroup]:
    """Parameter groups of the optimizer that updates the weights: torch's own, inside of an engine too."""
    groups = getattr(getattr(strategy, "engine", None), "optimizer", strategy.optimizer).param_groups
    return [
        OptimizerGroup(
            kind=type(strategy.optimizer).__name__,
            learning_rate=float(group["lr"]),
            weight_decay=float(group["weight_decay"]),
            betas=[float(beta) for beta in group["betas"]],
            eps=float(group["eps"]),
        )
        for group in groups
    ]


def engine_settings(strategy: Strategy) -> dict[str, Any] | None:
    """What DeepSpeed's engine says of itself; None without one."""
    engine = getattr(strategy, "engine", None)
    if engine is None:
        return None
    return {
        "zero_stage": int(engine.zero_optimization_stage()),
        "gradient_clipping": float(engine.gradient_clipping()),
        "micro_batch": int(engine.train_micro_batch_size_per_gpu()),
        "accumulation": int(engine.gradient_accumulation_steps()),
    }


def compiled_graphs() -> int:
    """Graphs that torch.compile has made in this process."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def active_modes() -> int:
    """Dispatch modes that see every operation of this thread now."""
    return int(torch._C._len_torch_dispatch_stack())


def _size(parameter: nn.Parameter) -> int:
    """Elements of the whole tensor: ZeRO-3 leaves an empty one behind, and says what it was."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))
