"""The program of one rank: `python -m scalebench.trainer REQUEST`, started by torchrun."""

import time

began = time.time()  # before the imports, which are a large part of a run's start-up

import os  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from pathlib import Path  # noqa: E402

from scalebench.record.write import scrub, write_json  # noqa: E402
from scalebench.trainer.request import FAILURE, Request  # noqa: E402


def main(path: Path) -> None:
    request = Request.read(path)
    try:
        from scalebench.trainer.measure import measure

        session = measure(request, began)
    except BaseException as error:
        report(error, Path(request.out))
        # Not sys.exit: other threads of a broken collective could keep the process, and the other ranks, waiting.
        os._exit(1)
    session.leave()


def report(error: BaseException, out: Path) -> None:
    """Tell the launcher, and the log, why this rank ends."""
    traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    rank = int(os.environ["RANK"])
    reason = scrub(f"{type(error).__name__}: {error}".splitlines()[0])
    write_json(
        out / FAILURE.format(rank=rank), {"class": classify(error), "reason": reason, "rank": rank, "time": time.time()}
    )


def classify(error: BaseException) -> str:
    kinds = {
        "OutOfMemoryError": "oom",
        "MemoryError": "host_oom",
        "NotFinite": "nan",
        "NotApplicable": "not_applicable",
    }
    return kinds.get(type(error).__name__, "crash")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
