"""The doctor's look at the steps of every strategy on one rank, with CUDA's debug mode played on a CPU: OUT LEAK.

While the mode is on, reads of a tensor by the host warn in torch's words, as do waits for a stream, whose line is one
of torch; switching it on gives torch's own notice. LEAK: a read that a strategy makes in each of its steps, or none.
OUT: what was seen and judged, as JSON.
"""

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch

from scaleproof.measure.doctor import doctor_ranks, doctor_steps
from scaleproof.measure.doctor.random_tokens import write_random_tokens
from scaleproof.measure.strategy import base, zero
from scaleproof.measure.trainer.request import Request
from scaleproof.measure.trainer.session import Session

NOTICE = "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations"
WAIT = "called a synchronizing CUDA operation (Triggered internally at /pytorch/c10/cuda/CUDAFunctions.cpp:150.)"
on = False


def set_sync_debug_mode(mode: str) -> None:
    global on
    on = mode == "warn"
    if on:
        warnings.warn(NOTICE, UserWarning, stacklevel=2)


def reading(name: str) -> None:
    original = getattr(torch.Tensor, name)

    def read(self, *args, **options):
        if on:
            warnings.warn(WAIT, UserWarning, stacklevel=2)
        return original(self, *args, **options)

    setattr(torch.Tensor, name, read)


def waiting_streams() -> None:
    """ZeRO-3 waits for its stream in each backward pass; on a CPU it has none, so its own hook is followed by one."""
    from deepspeed.runtime.zero import stage3

    streams = ModuleType("torch.cuda.streams")
    source = f"def synchronize():\n    if played.on: warnings.warn({WAIT!r}, UserWarning, stacklevel=1)\n"
    streams.__dict__.update(warnings=warnings, played=sys.modules[__name__])
    exec(compile(source, "/opt/lib/torch/cuda/streams.py", "exec"), streams.__dict__)
    source = (
        "def reduce(self, *args, **options):\n    streams.synchronize()\n    return original(self, *args, **options)\n"
    )
    name = "independent_gradient_partition_epilogue"
    made = {"streams": streams, "original": getattr(stage3.DeepSpeedZeroOptimizer_Stage3, name)}
    made["__name__"] = stage3.__name__
    exec(compile(source, stage3.__file__, "exec"), made)
    setattr(stage3.DeepSpeedZeroOptimizer_Stage3, name, made["reduce"])


def leaking(function):
    def read_first(*args):
        torch.ones(()).item()
        return function(*args)

    return read_first


def main(out: Path, leak: str) -> None:
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    os.environ.update(place | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"})
    torch.cuda.synchronize = lambda *a: None
    torch.cuda.set_sync_debug_mode = set_sync_debug_mode
    reading("cpu")
    reading("item")
    waiting_streams()
    if leak == "leak":
        for module in (base, zero):
            module.set_learning_rate = leaking(module.set_learning_rate)
    look = doctor_ranks.host_waits
    doctor_ranks.host_waits = lambda device: look(SimpleNamespace(type="cuda"))
    root = Path(tempfile.mkdtemp())
    tokens = write_random_tokens(root / "tokens", 512, 200_000, 10_000)
    cells = doctor_steps.cells(1, on_gpu=False)
    session, seen = Session(cells[0], 100), {}
    for cell in cells:
        request = Request.of(cell, tokens, root, provenance={}, campaign="d", run_id="d", time_limit=100)
        observed = doctor_ranks.look_at(session, request) | {"errors": [None]}
        verdict = doctor_steps.judge(cell, observed)
        seen[cell.execution.strategy] = {
            "waits": observed["waits"],
            "status": verdict.status,
            "evidence": verdict.evidence,
        }
    out.write_text(json.dumps(seen))
    os._exit(0)


if __name__ == "__main__":
    sys.modules["played"] = sys.modules[__name__]
    main(Path(sys.argv[1]), sys.argv[2])
