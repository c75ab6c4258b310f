"""Named ranges around the parts of a step: step, data, forward, backward, reduce, optimizer.

They are put around the trainer's objects from outside while a trace is taken; a run that is not traced is untouched.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from scaleproof.measure.strategy import Strategy
from scaleproof.measure.trainer.batches import Batches

Push = Callable[[str], Any]
Pop = Callable[[], Any]


def profiler_ranges() -> tuple[Push, Pop]:
    """Return functions (push, pop) that open and close a named range for torch's profiler."""
    from torch.profiler import record_function

    open_ranges: list[record_function] = []

    def push(name: str) -> None:
        """Open the range `name` within the innermost open range."""
        open_ranges.append(record_function(name))
        open_ranges[-1].__enter__()

    def pop() -> None:
        """Close the innermost open range."""
        open_ranges.pop().__exit__(None, None, None)

    return push, pop


def nvtx_ranges() -> tuple[Push, Pop]:
    """Return functions (push, pop) that open and close a named range for Nsight Systems."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    import nvtx

    return nvtx.push_range, nvtx.pop_range


@contextmanager
def mark_ranges(strategy: Strategy, batches: Batches, push: Push, pop: Pop) -> Iterator[None]:
    """Mark the parts of each step that is made in the `with` block as named ranges.

    `push` opens a range by name, `pop` closes the innermost. The range "reduce" is of strategies with a call of their
    own that reduces (zero0 to zero3); ddp and fsdp reduce during backward.
    """
    mark = partial(_call_in_range, push, pop)
    take, update = partial(mark, "data", batches.take), partial(mark, "optimizer", strategy.update)

    def take_and_begin_step(step: int, micro: int) -> Any:
        """Take a micro-batch, after opening the range "step" if it is the step's first."""
        if micro == 0:
            push("step")
        return take(step, micro)

    def update_and_end_step(step: int) -> None:
        """Update the parameters, and close the range "step"."""
        update(step)
        pop()

    def end_forward(*_: Any) -> None:
        """Close the range "forward" and open "backward", which lasts until the micro-step ends."""
        pop()
        push("backward")

    marked = [
        (batches, "take", take_and_begin_step),
        (strategy, "micro_step", partial(mark, "forward", strategy.micro_step)),
        (strategy, "update", update_and_end_step),
    ]
    engine: Any = getattr(strategy, "engine", None)
    if hasattr(engine, "allreduce_gradients"):
        marked.append((engine, "allreduce_gradients", partial(mark, "reduce", engine.allreduce_gradients)))
    for owner, name, call in marked:
        setattr(owner, name, call)
    hook = strategy.module.register_forward_hook(end_forward)
    try:
        yield
    finally:
        hook.remove()
        # What was set on the objects hides their classes' methods, which are back once it is deleted.
        for owner, name, _ in marked:
            delattr(owner, name)


def _call_in_range(push: Push, pop: Pop, name: str, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call `call` with the further arguments within the range `name`, and return its result."""
    push(name)
    try:
        return call(*args, **kwargs)
    finally:
        pop()
