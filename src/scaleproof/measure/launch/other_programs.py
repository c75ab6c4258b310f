"""What other programs took of this machine while a command ran."""

import resource
import threading
import time

import psutil

from scaleproof.measure.trainer.host_load import busy_s

LOOK_PERIOD_S = 1.0  # between two looks at the command's processes
LOOK_CORES = 0.01  # share of a core that looks may take: with thousands of processes they are made less often
LEAST_OWN_CORES = 0.05  # a program that uses less has its work done elsewhere (docker, ssh), unseen by us


class OtherPrograms:
    """Measures the CPU time that programs other than this process and its descendants take in the `with` block.

    `share`: that time as a share of all CPU time of the machine, after the block. It stays None where the descendants
    use next to nothing, so that the processes that do the command's work are not known.
    """

    share: float | None = None

    def __enter__(self) -> "OtherPrograms":
        """Read the counters and start to watch the descendants."""
        self._descendant_s: dict[psutil.Process, float] = {}  # descendant -> its CPU seconds at the last look
        self._ended = threading.Event()
        self._own_s_before = _own_cpu_s()
        self._busy_s_before = busy_s(psutil.cpu_times())
        self._began = time.monotonic()
        self._looker = threading.Thread(target=self._watch_descendants, daemon=True)
        self._looker.start()
        return self

    def __exit__(self, *failure: object) -> None:
        """Read the counters again, and set `share`."""
        passed_s = time.monotonic() - self._began
        machine_s = busy_s(psutil.cpu_times()) - self._busy_s_before
        self._ended.set()
        self._looker.join()
        this_process_s, ended_s = (now - before for now, before in zip(_own_cpu_s(), self._own_s_before, strict=True))
        # The larger sum: the kernel's lacks processes that nobody waited for, ours those that ended between two looks.
        own_s = this_process_s + max(ended_s, sum(self._descendant_s.values()))
        if own_s >= LEAST_OWN_CORES * passed_s:
            self.share = max(0.0, machine_s - own_s) / ((psutil.cpu_count() or 1) * passed_s)

    def _watch_descendants(self) -> None:
        """Note the CPU time of all descendants every LOOK_PERIOD_S, or less often where that takes long."""
        pause_s = LOOK_PERIOD_S
        while not self._ended.wait(pause_s):
            began = time.thread_time()
            for process in psutil.Process().children(recursive=True):
                try:
                    times = process.cpu_times()
                except psutil.Error:  # it has ended meanwhile
                    continue
                self._descendant_s[process] = times.user + times.system
            pause_s = max(LOOK_PERIOD_S, (time.thread_time() - began) / LOOK_CORES)


def _own_cpu_s() -> tuple[float, float]:
    """Return the CPU seconds so far of this process, and of its descendants that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    of_self, of_descendants = (usage.ru_utime + usage.ru_stime for usage in usages)
    return of_self, of_descendants
