"""The program of one rank of a sweep: `python -m scalebench.forecast.sweep_program REQUEST`, started by torchrun."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalebench.trainer.__main__ import main
from scalebench.trainer.request import Request

SETTINGS, RESULT = "sweep-settings.json", "sweep-result.json"
ELEMENT = 4  # bytes: gradients travel in fp32


def swept(request: Request) -> Any:
    """Time every collective at every size; rank 0 writes the times, each the maximum over ranks."""
    import torch

    from scalebench.files import write_json
    from scalebench.trainer.session import Session

    settings = json.loads((Path(request.out) / SETTINGS).read_text())
    session = Session(request.cell, timeout_s=request.time_limit, hosts=request.hosts)
    calls = []
    for name in settings["collectives"]:
        for nbytes in settings["sizes"]:
            operation, whole = prepared(name, nbytes, session.world_size, session.device)
            for _ in range(settings["warmup"]):
                operation()
            times = timed(operation, session.device, settings["calls"], settings["limit_s"])
            calls.append({"collective": name, "nbytes": whole, "seconds": times})
            if session.device.type == "cuda":
                torch.cuda.empty_cache()
    places = session.gather(session.place)
    if session.rank == 0:
        write_json(Path(request.out) / RESULT, {"ranks": places, "calls": calls})
    return session


def prepared(name: str, nbytes: int, world_size: int, device: Any) -> tuple[Callable[[], None], int]:
    """A call of the collective, and the bytes of its whole message, which is a multiple of the world size."""
    import torch
    import torch.distributed as dist

    share = max(1, nbytes // ELEMENT // world_size)
    whole = torch.ones(share * world_size, device=device)
    part = torch.ones(share, device=device)
    operations: dict[str, Callable[[], None]] = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
    }
    return operations[name], whole.numel() * ELEMENT


def timed(operation: Callable[[], None], device: Any, calls: int, limit_s: float) -> list[float]:
    """Seconds of each call, the maximum over ranks. A barrier stands before each; at least 3, then until `limit_s`.

    How many follows from the first call's time on rank 0, so that all ranks make the same number.
    """
    import torch
    import torch.distributed as dist

    one = _call(operation, device)
    number = torch.tensor([max(3, min(calls, int(limit_s / max(one, 1e-9))))], device=device)
    dist.broadcast(number, 0)
    own = torch.tensor(
        [_call(operation, device) for _ in range(int(number.item()))], device=device, dtype=torch.float64
    )
    dist.all_reduce(own, op=dist.ReduceOp.MAX)
    return [float(seconds) for seconds in own.tolist()]


def _call(operation: Callable[[], None], device: Any) -> float:
    import torch
    import torch.distributed as dist

    dist.barrier()
    if device.type != "cuda":
        began = time.perf_counter()
        operation()
        return time.perf_counter() - began
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    operation()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 1e3


if __name__ == "__main__":
    main(Path(sys.argv[1]), swept)
