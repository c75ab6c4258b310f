"""What machine and process did while the window was open: processor time, waiting for a core, the time of day."""

import gc
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

SCHEDSTAT = Path("/proc/self/task")  # Linux: time that each thread was ready to run and waited for a core


class HostLoad:
    """Measures what this process and the machine do in the `with` block; `result` returns it."""

    def __init__(self, cores: Sequence[int]) -> None:
        """Set the `cores` to which this process is bound; none where it is not bound."""
        self.cores = list(cores)

    def __enter__(self) -> "HostLoad":
        """Read the counters first and the clocks last, so that the window does not hold the time of reading."""
        self._before = _read_counters(self.cores)
        self.start_epoch_s = time.time()
        self.start_monotonic_s = time.monotonic()
        return self

    def __exit__(self, *failure: object) -> None:
        """Read the clocks first and the counters last."""
        self.end_monotonic_s = time.monotonic()
        self.end_epoch_s = time.time()
        self._after = _read_counters(self.cores)

    def result(self) -> dict[str, Any]:
        """Return fields of a rank's record: begin and end of the block, and each counter's growth, None if unknown."""
        growth = {}
        for name, after in self._after.items():
            before = self._before[name]
            growth[name] = None if before is None or after is None else after - before
        return {
            "window_start_epoch_s": self.start_epoch_s,
            "window_end_epoch_s": self.end_epoch_s,
            "window_start_monotonic_s": self.start_monotonic_s,
            "window_end_monotonic_s": self.end_monotonic_s,
            "cpu_load": (growth["cpu_s"] or 0.0) / (self.end_monotonic_s - self.start_monotonic_s),  # the load in cores
            "machine_cpus": psutil.cpu_count(),
            "machine_memory_bytes": psutil.virtual_memory().total,
            **growth,
        }


def _read_counters(cores: list[int]) -> dict[str, float | None]:
    """Return the counters of this process, of the machine and of its `cores` now. Times are in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    machine = psutil.cpu_times()
    per_core = psutil.cpu_times(percpu=True) if cores else []
    return {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "main_thread_s": time.thread_time(),
        "involuntary_switches": float(usage.ru_nivcsw),
        "run_delay_s": _run_delay_s(),
        "machine_busy_s": busy_s(machine),
        "cores_busy_s": sum(busy_s(times) for core, times in enumerate(per_core) if core in cores),
        "machine_steal_s": getattr(machine, "steal", 0.0),
        "full_collections": gc.get_stats()[-1]["collections"],  # collections of the oldest generation, and so of all
        "bytes_written": _bytes_written(),
    }


def busy_s(times: Any) -> float:
    """Return the CPU seconds in which work was done, from psutil's `times`: neither idle nor stolen.

    `guest` is left out as well, since `user` contains it.
    """
    unused = times.idle + sum(getattr(times, name, 0.0) for name in ("iowait", "steal", "guest", "guest_nice"))
    return float(sum(times)) - unused


def _bytes_written() -> int | None:
    """Return the bytes that this process has written to disks. Returns None where the kernel does not count them."""
    try:
        return int(psutil.Process().io_counters().write_bytes)
    except (AttributeError, OSError, RuntimeError, ValueError, psutil.Error):  # some systems have no such counters
        return None


def _run_delay_s() -> float | None:
    """Return the seconds that this process' threads have waited for a core. None where the kernel does not count."""
    try:
        nanoseconds = 0
        for task in SCHEDSTAT.iterdir():
            _, waited, *_ = (task / "schedstat").read_text().split()  # ns on a core, ns of waiting for one, turns
            nanoseconds += int(waited)
        return nanoseconds / 1e9
    except (OSError, ValueError):
        return None


class ClockReading(NamedTuple):
    """A thread's clocks, in seconds. `waiting_s`: time in which it was ready to run and had no core."""

    wall_s: float
    busy_s: float
    waiting_s: float


class IdleClock:
    """Splits this thread's time between `start` and `stop`, without blocks of `leave_out`, into busy and idle time.

    `busy_s`: processor time. `idle_s`: time in which the thread slept; waiting for a core is neither. Both are None
    where the kernel does not count waiting (Linux does, /proc/self/task).
    """

    def __init__(self) -> None:
        """Begin with zero seconds and a stopped clock."""
        self._schedstat = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        counts = self._schedstat.exists()
        self.busy_s: float | None = 0.0 if counts else None
        self.idle_s: float | None = 0.0 if counts else None

    def start(self) -> None:
        """Start to count, or go on."""
        self._last = self._read_clocks()

    def stop(self) -> None:
        """Add the time since the last `start` to `busy_s` and `idle_s`."""
        if self.busy_s is None or self.idle_s is None:
            return
        now = self._read_clocks()
        busy_s = now.busy_s - self._last.busy_s
        self.busy_s += busy_s
        waiting_s = now.waiting_s - self._last.waiting_s
        self.idle_s += max(0.0, now.wall_s - self._last.wall_s - busy_s - waiting_s)

    @contextmanager
    def leave_out(self) -> Iterator[None]:
        """Stop the clock for the `with` block: for a collective, in which a rank may wait for others."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def _read_clocks(self) -> ClockReading:
        """Return the thread's clocks now. Waiting is 0 where the kernel does not count it."""
        waiting_s = 0.0
        if self.busy_s is not None:
            _, waiting_ns, *_ = self._schedstat.read_text().split()  # ns on a core, ns of waiting for one, turns
            waiting_s = int(waiting_ns) / 1e9
        return ClockReading(time.perf_counter(), time.thread_time(), waiting_s)
