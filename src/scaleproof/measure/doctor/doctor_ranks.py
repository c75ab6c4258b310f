"""One rank of the doctor's look at steps: `python -m scaleproof.measure.doctor.doctor_ranks REQUEST`.

For each cell listed beside the request it makes some steps and writes what they did: collectives, bytes and dtypes of a
probed step, host waits of another by file and line, step times against wall-clock time, read-ahead against the plan.
"""

import gc
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from scaleproof.ground.files import write_json
from scaleproof.measure.trainer.__main__ import main
from scaleproof.measure.trainer.request import Request

CELLS = "cells.json"  # beside the request: paths of the requests of all cells
RESULT = "doctor_ranks.json"
TIMED_STEPS = 6
READ_AHEAD = 400  # micro-batches
REDUCED = 1 << 28  # bytes: large enough for the rate to be the links' rate
REDUCTIONS = 10
FURTHER_STEPS = 2  # the second look for host waits has so many steps more than the first
WAITED = "called a synchronizing CUDA operation"  # torch prints it wherever its debug mode sees the host wait
# Packages whose code waits for its caller's sake: the caller's line is named (`Stream.synchronize` is in torch itself).
CARRIERS = sys.stdlib_module_names | {"torch"}


def look_at_cells(request: Request) -> Any:
    """Make steps of every cell listed beside the request. Returns the session, whose `leave` the caller calls.

    Rank 0 writes RESULT after each cell: strategy -> what its steps did, or how they failed.
    """
    from scaleproof.measure.trainer.session import Session

    warnings.filterwarnings("ignore", category=FutureWarning)
    folder = Path(request.out)
    session = Session(request.cell, timeout_s=request.time_limit, gpus=request.gpus)
    results: dict[str, Any] = {"world_size": session.world_size, "device": session.place["device_name"], "cells": {}}
    for path in json.loads((folder / CELLS).read_text()):
        cell_request = Request.read(Path(path))
        began = time.perf_counter()
        try:
            result = look_at_cell(session, cell_request)
        except Exception as error:
            result = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
            traceback.print_exc()
        result["seconds"] = time.perf_counter() - began
        result["errors"] = session.gather(result.get("error"))
        results["cells"][cell_request.cell.execution.strategy] = result
        if session.rank == 0:
            write_json(folder / RESULT, results)
        gc.collect()
    results["all_reduce_s"] = time_all_reduce_s(session)
    if session.rank == 0:
        write_json(folder / RESULT, results)
    return session


def time_all_reduce_s(session: Any) -> float | None:
    """Return the seconds of an all-reduce of REDUCED bytes on the slowest rank. None on CPUs and on a single rank."""
    import torch
    import torch.distributed as dist

    from scaleproof.measure.machine.accelerator import is_accelerator, seconds_of

    if session.world_size == 1 or not is_accelerator(session.device):
        return None
    message = torch.ones(REDUCED, dtype=torch.uint8, device=session.device)
    dist.all_reduce(message)  # the first call makes the connections
    own_s = seconds_of(lambda: dist.all_reduce(message), session.device, REDUCTIONS) / REDUCTIONS
    return max(session.gather(own_s))


def look_at_cell(session: Any, request: Request) -> dict[str, Any]:
    """Make steps of one cell on this rank, and return what they did.

    The keys are collectives, dtypes, waits of the host, times in seconds, losses, and the model's parameters.
    """
    from scaleproof.measure.trainer.measure import set_up
    from scaleproof.measure.trainer.probe import Probe

    run = set_up(session, request)
    run.steps(0, 2)  # steps 0 and 1: warm-up
    with Probe(run.strategy) as probe:
        run.steps(2, 1)
    waits = count_waits_per_step(session.device, run.steps, 3)  # step 3, then 1 + FURTHER_STEPS more
    series = run.steps(4 + 1 + FURTHER_STEPS, TIMED_STEPS)  # the steps after those
    return {
        "parameters": run.parameters,
        "collectives": probe.collectives(),
        "dtypes": probe.dtypes() | run.strategy.dtypes(),
        "waits": waits,
        "steps_s": float(series.step_time.sum()),
        "wall_s": series.wall,
        "losses": [float(loss) for loss in series.loss],
    }


def count_waits_per_step(device: Any, steps: Callable[[int, int], Any], first: int) -> dict[str, float]:
    """Return how often the host waits for the device in a step: `file:line` -> times.

    `steps(first, count)` makes `count` steps from step `first` on. The waits of one step are subtracted from those of
    several, because the host waits once more at the end of each call, to read the losses.
    """
    with count_host_waits(device) as waits_of_one:
        steps(first, 1)
    with count_host_waits(device) as waits_of_several:
        steps(first + 1, 1 + FURTHER_STEPS)
    return {line: count / FURTHER_STEPS for line, count in (waits_of_several - waits_of_one).items()}


@contextmanager
def count_host_waits(device: Any) -> Iterator[Counter[str]]:
    """Count the host's waits for the device in the `with` block: yields a counter of `file:line`.

    On a GPU torch's own warnings are counted; on a CPU, operators that would wait on a GPU.
    """
    import torch

    places: Counter[str] = Counter()
    if device.type == "cpu":
        with _count_operators(places):
            yield places
        return

    def count(message: Warning | str, *_: Any, **__: Any) -> None:
        """Count a wait if `message` is torch's warning about a wait. It replaces warnings.showwarning."""
        if WAITED in str(message):
            places[_waiting_line(sys._getframe())] += 1

    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = count
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode("default")


def _count_operators(places: Counter[str]) -> Any:
    """Return a context that counts, in `places`, operators that would make the host wait for a GPU."""
    from torch.utils._python_dispatch import TorchDispatchMode  # as in trainer/probe.py

    class Waits(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN204  (torch's signature)
            if func.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero", "equal"):
                places[_waiting_line(sys._getframe())] += 1
            return func(*args, **(kwargs or {}))

    return Waits()


def _waiting_line(frame: FrameType) -> str:
    """Return `package/file.py:line` of the innermost frame outside of torch and Python, else of torch, else of all."""
    stack = [caller for caller, _ in traceback.walk_stack(frame)]  # the innermost first
    frames = [caller for caller in stack if caller.f_code.co_filename != __file__]
    program_frames = [caller for caller in frames if _top_package(caller) not in CARRIERS]
    torch_frames = [caller for caller in frames if _top_package(caller) == "torch"]
    innermost, *_ = program_frames or torch_frames or frames
    return _line_of(innermost)


def _top_package(frame: FrameType) -> str:
    """Return the top package of a frame's module. Returns "" where it is in no module."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _line_of(frame: FrameType) -> str:
    """Return a frame's line as `package/file.py:line`, wherever the package is installed.

    Without a package it is `file.py:line`.
    """
    path = Path(frame.f_code.co_filename)
    module = str(frame.f_globals.get("__name__", ""))
    is_in_package = getattr(sys.modules.get(_top_package(frame)), "__file__", None) is not None
    depth = 0  # folders from the package's on
    if is_in_package:  # a.b.c lies in a/b/c.py or in a/b/c/__init__.py
        depth = module.count(".") + (path.name == "__init__.py")
    return f"{'/'.join(path.parts[-1 - depth :])}:{frame.f_lineno}"


def count_differing(batches: Any, lag: Callable[[], None], count: int) -> int:
    """Take `count` micro-batches, and return how many have other tokens than planned.

    `batches`: a trainer's Batches for the first device. `lag` keeps the device busy before each micro-batch. They are
    compared at the end, because a comparison waits for the device.
    """
    import torch

    from scaleproof.measure.machine import accelerator

    taken = []
    for step in range(count // batches.batch.accumulation):
        for micro in range(batches.batch.accumulation):
            lag()
            taken.append((step, micro, batches.take(step, micro)))
    accelerator.synchronize(batches.device)
    differing = 0
    for step, micro, tokens in taken:
        ids = batches.plan.ids_of_rank(step, batches.batch, 0)[micro]
        differing += not torch.equal(tokens.cpu(), torch.from_numpy(batches.file.read(ids)))
    return differing


if __name__ == "__main__":
    main(Path(sys.argv[1]), look_at_cells)
