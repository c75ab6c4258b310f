"""The faults: name, cell, what is patched in every rank, and the findings of which one must name it."""

import importlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

ONE: dict[str, Any] = {}
TWO = {"execution": {"geometry": "1x2"}}
ACCUMULATING = {"execution": {"geometry": "1x2"}, "work": {"micro_batch": 2}}
FSDP = {"execution": {"geometry": "1x2", "strategy": "fsdp"}}
ZERO1 = {"execution": {"geometry": "1x2", "strategy": "zero1"}}
ZERO2 = {"execution": {"geometry": "1x2", "strategy": "zero2"}}
ZERO3 = {"execution": {"geometry": "1x2", "strategy": "zero3"}}
EAGER = {"execution": {"attention": "eager"}}
CHECKPOINTING = {"execution": {"activation_checkpointing": True}}
UNFUSED = {"execution": {"fused_optimizer": False}}
LONG = {"execution": {"geometry": "1x2"}, "work": {"steps": 320}}  # a second or more, in which clocks differ clearly
SINGLE = {"execution": {"strategy": "single"}}
BF16 = {"execution": {"precision": "bf16"}}
SOUND = {
    "ddp 1x1": ONE,
    "ddp 1x2": TWO,
    "accumulating": ACCUMULATING,
    "short warm-up": {"execution": TWO["execution"], "work": {"micro_batch": 2, "warmup_steps": 3}},
    "fsdp": FSDP,
    "zero1": ZERO1,
    "zero2": ZERO2,
    "zero3": ZERO3,
    # Tensors that ZeRO-3 shards: smaller ones stay whole, and ranks then agree on no order in their first steps.
    "zero3, short warm-up": ZERO3 | {"model": {"width": 256, "layers": 1}, "work": {"warmup_steps": 3, "steps": 8}},
    "eager": EAGER,
    "checkpointing": CHECKPOINTING,
    "not fused": UNFUSED,
    "single": SINGLE,
    "bf16": BF16,
    # Training amplifies rounding, so that these are not what a constant would allow them to be.
    "steep": TWO | {"work": {"optimizer": {"learning_rate": 0.3}}},
    "steep, one device": ONE | {"work": {"optimizer": {"learning_rate": 1.0}}},
    "steep in bf16": BF16 | {"work": {"optimizer": {"learning_rate": 0.1}}},
}


@dataclass(frozen=True)
class Fault:
    name: str
    keys: dict[str, Any]
    patch: Callable[[], None]
    codes: tuple[str, ...]  # any of them names it
    fast: bool = False  # also in CI
    large: bool = False  # as of a large model: three steps are replayed, and all are witnessed


FAULTS: list[Fault] = []


def fault(name: str, keys: dict[str, Any], *codes: str, fast: bool = False, large: bool = False) -> Callable:
    def register(patch: Callable[[], None]) -> Callable[[], None]:
        FAULTS.append(Fault(name, keys, patch, codes, fast, large))
        return patch

    return register


def timer(scale: float) -> Callable[[], None]:
    """A step timer that runs at another speed."""

    def patch() -> None:
        from scaleproof.measure.trainer.timed_loop import StepTimer

        stop = StepTimer.stop

        def scaled(self: Any) -> Any:
            steps, wall = stop(self)
            return steps * scale, wall * scale

        StepTimer.stop = scaled

    return patch


for factor in (0.5, 0.8, 1.3, 2.0):
    fault(f"timer x {factor}", LONG, "clock-differs", fast=factor == 0.5)(timer(factor))


def around_window(action: Callable[[int], None]) -> Callable[[], None]:
    """Something right before the window, on a rank."""

    def patch() -> None:
        from scaleproof.measure.trainer.host_load import HostLoad

        enter = HostLoad.__enter__

        def entered(self: Any) -> Any:
            action(int(os.environ["RANK"]))
            return enter(self)

        HostLoad.__enter__ = entered

    return patch


def set_clock() -> None:
    """The time of day is set an hour ahead while the window is open."""
    from scaleproof.measure.trainer import host_load

    leave = host_load.HostLoad.__exit__

    def left(self: Any, *failure: Any) -> None:
        leave(self, *failure)
        self.end_epoch_s += 3600

    host_load.HostLoad.__exit__ = left


fault("the time of day is set in the window", TWO, "clock-stepped", fast=True)(set_clock)
fault("rank 1 starts late", TWO, "ranks-start-apart", fast=True)(around_window(lambda rank: time.sleep(2.0 * rank)))


def watch(rank: int) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    FlopCounterMode(display=False).__enter__()


fault("counter left on in the window", ONE, "operations-differ")(around_window(watch))


def in_update(action: Callable[[Any, int], None], owner: str = "Native") -> Callable[[], None]:
    """Something in every update."""

    def patch() -> None:
        import scaleproof.measure.strategy.base as base

        target = getattr(base, owner)
        update = target.update

        def updated(self: Any, step: int) -> None:
            action(self, step)
            update(self, step)

        target.update = updated

    return patch


def stall(strategy: Any, step: int) -> None:
    time.sleep(2.0 if step == 15 else 0)


def every_sixth(strategy: Any, step: int) -> None:
    time.sleep(0.5 if step % 6 == 5 else 0)


def drift(strategy: Any, step: int) -> None:
    import torch

    if os.environ["RANK"] == "1" and step == 3:
        with torch.no_grad():
            for parameter in strategy.module.parameters():
                parameter.add_(torch.randn_like(parameter) * 1e-3)


def drop_gradients(strategy: Any, step: int) -> None:
    if step % 2:
        strategy.optimizer.zero_grad(set_to_none=False)


def halve_gradients_of_table(strategy: Any, step: int) -> None:
    for name, parameter in strategy.module.named_parameters():
        if "wte" in name or "lm_head" in name:
            parameter.grad.zero_()


fault("a stalled step", TWO, "step-stalled")(in_update(stall))
fault("every sixth step slower", TWO, "steps-periodic")(in_update(every_sixth))
fault("replicas drift apart", TWO, "losses-differ-from-reference")(in_update(drift))
fault("gradients dropped in odd steps", ONE, "losses-differ-from-reference", fast=True)(in_update(drop_gradients))
fault("table without gradient", ONE, "losses-differ-from-reference")(in_update(halve_gradients_of_table))
REPLACED: list[tuple[str, str]] = []  # module and name of all that faults replace


def replaced(module: str, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    """`make(original)` in the place of `module.name`; `name` may be Class.method."""
    REPLACED.append((module, name))

    def patch() -> None:
        owner, last = owner_of(module, name)
        setattr(owner, last, make(getattr(owner, last)))

    return patch


def owner_of(module: str, name: str) -> tuple[Any, str]:
    """The module, or the class in it, that has `name`, and the last part of it."""
    owner: Any = importlib.import_module(f"scaleproof.measure.{module}")
    path, _, last = name.rpartition(".")
    return (attrgetter(path)(owner) if path else owner), last


def rate(change: Callable[[float, int], float], module: str = "strategy.base") -> Callable[[], None]:
    return replaced(module, "learning_rate", lambda original: lambda work, step: change(original(work, step), step))


WRONG_RATE = ("settings-differ", "losses-differ-from-reference")
fault("learning rate 0 in odd steps", ONE, *WRONG_RATE)(rate(lambda value, step: 0.0 if step % 2 else value))
fault("a tenth of the learning rate", TWO, *WRONG_RATE, fast=True)(rate(lambda value, step: value / 10))
fault("learning rate x world size", TWO, *WRONG_RATE)(rate(lambda value, step: 2 * value))
fault("learning rate of the step before", ONE | {"work": {"schedule": {"name": "linear"}}}, *WRONG_RATE)(
    replaced("strategy.base", "learning_rate", lambda o: lambda work, step: o(work, max(0, step - 1)))
)
fault("a tenth of the learning rate in zero2", ZERO2, *WRONG_RATE)(rate(lambda v, s: v / 10, "strategy.zero"))


def optimizer(change: Callable[[Any], None], module: str = "strategy.base") -> Callable[[], None]:
    def make(original: Any) -> Any:
        def made(*arguments: Any) -> Any:
            result = original(*arguments)
            for group in result.param_groups:
                change(group)
            return result

        return made

    return replaced(module, "make_optimizer", make)


def not_fused(original: Any) -> Any:
    def made(network: Any, cell: Any) -> Any:
        from torch.optim import AdamW

        groups = original(network, cell).param_groups
        parts = [{name: group[name] for name in ("params", "weight_decay", "lr", "betas", "eps")} for group in groups]
        return AdamW(parts, fused=False)

    return made


WRONG_OPTIMIZER = ("settings-differ", "losses-differ-from-reference")
for strategy, keys in (("base", ONE), ("zero", ZERO2)):
    room = f"strategy.{strategy}"
    fault(f"no weight decay ({strategy})", keys, *WRONG_OPTIMIZER)(
        optimizer(lambda g: g.update(weight_decay=0.0), room)
    )
    fault(f"beta2 ({strategy})", keys, *WRONG_OPTIMIZER)(optimizer(lambda g: g.update(betas=(0.9, 0.99)), room))
    fault(f"eps ({strategy})", keys, *WRONG_OPTIMIZER)(optimizer(lambda g: g.update(eps=1e-6), room))
fault("weight decay on everything", ONE, *WRONG_OPTIMIZER)(optimizer(lambda g: g.update(weight_decay=0.1)))


def ignore_fused() -> None:
    replaced("strategy.base", "make_optimizer", not_fused)()
    replaced("strategy.base", "Native.folds_clipping", lambda original: False)()  # only the fused update can fold it


fault("fused optimizer ignored", ONE, "settings-differ")(ignore_fused)
fault("fused optimizer though not configured", UNFUSED, "settings-differ")(optimizer(lambda g: g.update(fused=True)))


def model(change: Callable[[Any], Any]) -> Callable[[], None]:
    """The model changed after it was built."""

    def make(original: Any) -> Any:
        def built(*arguments: Any) -> Any:
            network = original(*arguments)
            return change(network) or network

        return built

    return replaced("trainer.measure", "build_model", make)


def one_layer(network: Any) -> None:
    network.network.transformer.h = network.network.transformer.h[:1]


def untied(network: Any) -> None:
    from torch import nn

    network.network.lm_head.weight = nn.Parameter(network.network.lm_head.weight.detach().clone())


def frozen(part: str) -> Callable[[Any], None]:
    def freeze(network: Any) -> None:
        for name, parameter in network.named_parameters():
            if part in name:
                parameter.requires_grad_(False)

    return freeze


def detached(network: Any) -> None:
    network.network.transformer.h[1].register_forward_pre_hook(lambda module, inputs: (inputs[0].detach(), *inputs[1:]))


def dropout(network: Any) -> None:
    network.network.transformer.drop.p = 0.1


def attention(kind: str) -> Callable[[Any], None]:
    def change(network: Any) -> None:
        network.network.config._attn_implementation = kind

    return change


def recomputing(network: Any) -> None:
    network.network.gradient_checkpointing_enable({"use_reentrant": False})


def not_recomputing(network: Any) -> None:
    network.network.gradient_checkpointing_disable()


def other_weights(network: Any) -> None:
    import torch

    with torch.no_grad():
        network.network.transformer.h[0].mlp.c_fc.weight *= 1.02


fault("a layer fewer", TWO, "model-differs", fast=True)(model(one_layer))
fault("head not tied", ONE, "model-differs")(model(untied))
fault("a block frozen", SINGLE, "model-differs")(model(frozen("h.0.")))
fault("positions frozen in zero2", ZERO2, "model-differs", "traffic-differs")(model(frozen("wpe")))
fault("backward cut in the middle", SINGLE, "operations-differ")(model(detached))
fault("dropout", ONE, "losses-differ-from-reference")(model(dropout))
fault("eager attention in ddp", TWO, "operations-differ", fast=True)(model(attention("eager")))
fault("eager attention in zero2", ZERO2, "operations-differ")(model(attention("eager")))
fault("attention ignored", EAGER, "operations-differ")(model(attention("sdpa")))
fault("fsdp recomputes", FSDP, "operations-differ")(model(recomputing))
fault("checkpointing ignored", CHECKPOINTING, "operations-differ")(model(not_recomputing))
fault("weights of another start", ONE, "losses-differ-from-reference")(model(other_weights))


def micro_step(change: Callable[[Any, Any], Any]) -> Callable[[], None]:
    """Other tokens than those that were read."""

    def make(original: Any) -> Any:
        return lambda self, tokens, boundary: original(self, change(self, tokens), boundary)

    return replaced("strategy.base", "Native.micro_step", make)


fault("half of each sequence", ONE, "operations-differ", fast=True)(micro_step(lambda s, t: t[:, :17]))
fault("half of each sequence, two ranks", TWO, "operations-differ")(micro_step(lambda s, t: t[:, :17]))
fault("first sample in the place of all", TWO, "losses-differ-from-reference")(
    micro_step(lambda s, t: t[:1].expand_as(t))
)
fault("tokens shifted by one", ONE, "losses-differ-from-reference")(micro_step(lambda s, t: t.roll(1, dims=1)))


def skipping(original: Any) -> Any:
    def made(self: Any, tokens: Any, boundary: bool) -> Any:
        import torch

        return original(self, tokens, boundary) if boundary else torch.zeros(())

    return made


def rank_zeros_samples(original: Any) -> Any:
    import numpy as np
    import torch

    def read(self: Any, step: int, micro: int) -> Any:
        ids, _ = original(self, step, micro)
        first = np.concatenate([self.plan.ids_of_rank(step, self.batch, 0)[micro] for _ in self.shares])
        return ids, torch.from_numpy(self.file.read(first))

    return read


fault("a micro-batch read but not trained", ACCUMULATING, "operations-differ")(
    replaced("strategy.base", "Native.micro_step", skipping)
)
for label, keys in (("ddp", TWO), ("fsdp", FSDP)):
    fault(f"all ranks train rank 0's samples ({label})", keys, "losses-differ-from-reference", fast=label == "ddp")(
        replaced("trainer.batches", "Batches._read_micro_batch", rank_zeros_samples)
    )


def validation_on_train(original: Any) -> Any:
    def opened(folder: Any, split: str, workload: Any) -> Any:
        file = original(folder, split, workload)
        if split == "val":
            other = original(folder, "train", workload)
            other.n_samples = file.n_samples
            return other
        return file

    return opened


fault("validation of the right ids on the training text", ONE, "tokens-differ-from-reference")(
    replaced("trainer.measure", "open_split", validation_on_train)
)
