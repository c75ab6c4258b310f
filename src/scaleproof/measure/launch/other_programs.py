"""What other programs took of this machine while a command ran."""

import resource
import threading
import time
from types import TracebackType

import psutil

from scaleproof.measure.trainer.host_load import busy_s

EVERY_S = 1.0  # between two looks at the command's processes
COST = 0.01  # part of one core that looking may take: on machines with thousands of processes it is done less often
LEAST_OWN = 0.05  # cores that a program uses at least: below, its work is done elsewhere (docker, ssh), unseen by us


class OtherPrograms:
    """Measures the machine's CPU time in the `with` block that went to programs other than this and its descendants.

    `share` says it after the block: a part of all CPU time that the machine has; None where the command's own
    processes used next to nothing, so that those that do its work are not known.
    """

    share: float | None = None

    def __enter__(self) -> "OtherPrograms":
        """Read the counters and start to watch the descendants."""
        self._seen: dict[psutil.Process, float] = {}  # descendant -> its CPU seconds when last seen
        self._ended = threading.Event()
        self._own = _own_cpu_s()
        self._busy = busy_s(psutil.cpu_times())
        self._began = time.monotonic()
        self._looker = threading.Thread(target=self._watch_descendants, daemon=True)
        self._looker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read the counters again, and work out `share`."""
        seconds = time.monotonic() - self._began
        busy = busy_s(psutil.cpu_times()) - self._busy
        self._ended.set()
        self._looker.join()
        of_this_process, of_ended = (now - before for now, before in zip(_own_cpu_s(), self._own, strict=True))
        # The kernel's sum lacks processes that nobody waited for, ours those that ended between two looks.
        own = of_this_process + max(of_ended, sum(self._seen.values()))
        if own >= LEAST_OWN * seconds:
            self.share = max(0.0, busy - own) / ((psutil.cpu_count() or 1) * seconds)

    def _watch_descendants(self) -> None:
        """Note the CPU time of all descendants every EVERY_S, or less often where a look costs much, until the end."""
        pause = EVERY_S
        while not self._ended.wait(pause):
            began = time.thread_time()
            for process in psutil.Process().children(recursive=True):
                try:
                    times = process.cpu_times()
                except psutil.Error:  # it has ended meanwhile
                    continue
                self._seen[process] = times.user + times.system
            pause = max(EVERY_S, (time.thread_time() - began) / COST)


def _own_cpu_s() -> tuple[float, float]:
    """Return the CPU seconds so far of this process, and of its descendants that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    of_self, of_descendants = (usage.ru_utime + usage.ru_stime for usage in usages)
    return of_self, of_descendants
