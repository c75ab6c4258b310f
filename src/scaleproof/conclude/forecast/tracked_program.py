"""Memory of one rank, counted by torch's own trackers without allocating it: a second way beside the formula.

A process of its own: cells as JSON on stdin, on stdout their bytes, a line of JSON for each. The cell's own model,
strategy and optimizer make two steps on fake tensors, among peers that do not exist (the `fake` process group).
"""

import json
import sys
from typing import Any
from unittest.mock import patch

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.strategies import LOW, SHARDING_ZERO, is_offloaded
from scaleproof.measure.trainer.request import Request

# DDP's reducer is C++ that reads its tensors; with gradients as views of its buckets it holds nothing beside them.
# DeepSpeed's step looks at the value of the gradients' norm, which a fake tensor does not have: one device is counted,
# and what ZeRO shards is shared out afterwards (`tracked_memory`).
PERSISTENT = 100_000  # elements: stage 3 keeps parameters up to this gathered (stage3_param_persistence_threshold)
COUNTED_AS = {"ddp": "single"} | dict.fromkeys(SHARDING_ZERO, "single")
NOT_COUNTED = {
    "dp": "nn.DataParallel copies modules between devices that are not there",
    "zero0": "DeepSpeed's step looks at the value of the gradients' norm, which a fake tensor does not have",
}


def reason_against(request: Request) -> str | None:
    """Return why the memory of a request's cell cannot be counted; None where it can."""
    execution = request.cell.execution
    if execution.strategy in NOT_COUNTED:
        return NOT_COUNTED[execution.strategy]
    if is_offloaded(execution.strategy):
        return "the optimizer's state is in the host's memory"
    if execution.strategy in SHARDING_ZERO and execution.precision in LOW:
        return "DeepSpeed computes with weights in low precision, where one device has autocast: other activations"
    if execution.precision == "fp16":
        return "the scaler of fp16 looks at values, which a fake tensor does not have"
    if execution.compile:
        return "a compiled graph plans its memory by itself"
    if request.cell.workload.task != "language-modelling":
        return "an encoder's memory depends on the lengths of its documents"
    return None


def track_memory(request: Request) -> dict[str, Any]:
    """Return the bytes that a rank needs, counted in a training on tensors without storage: a dict with three keys.

    The second step counts, since the optimizer makes its moments in the first.
    `peak`: content ("Parameter", "Gradient", ...) -> bytes at the peak of both passes. `state`: the same just before
    the update. `small`: the bytes of parameters that ZeRO stage 3 keeps gathered.
    """
    import torch.distributed as dist
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    cell = request.cell
    dist.init_process_group("fake", rank=0, world_size=cell.world_size, store=FakeStore())
    try:
        # Making a mesh reads the ranks in it, which fake tensors do not have: it is made before there are any.
        mesh = init_device_mesh("cpu", (cell.world_size,))
        with (
            FakeTensorMode(allow_non_fake_inputs=True),
            patch("scaleproof.measure.strategy.native.init_device_mesh", return_value=mesh),
        ):
            return _track_second_step(cell)
    finally:
        dist.destroy_process_group()


def _track_second_step(cell: Cell) -> dict[str, Any]:
    """Make two steps on fake tensors, and return the bytes of the second, in the form of `track_memory`."""
    import torch
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed._tools.mem_tracker import MemTracker

    from scaleproof.measure.model.build import build_model
    from scaleproof.measure.strategy import strategy_class

    name = COUNTED_AS.get(cell.execution.strategy, cell.execution.strategy)
    device = torch.device("cpu")
    model = build_model(cell)
    # ZeRO stage 3 keeps small parameters gathered, which nobody sees on the single device that is counted.
    small = [parameter for parameter in model.parameters() if parameter.numel() <= PERSISTENT]
    small_bytes = sum(parameter.numel() * parameter.element_size() for parameter in small)
    patch.object(model, "to", return_value=model).start()  # it is on its device; fake tensors cannot move
    strategy = strategy_class(name)(cell, model, device)
    shape = (cell.batch.micro, cell.workload.seq_len + 1)
    # A third micro-step allocates what the second did.
    inputs = [torch.randint(0, cell.vocab_size, shape) for _ in range(min(cell.batch.accumulation, 2))]
    _micro_steps(strategy, inputs)
    strategy.update(0)  # makes the optimizer's state
    tracker: Any = FSDPMemTracker(strategy.module, strategy.optimizer) if name == "fsdp" else MemTracker()
    if name == "fsdp":
        tracker.track_inputs(tuple(inputs))
    else:
        tracker.track_external(strategy.module, strategy.optimizer)
    with tracker:
        _micro_steps(strategy, inputs, tracker)
        # The update is left out: fused AdamW works in place, but on fake tensors it would be counted with copies.
        current = _bytes_by_content(tracker, "current", device)
        return {"peak": _bytes_by_content(tracker, "peak", device), "state": current, "small": small_bytes}


def _micro_steps(strategy: Any, inputs: list[Any], tracker: Any = None) -> None:
    """Make one step, micro-batch after micro-batch. `inputs`: the tokens of each; `tracker`: watches all, if given."""
    for number, tokens in enumerate(inputs, start=1):
        if tracker and number > 1:
            tracker.reset_mod_stats()  # it follows each module through one pass only
        is_last = number == len(inputs)
        strategy.micro_step(tokens, is_last)


def _bytes_by_content(tracker: Any, kind: str, device: Any) -> dict[str, int]:
    """Return content (parameters, gradients, ...) -> its bytes. `kind`: "peak", or "current" for now."""
    snapshot = tracker.get_tracker_snapshot(kind)[device]
    return {str(getattr(name, "value", name)): int(count) for name, count in snapshot.items()}


def main() -> None:
    """Read requests from stdin; print a line for each: its bytes (of `track_memory`), or {"reason": why not}."""
    for fields in json.load(sys.stdin):
        request = Request(**fields)
        reason = reason_against(request)
        try:
            answer = {"reason": reason} if reason else track_memory(request)
        except Exception as error:  # trackers are private to torch: another version may lack them, or raise anything
            lines = str(error).splitlines() or [""]
            answer = {"reason": f"torch's trackers failed: {type(error).__name__}: {lines[0]}"}
        print(f"\n{json.dumps(answer)}", flush=True)  # libraries may have begun the line


if __name__ == "__main__":
    main()
