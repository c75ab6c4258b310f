"""What machine and process did while the window was open: processor time, waiting for a core, the time of day."""

import gc
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

SCHEDSTAT = Path("/proc/self/task")  # Linux: time that each thread was ready to run and waited for a core


class HostLoad:
    """Readings at both ends of the window. `result` has seconds of the window, of this process and of the machine."""

    def __init__(self, cores: Sequence[int]) -> None:
        """`cores`: those that this process is bound to; none where it is bound to none."""
        self.cores = list(cores)

    def __enter__(self) -> "HostLoad":
        """Read the counters of process and machine, then the clocks: the readings take no time of the window."""
        self._before = _readings(self.cores)
        self.start_epoch_s = time.time()
        self.start_monotonic_s = time.monotonic()
        return self

    def __exit__(self, *failure: object) -> None:
        """Read the clocks, then the counters once more."""
        self.end_monotonic_s = time.monotonic()
        self.end_epoch_s = time.time()
        self._after = _readings(self.cores)

    def result(self) -> dict[str, Any]:
        """Fields of a rank's record: ends of the window, and counters over it; null where they were not read."""
        passed = {name: _difference(value, self._before[name]) for name, value in self._after.items()}
        return {
            "window_start_epoch_s": self.start_epoch_s,
            "window_end_epoch_s": self.end_epoch_s,
            "window_start_monotonic_s": self.start_monotonic_s,
            "window_end_monotonic_s": self.end_monotonic_s,
            "cpu_load": (passed["cpu_s"] or 0.0) / (self.end_monotonic_s - self.start_monotonic_s),  # in cores
            "machine_cpus": psutil.cpu_count(),
            **passed,
        }


def _difference(after: float | None, before: float | None) -> float | None:
    """What a counter has grown by; None where it was not read at both ends."""
    return None if after is None or before is None else after - before


def _readings(cores: list[int]) -> dict[str, float | None]:
    """Counters of this process, of the machine and of its `cores` as they stand now, times in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    machine = psutil.cpu_times()
    per_core = psutil.cpu_times(percpu=True) if cores else []
    return {
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "main_thread_s": time.thread_time(),
        "involuntary_switches": float(usage.ru_nivcsw),
        "run_delay_s": _run_delay(),
        "machine_busy_s": _busy(machine),
        "cores_busy_s": sum(_busy(times) for core, times in enumerate(per_core) if core in cores),
        "machine_steal_s": getattr(machine, "steal", 0.0),
        "full_collections": gc.get_stats()[-1]["collections"],  # of the oldest generation, and so of all
        "bytes_written": _bytes_written(),
    }


def _busy(times: Any) -> float:
    """CPU seconds of psutil's `times` that were used here. `guest` is part of `user`; stolen time went elsewhere."""
    unused = times.idle + sum(getattr(times, name, 0.0) for name in ("iowait", "steal", "guest", "guest_nice"))
    return float(sum(times)) - unused


def _bytes_written() -> int | None:
    """Bytes that this process has written to files on disks; None where the kernel does not count them."""
    try:
        counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counters["write_bytes"])
    except (OSError, ValueError, KeyError):
        return None


def _run_delay() -> float | None:
    """Seconds that the threads of this process have waited for a core; None where the kernel does not count them."""
    try:
        nanoseconds = 0
        for task in SCHEDSTAT.iterdir():
            _, waited, *_ = (task / "schedstat").read_text().split()  # ns on a core, ns of waiting for one, turns
            nanoseconds += int(waited)
        return nanoseconds / 1e9
    except (OSError, ValueError):
        return None
