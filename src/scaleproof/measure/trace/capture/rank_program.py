"""One rank of a trace: started with a REQUEST: the timed run under a profiler."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scaleproof.measure.trace.capture.capture_schema import NSYS, RANK_RESULT, RAW, SETTINGS
from scaleproof.measure.trainer.__main__ import main
from scaleproof.measure.trainer.request import Request

LEAST_WARMUP = 4  # DDP rebuilds its buckets in the second step, with broadcasts of its own; the third step is probed


def trace_steps(request: Request) -> Any:
    """Warm up, make the requested steps under the profiler, and return the session, whose `leave` the caller calls.

    Rank 0 writes RANK_RESULT: step times of the slowest rank, the collectives of a step, and where each rank ran.
    """
    import torch.distributed as dist

    from scaleproof.ground.files import write_json
    from scaleproof.measure.trace.capture.annotate import mark_ranges, nvtx_ranges, profiler_ranges
    from scaleproof.measure.trainer.measure import set_up, warm_up
    from scaleproof.measure.trainer.session import Session

    settings = json.loads((Path(request.out) / SETTINGS).read_text())
    session = Session(request.cell, timeout_s=request.time_limit, hosts=request.hosts, gpus=request.gpus)
    run = set_up(session, request)
    warmup = max(LEAST_WARMUP, request.cell.work.warmup_steps)
    probe = warm_up(run, warmup).probe
    if settings["tool"] == NSYS:
        push, pop = nvtx_ranges()
        recording = _record_by_nsys(session, push, pop)
    else:
        push, pop = profiler_ranges()
        recording = _record_by_profiler(session, Path(request.out) / RAW)
    dist.barrier()
    with recording, mark_ranges(run.strategy, run.batches, push, pop):
        series = run.steps(warmup, settings["steps"])
    times_of_ranks = session.gather(series.step_time.tolist())
    places = session.gather(session.place)
    if session.rank == 0:
        result = {
            "step_time_s": [max(times_of_step) for times_of_step in zip(*times_of_ranks, strict=True)],
            "collectives": probe.collectives(),
            "ranks": places,
            "parameters": run.parameters,
        }
        write_json(Path(request.out) / RANK_RESULT, result)
    return session


@contextmanager
def _record_by_profiler(session: Any, folder: Path) -> Iterator[None]:
    """Record the `with` block by torch's profiler, and write this rank's trace into `folder`."""
    from torch.profiler import ProfilerActivity, profile

    from scaleproof.measure.machine.accelerator import is_accelerator

    activities = [ProfilerActivity.CPU]
    if is_accelerator(session.device):
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        yield
    profiler.export_chrome_trace(str(folder / f"rank{session.rank}.json.gz"))


@contextmanager
def _record_by_nsys(session: Any, push: Callable[[str], Any], pop: Callable[[], Any]) -> Iterator[None]:
    """Have nsys, under which this process runs, record the `with` block.

    One session of nsys records all ranks of a node. On a GPU a call of CUDA starts and ends it
    (--capture-range=cudaProfilerApi): after the start, and before the end, the ranks wait for each other.
    """
    import torch
    import torch.distributed as dist

    from scaleproof.measure.machine.accelerator import is_accelerator, synchronize

    on_gpu = is_accelerator(session.device)
    if on_gpu:
        torch.cuda.cudart().cudaProfilerStart()
        dist.barrier()  # no rank goes on before nsys records
    push(f"rank {session.rank}")  # an empty range, by whose name the reader of the trace knows this process's rank
    pop()
    yield
    if on_gpu:
        synchronize(session.device)
        dist.barrier()  # nsys records until all ranks are done
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), trace_steps)
