"""Where the time of a step goes that nobody needed: neither computing, nor communicating, nor waiting for a core."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class ClockReading(NamedTuple):
    """Clocks of one thread, in seconds. `waiting_s`: ready to run, without a core."""

    wall_s: float
    busy_s: float
    waiting_s: float


class IdleClock:
    """Splits the time of this thread between `start` and `stop`, without what goes by in `paused`.

    `busy_s`: processor time. `idle_s`: the rest, in which the thread slept, less the time that it waited for a core.
    Both are None where the kernel does not count waiting (Linux does, /proc/self/task).
    """

    def __init__(self) -> None:
        self._schedstat = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._known = self._schedstat.exists()
        self._busy_s = 0.0
        self._idle_s = 0.0

    @property
    def busy_s(self) -> float | None:
        """Seconds that the thread ran; None where the kernel does not count them."""
        return self._busy_s if self._known else None

    @property
    def idle_s(self) -> float | None:
        """Seconds that it neither ran nor waited for a core; None where the kernel does not count them."""
        return self._idle_s if self._known else None

    def start(self) -> None:
        """Count from now on."""
        self._last = self._read()

    def stop(self) -> None:
        """Add what has passed since the last `start`."""
        now = self._read()
        busy_s = now.busy_s - self._last.busy_s
        self._busy_s += busy_s
        waiting_s = now.waiting_s - self._last.waiting_s
        self._idle_s += max(0.0, now.wall_s - self._last.wall_s - busy_s - waiting_s)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of the `with` block: a collective, in which a rank may wait for others."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def _read(self) -> ClockReading:
        """The thread's clocks now; waiting is 0 where the kernel does not count it."""
        waiting_s = 0.0
        if self._known:
            _, waiting_ns, *_ = self._schedstat.read_text().split()  # ns on a core, ns of waiting for one, turns
            waiting_s = int(waiting_ns) / 1e9
        return ClockReading(time.perf_counter(), time.thread_time(), waiting_s)
