"""A limit of the time for a user's code that may never return."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

WAITS = 3  # seconds by the clock for each second of computing: code may wait for a network, or for busy cores


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block once it has computed for `seconds`, or lasts WAITS times as long.

    Never where it is not the main thread's.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(number: int, frame: FrameType | None) -> None:
        what = f"{seconds:g} s of computing" if number == signal.SIGVTALRM else f"{WAITS * seconds:g} s"
        raise TimeoutError(f"it has not returned after {what}")

    before = {number: signal.signal(number, give_up) for number in (signal.SIGVTALRM, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, WAITS * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
