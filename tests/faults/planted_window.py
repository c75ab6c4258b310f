"""More faults: what begins with the window of a model that is too large to be replayed, and work beside the steps."""

from collections.abc import Callable
from typing import Any

from faults.planted import ACCUMULATING, BF16, ONE, TWO, fault, replaced

WITNESS, OTHER_LOSSES, SETTINGS = "window-differs-from-witness", "losses-differ-from-reference", "settings-differ"
OPERATIONS = "operations-differ"
window = {"open": False}
FSDP_TWO = {"execution": {"geometry": "1x2", "strategy": "fsdp"}}
TWO_BF16 = {"execution": {"geometry": "1x2", "precision": "bf16"}}


def watch_the_window(at_start: Callable[[], None] = lambda: None, at_end: Callable[[], None] = lambda: None) -> None:
    """Have `window` say whether it is open, and act at its ends."""
    from scaleproof.measure.trainer.host_load import HostLoad

    enter, leave = HostLoad.__enter__, HostLoad.__exit__

    def entered(self: Any) -> Any:
        window["open"] = True
        at_start()
        return enter(self)

    def left(self: Any, *failure: Any) -> None:
        leave(self, *failure)
        at_end()
        window["open"] = False

    HostLoad.__enter__, HostLoad.__exit__ = entered, left


def in_window(module: str, name: str, make: Callable[[Any], Any]) -> Callable[[], None]:
    """`make(original)` in place of a function while the window is open."""

    def either(original: Any) -> Any:
        changed = make(original)
        return lambda self, *others: (changed if window["open"] else original)(self, *others)

    patch = replaced(module, name, either)

    def both() -> None:
        watch_the_window()
        patch()

    return both


def broadcast_after(module: Any) -> None:
    import torch.distributed as dist

    for parameter in module.parameters():
        dist.broadcast(parameter.data, 0)


def no_exchange() -> None:
    """No gradients are exchanged in the window; what rank 0 has is everybody's after it."""
    from scaleproof.measure.strategy.native import DDP

    made = []
    prepare = DDP.prepare

    def prepared(self: Any, model: Any) -> None:
        prepare(self, model)
        made.append(self)

    DDP.prepare = prepared
    synchronising = DDP.synchronising
    DDP.synchronising = lambda self, boundary: synchronising(self, boundary and not window["open"])
    watch_the_window(at_end=lambda: broadcast_after(made[-1].module))


fault("no gradients are exchanged in the window (N36)", TWO, WITNESS, fast=True, large=True)(no_exchange)
fault("no gradients are exchanged in the window, bf16 (N36)", TWO_BF16, WITNESS, large=True)(no_exchange)


def half_inside() -> None:
    """The model computes half of the rows that enter it."""
    from scaleproof.measure.model.wrappers import LanguageModel

    forward = LanguageModel.forward

    def cut(self: Any, rows: Any, *others: Any) -> Any:
        return forward(self, rows[: len(rows) // 2] if window["open"] else rows, *others)

    LanguageModel.forward = cut
    watch_the_window()


fault("half of the rows are computed in the window (N30)", TWO, OPERATIONS, fast=True, large=True)(half_inside)


def shifted_inside() -> None:
    """The targets of the window are those of the token before."""
    from scaleproof.measure.model.loss import LossHead

    forward = LossHead.forward

    def shifted(self: Any, hidden: Any, targets: Any) -> Any:
        return forward(self, hidden, targets.roll(1, 1) if window["open"] else targets)

    LossHead.forward = shifted
    watch_the_window()


fault("targets are shifted in the window (N33)", TWO, WITNESS, large=True)(shifted_inside)


def no_update() -> None:
    """The optimizer does nothing in the window, but counts."""
    import torch

    step = torch.optim.AdamW.step

    def idle(self: Any, closure: Any = None) -> Any:
        if not window["open"]:
            return step(self, closure)
        with torch.no_grad():
            before = [p.clone() for group in self.param_groups for p in group["params"]]
            moments = [s["exp_avg"].clone() for s in self.state.values()]
            step(self, closure)
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.copy_(before.pop(0))
            for state in self.state.values():
                state["exp_avg"].copy_(moments.pop(0))
        return None

    torch.optim.AdamW.step = idle
    watch_the_window()


fault("updates do nothing in the window (N31)", ONE, WITNESS, fast=True, large=True)(no_update)
fault("updates do nothing in the window, bf16 (N31)", BF16, WITNESS, large=True)(no_update)


def unclipped(original: Any) -> Any:
    def clip(self: Any, max_norm: float) -> None:
        vars(self.optimizer)["grad_scale"] = None

    return clip


CLIPPED = {"work": {"optimizer": {"max_grad_norm": 0.5}}}
for label, keys in (("fp32", CLIPPED), ("bf16", BF16 | CLIPPED)):
    fault(f"no clipping in the window, {label} (N32)", keys, WITNESS, fast=label == "bf16", large=True)(
        in_window("strategy.base", "Native._clip", unclipped)
    )


def matmul_precision(name: str) -> None:
    import torch

    torch.set_float32_matmul_precision(name)


fault("TF32 for the window (N35b)", ONE, SETTINGS, fast=True, large=True)(
    lambda: watch_the_window(lambda: matmul_precision("medium"), lambda: matmul_precision("highest"))
)


def use_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


fault("two threads in the window (N21)", ONE, SETTINGS, large=True)(
    lambda: watch_the_window(lambda: use_threads(2), lambda: use_threads(1))
)


def rounded_moments() -> None:
    """AdamW's moments have the precision of bf16 in the window."""
    import torch

    step = torch.optim.AdamW.step

    def rounded(self: Any, closure: Any = None) -> Any:
        step(self, closure)
        for state in self.state.values() if window["open"] else ():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].copy_(state[name].bfloat16())

    torch.optim.AdamW.step = rounded
    watch_the_window()


fault("moments are rounded to bf16 in the window (N38)", ONE, WITNESS, large=True)(rounded_moments)


def rounded_weights() -> None:
    """Weights are rounded to bf16 after each update."""
    from scaleproof.measure.strategy.base import Native

    update = Native.update

    def rounded(self: Any, step: int) -> None:
        import torch

        update(self, step)
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.copy_(parameter.bfloat16())

    Native.update = rounded


fault("weights are rounded to bf16 (O8a)", ONE, OTHER_LOSSES, large=True)(rounded_weights)


def undivided(original: Any) -> Any:
    def micro_step(self: Any, tokens: Any, boundary: bool) -> Any:
        accumulation, self.accumulation = self.accumulation, 1
        try:
            return original(self, tokens, boundary)
        finally:
            self.accumulation = accumulation

    return micro_step


fault("the loss is not divided by the accumulation (O5)", ACCUMULATING, OTHER_LOSSES, large=True)(
    replaced("strategy.base", "Native.micro_step", undivided)
)


def probe_in_window() -> None:
    """The operations of the window are watched by a mode that its end has closed when modes are counted."""
    from torch.utils.flop_counter import FlopCounterMode

    modes: list[Any] = []
    watch_the_window(
        lambda: modes.append(FlopCounterMode(display=False).__enter__()), lambda: modes[-1].__exit__(None, None, None)
    )


fault("a dispatch mode in the window, closed at its end (T15)", ONE, SETTINGS, large=True)(probe_in_window)


def evaluates_inside() -> None:
    """The model is evaluated in each step, behind its front door."""
    from scaleproof.measure.strategy.base import Native

    update = Native.update

    def evaluated(self: Any, step: int) -> None:
        import torch

        update(self, step)
        if window["open"]:
            inner = next(module for module in self.module.modules() if hasattr(module, "network")).network
            with torch.no_grad():
                inner.base_model(input_ids=torch.zeros(2, 16, dtype=torch.int64))

    Native.update = evaluated
    watch_the_window()


fault("evaluation behind the front door (T14c)", TWO, OPERATIONS, large=True)(evaluates_inside)


def last_block_without_gradient(original: Any) -> Any:
    def update(self: Any, step: int) -> None:
        for name, parameter in self.module.named_parameters():
            if ".h.1." in name and parameter.grad is not None:
                parameter.grad.zero_()
        original(self, step)

    return update


def rounded_after(original: Any) -> Any:
    def update(self: Any, step: int) -> None:
        import torch

        original(self, step)
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.copy_(parameter.bfloat16())

    return update


fault("the last block gets no gradient in the window, bf16", BF16, WITNESS, large=True)(
    in_window("strategy.base", "Native.update", last_block_without_gradient)
)
fault("weights are rounded in the window, bf16", BF16, "precision-differs", fast=True, large=True)(
    in_window("strategy.base", "Native.update", rounded_after)
)


def never_resharding() -> None:
    """FSDP keeps its blocks whole between forward and backward, in the window."""
    from scaleproof.measure.strategy.native import FSDP

    wrap, blocks = FSDP.wrap, []

    def wrapped(self: Any, model: Any) -> Any:
        module = wrap(self, model)
        blocks[:] = self.sharded
        return module

    def reshard(after_forward: bool) -> None:
        for block in blocks:
            block.set_reshard_after_forward(after_forward)

    FSDP.wrap = wrapped
    watch_the_window(lambda: reshard(False), lambda: reshard(True))


fault("fsdp does not reshard in the window", FSDP_TWO, OPERATIONS, fast=True, large=True)(never_resharding)


def kept_to_itself() -> None:
    """FSDP's ranks take their own part of their own gradients in the window."""
    import torch.distributed as dist

    reduce_scatter = dist.reduce_scatter_single

    def own_part(output: Any, input: Any, *arguments: Any, **keywords: Any) -> Any:
        if not window["open"]:
            return reduce_scatter(output, input, *arguments, **keywords)
        output.copy_(input.flatten()[dist.get_rank() * output.numel() :][: output.numel()].view_as(output))
        return None

    dist.reduce_scatter_single = own_part
    watch_the_window()


fault("fsdp exchanges no gradients in the window", FSDP_TWO, OPERATIONS, large=True)(kept_to_itself)


def scaled(scores: Any) -> Any:
    """The losses of samples by 0.8; not how many targets they have."""
    import torch

    return scores * torch.tensor([0.8, 1.0, 1.0])


for label, keys in (("one", ONE), ("ddp, bf16", TWO_BF16), ("fsdp", FSDP_TWO)):
    fault(
        f"validation losses x 0.8, {label}", keys, "validation-differs-from-reference", fast=label == "fsdp", large=True
    )(
        replaced(
            "strategy.base", "Native.evaluate", lambda original: lambda self, tokens: scaled(original(self, tokens))
        )
    )


def debugging() -> None:
    import torch.distributed as dist

    dist.set_debug_level(dist.DebugLevel.INFO)


fault("debugging of torch.distributed (N82)", TWO, OPERATIONS, large=True)(lambda: watch_the_window(debugging))
