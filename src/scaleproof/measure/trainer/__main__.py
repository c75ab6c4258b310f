"""The program of one rank: `python -m scaleproof.measure.trainer REQUEST`, started by torchrun."""

import time

began = time.time()  # before the imports, which are a large part of a run's start-up

import faulthandler  # noqa: E402
import gc  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from scaleproof.ground.files import scrub, write_json  # noqa: E402
from scaleproof.measure.trainer.request import FAILURE, Request  # noqa: E402

KNOWN = {"NotFinite": "nan", "WrongWorld": "wrong_world", "NotApplicable": "not_applicable"}  # own exceptions
# How CUDA's libraries say that a device's memory ran out. cuBLAS usually cannot be initialised for that reason.
DEVICE_OOM = re.compile(
    r"CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_ALLOC_FAILED"
    r"|Cuda failure \d+ 'out of memory'|Triton Error \[CUDA\]: out of memory"
)


def make_timed_run(request: Request) -> Any:
    # Imported in here, so that a library that cannot be loaded is reported as the failure of this run.
    from scaleproof.measure.trainer.run import make_run

    return make_run(request, began)


def main(path: Path, make: Callable[[Request], Any] = make_timed_run) -> None:
    """Make the run of the request in the file `path` by `make`, which returns its session, and end this process."""
    # Garbage is collected from `set_up` on: imports make none, and looking for it takes a fifth of their time.
    gc.disable()
    faulthandler.register(signal.SIGUSR1)  # the launcher asks a run that hangs where it is
    warnings.filterwarnings("ignore", category=FutureWarning)  # DeepSpeed's use of older names, in every step
    request = Request.read(path)
    try:
        session = make(request)
    except BaseException as error:
        report_failure(error, Path(request.out))
        # Not sys.exit: other threads of a broken collective could keep the process, and the other ranks, waiting.
        os._exit(1)
    session.leave()


def report_failure(error: BaseException, out: Path) -> None:
    """Print the traceback of `error`, which ends this rank, and write a report for the launcher into `out`."""
    traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    rank = int(os.environ["RANK"])
    reason = scrub(" ".join(f"{type(error).__name__}: {error}".split()))[:400]
    write_json(
        out / FAILURE.format(rank=rank),
        {"class": failure_class(error), "reason": reason, "rank": rank, "time": time.time()},
    )


def failure_class(error: BaseException) -> str:
    """Return the failure class of `error`: a class of KNOWN, host_oom, oom (of a device), or crash.

    An error is about memory only if it says so: an illegal access is a crash.
    """
    name, text = type(error).__name__, str(error)
    if name in KNOWN:
        return KNOWN[name]
    if name == "MemoryError" or "DefaultCPUAllocator: can't allocate memory" in text:
        return "host_oom"
    if name == "OutOfMemoryError" or DEVICE_OOM.search(text):
        return "oom"
    return "crash"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
