"""The program of one rank of a memory trial: `python -m scaleproof.conclude.forecast.frontier_program REQUEST`.

The timed run's own set-up and steps, in fresh processes, with a limit of memory on a CPU; rank 0 writes the peaks.
"""

import ctypes
import gc
import json
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scaleproof.measure.trainer.__main__ import main
from scaleproof.measure.trainer.request import Request

SETTINGS, RESULT = "frontier-settings.json", "frontier-result.json"
LOOK_S = 0.002  # between two looks at this process' memory: a peak of a step is longer
STATM = Path("/proc/self/statm")
NO_MEMORY = ("bad_alloc", "can't allocate memory")  # words of torch's C++ code
NO_THREAD = ("Resource temporarily unavailable", "can't start new thread")  # its stack finds no room below a limit
STATM_DATA = 5  # its column of pages of data and stack, which RLIMIT_DATA limits


def try_cell(request: Request) -> Any:
    """Make some steps of the cell under its limit of memory, write their peaks, and return the rank's session.

    Raises MemoryError where the limit is too small.
    """
    settings = json.loads((Path(request.out) / SETTINGS).read_text())
    if settings["limit_bytes"]:
        resource.setrlimit(resource.RLIMIT_DATA, (settings["limit_bytes"], resource.RLIM_INFINITY))
    try:
        return _try_steps(request, settings["steps"])
    except RuntimeError as error:  # torch's C++ code raises it, too, where it gets no memory
        if any(words in str(error) for words in NO_MEMORY + (NO_THREAD if settings["limit_bytes"] else ())):
            raise MemoryError(str(error)) from error
        raise


def _try_steps(request: Request, steps: int) -> Any:
    """Make `steps` steps and write the largest figures over ranks: bytes, retries, seconds. Returns the session."""
    # Imported in here, so that a library that cannot be loaded is reported as the failure of this trial.
    import torch

    from scaleproof.ground.files import write_json
    from scaleproof.measure.machine import accelerator
    from scaleproof.measure.trainer.measure import set_up, warm_up
    from scaleproof.measure.trainer.session import Session

    session = Session(request.cell, timeout_s=request.time_limit, hosts=request.hosts, gpus=request.gpus)
    with peak_data_segment() as peak:
        ready = set_up(session, request)
        if ready.compiled:
            warm_up(ready, 3)  # one of them uncompiled, as in the run: it takes more memory and must fit as well
        else:
            ready.steps(0, 2)  # steps 0 and 1, which allocate what later steps use again
        if accelerator.is_accelerator(session.device):
            torch.accelerator.reset_accumulated_memory_stats(session.device)  # retries of the allocator
        series = ready.steps(3, steps)  # `steps` steps, from step 3 on
    seconds = float(series.wall) / steps
    if peaks := accelerator.memory_peaks(session.device):
        base = torch.accelerator.memory_allocated(session.device)
        figures = {"base": base, "nbytes": peaks["reserved"], "retries": peaks["retries"], "seconds": seconds}
    else:  # on a CPU, where this process' data was watched
        base = settle_and_measure_data()
        figures = {"base": base, "nbytes": peak[0], "retries": 0, "seconds": seconds}
    ranks = session.gather(figures)
    if session.rank == 0:
        write_json(Path(request.out) / RESULT, {name: max(rank[name] for rank in ranks) for name in figures})
    return session


def settle_and_measure_data() -> int:
    """Free what is unused, and return the bytes of this process' data segment as Linux counts them; elsewhere 0."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc alone can give freed memory back, which is not state
        ctypes.CDLL(None).malloc_trim(0)
    return int(STATM.read_text().split()[STATM_DATA]) * resource.getpagesize() if STATM.exists() else 0


@contextmanager
def peak_data_segment() -> Iterator[list[int]]:
    """Yield a list of one number, which a thread keeps at the largest size in bytes of this process' data segment.

    RLIMIT_DATA limits that size. The number is 0 where the system does not say.
    """
    peak = [0]
    has_ended = threading.Event()
    page_bytes = resource.getpagesize()

    def watch() -> None:  # runs in the thread
        with STATM.open() as file:
            while not has_ended.is_set():
                file.seek(0)
                peak[0] = max(peak[0], int(file.read().split()[STATM_DATA]) * page_bytes)
                time.sleep(LOOK_S)

    watcher = threading.Thread(target=watch, daemon=True) if STATM.exists() else None
    if watcher:
        watcher.start()
    try:
        yield peak
    finally:
        has_ended.set()
        if watcher:
            watcher.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]), try_cell)
