"""Named ranges around the parts of a step: step, data, forward, backward, reduce, optimizer.

They are put around the trainer's objects from outside while a trace is taken; a run that is not traced is untouched.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scaleproof.measure.strategy import Strategy
from scaleproof.measure.trainer.batches import Batches

Push = Callable[[str], Any]
Pop = Callable[[], Any]


def of_profiler() -> tuple[Push, Pop]:
    """The functions that open and close a range which torch's profiler records."""
    from torch.profiler import record_function

    open_ranges: list[record_function] = []

    def push(name: str) -> None:
        """Begin the range `name` inside of those that are open."""
        open_ranges.append(record_function(name))
        open_ranges[-1].__enter__()

    def pop() -> None:
        """End the innermost open range."""
        open_ranges.pop().__exit__(None, None, None)

    return push, pop


def of_nvtx() -> tuple[Push, Pop]:
    """Functions that open and close a range of Nsight Systems: torch's own with CUDA, else the nvtx package's."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    import nvtx

    return nvtx.push_range, nvtx.pop_range


@contextmanager
def annotated(strategy: Strategy, batches: Batches, push: Push, pop: Pop) -> Iterator[None]:
    """Mark the parts of the steps that are made in this context; `push` opens a range by name, `pop` closes the last.

    `reduce` exists where a strategy reduces in a call of its own (zero0 to zero3); ddp and fsdp reduce during backward.
    """
    take = batches.take
    micro_step = strategy.micro_step
    update = strategy.update

    def marked_take(step: int, micro: int) -> Any:
        """As `take`, in the range "data"; the first micro-batch of a step begins the range "step"."""
        if micro == 0:
            push("step")
        push("data")
        try:
            return take(step, micro)
        finally:
            pop()

    def marked_micro_step(tokens: Any, boundary: bool) -> Any:
        """As `micro_step`, in the range "forward", which `end_forward` replaces by "backward"."""
        push("forward")
        try:
            return micro_step(tokens, boundary)
        finally:
            pop()

    def end_forward(*_: Any) -> None:
        """End the range "forward"; what follows until the micro-step ends is "backward"."""
        pop()
        push("backward")

    def marked_update(step: int) -> None:
        """As `update`, in the range "optimizer"; with it the range "step" ends."""
        push("optimizer")
        update(step)
        pop()  # optimizer
        pop()  # step

    engine: Any = getattr(strategy, "engine", None)
    reduce: Any = getattr(engine, "allreduce_gradients", None)

    def marked_reduce(*args: Any, **kwargs: Any) -> Any:
        """As the engine's reduction of gradients, in the range "reduce"."""
        push("reduce")
        try:
            return reduce(*args, **kwargs)
        finally:
            pop()

    for target, name, marked in (
        (batches, "take", marked_take),
        (strategy, "micro_step", marked_micro_step),
        (strategy, "update", marked_update),
    ):
        setattr(target, name, marked)
    if reduce:
        engine.allreduce_gradients = marked_reduce
    hook = strategy.module.register_forward_hook(end_forward)
    try:
        yield
    finally:
        hook.remove()
        # What was set on the objects hides their classes' methods, which are back once it is deleted.
        del batches.take, strategy.micro_step, strategy.update
        if reduce:
            del engine.allreduce_gradients
